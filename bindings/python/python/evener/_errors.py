"""The exceptions of this package.

Mistakes of the caller, such as a length or an option that does not fit, are `ValueError` and
`TypeError`.
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from ._report import Report


class EvenerError(Exception):
    """An operation did not succeed. `path` is the first file that failed.

    `report` has all others, where the operation began; they are whole, and so is everything that
    it does not name.
    """

    path: str | None = None
    report: Report | None = None


class KeyError(EvenerError):  # noqa: A001
    """A key can't be read, made or opened. No message shows a part of it."""


class DamagedError(EvenerError):
    """Data is not authentic: it was changed or cut off, or the key is another one."""


class ExistsError(EvenerError, FileExistsError):
    """An output exists already. `existing` has operations replace it, or go on beside it."""


class MissingError(EvenerError, FileNotFoundError):
    """There is no such file."""
