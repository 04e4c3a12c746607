from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest

import evener

KEY = evener.generate()
AEAD = evener.Aead("aes-256-gcm", evener.Aead.generate_key("aes-256-gcm"))
SEALED = evener.seal_bytes(bytes(100_000), keys=KEY)


def open_and_close(file: Path) -> None:
    with evener.open(file, keys=KEY) as opened:
        opened.read(1)


def seal_and_open(_: Path) -> None:
    evener.open_bytes(evener.seal_bytes(b"x" * 1000, keys=KEY), keys=KEY)


def seal_many(_: Path) -> None:
    AEAD.open_many(AEAD.seal_many([b"x" * 100] * 3))


@pytest.mark.parametrize("work", [open_and_close, seal_and_open, seal_many])
def test_memory_stays_flat(work: Callable[[Path], None], tmp_path: Path) -> None:
    file = tmp_path / "file.enc"
    file.write_bytes(SEALED)
    for _ in range(1000):
        work(file)
    descriptors, kibibytes = used()
    for _ in range(10_000):
        work(file)
    assert used()[0] == descriptors
    assert used()[1] < kibibytes + 2048


def used() -> tuple[int, int]:
    """The number of this process's descriptors, and the size of its memory in KiB."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return len(list(Path("/proc/self/fd").iterdir())), int(status.split("VmRSS:")[1].split()[0])
