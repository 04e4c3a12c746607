from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

import evener
from evener.safetensors import MalformedError, load, load_numpy, save

KEY = evener.generate()
TYPES = "bool u1 i1 u2 i2 f2 u4 i4 f4 u8 i8 f8 c8"


def tensors() -> dict[str, Any]:
    random = np.random.default_rng(1)
    made: dict[str, Any] = {
        kind: random.integers(0, 2, (3, 5)).astype(kind) for kind in TYPES.split()
    }
    made["long"] = random.standard_normal((700, 1001))
    made["turned"] = np.asfortranarray(made["long"][:50, ::3])
    made["none"] = np.zeros((0, 7), np.float32)
    made["scalar"] = np.array(7, np.int32)
    return made


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    def alike(a: Any, b: Any) -> bool:
        return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())

    return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)


def test_it_reads_and_writes_what_safetensors_does(tmp_path: Path) -> None:
    plain, sealed, opened = tmp_path / "plain", tmp_path / "plain.enc", tmp_path / "opened"
    made = tensors()
    # It stores other orders as if they were C's.
    contiguous = {name: np.array(array, order="C") for name, array in made.items()}
    safetensors.numpy.save_file(contiguous, plain, {"made": "here"})
    evener.encrypt(plain, tmp_path, keys=KEY)
    assert same(load_numpy(sealed, keys=KEY), made)

    save(made, tmp_path / "ours.enc", keys=KEY, metadata={"made": "here"})
    evener.decrypt(tmp_path / "ours.enc", opened, keys=KEY)
    assert same(safetensors.numpy.load_file(opened), made)
    with safetensors.safe_open(opened, "numpy") as file:
        assert file.metadata() == {"made": "here"}

    with pytest.raises(evener.ExistsError):
        save({}, sealed, keys=KEY)
    save({}, sealed, keys=KEY, overwrite=True)
    assert load_numpy(sealed, keys=KEY) == {}
    with pytest.raises(evener.MissingError):
        load_numpy(tmp_path / "absent", keys=KEY)


def test_each_tensor_has_memory_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "file.enc"
    save(tensors(), path, keys=KEY)
    for array in load_numpy(path, keys=KEY).values():
        owner = array
        while owner.base is not None:
            owner = owner.base
        assert owner.nbytes == array.nbytes
        assert array.flags.writeable
        assert array.flags.aligned


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.enc"
    save(tensors(), path, keys=KEY)
    whole = path.read_bytes()
    for at in (100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(evener.DamagedError):
            load_numpy(path, keys=KEY)


def entry(dtype: object = "U8", shape: object = (4,), offsets: object = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    "header",
    [
        {"a": entry(), "b": entry()},
        {"a": entry(offsets=(0, 3), shape=(3,))},
        {"a": entry(offsets=(1, 4), shape=(3,))},
        {"a": entry(offsets=(0, 5), shape=(5,))},
        {"a": entry(offsets=(4, 0))},
        {"a": entry(offsets=(0, 4, 4))},
        {"a": entry(offsets=(-4, 4), shape=(8,))},
        {"a": entry(offsets=(0, 4.0))},
        {"a": entry(offsets=(False, 4))},
        {"a": entry(shape=(2,))},
        {"a": entry(shape=(-2, -2))},
        {"a": entry(shape=(1 << 62, 4))},
        {"a": entry(shape="4")},
        {"a": entry(dtype="U9")},
        {"a": entry(dtype=["U8"])},
        {"a": entry(dtype="F32", shape=(4,))},
        {"a": entry(), "__metadata__": {"a": 1}},
        {"a": entry(), "__metadata__": "a"},
        {"a": {"shape": (4,), "data_offsets": (0, 4)}},
        {"a": entry(shape=5)},
        {"a": entry(shape=(1,) * 65 + (4,))},
        {"a": entry(shape=(1 << 62, 1 << 62, 0), offsets=(0, 0)), "b": entry()},
        {"\ud800": entry()},
        {"a": entry(), "__metadata__": []},
        {"a": {}},
        {"a": []},
        {},
    ],
)
def test_a_header_that_is_none(header: dict[str, Any], tmp_path: Path) -> None:
    text = json.dumps(header).encode()
    assert not reads(len(text).to_bytes(8, "little") + text + b"data", tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\2\0\0\0\0\0\0",
        b"\3\0\0\0\0\0\0\0{}",
        b"\xff\xff\xff\xff\xff\xff\xff\xff{}",
        b"\2\0\0\0\0\0\0\0[]",
        b"\2\0\0\0\0\0\0\0\xff}",
        b"\3\0\0\0\0\0\0\0 {}",
        b"\0\0\0\0\0\0\0\0",
        b"\x1b\0\0\0\0\0\0\0" + b'{"a":{"a":1,"a":1},"a":{}}}',
    ],
)
def test_content_that_is_none(content: bytes, tmp_path: Path) -> None:
    assert not reads(content, tmp_path)


