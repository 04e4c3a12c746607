from __future__ import annotations

import io
import json
import os
import pickle
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st
from stores import CHUNK, CONTENT, KEY, Store, held

import evener
from evener.fsspec import EvenerFileSystem


def test_it_reads_what_the_program_writes(tmp_path: Path, photos: Path) -> None:
    evener.encrypt(photos, tmp_path / "sealed", keys=KEY)
    fs = evener.filesystem(f"file://{tmp_path}/sealed", keys=KEY)
    assert fs.ls("", detail=False) == ["deep", "one"]
    assert fs.find("") == ["deep/two", "one"]
    assert fs.du("") == 300_019
    assert fs.info("deep/two")["size"] == 300_000
    assert fs.cat_file("one") == b"not quite a picture"


def test_it_writes_what_the_program_reads(tmp_path: Path) -> None:
    fs = evener.filesystem(tmp_path / "sealed", keys=KEY)
    fs.makedirs("deep/deeper")
    fs.pipe_file("deep/deeper/one", CONTENT)
    with fs.open("two", "wb") as file:
        for at in range(0, len(CONTENT), 7000):
            file.write(CONTENT[at : at + 7000])
    report = evener.decrypt(tmp_path / "sealed", tmp_path / "plain", keys=KEY)
    assert report.files == 2
    assert (tmp_path / "plain/deep/deeper/one").read_bytes() == CONTENT
    assert (tmp_path / "plain/two").read_bytes() == CONTENT


def test_names_and_sizes(fs: EvenerFileSystem) -> None:
    for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 100_000]:
        fs.pipe_file(f"deep/{length}", bytes(length))
        assert fs.size(f"deep/{length}") == length
    assert sorted(it["size"] for it in fs.ls("deep")) == [
        0,
        1,
        CHUNK - 1,
        CHUNK,
        CHUNK + 1,
        100_000,
    ]
    assert fs.ls("deep/1", detail=False) == ["deep/1"]
    assert fs.find("deep/1") == ["deep/1"]
    assert fs.glob("deep/1*") == ["deep/1", "deep/100000", "deep/16383", "deep/16384", "deep/16385"]
    assert fs.isdir("deep")
    assert not fs.isfile("deep")
    assert fs.exists("deep/1")
    assert not fs.exists("deep/2")
    with pytest.raises(IsADirectoryError, match="deep"):
        fs.open("deep")
    for absent in (fs.info, fs.ls, fs.cat_file, fs.open):
        with pytest.raises(FileNotFoundError):
            absent("deep/2")
    assert [(place, sorted(names)) for place, _, names in fs.walk("deep")] == [
        ("deep", ["0", "1", "100000", "16383", "16384", "16385"])
    ]


def test_the_root_is_no_file(tmp_path: Path) -> None:
    fs = evener.filesystem(tmp_path / "lake", keys=KEY, auto_mkdir=True)
    fs.pipe_file("one", CONTENT)
    beside = tmp_path / "lake.enc"
    beside.write_bytes(evener.seal_bytes(b"another lake", keys=KEY))
    assert fs.isdir("")
    assert fs.exists("/")
    assert fs.ls("", detail=False) == ["one"]
    for change in (fs.rm_file, fs.cat_file, lambda path: fs.pipe_file(path, b""), fs.open):
        for root in ("", "/", ".", "./"):
            with pytest.raises(IsADirectoryError):
                change(root)
    for change in (fs.touch, fs.rm, lambda path: fs.cp_file("one", path)):
        for root in ("", "/", ".", "./"):
            with pytest.raises(IsADirectoryError):
                change(root)
    for root in ("", "/", ".", "./"):
        fs.mv("one", root)
        with pytest.raises(IsADirectoryError):
            fs.mv(root, "two")
    assert fs.ls(".", detail=False) == ["one"]
    assert fs.cat_file("./one") == CONTENT
    assert sorted(it.name for it in tmp_path.iterdir()) == ["lake", "lake.enc"]
    assert [it.name for it in (tmp_path / "lake").iterdir()] == ["one.enc"]
    assert evener.open_bytes(beside.read_bytes(), keys=KEY) == b"another lake"


