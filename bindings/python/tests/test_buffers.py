from __future__ import annotations

import array
import ctypes
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evener

KEY = evener.generate()
# Around the boundaries of Cobblestone's chunks of 16 KiB.
LENGTHS = st.one_of(
    st.integers(0, 100),
    st.integers(-2, 2).flatmap(lambda d: st.integers(1, 4).map(lambda n: n * 16384 + d)),
)


@given(LENGTHS, st.binary(max_size=20))
def test_there_and_back(length: int, context: bytes) -> None:
    data = os.urandom(length)
    sealed = evener.seal_bytes(data, keys=KEY, context=context)
    assert len(sealed) == evener.sealed_size(length, keys=KEY)
    assert evener.open_bytes(sealed, keys=KEY, context=context) == data
    with pytest.raises(evener.DamagedError):
        evener.open_bytes(sealed, keys=KEY, context=context + b"?")


@given(LENGTHS.filter(bool), st.data())
def test_nothing_of_a_changed_file_is_left(length: int, data: st.DataObject) -> None:
    sealed = bytearray(evener.seal_bytes(b"\x55" * length, keys=KEY))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= 1 << data.draw(st.integers(0, 7))
    out = bytearray(len(sealed))
    with pytest.raises(evener.DamagedError):
        evener.open_into(sealed, out, keys=KEY)
    assert not any(out)
    with pytest.raises(evener.DamagedError):
        evener.open_bytes(sealed[: data.draw(st.integers(0, len(sealed) - 1))], keys=KEY)


@given(LENGTHS.filter(bool), st.integers(0, 100), st.binary(max_size=3))
def test_in_place(length: int, spare: int, context: bytes) -> None:
    data = os.urandom(length)
    size = evener.sealed_size(length, keys=KEY)
    buffer = bytearray(data) + bytes(size - length + spare)
    view = memoryview(buffer)
    assert evener.seal_into(view[:length], buffer, keys=KEY, context=context) == size
    assert evener.open_bytes(view[:size], keys=KEY, context=context) == data
    assert buffer[size:] == bytes(spare)
    assert evener.open_into(view[:size], buffer, keys=KEY, context=context) == length
    assert buffer[:length] == data


@given(LENGTHS.filter(bool), st.data())
def test_nothing_of_a_changed_file_is_left_in_place(length: int, data: st.DataObject) -> None:
    sealed = bytearray(evener.seal_bytes(b"\x55" * length, keys=KEY))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    before = bytes(sealed)
    with pytest.raises(evener.DamagedError):
        evener.open_into(sealed, sealed, keys=KEY)
    assert not any(sealed) or sealed == before


@given(st.integers(0, 300), st.integers(1, 300), st.integers(0, 300), st.integers(1, 300))
def test_other_overlaps_are_refused(start: int, length: int, at: int, room: int) -> None:
    buffer = bytearray(600)
    data, out = memoryview(buffer)[start : start + length], memoryview(buffer)[at : at + room]
    overlap = start < at + room and at < start + length
    for into in (evener.seal_into, evener.open_into):
        if overlap and (start != at or length > room):
            with pytest.raises(ValueError, match="share memory"):
                into(data, out, keys=KEY)
            assert not any(buffer)


def test_long_buffers_in_place() -> None:
    data = os.urandom(5 << 20)
    size = evener.sealed_size(len(data), keys=KEY)
    buffer = bytearray(data) + bytes(size - len(data))
    evener.seal_into(memoryview(buffer)[: len(data)], buffer, keys=KEY)
    assert evener.open_bytes(buffer, keys=KEY) == data
    assert evener.open_into(buffer, buffer, keys=KEY) == len(data)
    assert buffer[: len(data)] == data


def test_objects_with_buffers(tmp_path: Path) -> None:
    numbers = np.arange(10_000, dtype=np.float64).reshape(100, 100)
    plain = numbers.tobytes()
    with (tmp_path / "map").open("w+b") as file:
        file.write(plain)
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0)
    for data in (
        plain,
        bytearray(plain),
        memoryview(plain),
        numbers,
        array.array("B", plain),
        mapped,
    ):
        out = bytearray(evener.sealed_size(len(plain), keys=KEY))
        assert evener.seal_into(data, out, keys=KEY) == len(out)
        opened = np.zeros_like(numbers)
        assert evener.open_into(memoryview(out), opened, keys=KEY) == len(plain)
        assert (opened == numbers).all()
    assert evener.open_into(out, mapped, keys=KEY) == len(plain)
    assert mapped[:] == plain


