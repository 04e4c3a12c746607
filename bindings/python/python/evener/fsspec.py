"""Encrypted files in any file system of fsspec, which finds this one by its protocol, `evener`.

pd.read_parquet("evener::s3://lake/people.parquet", storage_options={"keys": "my.key"})
"""

from __future__ import annotations

import errno
import functools
import io
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path as LocalPath
from typing import TYPE_CHECKING, Any

import fsspec
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.local import LocalFileSystem

from . import _evener
from ._errors import naming
from ._evener import KeyRing, open_bytes, seal_bytes
from ._files import Path
from ._keyed import Info, Keyed, OpenedFile
from ._reader import EncryptedFile, open
from ._writer import EncryptedWriter, Text, sink

if TYPE_CHECKING:
    from ._evener import Buffer

__all__ = ["EvenerFileSystem", "OpenedFile"]


class EvenerFileSystem(Keyed):
    """The content of the encrypted files in another file system.

    The files are those of `evener.encrypt`: this class reads them, and `evener.decrypt` reads the
    files that this class has written. Names are not encrypted. Sizes are those of the content,
    computed from the lengths of the files.

    A file gets its name when it is closed, or at the end of its `with` block, unless the block
    raised an exception. A file that is never closed is not stored.

    With the path of a key file as `keys`, it can be pickled and converted to JSON; neither has the
    key in it. With a `KeyRing`, it refuses both.
    """

    protocol = "evener"

    def __init__(
        self,
        *,
        keys: KeyRing | Path | None = None,
        fs: Any = None,
        root: str | None = None,
        suffix: str = ".enc",
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        fo: str | None = None,
        **options: Any,
    ) -> None:
        """Takes the other file system as `fs`, or as `target_protocol` and `target_options`.

        Paths are below `root`; without it, they are those of the other file system.
        """
        super().__init__(keys, **options)
        if fs is None:
            if target_protocol is None:
                raise ValueError(
                    "name the file system of the encrypted files: evener::file:///data"
                )
            fs = fsspec.filesystem(target_protocol, **(target_options or {}))
        self.fs = fs
        self.root = root
        self.suffix = suffix
        # Refuses keys whose files don't show their sizes.
        _evener.opened_size(0, keys=self._keys)
        # As a method, since it depends on the other file system.
        self._strip_protocol = self._own

    # Names.

    def _own(self, path: Any) -> Any:
        """A path of this file system, from one that may have protocols or be a list."""
        if isinstance(path, list):
            return [self._own(each) for each in path]
        own: str = super()._strip_protocol(path)
        if self.root is None:
            return self.fs._strip_protocol(own) if own else own
        if ".." in own.split("/"):
            raise ValueError(f"{path} is not below {self.root}")
        if "://" not in own:
            return "/".join(part for part in own.strip("/").split("/") if part != ".")
        inner = self.fs._strip_protocol(own)
        if inner != self.root and not inner.startswith(self.root.rstrip("/") + "/"):
            raise ValueError(f"{path} is not below {self.root}")
        return self._shown_name(inner)

    def _inner(self, path: str) -> str:
        """The path of a directory in the other file system."""
        own = self._own(path)
        if self.root is not None:
            own = f"{self.root.rstrip('/')}/{own}" if own else self.root
        inner: str = self.fs._strip_protocol(own) if own else own
        return inner

    def _sealed(self, path: str) -> str:
        """The path of a file in the other file system."""
        if not self._own(path).strip("/"):
            raise IsADirectoryError(path)
        return self._inner(path) + self.suffix

    def _shown_name(self, inner: str) -> str:
        return inner if self.root is None else inner[len(self.root.rstrip("/")) :].strip("/")

    def _shown(self, entries: Iterable[Info]) -> Iterator[Info]:
        """The entries of this file system, from those of the other one."""
        for entry in entries:
            name = self._shown_name(entry["name"])
            if entry["type"] == "directory":
                yield {**entry, "name": name}
            elif name.endswith(self.suffix) and not f"/{name}".endswith(f"/{self.suffix}"):
                size = entry["size"]
                if size is not None:
                    size = _evener.opened_size(size, keys=self._keys)
                yield {**entry, "name": name.removesuffix(self.suffix), "size": size}

    # Listings.

    def invalidate_cache(self, path: str | None = None) -> None:
        self.fs.invalidate_cache(None if path is None else self._inner(path))
        super().invalidate_cache(path)

    def info(self, path: str, **kwargs: Any) -> Info:
        try:
            entry = self.fs.info(self._sealed(path), **kwargs)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            entry = None
        if entry is None or entry["type"] == "directory":
            entry = self.fs.info(self._inner(path), **kwargs)
            if entry["type"] != "directory":
                raise FileNotFoundError(path)
        return next(self._shown([entry]))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        inner = self._inner(path)
        try:
            entries = self.fs.ls(inner, detail=True, **kwargs)
        except (FileNotFoundError, NotADirectoryError):
            entries = [{"name": inner, "type": "file"}]
        if any(entry["name"] == inner and entry["type"] != "directory" for entry in entries):
            shown = [self.info(path)]
        else:
            shown = [*self._shown(entries)]
        return shown if detail else sorted(entry["name"] for entry in shown)

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        own, inner = self._own(path), self._inner(path)
        entries = self.fs.find(inner, maxdepth=maxdepth, withdirs=withdirs, detail=True, **kwargs)
        below = (entry for name, entry in entries.items() if name != inner or withdirs)
        found = {entry["name"]: entry for entry in self._shown(filter(None, below))}
        found.pop("", None)
        if not found and self.isfile(own):
            found = {own: self.info(own)}
        return {name: found[name] for name in sorted(found)} if detail else sorted(found)

    def created(self, path: str) -> Any:
        return self.fs.created(self._existing(path))

    def modified(self, path: str) -> Any:
        return self.fs.modified(self._existing(path))

    def _existing(self, path: str) -> str:
        """The path of a file or a directory in the other file system."""
        is_file = self.info(path)["type"] != "directory"
        return self._sealed(path) if is_file else self._inner(path)

    # Changes of the tree.

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        self.fs.mkdir(self._inner(path), create_parents=create_parents, **kwargs)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.fs.makedirs(self._inner(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self.fs.rmdir(self._inner(path))

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        if self.info(path1)["type"] == "directory":
            self.makedirs(path2, exist_ok=True)
        else:
            self.fs.cp_file(self._sealed(path1), self._sealed(path2), **kwargs)

    def mv(
        self,
        path1: str,
        path2: str,
        recursive: bool = False,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        if self.isfile(path1):
            path2 = os.fspath(path2)
            if path2.endswith("/") or self.isdir(path2):
                path2 = f"{path2.rstrip('/')}/{self._own(path1).rpartition('/')[2]}"
            self.fs.mv(self._sealed(path1), self._sealed(path2), **kwargs)
        else:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        if not truncate and self.exists(path):
            raise io.UnsupportedOperation("an encrypted file can't be changed, not even its time")
        super().touch(path, truncate=True, **kwargs)

    def rm_file(self, path: str) -> None:
        self.fs.rm_file(self._sealed(path))

    _rm = rm_file

    def rm(
        self, path: str | list[str], recursive: bool = False, maxdepth: int | None = None
    ) -> None:
        """Removes files, and with `recursive` directories, except entries that are not shown."""
        for each in self.expand_path(path):
            if self.info(each)["type"] != "directory":
                self.rm_file(each)
                continue
            if not recursive:
                raise IsADirectoryError(each)
            found = self.find(each, maxdepth=maxdepth, withdirs=True, detail=True)
            files = [name for name, entry in found.items() if entry["type"] != "directory"]
            if files:
                self.fs.rm([self._sealed(name) for name in files])
            for name in sorted({each, *found}.difference(files), reverse=True):
                if self.isdir(name) and not self.fs.ls(self._inner(name)):
                    self.rmdir(name)

    # Content.

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: dict[str, Any] | None = None,
        compression: str | None = None,
        **kwargs: Any,
    ) -> Any:
        if "b" not in mode:
            text = {k: kwargs.pop(k) for k in ("encoding", "errors", "newline") if k in kwargs}
            mode = mode.replace("t", "") + "b"
            return Text(self.open(path, mode, compression=compression, **kwargs), **text)
        if compression is not None and mode != "rb":
            raise ValueError("compress what you write to the file instead of passing `compression`")
        return super().open(path, mode, compression=compression, **kwargs)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> io.IOBase:
        if mode == "rb":
            try:
                return OpenedFile(self._read(path), self, path)
            except FileNotFoundError:
                if not self.isdir(path):
                    raise
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if mode not in ("wb", "xb"):
            raise io.UnsupportedOperation(
                f"mode {mode}: an encrypted file can't be changed, only written anew with wb or xb"
            )
        target = sink(self.fs, self._sealed(path), mode, autocommit)
        return EncryptedWriter(target, self._keys, autocommit, path)

    def _read(self, path: str) -> EncryptedFile:
        sealed = self._sealed(path)
        if isinstance(self.fs, LocalFileSystem):
            return open(sealed, keys=self._keys)
        length = self.fs.info(sealed)["size"]
        read = functools.partial(_cat_ranges, self.fs, sealed)
        with naming(sealed):
            return EncryptedFile(_evener.Reader.of_ranges(read, length, self._keys, {}), sealed)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        if start is None and end is None:
            sealed = self._sealed(path)
            data = self.fs.cat_file(sealed)
            with naming(sealed):
                return open_bytes(data, keys=self._keys)
        with self._read(path) as file:
            start, end, _ = slice(start, end).indices(file.size)
            return file.read_at(start, max(end - start, 0))

    def cat_ranges(
        self,
        paths: list[str],
        starts: int | list[int],
        ends: int | list[int],
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Reads ranges of files, those of each file in as few requests as possible."""
        firsts = starts if isinstance(starts, list) else [starts] * len(paths)
        lasts = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(firsts) == len(lasts):
            raise ValueError("each path has a start and an end")
        read: list[Any] = [None] * len(paths)
        for path in dict.fromkeys(paths):
            wanted = [index for index, each in enumerate(paths) if each == path]
            ranges = [slice(firsts[index], lasts[index]) for index in wanted]
            try:
                found = self._cat_slices(path, ranges)
            except Exception as error:
                if on_error != "return":
                    raise
                found = [error] * len(wanted)
            for index, each in zip(wanted, found, strict=True):
                read[index] = each
        return read

    def _cat_slices(self, path: str, ranges: list[slice]) -> list[Any]:
        with self._read(path) as file:
            bounds = [each.indices(file.size)[:2] for each in ranges]
            starts = [start for start, _ in bounds]
            return file.cat_ranges(starts, [max(start, end) for start, end in bounds])

    def pipe_file(self, path: str, value: Buffer, mode: str = "overwrite", **kwargs: Any) -> None:
        if isinstance(self.fs, LocalFileSystem):
            with self.open(path, "xb" if mode == "create" else "wb") as file:
                file.write(value)
            return
        if mode == "create":
            kwargs["mode"] = mode
        self.fs.pipe_file(self._sealed(path), seal_bytes(value, keys=self._keys), **kwargs)

    def get_file(
        self,
        rpath: str,
        lpath: Any = None,
        callback: Any = DEFAULT_CALLBACK,
        outfile: Any = None,
        **kwargs: Any,
    ) -> None:
        if outfile is not None or not isinstance(lpath, str | os.PathLike) or self.isdir(rpath):
            super().get_file(rpath, lpath, callback=callback, outfile=outfile, **kwargs)
            return
        # An error may come after a part of it.
        part = LocalPath(f"{os.fspath(lpath)}.{secrets.token_hex(4)}.part")
        try:
            super().get_file(rpath, str(part), callback=callback, **kwargs)
            part.replace(lpath)
        finally:
            part.unlink(missing_ok=True)


def _cat_ranges(fs: Any, path: str, starts: list[int], ends: list[int]) -> list[bytes]:
    if len(starts) == 1:
        return [fs.cat_file(path, start=starts[0], end=ends[0])]
    read: list[bytes] = fs.cat_ranges([path] * len(starts), starts, ends, on_error="raise")
    return read
