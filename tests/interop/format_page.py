"""The readers in docs/design/formats.md, on files that evener has just written."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from evener import Evener, Skipped, around, content

PAGE = Path(__file__).parents[2] / "docs" / "design" / "formats.md"
READER = re.compile(r"^```python\n# file: (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# An identity of age made for these tests, and its recipient.
IDENTITY = "AGE-SECRET-KEY-1AVAUC2SN5XMEYHPEUW5REVFPLFSNGUTU3Z8ELL050JTS9UC03J7SK8M0KD"
RECIPIENT = "age15za80n2vxu7gd2j2lfaydcdeltgm5rmfvz8zxcw94grvedplufrsw50j95"
OPENSSL_CIPHERS = [
    "aes-128-cbc", "aes-256-cbc", "aes-192-ctr", "camellia-256-cbc", "des-ede3-cbc", "bf-cbc",
]  # fmt: skip


def cobblestone(evener: Evener) -> str:
    readers = Readers(evener)
    sizes = [0, 1, *around(16_384, 65_536, 262_144)]
    for form in "cobblestone-256", "cobblestone-128":
        key = evener.write(form, evener("keygen", "--format", form))
        suite, text = readers("key_line.py", key).decode().split()
        assert suite == form and len(bytes.fromhex(text)) == int(form[-3:]) // 8
        for context in "", "höst 7":
            options = ["-k", key, *(["--context", context] if context else [])]
            for size in sizes:
                sealed = sealed_file(evener, size, options)
                expected = 56 + size + 16 * (size // 16_384 + 1)
                assert sealed.stat().st_size == expected, f"{size} bytes became others than stated"
                read = readers("cobblestone.py", key, sealed, *([context] if context else []))
                assert read == content(size), f"{form}, {size} bytes"
    damaged(readers, sealed_file(evener, 70_000, ["-k", key]), "cobblestone.py", key)
    return f"{len(sizes)} sizes"


def tink_streams(evener: Evener) -> str:
    readers = Readers(evener)
    key = evener.write("keyset", evener("keygen", "--format", "tink"))
    assert readers("tink_keyset.py", key).decode().split()[1:] == ["sha256", "32", "1048576"]
    first = (1 << 20) - 40 - 16
    sizes = [0, 1, *around(first, first + (1 << 20) - 16)]
    for context in "", "bound to this":
        options = ["-k", key, *(["--context", context] if context else [])]
        for size in sizes:
            sealed = sealed_file(evener, size, options)
            read = readers("tink_stream.py", key, sealed, *([context] if context else []))
            assert read == content(size), f"{size} bytes"
    damaged(readers, sealed_file(evener, first + 9, ["-k", key]), "tink_stream.py", key)
    return f"{len(sizes)} sizes"


def age_files(evener: Evener) -> str:
    readers = Readers(evener)
    identity = evener.write("identity", f"{IDENTITY}\n".encode())
    options = ["--format", "age", "-r", RECIPIENT]
    sizes = [0, 1, *around(65_536, 131_072)]
    for size in sizes:
        read = readers("age_file.py", identity, sealed_file(evener, size, options))
        assert read == content(size), f"{size} bytes"
    damaged(readers, sealed_file(evener, 70_000, options), "age_file.py", identity)
    return f"{len(sizes)} sizes"


def openssl_enc(evener: Evener) -> str:
    readers = Readers(evener)
    passphrase = evener.write("passphrase", "correct horse batterý staple\n".encode())
    sizes = [0, 1, *around(16, 65_536)]
    for cipher in OPENSSL_CIPHERS:
        options = ["--format", "openssl", "--cipher", cipher, "--passphrase-file", passphrase]
        for iterations, some in (600_000, [20]), (10_000, sizes):
            for size in some:
                with_iterations = [*options, "--iterations", str(iterations)]
                sealed = sealed_file(
                    evener, size, options if iterations == 600_000 else with_iterations
                )
                read = readers("openssl_enc.py", cipher, str(iterations), passphrase, sealed)
                assert read == content(size), f"{cipher}, {size} bytes"
        if cipher.endswith("cbc"):
            wrong_padding(readers, sealed_file(evener, 20, with_iterations), cipher, passphrase)
    with_return = evener.write("with-return", b"correct horse\r\nbattery\n")
    options = ["--format", "openssl", "--cipher", "aes-256-cbc", "--passphrase-file", with_return]
    sealed = sealed_file(evener, 20, options)
    assert readers("openssl_enc.py", "aes-256-cbc", "600000", with_return, sealed) == content(20)
    return f"{len(OPENSSL_CIPHERS)} ciphers"


def profiles(evener: Evener) -> str:
    readers = Readers(evener)
    profile = evener.home / "profile"
    evener("engines", "--measure", "--engine", "openssl", "--bytes", "16,1024", "--time", "1",
           "--rounds", "1", "-o", profile)  # fmt: skip
    machine = json.loads(profile.read_text())
    shown = [line.split() for line in readers("costs.py", profile).decode().splitlines()]
    assert [(size, name) for size, name, _ in shown] == [("16", "openssl"), ("1024", "openssl")]
    return f"{len(machine['engines'])} engine"


def sealed_trees(evener: Evener) -> str:
    readers = Readers(evener)
    key, plain, sealed = evener.write("key", evener("keygen")), evener.home / "plain", "sealed"
    (plain / "d" / "e").mkdir(parents=True)
    for size in SEALED_SIZES:
        (plain / "d" / f"{size}").write_bytes(content(size))
    (plain / "d" / "link").symlink_to("../anywhere")
    (plain / "again").hardlink_to(plain / "d" / "1")
    for generation in "1", "2":
        (plain / "changed").write_text(generation)
        evener("encrypt", "--sealed", "-k", key, plain, evener.home / sealed, "--quiet")
        readers("sealed_tree.py", key, evener.home / sealed, evener.home / generation)
        same(plain, evener.home / generation)
    readers("sealed_tree.py", key, evener.home / sealed, evener.home / "older", "1")
    assert (evener.home / "older" / "changed").read_text() == "1"
    return f"2 generations of {len(SEALED_SIZES) + 6} entries"


def same(one: Path, other: Path) -> None:
    command = ["diff", "-r", "--no-dereference", one, other]
    assert subprocess.run(command).returncode == 0, f"{one} and {other} differ"


def sealed_trees_of_another_writer(evener: Evener) -> str:
    readers = Readers(evener)
    import sealed_trees as writer

    key = evener.write("key", evener("keygen"))
    secret = bytes.fromhex(readers("key_line.py", key).decode().split()[1])
    trees = count()

    def tree() -> writer.Tree:
        return writer.Tree(evener.home / f"tree-{next(trees)}", secret)

    def read(tree: writer.Tree, *generation: str, fails: bool = False) -> Path:
        new = evener.home / f"{tree.place.name}-read{''.join(generation)}"
        readers("sealed_tree.py", key, tree.place, new, *generation, fails=fails)
        return new

    sound = tree()
    first = sound.block(b"", writer.ROOT, sound.file(b"a", content(40_000), padding=999))
    sound.root(1, first, entries=2, bytes=40_000)
    more = sound.block(
        b"", writer.common(b"d", 1), [*writer.common(b"further", 3), b"d/a"],
        [*writer.common(b"link", 2), b"../anywhere"], b"d", sound.file(b"a", b""),
    )  # fmt: skip
    sound.root(2, first, more, entries=6, bytes=40_000)
    whole, older = read(sound), read(sound, "1")
    assert sorted(path.name for path in older.iterdir()) == ["a"]
    assert (whole / "a").read_bytes() == content(40_000)
    assert (whole / "link").readlink() == Path("../anywhere")
    assert (whole / "further").samefile(whole / "d" / "a")
    evener("decrypt", "-k", key, sound.place, evener.home / "opened", "--quiet")
    same(whole, evener.home / "opened")

    def refused(tree: writer.Tree) -> None:
        new = read(tree, fails=True)
        shutil.rmtree(new, ignore_errors=True)
        evener("decrypt", "-k", key, tree.place, new, "--quiet", status=1)
        assert not new.exists() or [path.name for path in new.iterdir()] == ["d"]
        assert not (evener.home / "out").exists()

    for directory, name in HOSTILE_PATHS:
        hostile = tree()
        items = [b"", writer.ROOT, writer.common(b"d", 1), *([directory] if directory else [])]
        hostile.root(1, hostile.block(*items, hostile.file(name, b"out")), entries=3)
        refused(hostile)
    through = tree()
    link = [*writer.common(b"d", 2), str(evener.home).encode()]
    block = through.block(b"", writer.ROOT, link, b"d", through.file(b"out", b""))
    through.root(1, block, entries=3)
    refused(through)

    small = tree()
    small.root(1, small.block(b"", writer.ROOT, small.file(b"a", content(20_000))), entries=2)
    changed(small, read)
    shutil.copy(small.place / "tree" / f"{1:019}", sound.place / "tree" / f"{1:019}")
    read(sound, fails=True)
    return f"{len(HOSTILE_PATHS)} paths that lead out"


def changed(tree, read: Callable[..., Path]) -> None:
    """A changed bit, and a missing end, of any file are seen."""
    for file in sorted(path for path in tree.place.rglob("*") if path.is_file()):
        whole = file.read_bytes()
        for wrong in whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), b"":
            file.write_bytes(wrong)
            new = read(tree, fails=True)
            shutil.rmtree(new, ignore_errors=True)
        file.write_bytes(whole)


HOSTILE_PATHS = [
    (b"", b".."), (b"", b"."), (b"", b"a/b"), (b"", b"e\0"), (b"", b"n" * 256), (b"d", b""),
    (b"d", b".."), (b"..", b"a"), (b"d/..", b"a"), (b"/d", b"a"), (b"d//e", b"a"), (b"e", b"a"),
]  # fmt: skip
SEALED_SIZES = [0, 1, *around(16_384), 300_000]
CHECKS = [
    cobblestone, tink_streams, age_files, openssl_enc, profiles, sealed_trees,
    sealed_trees_of_another_writer,
]  # fmt: skip


class Readers:
    """The page's readers, as files that Python runs."""

    def __init__(self, evener: Evener) -> None:
        try:
            import cryptography  # noqa: F401
        except ImportError as error:
            raise Skipped(f"no Python package cryptography: {error}") from error
        self.home = evener.home / "readers"
        self.home.mkdir()
        readers = READER.findall(PAGE.read_text())
        assert len(readers) == 9, f"{PAGE} has {len(readers)} readers"
        for name, text in readers:
            (self.home / name).write_text(text)

    def __call__(
        self, name: str, *arguments: str | Path, fails: bool = False, given: bytes = b""
    ) -> bytes:
        command = [sys.executable, str(self.home / name), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, input=given)
        if (done.returncode != 0) != fails:
            raise AssertionError(f"{command}: {done.returncode}\n{done.stderr.decode()}")
        return done.stdout


def sealed_file(evener: Evener, size: int, options: list[str | Path]) -> Path:
    plain, sealed = evener.write("plain", content(size)), evener.home / "sealed"
    evener("encrypt", *options, "--overwrite", "--quiet", plain, sealed)
    return sealed


def wrong_padding(readers: Readers, sealed: Path, cipher: str, passphrase: Path) -> None:
    """The reader sees padding that no block has: in CBC a changed bit of one block changes the same
    bit of the next, here the highest of the padding's length."""
    whole = sealed.read_bytes()
    changed = bytearray(whole)
    changed[-9 if cipher.startswith(("des", "bf")) else -17] ^= 128
    for wrong in bytes(changed), whole[:16]:
        sealed.write_bytes(wrong)
        readers("openssl_enc.py", cipher, "10000", passphrase, sealed, fails=True)


def damaged(readers: Readers, sealed: Path, reader: str, key: Path) -> None:
    """The readers authenticate, as the page says: a changed bit and a missing end are seen."""
    whole = sealed.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    for wrong in bytes(changed), whole[:-1], whole[: 56 + 16_400]:
        sealed.write_bytes(wrong)
        readers(reader, key, sealed, fails=True)
