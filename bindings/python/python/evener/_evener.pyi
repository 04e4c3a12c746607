"""The extension module. Use the package `evener`."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, Protocol, TypeAlias, final

import typing_extensions

from ._files import Path
from ._report import Report

class Array(Protocol):
    """A NumPy array, which is not typed as a buffer before Python 3.12."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

Buffer: TypeAlias = typing_extensions.Buffer | Array

@final
class KeyRing:
    """The keys of operations. It never prints a secret, and can't be pickled."""

    @staticmethod
    def load(
        path: Path, *, passphrase: str | bytes | None = None, identities: Path | None = None
    ) -> KeyRing:
        """Reads a key file: Evener's, a Tink keyset, or either of them wrapped in age."""

    @staticmethod
    def generate(
        format: Literal["cobblestone-256", "cobblestone-128", "tink"] = "cobblestone-256",
    ) -> KeyRing:
        """Makes a key. Store it with `save`."""

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
        """The keys of age files. A file with identities or a passphrase opens them.

        Encryption is for the recipients, with the passphrase, or for the recipients of the
        identities.
        """

    def save(self, path: Path) -> None:
        """Writes a new key file, which only its owner can read."""

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
def seal_pieces(
    pieces: Sequence[Buffer], target: Path, keys: KeyRing, options: dict[str, Any], /
) -> None: ...
def sealed_size(length: int, *, keys: KeyRing) -> int:
    """The sealed length of `length` bytes; with age, the most that it can be."""

def opened_size(length: int, *, keys: KeyRing) -> int | None: ...
def seal_bytes(data: Buffer, *, keys: KeyRing, context: bytes | None = None) -> bytes:
    """Encrypts the content of a file in memory, on all cores."""

def open_bytes(sealed: Buffer, *, keys: KeyRing, context: bytes | None = None) -> bytes:
    """Decrypts the content of an encrypted file in memory, on all cores."""

def seal_into(data: Buffer, out: Buffer, *, keys: KeyRing, context: bytes | None = None) -> int:
    """As `seal_bytes`, into a buffer of at least `sealed_size` bytes. Returns the length.

    It saves the allocation of an object, which can take longer than encryption. `out` may begin
    where `data` does; the data is then sealed in place. Any other overlap is refused.
    """

def open_into(sealed: Buffer, out: Buffer, *, keys: KeyRing, context: bytes | None = None) -> int:
    """As `open_bytes`, into a buffer. A buffer as long as `sealed` is always long enough.

    Returns the length. If the file is not authentic, none of it is left in the buffer. `out` may
    begin where `sealed` does if it is at least as long; the file is then lost if the call fails or
    is interrupted, unless no key fits.
    """

@final
class Reader:
    @staticmethod
    def of_path(
        path: Path, member: Path | None, keys: KeyRing, options: dict[str, Any], /
    ) -> Reader: ...
    @staticmethod
    def of_file(file: object, keys: KeyRing, options: dict[str, Any], /) -> Reader: ...
    @staticmethod
    def of_ranges(
        read: Callable[[list[int], list[int]], list[bytes]],
        length: int,
        keys: KeyRing,
        options: dict[str, Any],
        /,
    ) -> Reader: ...
    @property
    def size(self) -> int: ...
    def read_into(self, out: Buffer, offset: int, /) -> int: ...
    def read_at(self, offset: int, length: int, /) -> bytes: ...
    def cat_ranges(self, starts: Sequence[int], ends: Sequence[int], /) -> list[bytes]: ...

@final
class Aead:
    """A cipher with its key: `aes-128-gcm`, `aes-192-gcm`, `aes-256-gcm`, `chacha20-poly1305`.

    `seal` and its variants draw random nonces, for at most 2^32 messages under a key. A sealed
    message is its nonce of 12 bytes, the ciphertext, and the tag of 16. `encrypt` and `decrypt` are
    those of the classes in `cryptography.hazmat.primitives.ciphers.aead`.

    A message that is not authentic raises a `DamagedError`, and leaves nothing in a buffer.
    """

    def __new__(cls, cipher: str, secret: Buffer) -> Aead: ...
    @staticmethod
    def generate_key(cipher: str) -> bytes:
        """Makes a key for a cipher."""

    @property
    def overhead(self) -> int:
        """How many bytes longer a sealed message is: 28."""

    def encrypt(self, nonce: Buffer, data: Buffer, associated_data: Buffer | None) -> bytes:
        """Encrypts under the caller's nonce, which no other message under this key may have.

        Returns the ciphertext and the tag.
        """

    def decrypt(self, nonce: Buffer, data: Buffer, associated_data: Buffer | None) -> bytes:
        """Decrypts a result of `encrypt`."""

    def seal(self, data: Buffer, aad: Buffer | None = None) -> bytes:
        """Seals a message. `aad` is authenticated, and not part of the result."""

    def open(self, sealed: Buffer, aad: Buffer | None = None) -> bytes:
        """Opens a sealed message."""

    def seal_many(self, messages: Sequence[Buffer], aad: Buffer | None = None) -> list[bytes]:
        """Seals messages, with the same `aad`, on all cores."""

    def open_many(self, sealed: Sequence[Buffer], aad: Buffer | None = None) -> list[bytes]:
        """Opens sealed messages on all cores: all of them, or none."""

    def seal_many_into(
        self,
        data: Buffer,
        offsets: Sequence[int] | Buffer,
        out: Buffer,
        aad: Buffer | None = None,
    ) -> int:
        """Seals the messages in a buffer into another one, the fastest way for many.

        Message `i` is `data[offsets[i]:offsets[i + 1]]`, as in Arrow arrays. Results follow each
        other without gaps: result `i` begins at `offsets[i] - offsets[0] + i * overhead`. Offsets
        are a sequence, or an array of 64-bit integers. Returns the length of all results.
        """

    def open_many_into(
        self,
        sealed: Buffer,
        offsets: Sequence[int] | Buffer,
        out: Buffer,
        aad: Buffer | None = None,
    ) -> int:
        """Opens the messages that `seal_many_into` has sealed, into another buffer."""

    def __reduce__(self) -> NoReturn: ...

@final
class Incremental:
    def __new__(cls, encrypts: bool, keys: KeyRing, context: bytes) -> Incremental: ...
    def update(self, data: Buffer, /) -> bytes: ...
    def update_into(self, data: Buffer, out: Buffer, /) -> int: ...
    def finalize(self) -> bytes: ...
