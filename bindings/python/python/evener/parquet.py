"""Evener's keys as the master keys of Parquet's own encryption, with pyarrow's `CryptoFactory`."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pyarrow.parquet.encryption

from ._errors import DamagedError, KeyError
from ._evener import KeyRing, open_bytes, seal_bytes

__all__ = ["KmsClient"]


class KmsClient(pyarrow.parquet.encryption.KmsClient):  # type: ignore[misc]
    """Wraps the keys of Parquet files with named master keys.

    A wrapped key is bound to the name of its master key, and opens under no other.
    """

    def __init__(self, masters: Mapping[str, KeyRing]) -> None:
        super().__init__()
        self._masters = dict(masters)

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        """Returns the wrapped key in base64, as it is written to the file."""
        keys, context = self._master(master_key_identifier)
        return base64.b64encode(seal_bytes(key_bytes, keys=keys, context=context))

    def unwrap_key(self, wrapped_key: bytes | str, master_key_identifier: str) -> bytes:
        """Opens a result of `wrap_key`, or raises a `DamagedError`."""
        keys, context = self._master(master_key_identifier)
        try:
            sealed = base64.b64decode(wrapped_key, validate=True)
        except ValueError:
            raise DamagedError("the wrapped key is not in base64") from None
        return open_bytes(sealed, keys=keys, context=context)

    def _master(self, name: str) -> tuple[KeyRing, bytes]:
        if name not in self._masters:
            raise KeyError(f"there is no master key of the name {name!r}")
        return self._masters[name], b"parquet master key: " + name.encode()
