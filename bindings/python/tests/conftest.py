from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import evener

if TYPE_CHECKING:
    from evener.fsspec import EvenerFileSystem

# No test depends on time.
settings.register_profile("evener", deadline=None, max_examples=25)
settings.load_profile("evener")


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def key() -> evener.KeyRing:
    return evener.generate()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    tree = tmp_path / "photos"
    (tree / "deep").mkdir(parents=True)
    (tree / "one").write_bytes(b"not quite a picture")
    (tree / "deep" / "two").write_bytes(bytes(300_000))
    return tree


@pytest.fixture(params=["local", "memory", "store"])
def fs(request: pytest.FixtureRequest, tmp_path: Path) -> EvenerFileSystem:
    """A file system on each kind of other one, with a root."""
    from fsspec.implementations.memory import MemoryFileSystem
    from stores import KEY, Store

    from evener.fsspec import EvenerFileSystem

    if request.param == "local":
        return evener.filesystem(tmp_path / "lake", keys=KEY, auto_mkdir=True)
    inner = Store() if request.param == "store" else MemoryFileSystem()
    if request.param == "memory":
        inner.store, inner.pseudo_dirs = {}, [""]
    return EvenerFileSystem(keys=KEY, fs=inner, root=inner._strip_protocol("/lake"))
