"""The extension module. Use the package `evener`."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, final

from ._files import Path
from ._report import Report

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
