from __future__ import annotations

import base64
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import evener
from evener import safetensors, tink


def test_mistakes_of_the_caller(tmp_path: Path, photos: Path, key: evener.KeyRing) -> None:
    target = tmp_path / "sealed"
    with pytest.raises(TypeError, match="unexpected keyword argument 'exlude'"):
        evener.encrypt(photos, target, keys=key, exlude=["*"])  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        evener.encrypt(photos, target, keys="key")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        evener.encrypt(7, target, keys=key)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="null byte"):
        evener.encrypt("a\0b", target, keys=key)
    with pytest.raises(FileNotFoundError):
        evener.encrypt(tmp_path / "absent", target, keys=key)
    with pytest.raises(ValueError, match="remove"):
        evener.encrypt(photos, target, keys=key, remove_source=True, existing="update")
    assert not target.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("include", 7),
        ("exclude", "*.tmp"),
        ("engines", "cpu"),
        ("context", "x"),
        ("workers", "2"),
        ("durable", "yes"),
        ("suffix", 1),
        ("signers", b"x"),
    ],
)
def test_options_of_a_wrong_type(
    name: str, value: object, tmp_path: Path, photos: Path, key: evener.KeyRing
) -> None:
    with pytest.raises(TypeError, match=f"{name} must be"):
        evener.encrypt(photos, tmp_path / "x", keys=key, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("include", ["[z"]),
        ("engines", ["foo"]),
        ("existing", "?"),
        ("workers", 0),
        ("workers", -1),
        ("memory", 1),
        ("memory", 1 << 70),
        ("max_cpu", 101),
        ("max_cpu", 500),
        ("generation", -1),
        ("padding", -1),
        ("suffix", ""),
        ("state", "a\0b"),
    ],
)
def test_options_of_a_wrong_value(
    name: str, value: object, tmp_path: Path, photos: Path, key: evener.KeyRing
) -> None:
    what = {"include": "glob", "engines": "foo"}.get(name, name)
    with pytest.raises(ValueError, match=what):
        evener.encrypt(photos, tmp_path / "x", keys=key, **{name: value})  # type: ignore[arg-type]


def test_numbers_that_are_out_of_range(key: evener.KeyRing) -> None:
    opened = evener.open(io.BytesIO(evener.seal_bytes(bytes(100), keys=key)), keys=key)
    aead = evener.Aead("aes-256-gcm", bytes(32))
    calls: list[Callable[[], object]] = [
        lambda: evener.sealed_size(-1, keys=key),
        lambda: evener.sealed_size(1 << 70, keys=key),
        lambda: opened.read_at(-1, 5),
        lambda: opened.read_at(0, 1 << 70),
        lambda: opened.cat_ranges([-3], [3]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="an offset or a length must be a number from 0"):
            call()
    with pytest.raises(ValueError, match="too long"):
        evener.sealed_size(1 << 63, keys=key)
    with pytest.raises(ValueError, match="offsets must be"):
        aead.seal_many_into(b"", [1 << 70], bytearray(100))


def test_arguments_of_a_wrong_type(key: evener.KeyRing) -> None:
    with pytest.raises(TypeError, match="recipients must be a sequence of str"):
        evener.age(recipients="age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj")
    with pytest.raises(TypeError, match="keys must be a KeyRing"):
        tink.StreamingAead("x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bytes-like"):
        tink.StreamingAead(evener.generate("tink")).new_encrypting_stream(
            io.BytesIO(),
            "x",  # type: ignore[arg-type]
        )
    with pytest.raises(TypeError, match="file must be a path"):
        evener.open(7, keys=key)  # type: ignore[arg-type]


def test_urls(tmp_path: Path, photos: Path, key: evener.KeyRing) -> None:
    for url in ("s3://bucket/backup", b"memory://x", "evener::file:///x"):
        calls: list[Callable[[], object]] = [
            partial(evener.encrypt, photos, url, keys=key),
            partial(evener.decrypt, url, tmp_path, keys=key),
            partial(evener.verify, url, keys=key),
            partial(evener.list, url, keys=key),
            partial(evener.open, url, keys=key),
            partial(safetensors.save, {}, url, keys=key),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="`evener.filesystem` does"):
                call()


def test_keys_that_are_given_as_paths_are_not_shown(tmp_path: Path) -> None:
    raw = bytes(range(200, 232))
    texts = [raw.hex(), base64.b64encode(raw).decode(), base64.b64encode(raw[:16]).decode()]
    texts += ["0123456789abcdefSECRETSECRETXXXX", '{"key":[{"value":"SECRET.SECRET/SECRET=="}]}']
    texts.append(f"evener-key:v1:cobblestone-256:{texts[1]}")
    secrets: list[str | bytes] = [raw, raw[:16], *texts]
    for secret in secrets:
        calls: list[Callable[[], object]] = [
            partial(evener.KeyRing.load, secret),
            partial(evener.filesystem, "memory://", keys=secret),
            partial(evener.age, secret),
        ]
        for call in calls:
            with pytest.raises(evener.KeyError, match="it may be a key itself") as raised:
                call()
            assert raised.value.path is None
            assert str(raised.value).isascii()
            assert "SECRET" not in str(raised.value)
    for path in ("absent", "the key of 2026.key", tmp_path / "the absent key of production"):
        with pytest.raises(evener.KeyError, match=f"`{path}`") as raised:
            evener.KeyRing.load(path)
        assert raised.value.path == str(path)
