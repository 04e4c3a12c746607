"""Operations on files and trees."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from . import _evener
from ._evener import KeyRing
from ._report import Listed, Report

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Progress(NamedTuple):
    """The state of an operation. No number ever decreases."""

    done_files: int
    done_bytes: int
    found_files: int
    found_bytes: int
    """0 while the total is unknown: always without `measure_total`, and with `remove_source`."""


Watch = bool | Callable[[Progress], object] | None


class Selecting(TypedDict, total=False):
    """Options that select files, and options of sealed trees."""

    include: Sequence[str]
    """Globs of the files to take."""
    exclude: Sequence[str]
    """Globs of the files and directories to leave out."""
    context: bytes
    """Binds files to a context: decryption needs the same one."""
    suffix: Path
    """The suffix of encrypted files: by default `.enc`, or `.age` with age keys."""
    one_file_system: bool
    sealed: bool | None
    """True for a sealed tree, which hides names. By default, Evener detects an existing one."""
    generation: int
    """The generation of a sealed tree to read; otherwise the newest one."""
    state: Path
    """The directory in which this machine remembers sealed trees."""
    signers: str
    """The public keys of the trusted signers of a sealed tree, one a line."""
    unsigned: bool
    """Trust a sealed tree that nobody has signed."""
    allow_rollback: bool
    """Accept an older state of a sealed tree, or another tree, than this machine has seen."""


class Options(Selecting, total=False):
    """The options of operations on files and trees."""

    existing: Literal["refuse", "overwrite", "resume", "update"]
    """The treatment of existing outputs: `refuse` (the default) fails, `overwrite` replaces them,
    `resume` skips complete ones, and `update` replaces those whose source has changed."""
    overwrite: bool
    """With resume or update, also replace outputs that do not match."""
    engines: Sequence[str]
    """The names of the engines to use instead of `cpu`."""
    workers: int
    memory: int
    """The most memory for buffers, in bytes."""
    max_cpu: int
    """The most CPU time to use, as a percentage of all cores."""
    background: bool
    """Use only idle CPU time."""
    durable: bool
    """Sync outputs to the device."""
    remove_source: bool
    """Remove each source after its output was read back and compared."""
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
    """The least length of a file in a new sealed tree, in bytes."""
    checksum: bool
    """Compare the content of every file, for changes that its time and size don't show."""
    recipients_changed: bool
    """Seal for other recipients, or another passphrase, than this machine last sealed for, after
    `evener rewrap` on another machine. Without that, they can't read unchanged files."""


def encrypt(
    source: Path, target: Path, *, keys: KeyRing, progress: Watch = None, **options: Unpack[Options]
) -> Report:
    """Encrypts a file or a tree. A tree goes to a tree with the same names and a suffix.

    Calls `progress` with a `Progress` about 20 times a second. An exception in it stops the
    operation. True shows a progress bar of tqdm.

    Raises an `EvenerError` if files failed. Its `report` names them, and all others are done.
    """
    return _process("encrypt", source, target, keys, progress, options)


def decrypt(
    source: Path, target: Path, *, keys: KeyRing, progress: Watch = None, **options: Unpack[Options]
) -> Report:
    """Decrypts a file or a tree that `encrypt` has made. The parameters are the same."""
    return _process("decrypt", source, target, keys, progress, options)


def verify(
    source: Path, *, keys: KeyRing, progress: Watch = None, **options: Unpack[Options]
) -> Report:
    """Authenticates everything in a file or a tree, and writes nothing."""
    return _process("verify", source, None, keys, progress, options)


def list(path: Path, *, keys: KeyRing, **options: Unpack[Selecting]) -> tuple[Listed, ...]:  # noqa: A001
    """Lists encrypted files, or the entries of a sealed tree, with the lengths of their content."""
    refuse_url(path)
    return tuple(Listed._of(text) for text in _evener.list_place(path, keys, dict(options)))


def refuse_url(path: Path) -> None:
    """Refuses a URL, which would be taken for the path of a file."""
    if isinstance(path, str | bytes) and re.match(r"[a-z][a-z0-9+.:-]+://", os.fsdecode(path)):
        raise ValueError("this takes no URLs; `evener.filesystem` does, and so does the program")


def _process(
    operation: str,
    source: Path,
    target: Path | None,
    keys: KeyRing,
    progress: Watch,
    options: Options,
) -> Report:
    for each in (source, target):
        if each is not None:
            refuse_url(each)
    wishes: dict[str, Any] = dict(options)
    if progress:
        wishes.setdefault("measure_total", True)
    with _call(operation, progress) as call:
        return _evener.process(operation, source, target, keys, call, wishes)


@contextlib.contextmanager
def _call(operation: str, progress: Watch) -> Iterator[Callable[..., object] | None]:
    """Yields the extension's callback, which takes the four numbers of a `Progress`."""
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
