"""PyTorch's checkpoints. tests/nightly/python-torch runs this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import evener

torch = pytest.importorskip("torch")


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    evener.generate().save(tmp_path / "my.key")
    return {"keys": str(tmp_path / "my.key")}


def test_save_and_load(tmp_path: Path, options: dict[str, Any]) -> None:
    fs = evener.filesystem(tmp_path, **options)
    model = {"weights": torch.arange(1 << 20).reshape(1024, 1024), "step": 7}
    with fs.open("model.pt", "wb") as file:
        torch.save(model, file)
    with fs.open("model.pt") as file:
        loaded = torch.load(file, weights_only=True)
    assert loaded["step"] == 7
    assert torch.equal(loaded["weights"], model["weights"])
    with (tmp_path / "model.pt.enc").open("r+b") as file:
        file.truncate(4 << 20)
    with pytest.raises(evener.DamagedError), fs.open("model.pt") as file:
        torch.load(file, weights_only=True)


@pytest.mark.parametrize("place", ["file", "memory"])
def test_distributed_checkpoint(tmp_path: Path, options: dict[str, Any], place: str) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.fsspec_filesystem import FsspecReader, FsspecWriter

    url = {"file": f"evener::file://{tmp_path}/step-7", "memory": "evener::memory://step-7"}[place]
    state = {f"layer{number}": torch.rand(500, 500) for number in range(4)}
    dcp.save(state, storage_writer=FsspecWriter(url, **options), no_dist=True)
    if place == "file":
        names = [path.name for path in (tmp_path / "step-7").iterdir()]
        assert ".metadata.enc" in names
        assert all(name.endswith(".enc") for name in names)
    loaded = {name: torch.zeros(500, 500) for name in state}
    dcp.load(loaded, storage_reader=FsspecReader(url, **options), no_dist=True)
    assert all(torch.equal(loaded[name], state[name]) for name in state)
