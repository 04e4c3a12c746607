"""Runs the examples in the documents."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import evener

ROOT = Path(__file__).parents[3]
DOCUMENTS = ["bindings/python/README.md", "docs/guide/python.md"]
EXAMPLES = [
    block
    for document in DOCUMENTS
    for block in re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)
    # tests/check-ray has the cluster for these.
    if "evener.ray" not in block
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(b"not quite a picture")
    (tmp_path / "photos" / "model.bin").write_bytes(bytes(5000))
    return tmp_path


@pytest.mark.parametrize("example", EXAMPLES)
def test_it_runs(example: str, place: Path) -> None:
    if "generate()" not in example:
        evener.generate().save("my.key")
    exec(example, {"__name__": "example"})
    if "restored" in example:
        assert (place / "restored/one.jpg").read_bytes() == b"not quite a picture"


@pytest.mark.parametrize("example", [it for it in EXAMPLES if "evener.verify(" in it])
def test_it_stops_at_a_changed_file(example: str, place: Path) -> None:
    if "generate()" not in example:
        evener.generate().save("my.key")

    def change() -> None:
        for file in [*place.glob("backup/*.enc"), *place.glob("backup/data/*/*")]:
            changed = file.read_bytes()
            file.write_bytes(changed[:-1] + bytes([changed[-1] ^ 1]))

    with pytest.raises(evener.EvenerError, match="changed"):
        exec(example.replace("evener.verify(", "change()\nevener.verify("), {"change": change})
    assert not (place / "restored").exists()


def test_the_program() -> None:
    command = [sys.executable, "-m", "evener", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "neither in this package nor in PATH" in done.stderr:
        pytest.skip("there is no program evener")
    assert done.stdout.startswith("evener ")
