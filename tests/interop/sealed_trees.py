"""Writes sealed trees as docs/design/formats.md describes them, and others that no reader takes."""

import hashlib
import hmac
import os
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM


class Tree:
    """A sealed tree below `place`, all of whose files aim at generation 1."""

    def __init__(self, place: Path, key: bytes) -> None:
        self.place, self.key, self.id = place, key, os.urandom(16)
        (place / "tree").mkdir(parents=True)
        (place / "evener-tree-v1").write_text(f"evener-tree-v1 {self.id.hex()}\n")
        self.commitment = self.subkey("id")
        self.before: bytes | None = None

    def subkey(self, purpose: str) -> bytes:
        info = f"evener/v1/{purpose}\0".encode() + self.id
        return hmac.digest(self.key, info + b"\1", "sha256")

    def seal(self, purpose: str, plain: bytes, generation: int = 1) -> bytes:
        salt = os.urandom(24)
        context = purpose.encode().ljust(8, b"\0") + self.id + generation.to_bytes(8, "big")
        info = b"c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\0" + salt + context
        first = hmac.digest(self.subkey(purpose), info + b"\1", "sha512")
        output = first + hmac.digest(self.subkey(purpose), first + info + b"\2", "sha512")
        sealed, base = salt + output[44:76], int.from_bytes(output[32:44], "big")
        for number in range(len(plain) // 16_384 + 1):
            chunk = plain[number * 16_384 : (number + 1) * 16_384]
            nonce = (base ^ number).to_bytes(12, "big")
            sealed += AESGCM(output[:32]).encrypt(nonce, chunk, None)
        return sealed

    def store(self, sealed: bytes) -> bytes:
        name = os.urandom(17)
        file = self.place / "data" / name[:1].hex() / name[1:].hex()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(sealed)
        return name

    def file(self, name: bytes, content: bytes, padding: int = 0) -> list:
        sealed = self.seal("data", content + bytes(padding))
        place = [len(content), self.store(sealed), 0, len(sealed)]
        return [*common(name, 0), *place, sealed[24:56], sealed[-16:], 0, 1]

    def reference(self, purpose: str, first: list, items: list) -> list:
        plain = b"".join(map(encode, [[self.commitment], *items, None]))
        sealed = self.seal(purpose, plain + bytes(100))
        return [*first, self.store(sealed), len(sealed), hashlib.sha256(sealed).digest(), 0, 1]

    def block(self, *items: bytes | list) -> list:
        """A block of directories, each before its entries, and the reference to it."""
        return self.reference("block", [items[0], items[1][0]], list(items))

    def root(self, number: int, *blocks: list, **changes: object) -> None:
        """A generation with a node for each block."""
        policy = hashlib.sha256(encode([[], []])).digest()
        claim = encode([self.commitment[:16], number, self.before, [], 0, None, [], policy])
        body = {
            "version": 1, "features": [], "tree": self.id, "claim": hashlib.sha256(claim).digest(),
            "time": 0, "keys": [self.commitment], "signers": [], "revoked": [], "border": bytes(16),
            "pad": None, "entries": 0, "bytes": 0,
            "nodes": [self.reference("node", block[:2], [block]) for block in blocks],
        }  # fmt: skip
        plain = encode([encode(body | changes), []])
        file = b"evener-root-v1\n" + encode([claim, None, None]) + self.seal("root", plain, number)
        (self.place / "tree" / f"{number:019}").write_bytes(file)
        self.before = hashlib.sha256(file).digest()


def common(name: bytes, kind: int) -> list:
    """The fields that every entry has; owner and attributes are null."""
    return [name, kind, 0o755 if kind == 1 else 0o644, 1_700_000_000, 0, None, None]


ROOT = common(b"", 1)


def encode(value: object) -> bytes:
    """CBOR."""
    match value:
        case None:
            return b"\xf6"
        case int():
            return head(0, value) if value >= 0 else head(1, ~value)
        case bytes():
            return head(2, len(value)) + value
        case str():
            return head(3, len(value.encode())) + value.encode()
        case list():
            return head(4, len(value)) + b"".join(map(encode, value))
        case dict():
            parts = (encode(part) for pair in value.items() for part in pair)
            return head(5, len(value)) + b"".join(parts)
    raise TypeError(value)


def head(kind: int, number: int) -> bytes:
    if number < 24:
        return bytes([kind << 5 | number])
    size = next(size for size in (1, 2, 4, 8) if number < 1 << 8 * size)
    return bytes([kind << 5 | 23 + size.bit_length()]) + number.to_bytes(size, "big")
