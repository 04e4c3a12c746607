"""Operations on files and trees."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from . import _evener
from ._evener import KeyRing
from ._report import Listed, Report

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Progress(NamedTuple):
    """The state of an operation. Every number only grows."""

    done_files: int
    done_bytes: int
    found_files: int
    found_bytes: int
    """0 without `measure_total`."""


Watch = bool | Callable[[Progress], object] | None


class Selecting(TypedDict, total=False):
    """What an operation takes, and what it knows of a sealed tree."""

    include: Sequence[str]
    """Globs of the files to take."""
    exclude: Sequence[str]
    """Globs of the files and directories to leave out."""
    context: bytes
    """Files are bound to it: the same in both directions."""
    suffix: Path
    """Of encrypted files; `.enc`, or `.age` for keys of age."""
    one_file_system: bool
    sealed: bool | None
    """True makes or takes a sealed tree, which hides names. Without it, the place tells."""
    generation: int
    """The generation of a sealed tree to read; otherwise the newest one."""
    state: Path
    """The directory in which this machine remembers sealed trees."""
    signers: str
    """Lines with the public keys of those who may have signed a sealed tree."""
    unsigned: bool
    """Believe a sealed tree that nobody has signed."""


class Options(Selecting, total=False):
    """The options of operations on files and trees."""

    existing: Literal["refuse", "overwrite", "resume", "update"]
    """How to treat outputs that exist: as errors (the default); replace them; leave complete ones
    as they are; replace those whose source has changed."""
    overwrite: bool
    """With resume or update, also replace outputs that do not match."""
    engines: Sequence[str]
    """Names of engines that work instead of `cpu`."""
    workers: int
    memory: int
    """The most memory for buffers, in bytes."""
    max_cpu: int
    """A percentage of all cores."""
    background: bool
    """Use only idle CPU time."""
    durable: bool
    """Sync outputs to the device."""
    remove_source: bool
    """Remove each source once its output was read back and compared."""
    follow_symlinks: bool
    owner: bool
    xattrs: bool
    sparse: bool
    dry_run: bool
    skip_changing: bool
    insecure_modes: bool
    measure_total: bool
    """Add up the sizes of all files first, for progress."""
    padding: int
    """Of a new sealed tree: the least length of a file in bytes."""
    checksum: bool
    """Read every file, to find those that changed without a trace."""


def encrypt(
    source: Path, target: Path, *, keys: KeyRing, progress: Watch = None, **options: Unpack[Options]
) -> Report:
    """Encrypts a file or a tree. A tree goes to a tree with the same names and a suffix.

    `progress` is called with a `Progress`, some 20 times a second; whatever it raises stops the
    operation. True shows a bar of tqdm.

    Raises an `EvenerError` when files failed; all others are done, and its `report` names those.
    """
    return _process("encrypt", source, target, keys, progress, options)


def decrypt(
    source: Path, target: Path, *, keys: KeyRing, progress: Watch = None, **options: Unpack[Options]
) -> Report:
    """Decrypts a file or a tree, as `encrypt` encrypts it."""
    return _process("decrypt", source, target, keys, progress, options)


def verify(
    source: Path, *, keys: KeyRing, progress: Watch = None, **options: Unpack[Options]
) -> Report:
    """Authenticates everything in a file or a tree, and writes nothing."""
    return _process("verify", source, None, keys, progress, options)


def list(path: Path, *, keys: KeyRing, **options: Unpack[Selecting]) -> tuple[Listed, ...]:  # noqa: A001
    """Lists encrypted files, or the entries of a sealed tree, with the lengths of their content."""
    return tuple(Listed._of(text) for text in _evener.list_place(path, keys, dict(options)))


def _process(
    operation: str,
    source: Path,
    target: Path | None,
    keys: KeyRing,
    progress: Watch,
    options: Options,
) -> Report:
    wishes: dict[str, Any] = dict(options)
    if progress:
        wishes.setdefault("measure_total", True)
    with _call(operation, progress) as call:
        return _evener.process(operation, source, target, keys, call, wishes)


@contextlib.contextmanager
def _call(operation: str, progress: Watch) -> Iterator[Callable[..., object] | None]:
    """What the extension calls with the four numbers of a `Progress`."""
    if callable(progress):
        call = progress
        yield lambda *numbers: call(Progress(*numbers))
    elif progress:
        from tqdm import tqdm

        with tqdm(desc=operation, unit="B", unit_scale=True) as bar:

            def show(_: int, done: int, __: int, found: int) -> None:
                bar.total = max(found, done) or None
                bar.update(done - bar.n)

            yield show
    else:
        yield None
