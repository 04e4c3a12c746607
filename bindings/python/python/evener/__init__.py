"""Encrypts files, trees and buffers in bulk, with every core and crypto engine at once."""

from __future__ import annotations

from ._errors import DamagedError, EvenerError, ExistsError, KeyError, MissingError
from ._evener import KeyRing
from ._files import Options, Progress, decrypt, encrypt, list, verify
from ._report import Listed, Remark, Report

__all__ = [
    "DamagedError",
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
    "age",
    "decrypt",
    "encrypt",
    "generate",
    "list",
    "verify",
]

age = KeyRing.age
generate = KeyRing.generate
