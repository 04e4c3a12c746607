"""Compares with pyca: python bindings/python/examples/cost.py [ROUNDS]

Each round runs both in turn. Prints the median of the ratio theirs / ours, for wall time and for
CPU time over all threads.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from cryptography import cobblestone
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import evener

SECRET = bytes(range(32))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    for length in (1 << 20, 64 << 20):
        compare(f"seal_into, {length >> 20} MiB", rounds, *whole(length))
    messages = [os.urandom(1024)] * 10_000
    theirs, listed, joined = many(messages)
    compare("seal_many, 10,000 of 1 KiB", rounds, theirs, listed)
    compare("seal_many_into, the same", rounds, theirs, joined)


def whole(length: int) -> tuple[Callable[[], object], Callable[[], object]]:
    key = evener.KeyRing.of_bytes(SECRET)
    data, out = os.urandom(length), bytearray(length + length // 512 + 1000)

    def theirs() -> None:
        encryptor = cobblestone.Cobblestone256Encryptor(SECRET, b"")
        encryptor.update_into(data, out)
        encryptor.finalize()

    return theirs, lambda: evener.seal_into(data, out, keys=key)


def many(
    messages: list[bytes],
) -> tuple[Callable[[], object], Callable[[], object], Callable[[], object]]:
    aead, pyca = evener.Aead("aes-256-gcm", SECRET), AESGCM(SECRET)
    data = b"".join(messages)
    offsets = np.arange(len(messages) + 1, dtype=np.int64) * len(messages[0])
    out = bytearray(len(data) + aead.overhead * len(messages))

    def theirs() -> None:
        for message in messages:
            nonce = os.urandom(12)
            nonce + pyca.encrypt(nonce, message, None)

    return (
        theirs,
        lambda: aead.seal_many(messages),
        lambda: aead.seal_many_into(data, offsets, out),
    )


def compare(
    name: str, rounds: int, theirs: Callable[[], object], ours: Callable[[], object]
) -> None:
    pairs = [(spent(theirs), spent(ours)) for _ in range(rounds + 1)][1:]
    wall, cpu = (statistics.median(a[i] / b[i] for a, b in pairs) for i in (0, 1))
    best = min(b[0] for _, b in pairs)
    print(f"{name:28} wall {wall:5.2f} x, CPU {cpu:5.2f} x, ours at best {best * 1e3:8.3f} ms")


def spent(call: Callable[[], object]) -> tuple[float, float]:
    begun = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - begun[0], time.process_time() - begun[1]


if __name__ == "__main__":
    main()
