"""Cobblestone-256 and -128 against the Python package `cryptography`."""

import base64

from evener import Evener, Skipped, around

try:
    from cryptography import cobblestone
except ImportError as error:
    cobblestone, missing = None, error

CHUNK = 16_384
# 16 chunks are a segment of evener's.
SIZES = [0, 1, 100, *around(CHUNK, 2 * CHUNK, 16 * CHUNK, 32 * CHUNK), 1_000_003]


def cobblestone_256(evener: Evener) -> str:
    return check(evener, "256", [])


def cobblestone_128(evener: Evener) -> str:
    return check(evener, "128", [])


def with_a_context(evener: Evener) -> str:
    done = check(evener, "256", ["--context", "backups of höst 7"])
    check(evener, "128", ["--context", "x" * 1000])
    # The context is part of the key.
    evener("verify", "-k", evener.home / "key", "--context", "other", evener.home / "ours", status=2)
    return done


CHECKS = [cobblestone_256, cobblestone_128, with_a_context]


def check(evener: Evener, bits: str, options: list[str]) -> str:
    if cobblestone is None:
        raise Skipped(f"no Python package cryptography with Cobblestone: {missing}")
    line = evener("keygen", "--format", f"cobblestone-{bits}").strip()
    keyfile = evener.write("key", line + b"\n")
    text = line.rpartition(b":")[2]
    key = base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    context = options[1].encode() if options else b""

    def run(role: str, data: bytes) -> bytes:
        peer = getattr(cobblestone, f"Cobblestone{bits}{role}")(key, context)
        return peer.update(data) + peer.finalize()

    return evener.there_and_back(
        SIZES,
        ["-k", keyfile, *options],
        seal=lambda plain: run("Encryptor", plain),
        unseal=lambda sealed: run("Decryptor", sealed),
    )
