"""The exceptions of this package.

Mistakes of the caller, such as a wrong length or option, raise `ValueError` or `TypeError`.
"""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Iterator

if typing.TYPE_CHECKING:
    from ._report import Report


class EvenerError(Exception):
    """An operation did not succeed. `path` is the first file that failed.

    If the operation began, `report` names all files that failed. All others are complete.
    """

    path: str | None = None
    report: Report | None = None


class KeyError(EvenerError):  # noqa: A001
    """A key can't be read, made or opened, or is not that of the sealed tree. The message shows no
    part of it."""


class DamagedError(EvenerError):
    """Data is not authentic: it was changed or cut off, or its key is another one."""


class ExistsError(EvenerError, FileExistsError):
    """An output exists already. The option `existing` can replace or keep it."""


class MissingError(EvenerError, FileNotFoundError):
    """There is no such file."""


class SystemError(EvenerError, OSError):  # noqa: A001
    """A call of the operating system failed. `errno` is its number."""

    # As an attribute of Python's, it is pickled.
    errno: int | None = None


@contextlib.contextmanager
def naming(path: str | None) -> Iterator[None]:
    """Names the file in errors that don't."""
    try:
        yield
    except EvenerError as error:
        if error.path is None and path is not None:
            error.path = path
            error.args = (f"{path}: {error}",)
        raise
