"""The extension module. Use the package `evener`."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, Protocol, TypeAlias, final

import typing_extensions

from ._files import Path
from ._report import Report

class Array(Protocol):
    """An array of NumPy's, which is not typed as a buffer before Python 3.12."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

Buffer: TypeAlias = typing_extensions.Buffer | Array

@final
class KeyRing:
    """The keys of operations. No text of it shows a secret, and it can't be pickled."""

    @staticmethod
    def load(
        path: Path, *, passphrase: str | bytes | None = None, identities: Path | None = None
    ) -> KeyRing:
        """Reads a key file: a line of Evener's, a keyset of Tink, or either in age."""

    @staticmethod
    def generate(
        format: Literal["cobblestone-256", "cobblestone-128", "tink"] = "cobblestone-256",
    ) -> KeyRing:
        """Makes a key. Keep it with `save`."""

    @staticmethod
    def of_bytes(secret: bytes) -> KeyRing:
        """Takes a key of 16 or 32 bytes for Cobblestone, C2SP's chunked encryption."""

    @staticmethod
    def age(
        identity: Path | None = None,
        *,
        recipients: Sequence[str] | None = None,
        passphrase: str | bytes | None = None,
    ) -> KeyRing:
        """For age's own files, which the file of an identity or a passphrase opens.

        They are encrypted for the recipients, with the passphrase, or for the identity's own
        recipients.
        """

    def save(self, path: Path) -> None:
        """Writes a new key file, for its owner alone."""

    @property
    def format(self) -> str:
        """The name of the format, such as `cobblestone-256`."""

    def __reduce__(self) -> NoReturn: ...

def process(
    operation: str,
    source: Path,
    target: Path | None,
    keys: KeyRing,
    progress: Callable[..., object] | None,
    options: dict[str, Any],
    /,
) -> Report: ...
def list_place(path: Path, keys: KeyRing, options: dict[str, Any], /) -> list[str]: ...
def sealed_size(length: int, *, keys: KeyRing) -> int:
    """The number of bytes that sealing makes of so many; with age, the most that it makes."""

def seal_bytes(data: Buffer, *, keys: KeyRing, context: bytes | None = None) -> bytes:
    """Encrypts the content of a file in memory, on all cores."""

def open_bytes(sealed: Buffer, *, keys: KeyRing, context: bytes | None = None) -> bytes:
    """Decrypts the content of an encrypted file in memory, on all cores."""

def seal_into(data: Buffer, out: Buffer, *, keys: KeyRing, context: bytes | None = None) -> int:
    """As `seal_bytes`, into a buffer of at least `sealed_size` bytes. Returns the length.

    To make a new object takes longer than to encrypt. The buffers share no memory.
    """

def open_into(sealed: Buffer, out: Buffer, *, keys: KeyRing, context: bytes | None = None) -> int:
    """As `open_bytes`, into a buffer, for which the length of `sealed` is always enough.

    Returns the length. Nothing of a file that is not authentic is left in the buffer.
    """

@final
class Reader:
    @staticmethod
    def of_path(
        path: Path, member: Path | None, keys: KeyRing, options: dict[str, Any], /
    ) -> Reader: ...
    @staticmethod
    def of_file(file: object, keys: KeyRing, options: dict[str, Any], /) -> Reader: ...
    @property
    def size(self) -> int: ...
    def read_into(self, out: Buffer, offset: int, /) -> int: ...
    def read_at(self, offset: int, length: int, /) -> bytes: ...
    def cat_ranges(self, starts: Sequence[int], ends: Sequence[int], /) -> list[bytes]: ...

@final
class Aead:
    """A cipher with its key: `aes-128-gcm`, `aes-192-gcm`, `aes-256-gcm`, `chacha20-poly1305`.

    The methods `seal` and `open` draw random nonces, for at most 2^32 messages under a key, and a
    sealed message is its nonce of 12 bytes, the ciphertext, and the tag of 16. `encrypt` and
    `decrypt` are those of the classes in `cryptography.hazmat.primitives.ciphers.aead`.

    A message that is not authentic raises a `DamagedError`, and nothing of it is left anywhere.
    """

    def __new__(cls, cipher: str, secret: Buffer) -> Aead: ...
    @staticmethod
    def generate_key(cipher: str) -> bytes:
        """Makes a key for a cipher."""

    @property
    def overhead(self) -> int:
        """The bytes by which a sealed message is longer: 28."""

    def encrypt(self, nonce: Buffer, data: Buffer, associated_data: Buffer | None) -> bytes:
        """Encrypts under a nonce of the caller's, which no other message under this key has.

        Returns the ciphertext and the tag.
        """

    def decrypt(self, nonce: Buffer, data: Buffer, associated_data: Buffer | None) -> bytes:
        """Decrypts what `encrypt` has made."""

    def seal(self, data: Buffer, aad: Buffer | None = None) -> bytes:
        """Seals a message. `aad` is authenticated, and not part of the result."""

    def open(self, sealed: Buffer, aad: Buffer | None = None) -> bytes:
        """Opens a sealed message."""

    def seal_many(self, messages: Sequence[Buffer], aad: Buffer | None = None) -> list[bytes]:
        """Seals messages, with the same `aad`, on all cores."""

    def open_many(self, sealed: Sequence[Buffer], aad: Buffer | None = None) -> list[bytes]:
        """Opens sealed messages on all cores: all, or none."""

    def seal_many_into(
        self,
        data: Buffer,
        offsets: Sequence[int] | Buffer,
        out: Buffer,
        aad: Buffer | None = None,
    ) -> int:
        """Seals the messages in a buffer into another one, the fastest way for many.

        Message `i` is `data[offsets[i]:offsets[i + 1]]`, as in Arrow's arrays. The results lie one
        behind the other, so that result `i` begins at `offsets[i] - offsets[0] + i * overhead`.
        Offsets are a sequence, or an array of 64-bit numbers. Returns the length of all.
        """

    def open_many_into(
        self,
        sealed: Buffer,
        offsets: Sequence[int] | Buffer,
        out: Buffer,
        aad: Buffer | None = None,
    ) -> int:
        """Opens the messages in a buffer into another one, as `seal_many_into` has made them."""

    def __reduce__(self) -> NoReturn: ...

@final
class Incremental:
    def __new__(cls, encrypts: bool, keys: KeyRing, context: bytes) -> Incremental: ...
    def update(self, data: Buffer, /) -> bytes: ...
    def update_into(self, data: Buffer, out: Buffer, /) -> int: ...
    def finalize(self) -> bytes: ...