def test_what_is_not_encrypted_is_not_shown(fs: EvenerFileSystem) -> None:
    fs.pipe_file("deep/one", b"1")
    inner = fs._inner("deep")
    for name in ("plain", ".enc"):
        fs.fs.pipe_file(f"{inner}/{name}", b"plain")
    assert fs.ls("deep", detail=False) == fs.find("deep") == ["deep/one"]
    fs.fs.pipe_file(fs._inner("") + "/.enc", b"plain")
    assert fs.ls("", detail=False) == ["deep"]
    fs.fs.rm_file(fs._inner("") + "/.enc")
    for name in ("plain", ".enc", ""):
        assert not fs.isfile(f"deep/{name}")
    fs.rm("deep", recursive=True)
    assert held(fs) == ["deep/.enc", "deep/plain"]


def test_sizes_are_not_read() -> None:
    store = Store()
    fs = evener.filesystem(store, keys=KEY)
    fs.pipe({f"lake/{number}": bytes(number) for number in range(5)})
    assert fs.du("lake") == 10
    assert [it["size"] for it in fs.ls("lake")] == [0, 1, 2, 3, 4]
    assert not store.requests
    store.objects["lake/short.enc"] = b"short"
    assert fs.info("lake/short")["size"] is None
    with pytest.raises(evener.DamagedError):
        fs.open("lake/short")


@given(st.lists(st.tuples(st.integers(-310_000, 310_000), st.integers(-310_000, 310_000))))
def test_ranges(ranges: list[tuple[int, int]]) -> None:
    store = Store()
    fs = evener.filesystem(store, keys=KEY)
    fs.pipe_file("a", CONTENT)
    starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
    wanted = [CONTENT[start:end] for start, end in ranges]
    assert fs.cat_ranges(["a"] * len(ranges), starts, ends) == wanted
    assert [fs.cat_file("a", start, end) for start, end in ranges] == wanted


def test_requests_of_a_store() -> None:
    store = Store()
    fs = evener.filesystem(store, keys=KEY)
    fs.pipe_file("a", CONTENT)
    store.forget()
    with fs.open("a") as file:
        # The header and the end, at the same time.
        assert len(store.requests) == 2
        file.seek(50_000)
        assert file.read(100_000) == CONTENT[50_000:150_000]
        assert len(store.requests) == 3
        assert file.raw.cat_ranges([10, 20_000, 290_000], [20, 21_000, 300_000]) == [
            CONTENT[10:20],
            CONTENT[20_000:21_000],
            CONTENT[290_000:],
        ]
        # The first two touch.
        assert len(store.requests) == 5
        file.seek(-10, os.SEEK_END)
        assert file.read() == CONTENT[-10:]
        assert len(store.requests) == 5
    fs.pipe_file("short", CONTENT[:60_000])
    store.forget()
    assert fs.cat_file("short", 5, 50_000) == CONTENT[5:50_000]
    assert fs.cat_file("short") == CONTENT[:60_000]
    assert len(store.requests) == 2
    store.forget()
    found = fs.cat_ranges(["a", "short", "a", "b"], [0, 1, 1000, 0], [10, 2, 1010, 1])
    assert found[:3] == [CONTENT[:10], CONTENT[1:2], CONTENT[1000:1010]]
    assert isinstance(found[3], FileNotFoundError)
    assert len(store.requests) == 4
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["a", "b"], 0, 1, on_error="raise")


def test_a_range_reads_little_more_than_itself() -> None:
    store = Store()
    fs = evener.filesystem(store, keys=KEY)
    fs.pipe_file("a", bytes(4 << 20))
    with fs.open("a") as file:
        for length in (1000, CHUNK, 100_000, 1 << 20):
            for offset in range(0, 3 << 20, 313_377):
                store.forget()
                file.seek(offset)
                assert len(file.read(length)) == length
                assert store.bytes_read <= 1.1 * length + 32_768
                assert len(store.requests) <= 1


def test_small_reads_in_sequence_need_few_requests() -> None:
    store = Store()
    fs = evener.filesystem(store, keys=KEY)
    lines = [f"{number},{number * number}\n" for number in range(100_000)]
    with fs.open("lines.csv", "w") as file:
        file.writelines(lines)
    store.forget()
    with fs.open("lines.csv", "r") as file:
        assert list(file) == lines
    assert len(store.requests) < 20
    assert store.bytes_read < 1.1 * len("".join(lines))
    with fs.open("lines.csv") as file:
        assert [line.decode() for line in file] == lines


def test_times(fs: EvenerFileSystem) -> None:
    fs.pipe_file("a", b"")
    assert fs.modified("a")
    assert fs.created("a")


