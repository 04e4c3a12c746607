"""Encrypted files that are written piece by piece to file systems of fsspec."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import secrets
import tempfile
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from fsspec.asyn import AsyncFileSystem
from fsspec.generic import GenericFileSystem
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from . import _evener
from ._evener import KeyRing

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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

    In its `with` block, the file gets its name at the end of the block, even if it was closed
    before. Nothing is left after an exception in the block, or if the file is never closed.
    """

    mode = "wb"

    def __init__(self, target: Sink, keys: KeyRing, autocommit: bool, path: str) -> None:
        self.path = path
        self._target = target
        self._process = os.getpid()
        self._file = _evener.Incremental(True, keys, b"")
        self._autocommit = autocommit
        self._pending = bytearray()
        self._position = 0
        self._is_whole = True
        self._is_abandoned = False
        self._is_in_block = False
        # Closed in its block, at the end of which it gets its name.
        self._is_waiting = False
        self._is_finished = False
        # Closing waits for writes of other threads.
        self._lock = threading.RLock()

    def write(self, data: Buffer, /) -> int:
        view = memoryview(data).cast("B")  # type: ignore[arg-type, unused-ignore]
        with self._lock:
            if self.closed:
                raise ValueError("write to closed file")
            self._check_whole()
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

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        raise io.UnsupportedOperation("the file is open to write")

    def close(self) -> None:
        with self._lock:
            if self.closed:
                return
            if self._is_abandoned:
                self.discard()
                return
            try:
                self._check_whole()
                self._is_whole = False
                self._put_pending()
                self._target.write(self._file.finalize())
                self._is_waiting = self._is_in_block
                if not self._is_waiting:
                    self._finish()
            except BaseException:
                self.discard()
                raise
            finally:
                super().close()

    def _finish(self) -> None:
        self._is_waiting = False
        self._target.finish()
        self._is_finished = True
        if self._autocommit:
            self._target.commit()

    def commit(self) -> None:
        """Gives a file of a transaction its name, unless it was discarded."""
        self.close()
        if self._is_finished:
            self._target.commit()

    def discard(self) -> None:
        """Removes the file."""
        super().close()
        self._is_waiting = self._is_finished = False
        # A child process leaves its parent's file alone.
        if os.getpid() == self._process:
            self._target.discard()

    def _check_whole(self) -> None:
        if not self._is_whole:
            raise OSError(f"an earlier write failed, and nothing is stored as {self.path!r}")

    def _put_pending(self) -> None:
        self._target.write(self._file.update(self._pending))
        self._pending = bytearray()

    def __enter__(self) -> Self:
        entered = super().__enter__()
        self._is_in_block = True
        return entered

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        with self._lock:
            self._is_in_block = False
            if kind is not None:
                # An interrupted file is not whole.
                self.discard()
            elif self._is_waiting:
                try:
                    self._finish()
                except BaseException:
                    self.discard()
                    raise
            else:
                self.close()

    def _dealloc_warn(self, source: object) -> None:
        """Python's text and buffered files call it before they close a file that nobody closed."""
        self._is_abandoned = True
        if os.getpid() == self._process:
            message = f"unclosed file: nothing is stored as {self.path!r}"
            warnings.warn(message, ResourceWarning, stacklevel=2, source=source)

    def __del__(self) -> None:
        # It is incomplete if its constructor failed.
        if not self.closed and hasattr(self, "_lock"):
            try:
                self._dealloc_warn(self)
            finally:
                self.discard()
        elif getattr(self, "_is_waiting", False):
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
        # A name that is too long is refused before anything is written.
        with contextlib.suppress(FileNotFoundError):
            path.lstat()
            if self._is_new:
                raise existing(path)
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
        except FileExistsError:
            raise existing(self._path) from None
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
        # Otherwise garbage collection would complete the upload.
        file.closed = True

    def write(self, sealed: bytes) -> None:
        self._file.closed = False
        try:
            self._file.write(sealed)
        finally:
            self._file.closed = True

    def finish(self) -> None:
        self._file.closed = False
        self._file.close()

    def commit(self) -> None:
        if not self._autocommit:
            self._file.commit()

    def discard(self) -> None:
        try:
            self._file.discard()
        finally:
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
            raise existing(self._path)


def existing(path: str | Path) -> FileExistsError:
    """The error for a new file whose name is taken."""
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


# All cores need so many bytes to be busy.
_PIECE = 4 << 20
