from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

import evener
from evener.parquet import KmsClient

MASTERS = {name: evener.generate() for name in ("footer", "people")}
TABLE = pa.table({"id": range(1000), "name": [f"person {number}" for number in range(1000)]})


def factory(masters: dict[str, evener.KeyRing]) -> Any:
    return pe.CryptoFactory(lambda _: KmsClient(masters))


def test_a_file_with_keys_of_its_footer_and_columns(tmp_path: Path) -> None:
    config = pe.EncryptionConfiguration(footer_key="footer", column_keys={"people": ["name"]})
    connection = pe.KmsConnectionConfig()
    encryption = factory(MASTERS).file_encryption_properties(connection, config)
    path = tmp_path / "people.parquet"
    pq.write_table(TABLE, path, encryption_properties=encryption)
    assert b"person 7" not in path.read_bytes()

    def read(masters: dict[str, evener.KeyRing], columns: list[str]) -> Any:
        decryption = factory(masters).file_decryption_properties(connection)
        return pq.ParquetFile(path, decryption_properties=decryption).read(columns=columns)

    assert read(MASTERS, ["id", "name"]) == TABLE
    # Who has no key of a column reads the others.
    footer = {"footer": MASTERS["footer"]}
    assert read(footer, ["id"]) == TABLE.select(["id"])
    with pytest.raises(evener.KeyError, match="no master key of the name 'people'"):
        read(footer, ["name"])
    with pytest.raises(evener.DamagedError):
        read({**MASTERS, "footer": evener.generate()}, ["id"])


def test_a_wrapped_key_is_bound_to_the_name_of_its_master_key() -> None:
    key = evener.generate()
    client = KmsClient({"one": key, "two": key})
    secret = os.urandom(16)
    wrapped = client.wrap_key(secret, "one")
    assert client.unwrap_key(wrapped, "one") == client.unwrap_key(wrapped.decode(), "one") == secret
    assert secret not in base64.b64decode(wrapped)
    with pytest.raises(evener.DamagedError):
        client.unwrap_key(wrapped, "two")
    with pytest.raises(evener.DamagedError):
        client.unwrap_key(wrapped[:-1] + b"*", "one")
    assert "KeyRing" not in repr(client)
