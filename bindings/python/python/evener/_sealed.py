"""Sealed trees as file systems of fsspec."""

from __future__ import annotations

import errno
import io
import os
from typing import Any, NoReturn, Unpack

from ._evener import KeyRing
from ._files import Path, Selecting, list
from ._keyed import Info, Keyed, OpenedFile
from ._reader import open


class SealedTree(Keyed):
    """A state of a sealed tree in a directory, to read."""

    protocol = "evener-sealed"

    def __init__(
        self, *, tree: Path, keys: KeyRing | Path | None = None, **options: Unpack[Selecting]
    ) -> None:
        """Lists the tree once. If it may be updated meanwhile, give a `generation`."""
        super().__init__(keys)
        self._tree = tree
        options["sealed"] = True
        self._options = options
        self._entries: dict[str, Info] = {"": {"name": "", "size": 0, "type": "directory"}}
        self._children: dict[str, dict[str, Info]] = {}
        types = {"directory": "directory", "symlink": "link"}
        for each in list(tree, keys=self._keys, **options):
            if each.path:
                kind, modified = each.document["kind"], each.document["modified"]
                entry = {"name": each.path, "size": each.size, "type": types.get(kind, "file")}
                entry["mtime"] = modified and modified[0]
                self._entries[each.path] = entry
                self._children.setdefault(self._parent(each.path), {})[each.path] = entry

    def info(self, path: str, **_: Any) -> Info:
        own = self._strip_protocol(path).strip("/")
        if own not in self._entries:
            raise FileNotFoundError(path)
        return self._entries[own]

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        entry = self.info(path)
        below = self._children.get(entry["name"], {})
        found = below if entry["type"] == "directory" else {entry["name"]: entry}
        return [*found.values()] if detail else sorted(found)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> OpenedFile:
        if mode != "rb":
            self._refuse()
        entry = self.info(path)
        if entry["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        own = entry["name"]
        opened = open(self._tree, member=own, keys=self._keys, **self._options)
        return OpenedFile(opened, self, own)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise io.UnsupportedOperation("this is to read: `evener.encrypt` updates a sealed tree")

    mkdir = makedirs = rmdir = touch = cp_file = mv = rm = rm_file = _rm = _refuse
