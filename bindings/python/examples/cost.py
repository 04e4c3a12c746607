"""Measures Evener against its goals: python bindings/python/examples/cost.py [ROUNDS]

Each round runs a rival (pyca, the same call in Rust, the program) and Evener in turn. A figure is
the median over the rounds of the rival's time divided by Evener's; another is that of their CPU
times. Build the rivals in Rust first:

    cargo build --release -p evener-cli
    cargo build --release -p evener --example one_message
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cryptography
import numpy as np
from cryptography import cobblestone
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import evener
from evener import encrypt

SECRET = bytes(range(32))
RELEASE = Path(__file__).resolve().parents[3] / "target" / "release"

Call = Callable[[], object]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    print(f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"Python {platform.python_version()}, cryptography {cryptography.__version__}")
    evener.seal_bytes(b"", keys=evener.generate())  # finds the engines, on all cores
    with one_core():
        compare("seal_into, 1 MiB, one core", 1.2, 20 * rounds, *whole(1 << 20))
    compare("seal_into, 1 MiB", None, 20 * rounds, *whole(1 << 20))
    compare("seal_into, 64 MiB", 1.7, rounds, *whole(64 << 20))
    theirs, listed, joined = many([os.urandom(1024) for _ in range(10_000)])
    compare("seal_many, 10,000 of 1 KiB", 2.5, rounds, theirs, listed)
    compare("seal_many_into, the same", 8, rounds, theirs, joined)
    call()
    tree(max(rounds // 3, 3))


def whole(length: int) -> tuple[Call, Call]:
    key = evener.KeyRing.of_bytes(SECRET)
    data, out = os.urandom(length), bytearray(length + length // 512 + 1000)

    def theirs() -> None:
        encryptor = cobblestone.Cobblestone256Encryptor(SECRET, b"")
        encryptor.update_into(data, out)
        encryptor.finalize()

    return theirs, lambda: evener.seal_into(data, out, keys=key)


def many(messages: list[bytes]) -> tuple[Call, Call, Call]:
    aead, pyca = evener.Aead("aes-256-gcm", SECRET), AESGCM(SECRET)
    data = b"".join(messages)
    offsets = np.arange(len(messages) + 1, dtype=np.int64) * len(messages[0])
    out = bytearray(len(data) + aead.overhead * len(messages))

    def theirs() -> list[bytes]:
        sealed = []
        for message in messages:
            nonce = os.urandom(12)
            sealed.append(nonce + pyca.encrypt(nonce, message, None))
        return sealed

    return (
        theirs,
        lambda: aead.seal_many(messages),
        lambda: aead.seal_many_into(data, offsets, out),
    )


def call() -> None:
    """One call of `Aead.seal` against the same in Rust."""
    seal, message = evener.Aead("aes-256-gcm", SECRET).seal, bytes(16)

    def calls() -> None:
        for _ in range(1000):
            seal(message)

    ours = min(spent(calls)[0] for _ in range(200)) / 1000 * 1e9
    rust = RELEASE / "examples" / "one_message"
    if not rust.exists():
        print(f"Aead.seal, 16 bytes: {ours:.0f} ns; not compared: {rust} is not built")
        return
    theirs = float(subprocess.check_output([rust]))
    print(
        f"Aead.seal, 16 bytes: {ours:.0f} ns, in Rust {theirs:.0f} ns: "
        f"{verdict('at most 1,000 more', ours <= theirs + 1000)}"
    )


def tree(rounds: int) -> None:
    """`evener.encrypt` of a tree against the program."""
    program = RELEASE / "evener"
    if not program.exists():
        print(f"encrypt is not measured: {program} is not built")
        return
    with tempfile.TemporaryDirectory() as home:
        source, key = Path(home, "source"), evener.generate()
        source.mkdir()
        for number in range(4000):
            (source / str(number)).write_bytes(os.urandom(16 << 10))
        key.save(Path(home, "key"))
        targets = iter(Path(home, f"target-{number}") for number in range(10_000))
        command: list[str | Path] = [program, "encrypt", "-q", "-k", Path(home, "key"), source]

        def theirs() -> None:
            subprocess.run([*command, next(targets)], check=True)

        def ours() -> None:
            encrypt(source, next(targets), keys=key)

        compare("encrypt, 4,000 of 16 KiB", 1 / 1.05, rounds, theirs, ours)


def compare(name: str, goal: float | None, rounds: int, theirs: Call, ours: Call) -> None:
    pairs = [(spent(theirs), spent(ours)) for _ in range(rounds + 1)][1:]
    wall, cpu = (statistics.median(a[i] / b[i] for a, b in pairs) for i in (0, 1))
    them, us = (statistics.median(pair[i][0] for pair in pairs) * 1e3 for i in (0, 1))
    against = "" if goal is None else ": " + verdict(f"at least {goal:.2f}", wall >= goal)
    print(f"{name}: {wall:.2f} x ({them:.3f} / {us:.3f} ms), CPU {cpu:.2f} x{against}")


def verdict(goal: str, is_met: bool) -> str:
    return f"{'meets' if is_met else 'MISSES'} the goal of {goal}"


def spent(call: Call) -> tuple[float, float]:
    begun = time.perf_counter(), cpu_time()
    call()
    return time.perf_counter() - begun[0], cpu_time() - begun[1]


def cpu_time() -> float:
    """That of this process and of its children, in seconds."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    yield
    os.sched_setaffinity(0, cores)


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    main()