@pytest.mark.parametrize("cut", [1, 100, 5 * (CHUNK + 16), 250_000])
def test_damage(fs: EvenerFileSystem, cut: int, tmp_path: Path) -> None:
    fs.pipe_file("a", CONTENT)
    inner = fs._sealed("a")
    sealed = fs.fs.cat_file(inner)
    fs.fs.pipe_file(inner, sealed[:-cut])
    for read in (
        lambda: fs.cat_file("a"),
        lambda: fs.cat_file("a", 0, 10),
        lambda: fs.cat_ranges(["a"], [0], [10], on_error="raise"),
        lambda: fs.open("a"),
    ):
        with pytest.raises(evener.DamagedError, match="a.enc: ") as raised:
            read()
        assert raised.value.path == inner
    assert isinstance(fs.cat_ranges(["a"], [0], [10])[0], evener.DamagedError)
    changed = bytearray(sealed)
    changed[200_000] ^= 1
    fs.fs.pipe_file(inner, bytes(changed))
    with fs.open("a") as file:
        assert file.read(1000) == CONTENT[:1000]
        for read in (
            file.read,
            lambda: file.raw.readinto(bytearray(300_000)),
            lambda: file.raw.read_at(0, 300_000),
            lambda: file.raw.cat_ranges([0], [300_000]),
        ):
            with pytest.raises(evener.DamagedError, match="a.enc: ") as raised:
                read()
            assert raised.value.path == inner
    with pytest.raises(evener.DamagedError):
        fs.get_file("a", tmp_path / "partly")
    (tmp_path / "old").write_bytes(b"old")
    for name in ("a", "absent"):
        with pytest.raises((evener.DamagedError, FileNotFoundError)):
            fs.get_file(name, tmp_path / "old")
    assert (tmp_path / "old").read_bytes() == b"old"
    assert not list(tmp_path.glob("*part*"))


def test_urls(tmp_path: Path) -> None:
    KEY.save(tmp_path / "my.key")
    options: dict[str, Any] = {"keys": str(tmp_path / "my.key")}
    memory = MemoryFileSystem()
    memory.store.clear()
    for place in (f"file://{tmp_path}", "memory://lake"):
        with fsspec.open(f"evener::{place}/a", "wb", **options) as file:
            file.write(b"content")
        with fsspec.open(f"evener::{place}/a", **options) as file:
            assert file.read() == b"content"
        fs, path = fsspec.url_to_fs(f"evener::{place}", **options)
        assert fs.ls(path, detail=False) == [f"{path}/a"]
        assert fs.cat_file(f"evener::{place}/a") == b"content"
        assert len(fsspec.open_files(f"evener::{place}/*", **options)) == 1
    assert evener.open_bytes((tmp_path / "a.enc").read_bytes(), keys=KEY) == b"content"
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(tmp_path / "a.enc", "a.enc")
    with fsspec.open(f"evener::zip://a::file://{tmp_path}/all.zip", **options) as file:
        assert file.read() == b"content"
    rooted = evener.filesystem(f"file://{tmp_path}", keys=KEY)
    assert rooted.cat_file(f"evener::file://{tmp_path}/a") == b"content"
    assert rooted.cat_file("evener://a") == b"content"
    with pytest.raises(ValueError, match="is not below"):
        rooted.cat_file("file:///etc/passwd")
    with pytest.raises(ValueError, match="is not below"):
        rooted.cat_file("d/../../a")
    with pytest.raises(ValueError, match="name the file system"):
        fsspec.filesystem("evener", **options)
    with pytest.raises(ValueError, match="need `keys`"):
        fsspec.url_to_fs("evener::memory://")
    with pytest.raises(ValueError, match="length does not show"):
        evener.filesystem("memory://", keys=evener.KeyRing.age(passphrase="x"))


def test_no_secret_leaves_it(tmp_path: Path) -> None:
    secret = os.urandom(32)
    keys = evener.KeyRing.of_bytes(secret)
    keys.save(tmp_path / "my.key")
    text = (tmp_path / "my.key").read_text()
    fs = evener.filesystem("memory://", keys=keys)
    for refuse in (lambda: pickle.dumps(fs), fs.to_json, fs.to_dict):
        with pytest.raises(TypeError, match="make it with the path of a key file"):
            refuse()
    by_path = evener.filesystem("memory://", keys=tmp_path / "my.key")
    by_path.pipe_file("a", b"content")
    assert fs.cat_file("a") == b"content"
    shown = [repr(it) for it in (fs, fs.storage_options, fs.__dict__, fs._fs_token)]
    shown += [by_path.to_json(), repr(by_path.__dict__), repr(pickle.dumps(by_path))]
    for it in shown:
        for part in (secret.hex(), repr(secret)[2:-1], text.strip().splitlines()[-1]):
            assert part not in it
    assert json.loads(by_path.to_json())["keys"]
    for again in (pickle.loads(pickle.dumps(by_path)), fs.from_json(by_path.to_json())):
        assert again == by_path
        assert again.cat_file("a") == b"content"


