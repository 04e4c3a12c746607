"""The program under test, and what all checks share."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path


class Skipped(Exception):
    """A peer is not there; the text says which and why."""


class Evener:
    """The program, with a directory for the files of one check."""

    def __init__(self, program: Path, home: Path) -> None:
        self.program = program
        self.home = home

    def __call__(self, *arguments: str | Path, status: int = 0) -> bytes:
        """Runs it and returns its standard output; the exit status must be as expected."""
        command = [str(self.program), *map(str, arguments)]
        # The keys that are made here are none of the user's.
        environment = os.environ | {"XDG_STATE_HOME": str(self.home.resolve())}
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, env=environment
        )
        if done.returncode != status:
            raise AssertionError(f"{command}: {done.returncode}\n{done.stderr.decode()}")
        return done.stdout

    def write(self, name: str, content: bytes) -> Path:
        """Makes a file that only its owner can read."""
        path = self.home / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path

    def there_and_back(
        self,
        sizes: Iterable[int],
        options: list[str | Path],
        seal: Callable[[bytes], bytes],
        unseal: Callable[[bytes], bytes],
        one_by_one: bool = False,
    ) -> str:
        """Has the peer's `unseal` read what evener encrypts, and evener what `seal` encrypts.

        Both are done with a tree that has a file of each size (or `one_by_one`, where evener
        refuses to encrypt a tree), and also with a pipe.
        """
        contents = {f"{size}": content(size) for size in sorted(set(sizes))}
        directories = "plain", "ours", "theirs", "back"
        plain, ours, theirs, back = (fresh(self.home / name) for name in directories)
        for name, text in contents.items():
            (plain / name).write_bytes(text)
            (theirs / f"{name}.enc").write_bytes(seal(text))
        if one_by_one:
            for name in contents:
                self("encrypt", *options, plain / name, ours / f"{name}.enc", "--quiet")
        else:
            self("encrypt", *options, plain, ours, "--quiet")
        self("decrypt", *options, theirs, back, "--quiet")
        for name, text in contents.items():
            assert unseal((ours / f"{name}.enc").read_bytes()) == text, f"ours, {name} bytes"
            assert (back / name).read_bytes() == text, f"theirs, {name} bytes"
        largest = max(contents, key=int)
        piped = self("encrypt", *options, plain / largest, "-")
        assert unseal(piped) == contents[largest], "ours, through a pipe"
        piped = self("decrypt", *options, theirs / f"{largest}.enc", "-")
        assert piped == contents[largest], "theirs, through a pipe"
        return f"{len(contents)} files each way"


def content(size: int) -> bytes:
    """Bytes that repeat with no block or chunk."""
    period = bytes((index * 31 % 251) ^ (index >> 8 & 255) for index in range(65_521))
    return (period * (size // len(period) + 1))[:size]


def around(*boundaries: int) -> list[int]:
    """Each boundary, and one byte less and more."""
    return [boundary + by for boundary in boundaries for by in (-1, 0, 1)]


def fresh(path: Path) -> Path:
    """An empty directory."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def find_program(name: str) -> str:
    """Where a peer is; skips the check when it is not installed."""
    found = shutil.which(name)
    if found is None:
        raise Skipped(f"the program {name} is not installed")
    return found
