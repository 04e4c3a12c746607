from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import evener

KEY = evener.generate()
CONTENT = os.urandom(100_000)
SEALED = evener.seal_bytes(CONTENT, keys=KEY)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file.enc"
    path.write_bytes(SEALED)
    return path


def test_a_file(file: Path) -> None:
    with evener.open(file, keys=KEY) as opened:
        assert opened.size == len(CONTENT)
        opened.seek(-1000, os.SEEK_END)
        assert opened.read() == CONTENT[-1000:]
        assert opened.read(5) == b""
        assert opened.seek(7) == opened.tell() == 7
        assert opened.read(20_000) == CONTENT[7:20_007]
        room = bytearray(5)
        assert opened.readinto(room) == 5
        assert room == CONTENT[20_007:20_012]
        assert opened.readable()
        assert not opened.writable()
        for wrong in [(-1, 0), (0, 9), (1 << 70, 0)]:
            with pytest.raises(ValueError):  # noqa: PT011
                opened.seek(*wrong)
        for no_number in (1.5, "1", None):
            with pytest.raises(TypeError):
                opened.seek(no_number)  # type: ignore[arg-type]
        with pytest.raises(io.UnsupportedOperation):
            opened.write(b"x")
        assert (opened.name, opened.mode) == (str(file), "rb")
        assert str(file) in repr(opened)
        with pytest.raises(BufferError):
            opened.readinto(b"read-only")
    for use in (opened.read, opened.tell, opened.readable, opened.seekable, lambda: opened.seek(0)):
        with pytest.raises(ValueError, match="closed"):
            use()
    with io.BufferedReader(evener.open(file, keys=KEY)) as buffered:
        assert buffered.read() == CONTENT
    raw = io.BufferedReader(evener.open(file, keys=KEY))
    with io.TextIOWrapper(raw, "latin-1", newline="") as text:
        assert text.read() == CONTENT.decode("latin-1")


@given(st.lists(st.tuples(st.integers(0, 110_000), st.integers(0, 40_000)), max_size=8))
def test_ranges(ranges: list[tuple[int, int]]) -> None:
    with evener.open(io.BytesIO(SEALED), keys=KEY) as opened:
        read = opened.cat_ranges([at for at, _ in ranges], [at + n for at, n in ranges])
        assert read == [CONTENT[at : at + n] for at, n in ranges]
        assert [opened.read_at(at, n) for at, n in ranges] == read


def test_ranges_that_are_none(file: Path) -> None:
    with evener.open(file, keys=KEY) as opened:
        for starts, ends in [([1], [0]), ([1, 2], [3])]:
            with pytest.raises(ValueError, match="each start has an end"):
                opened.cat_ranges(starts, ends)


def test_only_what_is_touched_is_read() -> None:
    class Counting(io.BytesIO):
        count = 0

        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            self.count += len(data)
            return data

    source = Counting(SEALED)
    opened = evener.open(source, keys=KEY)
    source.count = 0
    opened.read_at(50_000, 10)
    assert source.count <= 16384 + 16
    opened.close()
    assert not source.closed


def test_exceptions_of_a_file_object_come_through() -> None:
    class Failing(io.BytesIO):
        fails = False

        def read(self, size: int | None = -1, /) -> bytes:
            if self.fails:
                raise ConnectionResetError("gone")
            return super().read(size)

    source = Failing(SEALED)
    opened = evener.open(source, keys=KEY)
    source.fails = True
    with pytest.raises(ConnectionResetError, match="gone"):
        opened.read(1)
    source.fails = False
    assert opened.read(3) == CONTENT[:3]
    source.fails = True
    with pytest.raises(ConnectionResetError):
        evener.open(source, keys=KEY)
    source.fails = False
    source.truncate(30_000)
    with pytest.raises(evener.EvenerError, match="changed"):
        opened.read_at(50_000, 1)
    with pytest.raises(evener.DamagedError):
        evener.open(source, keys=KEY)


def test_damage_is_found_where_it_is() -> None:
    changed = bytearray(SEALED)
    changed[20_000] ^= 1
    opened = evener.open(io.BytesIO(changed), keys=KEY)
    assert opened.read_at(50_000, 5) == CONTENT[50_000:50_005]
    with pytest.raises(evener.DamagedError, match="chunk 1"):
        opened.read()


def test_threads_share_it(file: Path) -> None:
    opened = evener.open(io.BytesIO(SEALED), keys=KEY)
    wrong = []

    def read(offset: int) -> None:
        for at in range(offset, 90_000, 7919):
            for length in 5000, 60_000:
                if opened.read_at(at, length) != CONTENT[at : at + length]:
                    wrong.append(at)

    threads = [threading.Thread(target=read, args=(offset,)) for offset in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_member_of_a_sealed_tree(tmp_path: Path, photos: Path) -> None:
    tree = tmp_path / "sealed"
    evener.encrypt(photos, tree, keys=KEY, sealed=True)
    (photos / "one").write_bytes(b"another picture")
    evener.encrypt(photos, tree, keys=KEY)
    assert evener.open(tree, member="one", keys=KEY).read() == b"another picture"
    old = evener.open(tree, member=b"one", keys=KEY, generation=1)
    assert old.read() == b"not quite a picture"
    with pytest.raises(evener.EvenerError):
        evener.open(tree, member="absent", keys=KEY)
    with pytest.raises(evener.MissingError):
        evener.open(tmp_path / "absent", keys=KEY)
