from __future__ import annotations

import contextlib
import functools
import io
import os
from typing import TYPE_CHECKING

import pytest
from cryptography import cobblestone as pyca
from hypothesis import given
from hypothesis import strategies as st

import evener
from evener import cobblestone as ours
from evener import tink

if TYPE_CHECKING:
    from typing_extensions import Buffer

KEY = bytes(range(32))
# Around the boundaries of chunks of 16 KiB.
PIECES = st.lists(
    st.one_of(
        st.integers(0, 100),
        st.integers(-60, 60).flatmap(lambda d: st.integers(1, 3).map(lambda n: n * 16384 + d)),
    ),
    max_size=6,
)


@given(PIECES, PIECES, st.binary(max_size=9))
def test_both_ways_with_pyca(pieces: list[int], cuts: list[int], context: bytes) -> None:
    data = os.urandom(sum(pieces))
    for writer, reader in [(pyca, ours), (ours, pyca), (ours, ours)]:
        encryptor = writer.Cobblestone256Encryptor(KEY, context)
        sealed, at = b"", 0
        for length in pieces:
            sealed += encryptor.update(data[at : at + length])
            at += length
        sealed += encryptor.finalize()
        decryptor = reader.Cobblestone256Decryptor(KEY, context)
        plain, at = b"", 0
        for length in [*cuts, len(sealed)]:
            plain += decryptor.update(sealed[at : at + length])
            at += length
        assert plain + decryptor.finalize() == data


@given(PIECES)
def test_each_piece_gives_as_much_as_pycas(pieces: list[int]) -> None:
    both = [module.Cobblestone128Encryptor(KEY[:16], b"") for module in (pyca, ours)]
    for length in pieces:
        theirs, own = (it.update(bytes(length)) for it in both)
        assert len(own) == len(theirs)
    theirs, own = (it.finalize() for it in both)
    assert len(own) == len(theirs)


@given(st.integers(0, 50_000), st.data())
def test_changed_and_short_files(length: int, data: st.DataObject) -> None:
    encryptor = ours.Cobblestone256Encryptor(KEY, b"")
    sealed = bytearray(encryptor.update(bytes(length)) + encryptor.finalize())
    if data.draw(st.booleans()):
        sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= 1
    else:
        del sealed[data.draw(st.integers(0, len(sealed) - 1)) :]
    decryptor = ours.Cobblestone256Decryptor(KEY, b"")
    with pytest.raises(evener.DamagedError) as raised:
        assert not any(decryptor.update(sealed) + decryptor.finalize())
    assert "message" not in str(raised.value)


def test_mistakes_of_the_caller() -> None:
    for key in (KEY[:31], KEY[:16]):
        with pytest.raises(ValueError, match="key must be 32 bytes"):
            ours.Cobblestone256Encryptor(key, b"")
    with pytest.raises(TypeError):
        ours.Cobblestone256Encryptor(KEY)  # type: ignore[call-arg]
    encryptor = ours.Cobblestone256Encryptor(ours.Cobblestone256Encryptor.generate_key(), b"")
    with pytest.raises(ValueError, match="has 32856 bytes, and the buffer for it 100"):
        encryptor.update_into(bytes(40_000), bytearray(100))
    assert encryptor.update_into(bytes(40_000), bytearray(40_000)) == 32_856
    encryptor.finalize()
    for again in (encryptor.finalize, lambda: encryptor.update(b"")):
        with pytest.raises(ValueError, match="finalized"):
            again()


@given(st.integers(0, 60))
def test_a_short_buffer_keeps_the_header(cut: int) -> None:
    encryptor = ours.Cobblestone256Encryptor(KEY, b"")
    sealed = encryptor.update(bytes(40_000)) + encryptor.finalize()
    decryptor = ours.Cobblestone256Decryptor(KEY, b"")
    assert decryptor.update(sealed[:cut]) == b""
    with pytest.raises(ValueError, match="buffer for it 100"):
        decryptor.update_into(sealed[cut:], bytearray(100))
    out = bytearray(40_000)
    written = decryptor.update_into(sealed[cut:], out)
    assert out[:written] + decryptor.finalize() == bytes(40_000)


def test_a_child_does_not_continue_encryption() -> None:
    encryptor = ours.Cobblestone256Encryptor(KEY, b"")
    encryptor.update(bytes(20_000))
    child = os.fork()
    if child == 0:
        refused = 0
        update = functools.partial(encryptor.update, bytes(40_000))
        for work in (update, encryptor.finalize):
            try:
                work()
            except evener.EvenerError:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert encryptor.finalize()


class _Raw(io.BytesIO):
    """Takes at most so many bytes at once."""

    def __init__(self, most: int | None) -> None:
        super().__init__()
        self.most = most

    def write(self, data: Buffer, /) -> int:
        return self.most and super().write(memoryview(data)[: self.most])  # type: ignore[return-value]


def test_tinks_streams_to_raw_files() -> None:
    keys, raw = evener.generate("tink"), _Raw(1000)
    with tink.StreamingAead(keys).new_encrypting_stream(raw, b"") as stream:
        stream.write(bytes(3 << 20))
    assert evener.open_bytes(raw.getvalue(), keys=keys) == bytes(3 << 20)
    for most in (0, None):
        raw = _Raw(most)
        stream = tink.StreamingAead(keys).new_encrypting_stream(raw, b"")
        with pytest.raises(OSError, match="did not take"):
            stream.write(bytes(3 << 20))
        raw.most = 1000
        for again in (lambda stream=stream: stream.write(b"more"), stream.close):
            with pytest.raises(OSError, match="an earlier write failed"):
                again()
        assert not raw.getvalue()
        stream = tink.StreamingAead(keys).new_encrypting_stream(_Raw(most), b"")
        with pytest.raises(OSError, match="did not take"):
            stream.close()


@given(st.integers(-60, 60), st.integers(0, 2), st.binary(max_size=9))
def test_tinks_streams(near: int, segments: int, aad: bytes) -> None:
    keys = evener.generate("tink")
    data = os.urandom(max(0, (segments << 20) + near))
    primitive, sealed = tink.StreamingAead(keys), io.BytesIO()
    with primitive.new_encrypting_stream(sealed, aad) as stream:
        stream.write(data[: 1 << 19])
        stream.write(data[1 << 19 :])
    assert evener.open_bytes(sealed.getvalue(), keys=keys, context=aad) == data
    with primitive.new_decrypting_stream(sealed, aad) as opened:
        assert opened.read() == data
    with pytest.raises(evener.DamagedError):
        primitive.new_decrypting_stream(sealed, aad + b"?")


def test_tinks_unfinished_streams() -> None:
    keys, sealed = evener.generate("tink"), io.BytesIO()
    with (
        contextlib.suppress(LookupError),
        tink.StreamingAead(keys).new_encrypting_stream(sealed, b"") as stream,
    ):
        stream.write(b"half")
        raise LookupError
    with pytest.raises(evener.DamagedError):
        evener.open_bytes(sealed.getvalue(), keys=keys)
    with pytest.raises(ValueError, match="not Tink's"):
        tink.StreamingAead(evener.generate())
