"""Results of operations."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any


def path_of(document: dict[str, Any]) -> str:
    """The path in a document, with surrogates for bytes that are not UTF-8."""
    digits = document.get("path_hex")
    return os.fsdecode(bytes.fromhex(digits)) if digits else str(document["path"])


@dataclass(frozen=True, slots=True)
class Remark:
    """A file that failed (in `Report.failures`), or another that the caller should know about."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an operation on files or a tree."""

    operation: str
    format: str
    files: int
    """Files processed, without skipped ones."""
    bytes: int
    """Bytes read from them."""
    bytes_written: int
    """Bytes written for them."""
    seconds: float
    """Wall time."""
    files_skipped: int
    files_updated: int
    files_unchanged: int
    failures: tuple[Remark, ...]
    """Files that failed."""
    notices: tuple[Remark, ...]
    """Entries that were left out, and others that the caller should know about."""
    generation: int | None
    """The generation of a sealed tree that was made or read."""
    document: dict[str, Any] = field(repr=False, compare=False)
    """All of this and more, as the program's `--json` prints it."""

    @classmethod
    def _of(cls, text: str) -> Report:
        document = json.loads(text)
        tree = document.get("sealed") or {}
        return cls(
            operation=document["operation"],
            format=document["format"],
            files=document["files"],
            bytes=document["bytes"],
            bytes_written=document["bytes_written"],
            seconds=document["seconds"],
            files_skipped=document["files_skipped"],
            files_updated=document["files_updated"],
            files_unchanged=document["files_unchanged"],
            failures=tuple(Remark(path_of(it), it["cause"]) for it in document["failures"]),
            notices=tuple(Remark(path_of(it), it["reason"]) for it in document["notices"]),
            generation=tree.get("generation", tree.get("number")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class Listed:
    """An encrypted file, or an entry of a sealed tree."""

    path: str
    size: int | None
    """The plaintext's length in bytes, if it is known."""
    document: dict[str, Any] = field(repr=False, compare=False)
    """All that is known, as the program's `--json` prints it."""

    @classmethod
    def _of(cls, text: str) -> Listed:
        document = json.loads(text)
        size = document["plain_bytes"] if "plain_bytes" in document else document["bytes"]
        return cls(path_of(document), size, document)
