"""Encrypts files, trees and buffers in bulk, with every core and crypto engine at once."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ._errors import (
    DamagedError,
    EvenerError,
    ExistsError,
    KeyError,
    MissingError,
    SystemError,
)
from ._evener import (
    Aead,
    KeyRing,
    open_bytes,
    open_into,
    seal_bytes,
    seal_into,
    sealed_size,
)
from ._files import Options, Progress, decrypt, encrypt, list, verify
from ._filesystem import filesystem
from ._reader import EncryptedFile, open
from ._report import Listed, Remark, Report

if TYPE_CHECKING:
    from . import safetensors as safetensors

__all__ = [
    "Aead",
    "DamagedError",
    "EncryptedFile",
    "EvenerError",
    "ExistsError",
    "KeyError",
    "KeyRing",
    "Listed",
    "MissingError",
    "Options",
    "Progress",
    "Remark",
    "Report",
    "SystemError",
    "age",
    "decrypt",
    "encrypt",
    "filesystem",
    "generate",
    "list",
    "open",
    "open_bytes",
    "open_into",
    "seal_bytes",
    "seal_into",
    "sealed_size",
    "verify",
]

age = KeyRing.age
generate = KeyRing.generate

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # It imports NumPy, which is optional.
        if name == "safetensors":
            return importlib.import_module("evener.safetensors")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
