"""Tink's streams, with the methods of its primitive `StreamingAead`."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Protocol

from . import _evener
from ._evener import KeyRing
from ._reader import Seekable, open

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from ._evener import Buffer

__all__ = ["StreamingAead"]


class Writable(Protocol):
    """A binary file to write to."""

    def write(self, data: bytes | memoryview, /) -> int | None: ...


class StreamingAead:
    """The keys of a streaming keyset (AES-GCM-HKDF). Load or generate them as a `KeyRing`."""

    def __init__(self, keys: KeyRing) -> None:
        if not isinstance(keys, KeyRing):
            raise TypeError(f"keys must be a KeyRing, not {type(keys).__name__}")
        if keys.format != "tink":
            raise ValueError(f"these are keys for {keys.format}, and not Tink's")
        self._keys = keys

    def new_encrypting_stream(
        self, ciphertext_destination: Writable, associated_data: Buffer
    ) -> io.RawIOBase:
        """Returns a file object that encrypts everything written to it. `close` completes the file.

        The destination stays open.
        """
        return _Encrypting(self._keys, ciphertext_destination, associated_data)

    def new_decrypting_stream(
        self, ciphertext_source: Seekable, associated_data: Buffer
    ) -> io.BufferedReader:
        """Returns a seekable file object with the plaintext. The source stays open."""
        bound = bytes(memoryview(associated_data))  # type: ignore[arg-type, unused-ignore]
        return io.BufferedReader(open(ciphertext_source, keys=self._keys, context=bound))


class _Encrypting(io.RawIOBase):
    def __init__(self, keys: KeyRing, target: Writable, context: Buffer) -> None:
        bound = bytes(memoryview(context))  # type: ignore[arg-type, unused-ignore]
        self._file = _evener.Incremental(True, keys, bound)
        self._target = target
        self._is_whole = True

    def write(self, data: Buffer, /) -> int:
        if self.closed:
            raise ValueError("write to closed file")
        self._check_whole()
        # A file that lacks a piece must not be completed.
        self._is_whole = False
        self._put(self._file.update(data))
        self._is_whole = True
        return memoryview(data).nbytes  # type: ignore[arg-type, unused-ignore]

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        raise io.UnsupportedOperation("the stream is open to write")

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._check_whole()
            self._is_whole = False
            self._put(self._file.finalize())
        finally:
            super().close()

    def _check_whole(self) -> None:
        if not self._is_whole:
            raise OSError("an earlier write failed, so the stream can't be completed")

    def _put(self, sealed: bytes) -> None:
        left = memoryview(sealed)
        while left:
            # Raw files may take a part, or nothing.
            taken = self._target.write(left)
            if not taken:
                raise OSError("the destination did not take all bytes")
            left = left[taken:]

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        # An interrupted file is not whole.
        if kind is not None:
            super().close()
        super().__exit__(kind, *rest)  # type: ignore[arg-type]

    def __del__(self) -> None:
        # Nor is a file that nobody has closed.
        super().close()
