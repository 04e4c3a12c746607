"""File systems of encrypted files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._evener import KeyRing
from ._files import Path

if TYPE_CHECKING:
    from ._keyed import Keyed


def filesystem(
    place: Any, *, keys: KeyRing | Path, suffix: str = ".enc", sealed: bool = False, **options: Any
) -> Keyed:
    """Returns an fsspec file system that shows the content of encrypted files.

    `place` is the URL or path of a directory, such as `s3://lake` or `memory://`. All paths are
    relative to it, and `options` go to the file system that the URL names. `place` may also be an
    fsspec file system; its paths then stay as they are.

    With `sealed`, `place` is the directory of a sealed tree, which can only be read, and `options`
    are those of `evener.list`.

    Needs the package `fsspec`.
    """
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    from ._sealed import SealedTree
    from .fsspec import EvenerFileSystem

    if sealed:
        tree = LocalFileSystem._strip_protocol(place)
        return SealedTree(tree=tree, keys=keys, **options)
    if isinstance(place, fsspec.AbstractFileSystem):
        return EvenerFileSystem(keys=keys, fs=place, suffix=suffix)
    fs, root = fsspec.core.url_to_fs(place, **options)
    return EvenerFileSystem(keys=keys, fs=fs, root=root, suffix=suffix)
