"""File systems of fsspec for the tests."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractBufferedFile

import evener
from evener.fsspec import EvenerFileSystem

KEY = evener.generate()
CONTENT = os.urandom(300_000)
CHUNK = 16_384


def held(fs: EvenerFileSystem) -> list[str]:
    """The names in the other file system."""
    root = fs.root or ""
    return [name.removeprefix(root).strip("/") for name in fs.fs.find(root)]


class Store(AsyncFileSystem):  # type: ignore[misc]
    """An object store in memory that counts what is read of it."""

    protocol = "teststore"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, int | None, int | None]] = []
        self.bytes_read = 0

    def forget(self) -> None:
        self.requests.clear()
        self.bytes_read = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(path)
        return stripped.strip("/")

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        data = self._found(path)[start:end]
        self.requests.append((path, start, end))
        self.bytes_read += len(data)
        return data

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(path)
        if mode == "create" and path in self.objects:
            raise FileExistsError(path)
        self.objects[path] = bytes(value)

    async def _rm_file(self, path: str, **_: Any) -> None:
        del self.objects[self._strip_protocol(path)]

    async def _cp_file(self, path1: str, path2: str, **_: Any) -> None:
        self.objects[self._strip_protocol(path2)] = self._found(path1)

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if path in self.objects:
            return {"name": path, "size": len(self.objects[path]), "type": "file"}
        if not path or any(name.startswith(path + "/") for name in self.objects):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        below = path + "/" if path else ""
        names = {
            below + name.removeprefix(below).split("/")[0]
            for name in self.objects
            if name.startswith(below)
        }
        entries = [await self._info(name) for name in sorted(names or {path})]
        return entries if detail else [entry["name"] for entry in entries]

    def modified(self, path: str) -> datetime:
        self._found(path)
        return datetime(2026, 11, 29, tzinfo=UTC)

    created = modified

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Upload:
        kwargs.pop("block_size", None)
        return Upload(self, path, mode, block_size=1 << 20, **kwargs)

    def _found(self, path: str) -> bytes:
        try:
            return self.objects[self._strip_protocol(path)]
        except KeyError:
            raise FileNotFoundError(path) from None


class Upload(AbstractBufferedFile):  # type: ignore[misc]
    """An object that appears at its end."""

    parts: list[bytes]

    def _initiate_upload(self) -> None:
        self.parts = []

    def _upload_chunk(self, final: bool = False) -> bool:
        self.parts.append(self.buffer.getvalue())
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self) -> None:
        if self.mode == "xb" and self.path in self.fs.objects:
            raise FileExistsError(self.path)
        self.fs.objects[self.path] = b"".join(self.parts)

    def discard(self) -> None:
        self.parts = []
