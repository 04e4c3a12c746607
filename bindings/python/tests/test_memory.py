from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

import evener

KEY = evener.generate()
AEAD = evener.Aead("aes-256-gcm", evener.Aead.generate_key("aes-256-gcm"))
SEALED = evener.seal_bytes(bytes(100_000), keys=KEY)
ROUNDS = 1000


def open_and_close(file: Path) -> None:
    with evener.open(file, keys=KEY) as opened:
        opened.read(1)


def seal_and_open(_: Path) -> None:
    evener.open_bytes(evener.seal_bytes(b"x" * 1000, keys=KEY), keys=KEY)


def seal_many(_: Path) -> None:
    AEAD.open_many(AEAD.seal_many([b"x" * 100] * 3))


WORKS = {work.__name__: work for work in (open_and_close, seal_and_open, seal_many)}


@pytest.mark.parametrize("work", WORKS)
def test_memory_stays_flat(work: str, tmp_path: Path) -> None:
    # A process of its own has none of the memory that other tests have freed or still use.
    command = [sys.executable, __file__, work, str(tmp_path / "file.enc")]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    readings = [tuple(map(int, line.split())) for line in output.splitlines()]
    descriptors = [reading[0] for reading in readings]
    assert descriptors == descriptors[:1] * 10
    # The least of three readings leaves out what is in use only at times. Seven readings part the
    # two, so a leak of 225 bytes a round is too much.
    kibibytes = [reading[1] for reading in readings]
    assert min(kibibytes[-3:]) < min(kibibytes[:3]) + 1536, kibibytes


def used() -> tuple[int, int]:
    """The number of this process's descriptors, and the size of its memory in KiB."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return len(list(Path("/proc/self/fd").iterdir())), int(status.split("VmRSS:")[1].split()[0])


def main(name: str, path: str) -> None:
    """Prints ten readings of `used`, each after so many rounds of the work."""
    file = Path(path)
    file.write_bytes(SEALED)
    for _ in range(10):
        for _ in range(ROUNDS):
            WORKS[name](file)
        print(*used())


if __name__ == "__main__":
    main(*sys.argv[1:])
