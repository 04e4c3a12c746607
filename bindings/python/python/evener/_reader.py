"""Encrypted files as Python file objects."""

from __future__ import annotations

import io
import operator
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Unpack

from . import _evener
from ._errors import naming
from ._evener import KeyRing
from ._files import Path, Selecting, refuse_url

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from ._evener import Buffer


class Seekable(Protocol):
    """A binary file to read the encrypted bytes from."""

    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def read(self, size: int, /) -> bytes: ...


class EncryptedFile(io.RawIOBase):
    """The plaintext of an encrypted file, for reads at any offset by any number of threads.

    A read decrypts and authenticates the chunks that it touches, and raises a `DamagedError` if one
    was changed.
    """

    mode = "rb"
    name: str
    """The path, where there is one."""

    def __init__(self, reader: _evener.Reader, path: str | None = None) -> None:
        self._reader = reader
        self._path = path
        if path is not None:
            self.name = path
        self._position = 0
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """The plaintext's length in bytes."""
        return self._reader.size

    def read_at(self, offset: int, length: int) -> bytes:
        """Reads `length` bytes, or fewer at the end. Does not move the position."""
        with naming(self._path):
            return self._open().read_at(offset, length)

    def cat_ranges(self, starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
        """Reads the ranges from each start to the corresponding end, in the order of the file."""
        with naming(self._path):
            return self._open().cat_ranges(starts, ends)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fills a buffer, or less of it at the end of the file."""
        with self._lock, naming(self._path):
            count = self._open().read_into(buffer, self._position)
            self._position += count
            return count

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads `size` bytes, or fewer at the end; without a size, the rest of the file."""
        with self._lock, naming(self._path):
            reader = self._open()
            if size is None or size < 0:
                size = max(reader.size - self._position, 0)
            data = reader.read_at(self._position, size)
            self._position += len(data)
            return data

    def readall(self) -> bytes:
        return self.read()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        offset = operator.index(offset)
        with self._lock:
            base = {
                os.SEEK_SET: 0,
                os.SEEK_CUR: self._position,
                os.SEEK_END: self._open().size,
            }.get(whence)
            if base is None:
                raise ValueError(f"invalid whence ({whence})")
            if not 0 <= base + offset < 1 << 63:
                raise ValueError(f"invalid seek position {base + offset}")
            self._position = base + offset
            return self._position

    def tell(self) -> int:
        self._open()
        return self._position

    def readable(self) -> bool:
        return self._open() is not None

    seekable = readable

    def write(self, data: Buffer, /) -> int:
        raise io.UnsupportedOperation("an encrypted file that is open to read can't be written to")

    def __repr__(self) -> str:
        return f"<evener.EncryptedFile {self._path!r}>"

    def _open(self) -> _evener.Reader:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._reader


def open(  # noqa: A001
    file: Path | Seekable,
    *,
    keys: KeyRing,
    member: Path | None = None,
    **options: Unpack[Selecting],
) -> EncryptedFile:
    """Opens an encrypted file, to read any part of it.

    `file` is a path, or an object that has `seek` and `read`; closing the result leaves the object
    open. In a sealed tree, `member` is the path of a file below its root.

    Opening reads the last chunk, and thereby rejects a file that was cut short.
    """
    if isinstance(file, str | bytes | os.PathLike):
        refuse_url(file)
        reader = _evener.Reader.of_path(file, member, keys, dict(options))
        return EncryptedFile(reader, os.fsdecode(file if member is None else member))
    if not (hasattr(file, "seek") and hasattr(file, "read")):
        raise TypeError(
            f"file must be a path, or have seek and read; {type(file).__name__} does not"
        )
    if member is not None:
        raise ValueError("only a sealed tree has members, and that is a directory")
    return EncryptedFile(_evener.Reader.of_file(file, keys, dict(options)))
