from __future__ import annotations

import os
import pickle
from itertools import accumulate

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

import evener

SECRET = bytes(range(32))
AEAD = evener.Aead("aes-256-gcm", SECRET)
MESSAGES = st.lists(st.binary(max_size=100), max_size=20)
AAD = st.one_of(st.none(), st.binary(max_size=20))


@given(st.binary(max_size=70_000), st.binary(min_size=12, max_size=12), AAD)
def test_it_is_pycas(data: bytes, nonce: bytes, aad: bytes | None) -> None:
    theirs = AESGCM(SECRET)
    sealed = theirs.encrypt(nonce, data, aad)
    assert AEAD.encrypt(nonce, data, aad) == sealed
    assert AEAD.decrypt(nonce, memoryview(sealed), aad) == data
    one = AEAD.seal(data, aad)
    assert len(one) == len(data) + AEAD.overhead
    assert theirs.decrypt(one[:12], one[12:], aad) == data
    assert AEAD.open(nonce + sealed, aad) == data


def test_other_ciphers() -> None:
    nonce = bytes(12)
    chacha = evener.Aead("chacha20-poly1305", SECRET)
    assert chacha.encrypt(nonce, b"x", None) == ChaCha20Poly1305(SECRET).encrypt(nonce, b"x", None)
    short = evener.Aead("aes-128-gcm", SECRET[:16])
    assert short.encrypt(nonce, b"x", b"") == AESGCM(SECRET[:16]).encrypt(nonce, b"x", None)
    assert len(evener.Aead.generate_key("aes-192-gcm")) == 24


@given(MESSAGES, AAD)
def test_many(messages: list[bytes], aad: bytes | None) -> None:
    sealed = AEAD.seal_many(messages, aad)
    assert [AEAD.open(one, aad) for one in sealed] == messages
    assert AEAD.open_many([bytearray(one) for one in sealed], aad) == messages
    assert len({one[:12] for one in sealed}) == len(messages)

    data, ends = b"".join(messages), [0, *accumulate(map(len, messages))]
    out = bytearray(len(data) + AEAD.overhead * len(messages))
    assert AEAD.seal_many_into(data, ends, out, aad) == len(out)
    ends = [end + index * AEAD.overhead for index, end in enumerate(ends)]
    parts = [bytes(out[a:b]) for a, b in zip(ends, ends[1:], strict=False)]
    assert AEAD.open_many(parts, aad) == messages
    plain = np.zeros(len(data), np.uint8)
    assert AEAD.open_many_into(out, np.array(ends), plain, aad) == len(data)
    assert plain.tobytes() == data


@given(MESSAGES.filter(bool), st.data())
def test_forged_messages(messages: list[bytes], data: st.DataObject) -> None:
    sealed = [bytearray(one) for one in AEAD.seal_many(messages)]
    index = data.draw(st.integers(0, len(sealed) - 1))
    sealed[index][data.draw(st.integers(0, len(sealed[index]) - 1))] ^= 1
    with pytest.raises(evener.DamagedError, match=f"message {index};"):
        AEAD.open_many(sealed)
    with pytest.raises(evener.DamagedError):
        AEAD.open(sealed[index])
    out = bytearray(10_000)
    with pytest.raises(evener.DamagedError):
        AEAD.open_many_into(b"".join(sealed), [0, *accumulate(map(len, sealed))], out)
    assert not any(out)
    with pytest.raises(evener.DamagedError):
        AEAD.open(sealed[index][:27])


def test_mistakes_of_the_caller() -> None:
    for cipher, secret in [
        ("aes-256-gcm", SECRET[:31]),
        ("aes-256-cbc", SECRET),
        ("aes-256-gmc", SECRET),
    ]:
        with pytest.raises(ValueError):  # noqa: PT011
            evener.Aead(cipher, secret)
    with pytest.raises(ValueError, match="12 bytes"):
        AEAD.encrypt(bytes(11), b"", None)
    with pytest.raises(TypeError):
        AEAD.seal("text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        AEAD.seal_many([b"", 7])  # type: ignore[list-item]
    out = bytearray(100)
    for offsets in [[0, 11], [-1, 5], [5, 3]]:
        with pytest.raises(ValueError, match="ascend"):
            AEAD.seal_many_into(bytes(10), offsets, out)
    with pytest.raises(ValueError, match="has 101 bytes, and the buffer for it 100"):
        AEAD.seal_many_into(bytes(73), [0, 73], out)
    with pytest.raises(BufferError):
        AEAD.seal_many_into(bytes(10), [0, 10], bytes(100))
    view = memoryview(out)
    for into in (AEAD.seal_many_into, AEAD.open_many_into):
        with pytest.raises(ValueError, match="share memory"):
            into(bytes(38), [0, 38], out, view[90:])
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(AEAD)
    assert repr(AEAD) == "<evener.Aead of aes-256-gcm>"


def test_a_child_draws_other_nonces() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            many = AEAD.seal_many([bytes(100)] * 5000)
            os.write(writing, many[0][:12] + AEAD.seal(b"")[:12])
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    nonces = os.read(reading, 24)
    assert len(nonces) == 24
    own = AEAD.seal_many([bytes(100)] * 5000)[0][:12] + AEAD.seal(b"")[:12]
    assert len({nonces[:12], nonces[12:], own[:12], own[12:]}) == 4
