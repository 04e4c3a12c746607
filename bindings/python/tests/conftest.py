from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

import evener

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
