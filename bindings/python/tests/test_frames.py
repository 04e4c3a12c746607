"""Libraries for data frames and arrays on encrypted files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import zarr
from stores import Store
from zarr.storage import FsspecStore

import evener
from evener.fsspec import EvenerFileSystem

KEY = evener.generate()
COLUMNS = [f"c{number}" for number in range(20)]
ROWS = 50_000
NUMBERS = np.random.default_rng(7).random((ROWS, 20))
TABLE = pa.table({name: NUMBERS[:, at] for at, name in enumerate(COLUMNS)})


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def lake(store: Store) -> EvenerFileSystem:
    return EvenerFileSystem(keys=KEY, fs=store, root="lake")


@pytest.fixture
def local(tmp_path: Path) -> EvenerFileSystem:
    return evener.filesystem(tmp_path, keys=KEY, auto_mkdir=True)


def check_a_column(lake: EvenerFileSystem, store: Store, openings: int = 2) -> None:
    """Checks that one column was read, in the last of so many openings. The others read the footer,
    which pyarrow looks for in the last 64 KiB."""
    read, requests = store.bytes_read, len(store.requests)
    metadata = pq.read_metadata("wide.parquet", filesystem=lake)
    column = metadata.row_group(0).column(7).total_compressed_size
    assert metadata.num_row_groups == 1
    assert read <= 1.1 * (column + (openings - 1) * 65_536) + openings * 32_768
    assert requests <= 3 * openings


def test_pandas(local: EvenerFileSystem, tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": range(1000), "name": ["someone"] * 1000})
    frame.to_parquet("people.parquet", filesystem=local)
    assert [it.name for it in tmp_path.iterdir()] == ["people.parquet.enc"]
    read = pd.read_parquet("people.parquet", columns=["id"], filesystem=local)
    pd.testing.assert_frame_equal(read, frame[["id"]])

    KEY.save(tmp_path / "my.key")
    options = {"keys": str(tmp_path / "my.key")}
    read = pd.read_parquet(f"evener::file://{tmp_path}/people.parquet", storage_options=options)
    pd.testing.assert_frame_equal(read, frame)
    csv = f"evener::file://{tmp_path}/people.csv.gz"
    frame.to_csv(csv, index=False, storage_options=options)
    pd.testing.assert_frame_equal(pd.read_csv(csv, storage_options=options), frame)


def test_pandas_reads_one_column(lake: EvenerFileSystem, store: Store) -> None:
    TABLE.to_pandas().to_parquet("wide.parquet", filesystem=lake)
    store.forget()
    read = pd.read_parquet("wide.parquet", columns=["c7"], filesystem=lake)
    assert (read["c7"] == NUMBERS[:, 7]).all()
    check_a_column(lake, store)


def test_pyarrow_reads_one_column(lake: EvenerFileSystem, store: Store) -> None:
    pq.write_table(TABLE, "wide.parquet", filesystem=lake)
    store.forget()
    read = pq.read_table("wide.parquet", columns=["c7"], filesystem=lake)
    assert read == TABLE.select(["c7"])
    check_a_column(lake, store)


@pytest.mark.parametrize("fs", ["lake", "local"])
def test_pyarrows_datasets(fs: str, request: pytest.FixtureRequest) -> None:
    lake = request.getfixturevalue(fs)
    table = TABLE.slice(0, 900).append_column("part", pa.array([1, 2, 3] * 300))
    ds.write_dataset(
        table, "set", format="parquet", partitioning=["part"], partitioning_flavor="hive",
        filesystem=lake,
    )  # fmt: skip
    assert lake.ls("set", detail=False) == ["set/part=1", "set/part=2", "set/part=3"]
    dataset = ds.dataset("set", format="parquet", partitioning="hive", filesystem=lake)
    assert dataset.count_rows() == 900
    found = dataset.to_table(filter=ds.field("part") == 2, columns=["c3"])
    assert found.column("c3").to_pylist() == NUMBERS[1:900:3, 3].tolist()


def test_a_changed_dataset(local: EvenerFileSystem, tmp_path: Path) -> None:
    pq.write_table(TABLE, "wide.parquet", filesystem=local)
    path = tmp_path / "wide.parquet.enc"
    with path.open("r+b") as file:
        file.seek(2 << 20)
        file.write(b"changed")
    with pytest.raises(evener.DamagedError):
        pq.read_table("wide.parquet", filesystem=local)
    with path.open("r+b") as file:
        file.truncate(3 << 20)
    with pytest.raises(evener.DamagedError):
        pq.read_table("wide.parquet", columns=["c0"], filesystem=local)


def test_polars(lake: EvenerFileSystem, store: Store) -> None:
    frame = pl.DataFrame(TABLE)
    with lake.open("wide.parquet", "wb") as file:
        frame.write_parquet(file)
    with lake.open("wide.parquet") as file:
        assert pl.read_parquet(file, columns=["c7"]).equals(frame.select("c7"))
    with lake.open("wide.parquet") as file:
        found = pl.scan_parquet(file).filter(pl.col("c1") > 0.5).select("c2").collect()
        assert found.equals(frame.filter(pl.col("c1") > 0.5).select("c2"))
    store.forget()
    dataset = ds.dataset("wide.parquet", format="parquet", filesystem=lake)
    found = pl.scan_pyarrow_dataset(dataset).select("c7").collect()
    assert found.equals(frame.select("c7"))
    check_a_column(lake, store, openings=3)


def test_duckdb(lake: EvenerFileSystem, store: Store) -> None:
    with duckdb.connect() as connection:
        connection.register_filesystem(lake)
        connection.register("wide", TABLE)
        connection.execute("COPY wide TO 'evener://wide.parquet' (FORMAT parquet)")
        assert list(store.objects) == ["lake/wide.parquet.enc"]
        store.forget()
        found = connection.execute("SELECT sum(c7) FROM 'evener://wide.parquet'").fetchall()
        assert found[0][0] == pytest.approx(NUMBERS[:, 7].sum())
        print(f"DuckDB read {store.bytes_read} bytes in {len(store.requests)} requests")
        found = connection.execute("SELECT count(*) FROM 'evener://*.parquet'").fetchall()
        assert found == [(ROWS,)]


@pytest.mark.parametrize("fs", ["lake", "local"])
def test_zarr(fs: str, request: pytest.FixtureRequest) -> None:
    lake = request.getfixturevalue(fs)
    numbers: Any = np.arange(1_000_000).reshape(1000, 1000)
    place = FsspecStore.from_mapper(lake.get_mapper("array.zarr"))
    written = zarr.create_array(place, shape=numbers.shape, chunks=(100, 1000), dtype=numbers.dtype)
    written[:] = numbers
    assert lake.exists("array.zarr/c/9/0")
    place = FsspecStore.from_mapper(lake.get_mapper("array.zarr"), read_only=True)
    read: Any = zarr.open_array(place, mode="r")
    assert (read[250:260, 5:7] == numbers[250:260, 5:7]).all()
