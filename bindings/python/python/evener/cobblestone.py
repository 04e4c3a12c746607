"""C2SP's chunked encryption piece by piece, with the classes of `cryptography.cobblestone`.

The file format is the same. `DamagedError` takes the place of `InvalidTag`, and `ValueError` that
of `AlreadyFinalized`. Large pieces use all cores. After a fork, a child
process can't continue encryption.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, ClassVar

from . import _evener
from ._evener import KeyRing

if TYPE_CHECKING:
    from ._evener import Buffer

__all__ = [
    "Cobblestone128Decryptor",
    "Cobblestone128Encryptor",
    "Cobblestone256Decryptor",
    "Cobblestone256Encryptor",
]


class _Context:
    _encrypts: ClassVar[bool]
    _key_length: ClassVar[int]

    def __init__(self, key: Buffer, context: Buffer) -> None:
        secret = bytes(memoryview(key))  # type: ignore[arg-type, unused-ignore]
        if len(secret) != self._key_length:
            raise ValueError(f"key must be {self._key_length} bytes.")
        bound = bytes(memoryview(context))  # type: ignore[arg-type, unused-ignore]
        self._file = _evener.Incremental(self._encrypts, KeyRing.of_bytes(secret), bound)

    def update(self, data: Buffer) -> bytes:
        """Takes a piece, and returns the chunks that are complete."""
        return self._file.update(data)

    def update_into(self, data: Buffer, buf: Buffer) -> int:
        """As `update`, into a buffer. Returns the number of bytes."""
        return self._file.update_into(data, buf)

    def finalize(self) -> bytes:
        """Returns the last chunk."""
        return self._file.finalize()


class _Encryptor(_Context):
    _encrypts = True

    @classmethod
    def generate_key(cls) -> bytes:
        """Makes a key."""
        return secrets.token_bytes(cls._key_length)


class _Decryptor(_Context):
    _encrypts = False


class Cobblestone128Encryptor(_Encryptor):
    """Encrypts with a key of 16 bytes."""

    _key_length = 16


class Cobblestone128Decryptor(_Decryptor):
    """Decrypts with a key of 16 bytes."""

    _key_length = 16


class Cobblestone256Encryptor(_Encryptor):
    """Encrypts with a key of 32 bytes."""

    _key_length = 32


class Cobblestone256Decryptor(_Decryptor):
    """Decrypts with a key of 32 bytes."""

    _key_length = 32
