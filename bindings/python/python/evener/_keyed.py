"""The common base of the file systems for fsspec."""

from __future__ import annotations

import io
import os
from typing import Any

from fsspec.implementations.chained import ChainedFileSystem

from ._evener import KeyRing
from ._files import Path
from ._reader import EncryptedFile

Info = dict[str, Any]


class Keyed(ChainedFileSystem):  # type: ignore[misc]
    """A file system that has keys, which no copy of it contains.

    With the path of a key file as `keys`, it can be pickled and converted to JSON. With a
    `KeyRing`, it refuses both.
    """

    # fsspec would take those with different keys for one.
    cachable = False

    def __init__(self, keys: KeyRing | Path | None, **options: Any) -> None:
        super().__init__(**options)
        if keys is None:
            raise ValueError("encrypted files need `keys`: storage_options={'keys': 'my.key'}")
        self._is_portable = not isinstance(keys, KeyRing)
        self._keys = keys if isinstance(keys, KeyRing) else KeyRing.load(keys)

    @property
    def _fs_token(self) -> str:
        token: str = self._fs_token_
        return token if self._is_portable else f"{token}{id(self._keys):x}"

    def __reduce__(self) -> Any:
        self._check_portable()
        return super().__reduce__()

    def to_dict(self, *, include_password: bool = True) -> Info:
        self._check_portable()
        found: Info = super().to_dict(include_password=include_password)
        # fsspec keeps those of the other file system.
        return found if include_password else _without_passwords(found)

    def _check_portable(self) -> None:
        if not self._is_portable:
            raise TypeError(
                "this file system holds a key in memory and can't be pickled or converted; "
                "make it with the path of a key file as `keys`"
            )


class OpenedFile(io.BufferedReader):
    """The content of an encrypted file, for reads at any offset.

    Only small reads are buffered, so that no more is read than necessary.
    """

    raw: EncryptedFile
    mode = "rb"

    def __init__(self, raw: EncryptedFile, fs: Keyed, path: str) -> None:
        super().__init__(raw)
        self.fs = fs
        self.path = path

    @property
    def size(self) -> int:
        """The content's length in bytes."""
        return self.raw.size

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < io.DEFAULT_BUFFER_SIZE:
            return super().read(size)
        data = self.raw.read_at(self.tell(), size)
        self.seek(len(data), os.SEEK_CUR)
        return data


def _without_passwords(found: Any) -> Any:
    if isinstance(found, dict):
        return {k: _without_passwords(each) for k, each in found.items() if k != "password"}
    return [_without_passwords(each) for each in found] if isinstance(found, list) else found