@given(data=st.data())
def test_no_header_does_harm(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    text = bytearray(json.dumps({"a": entry(), "b": entry(offsets=[4, 8])}).encode())
    at = data.draw(st.integers(0, len(text) - 1))
    text[at : at + 1] = data.draw(st.binary(max_size=3))
    content = len(text).to_bytes(8, "little") + bytes(text) + bytes(8)
    reads(content, tmp_path_factory.mktemp("header"))


def reads(content: bytes, place: Path) -> bool:
    path = place / "file.enc"
    path.write_bytes(evener.seal_bytes(content, keys=KEY))
    try:
        load_numpy(path, keys=KEY)
    except MalformedError as error:
        malformed = error
    else:
        return True
    assert malformed.path == str(path)
    assert str(malformed).startswith(f"{path}: ")
    assert "_tensor" not in str(malformed)
    return False


def test_headers_with_more_than_is_needed(tmp_path: Path) -> None:
    for header in ({"a": {**entry(), "more": 1}}, {"a": entry(), "__metadata__": None}):
        text = json.dumps(header).encode()
        content = len(text).to_bytes(8, "little") + text + b"data"
        assert list(safetensors.numpy.load(content)) == ["a"]
        assert reads(content, tmp_path)


def test_a_type_that_numpy_lacks(tmp_path: Path) -> None:
    text = json.dumps({"a": entry("BF16", (2,))}).encode()
    content = len(text).to_bytes(8, "little") + text + b"data"
    (tmp_path / "file.enc").write_bytes(evener.seal_bytes(content, keys=KEY))
    try:
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        with pytest.raises(MalformedError, match="BF16 of the tensor 'a'; install ml_dtypes"):
            load_numpy(tmp_path / "file.enc", keys=KEY)
    else:
        assert load_numpy(tmp_path / "file.enc", keys=KEY)["a"].shape == (2,)


def test_tensors_that_are_not_saved(tmp_path: Path) -> None:
    for wrong in (
        {"__metadata__": np.zeros(1)},
        {"a": np.zeros(1, ">f4")},
        {"a": np.zeros(1, "c16")},
        {"a": np.zeros(1, "U1")},
        {"a": np.array([None])},
    ):
        with pytest.raises(ValueError, match="'a'|__metadata__"):
            save(wrong, tmp_path / "file.enc", keys=KEY)
    for no_tensor in ({"a": [1, 2]}, {1: np.zeros(1)}):
        with pytest.raises(TypeError, match="tensor"):
            save(no_tensor, tmp_path / "file.enc", keys=KEY)  # type: ignore[arg-type]
    with pytest.raises(evener.EvenerError, match="absent") as raised:
        save({}, tmp_path / "absent" / "file.enc", keys=KEY)
    assert raised.value.path == str(tmp_path / "absent" / "file.enc")
    assert not list(tmp_path.iterdir())


def test_tensors_of_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    made = {
        "brain": torch.randn(30, 1000).to(torch.bfloat16),
        "turned": torch.randn(30, 40).T,
        "one": torch.tensor(7),
        "none": torch.zeros(0, 3),
    }
    save(made, tmp_path / "file.enc", keys=KEY)
    loaded = load(tmp_path / "file.enc", keys=KEY)
    assert loaded.keys() == made.keys()
    for name, tensor in made.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor)
    assert load(tmp_path / "file.enc", keys=KEY, device="meta")["one"].is_meta
