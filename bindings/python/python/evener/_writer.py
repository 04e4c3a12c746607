"""Encrypted files that are written piece by piece to file systems of fsspec."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fsspec.asyn import AsyncFileSystem
from fsspec.generic import GenericFileSystem
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from . import _evener
from ._evener import KeyRing

if TYPE_CHECKING:
    from ._evener import Buffer


class Sink(Protocol):
    """A file that has no name before `commit`."""

    def write(self, sealed: bytes) -> None: ...
    def finish(self) -> None:
        """Ends the content."""

    def commit(self) -> None:
        """Gives the file its name."""

    def discard(self) -> None:
        """Removes what was written."""


class EncryptedWriter(io.RawIOBase):
    """Encrypts what is written to it, on all cores. `close` completes the file.

    Nothing is left after an exception in the `with` block, or if the file is never closed.
    """

    mode = "wb"

    def __init__(self, target: Sink, keys: KeyRing, autocommit: bool) -> None:
        self._target = target
        self._process = os.getpid()
        self._file = _evener.Incremental(True, keys, b"")
        self._autocommit = autocommit
        self._pending = bytearray()
        self._position = 0
        self._is_whole = True
        self._is_finished = False

    def write(self, data: Buffer, /) -> int:
        if self.closed:
            raise ValueError("write to closed file")
        view = memoryview(data).cast("B")  # type: ignore[arg-type, unused-ignore]
        # A file that lacks a piece must not be completed.
        self._is_whole = False
        if len(self._pending) + len(view) < _PIECE:
            self._pending += view
        else:
            self._put_pending()
            self._target.write(self._file.update(view))
        self._position += len(view)
        self._is_whole = True
        return len(view)

    def tell(self) -> int:
        return self._position

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        if self.closed:
            return
        if not self._is_whole:
            self.discard()
            return
        self._is_whole = False
        try:
            self._put_pending()
            self._target.write(self._file.finalize())
            self._target.finish()
            self._is_finished = True
            if self._autocommit:
                self._target.commit()
        except BaseException:
            self.discard()
            raise
        finally:
            super().close()

    def commit(self) -> None:
        """Gives a file of a transaction its name, unless it was discarded."""
        self.close()
        if self._is_finished:
            self._target.commit()

    def discard(self) -> None:
        """Removes the file."""
        super().close()
        # A child process leaves its parent's file alone.
        if os.getpid() == self._process:
            self._target.discard()

    def _put_pending(self) -> None:
        self._target.write(self._file.update(self._pending))
        self._pending = bytearray()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        # An interrupted file is not whole.
        self._is_whole &= kind is None
        super().__exit__(kind, *rest)  # type: ignore[arg-type]

    def __del__(self) -> None:
        if not self.closed:
            self.discard()


class Text(io.TextIOWrapper):
    """As `io.TextIOWrapper`, and leaves nothing after an exception either."""

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None and isinstance(self.buffer, EncryptedWriter):
            self.buffer.discard()
        super().__exit__(kind, *rest)  # type: ignore[arg-type]


def sink(fs: Any, path: str, mode: str, autocommit: bool) -> Sink:
    """Begins a file in a file system of fsspec."""
    if isinstance(fs, LocalFileSystem):
        if fs.auto_mkdir:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        return _Local(Path(path), mode)
    # The asynchronous ones are stores, except these, which stand for others.
    if isinstance(fs, AsyncFileSystem) and not isinstance(fs, DirFileSystem | GenericFileSystem):
        return _Upload(fs.open(path, mode, autocommit=autocommit), autocommit)
    return _Spool(fs, path, mode)


class _Local:
    """A temporary file beside the file. The program `evener` removes those of killed processes."""

    def __init__(self, path: Path, mode: str) -> None:
        self._path = path
        self._is_new = mode == "xb"
        if self._is_new and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        while True:
            self._temporary = path.with_name(f".evener-{secrets.token_hex(8)}.part")
            self._file = self._temporary.open("xb", buffering=0)
            with contextlib.suppress(OSError):
                # It tells the program that the file is in use.
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._temporary.exists():
                break
            # The program was quicker.
            self._file.close()

    def write(self, sealed: bytes) -> None:
        left = memoryview(sealed)
        while left:
            left = left[self._file.write(left) :]

    def finish(self) -> None:
        pass

    def commit(self) -> None:
        try:
            if self._is_new:
                os.link(self._temporary, self._path)
            else:
                self._temporary.replace(self._path)
        finally:
            self.discard()

    def discard(self) -> None:
        self._temporary.unlink(missing_ok=True)
        self._file.close()


class _Upload:
    """An upload to a store."""

    def __init__(self, file: Any, autocommit: bool) -> None:
        self._file = file
        self._autocommit = autocommit

    def write(self, sealed: bytes) -> None:
        self._file.write(sealed)

    def finish(self) -> None:
        self._file.close()

    def commit(self) -> None:
        if not self._autocommit:
            self._file.commit()

    def discard(self) -> None:
        try:
            self._file.discard()
        finally:
            # Otherwise the upload would be completed later.
            self._file.closed = True


class _Spool:
    """A temporary file whose content goes to another file system at the end."""

    def __init__(self, fs: Any, path: str, mode: str) -> None:
        self._fs = fs
        self._path = path
        self._is_new = mode == "xb"
        self._refuse_existing()
        self._file = tempfile.TemporaryFile()  # noqa: SIM115

    def write(self, sealed: bytes) -> None:
        self._file.write(sealed)

    def finish(self) -> None:
        self._file.flush()

    def commit(self) -> None:
        self._refuse_existing()
        try:
            if self._file.tell() > _PIECE:
                self._fs.put_file(f"/proc/self/fd/{self._file.fileno()}", self._path)
            else:
                self._file.seek(0)
                self._fs.pipe_file(self._path, self._file.read())
        finally:
            self.discard()

    def discard(self) -> None:
        self._file.close()

    def _refuse_existing(self) -> None:
        if self._is_new and self._fs.exists(self._path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._path)


# All cores need so many bytes to be busy.
_PIECE = 4 << 20