class Guarded(MemoryFileSystem):  # type: ignore[misc]
    protocol = "guarded"
    cachable = False

    def __init__(self, password: str = "", **options: Any) -> None:
        super().__init__(password=password, **options)
        self.invalidated: list[str | None] = []

    def invalidate_cache(self, path: str | None = None) -> None:
        self.invalidated.append(path)


def test_passwords_of_the_other_file_system_can_be_left_out(tmp_path: Path) -> None:
    KEY.save(tmp_path / "my.key")
    fs = evener.filesystem(Guarded(password="hunter2"), keys=tmp_path / "my.key")
    assert "hunter2" in fs.to_json()
    assert "hunter2" not in fs.to_json(include_password=False)
    assert "hunter2" not in repr(fs.to_dict(include_password=False))
    options = {"password": "hunter2"}
    fs = EvenerFileSystem(
        keys=tmp_path / "my.key", target_protocol="memory", target_options=options
    )
    assert "hunter2" not in fs.to_json(include_password=False)


def test_the_cache_of_the_other_file_system_is_invalidated() -> None:
    inner = Guarded()
    fs = EvenerFileSystem(keys=KEY, fs=inner, root="/lake")
    fs.invalidate_cache()
    fs.invalidate_cache("deep/one")
    assert inner.invalidated == [None, "/lake/deep/one"]


def test_file_systems_with_different_keys_are_different() -> None:
    one = evener.filesystem("memory://", keys=KEY)
    other = evener.filesystem("memory://", keys=evener.generate())
    assert one is not other
    assert one != other
    assert hash(one) != hash(other)
    assert one == evener.filesystem("memory://", keys=KEY)
    one.pipe_file("a", b"")
    with pytest.raises(evener.DamagedError):
        other.cat_file("a")


def test_threads_share_a_file() -> None:
    store = Store()
    fs = evener.filesystem(store, keys=KEY)
    fs.pipe_file("a", CONTENT)
    opened = fs.open("a")
    wrong = []

    def read(offset: int) -> None:
        for at in range(offset, 250_000, 7919):
            if opened.raw.read_at(at, 40_000) != CONTENT[at : at + 40_000]:
                wrong.append(at)

    threads = [threading.Thread(target=read, args=(offset,)) for offset in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_sealed_tree(tmp_path: Path, photos: Path) -> None:
    KEY.save(tmp_path / "my.key")
    evener.encrypt(photos, tmp_path / "backup", keys=KEY, sealed=True)
    (photos / "one").write_bytes(b"another picture")
    evener.encrypt(photos, tmp_path / "backup", keys=KEY)
    options: dict[str, Any] = {"keys": tmp_path / "my.key", "sealed": True}
    fs = evener.filesystem(f"file://{tmp_path}/backup", **options)
    assert fs.ls("", detail=False) == ["deep", "one"]
    assert fs.find("") == ["deep/two", "one"]
    assert fs.du("") == 300_015
    assert fs.cat_file("one") == b"another picture"
    assert pickle.loads(pickle.dumps(fs)).cat_file("/deep/two", 299_990) == bytes(10)
    old = evener.filesystem(tmp_path / "backup", generation=1, **options)
    with old.open("one", "r") as text:
        assert text.read() == "not quite a picture"
    with pytest.raises(FileNotFoundError):
        fs.open("two")
    with pytest.raises(IsADirectoryError, match="deep"):
        fs.open("deep")
    changes: list[Callable[[], object]] = [
        lambda: fs.open("one", "wb"),
        lambda: fs.pipe_file("one", b""),
        lambda: fs.mkdir("three"),
        lambda: fs.rm("deep", recursive=True),
        lambda: fs.mv("one", "three"),
        lambda: fs.copy("one", "three"),
        lambda: fs.touch("one"),
    ]
    for change in changes:
        with pytest.raises(io.UnsupportedOperation, match="`evener.encrypt` updates"):
            change()
    (tmp_path / "empty").mkdir()
    with pytest.raises(evener.EvenerError):
        evener.filesystem(tmp_path / "empty", **options)