def test_buffers_that_do_not_fit() -> None:
    out = bytearray(1000)
    with pytest.raises(BufferError, match="read-only"):
        evener.seal_into(b"x", bytes(1000), keys=KEY)
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        evener.seal_into(np.zeros(1000, np.uint8)[::2], out, keys=KEY)
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        evener.seal_into(b"x", np.zeros((20, 20), np.uint8).T[:10], keys=KEY)
    with pytest.raises(TypeError):
        evener.seal_into("x", out, keys=KEY)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="share memory"):
        evener.seal_into(memoryview(out)[:2], memoryview(out)[1:900], keys=KEY)
    half = memoryview(out)
    evener.seal_into(half[:100], half[100:], keys=KEY)
    with pytest.raises(ValueError, match="has 105 bytes, and the buffer for it 104"):
        evener.open_into(evener.seal_bytes(bytes(105), keys=KEY), bytearray(104), keys=KEY)
    with pytest.raises(ValueError, match="and the buffer for it 3"):
        evener.seal_into(b"", bytearray(3), keys=KEY)


def test_the_interpreter_is_detached() -> None:
    counted, is_over = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not is_over.wait(0.0005):
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    data, out = bytes(32 << 20), bytearray(40 << 20)
    evener.seal_into(data, out, keys=KEY)
    is_over.set()
    thread.join()
    assert counted > 2


def test_an_interrupt_ends_a_long_call() -> None:
    program = """if True:
        import mmap, sys, evener
        data, out = mmap.mmap(-1, 8 << 30), mmap.mmap(-1, 9 << 30)
        print(flush=True)
        try:
            evener.seal_into(data, out, keys=evener.generate())
        except KeyboardInterrupt:
            sys.exit(7)
    """
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert child.wait() == 7
    print(f"ended {time.monotonic() - begun:.3f} s after the interrupt")


def test_a_child_goes_on_after_a_fork() -> None:
    sealed = evener.seal_bytes(bytes(4 << 20), keys=KEY)
    child = os.fork()
    if child == 0:
        ended = 9
        try:
            ended = int(evener.open_bytes(sealed, keys=KEY) != bytes(4 << 20))
        finally:
            os._exit(ended)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Pair(ctypes.Structure):
    _fields_ = (("Odd", ctypes.c_int), ("even", ctypes.c_double))


def test_buffers_without_shape_or_strides(key: evener.KeyRing) -> None:
    every: list[Any] = [
        multiprocessing.RawArray("i", [1, 2, 3]),
        ctypes.create_string_buffer(b"abc"),
        ctypes.c_int(5),
        Pair(1, 2),
        np.array(3.5),
        np.array(3.5).data,
        np.zeros(2, [("Odd", "i4"), ("b", "f8")]),
        np.zeros(0),
    ]
    for data in every:
        sealed = evener.seal_bytes(data, keys=key)
        assert evener.open_bytes(sealed, keys=key) == bytes(data)
    room = multiprocessing.RawArray("B", 1000)
    length = evener.seal_into(b"abc", room, keys=key)
    assert evener.open_bytes(bytes(room)[:length], keys=key) == b"abc"
    number = np.array(0.0)
    assert evener.open_into(evener.seal_bytes(np.array(3.5), keys=key), number, keys=key) == 8
    assert number == 3.5


def test_buffers_of_objects_are_refused(key: evener.KeyRing) -> None:
    for data in (np.array(["a", None]), np.zeros(2, [("a", "i4"), ("b", "O")])):
        with pytest.raises(BufferError, match="the buffer holds objects"):
            evener.seal_bytes(data, keys=key)
    for data in (np.zeros((2, 3)).T, np.zeros(6)[::2]):
        with pytest.raises((BufferError, ValueError), match="contiguous"):
            evener.seal_bytes(data, keys=key)


def test_too_little_memory_raises() -> None:
    program = """if True:
        import resource, sys, evener
        from pathlib import Path
        aead = evener.Aead("aes-256-gcm", bytes(32))
        data, out = [bytes(300_000)] * 1000, bytearray(900_000_028)
        sealed = aead.seal_many(data)
        offsets = memoryview(bytes(8 * 30_000_001)).cast("q")
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 100_000_000, -1))
        age = evener.age(passphrase="x")
        for call in (
            lambda: evener.seal_bytes(b"x", keys=age),
            lambda: aead.seal_many(data),
            lambda: aead.open_many(sealed),
            lambda: aead.seal_many_into(b"", offsets, out),
            lambda: aead.open_many_into(b"", offsets, out),
        ):
            try:
                call()
            except MemoryError:
                continue
            sys.exit("no error")
    """
    subprocess.run([sys.executable, "-c", program], check=True)
