"""Key files encrypted with the program `age`, and those that it decrypts."""

import os
import pty
import subprocess
from pathlib import Path

from evener import Evener, around, content, find_program

FORMATS = "cobblestone-256", "cobblestone-128", "tink"


def keys_for_a_recipient(evener: Evener) -> str:
    age, identity, recipient = age_with_identity(evener)
    for form in FORMATS:
        keyfile = evener.home / f"{form}.age"
        evener("keygen", "--format", form, "-r", recipient, "-o", keyfile)
        shown = subprocess.run(
            [age, "-d", "-i", identity, keyfile], check=True, capture_output=True
        ).stdout
        assert shown.startswith(b"{" if form == "tink" else f"evener-key:v1:{form}:".encode())
        bare = evener.write(f"{form}.bare", shown)
        # What the wrapped key encrypts, the key that age shows decrypts, and the reverse.
        one = evener.write("one", b"content")
        evener("encrypt", "-k", keyfile, "-i", identity, one, evener.home / f"{form}.1")
        assert evener("decrypt", "-k", bare, evener.home / f"{form}.1", "-") == b"content"
        evener("encrypt", "-k", bare, one, evener.home / f"{form}.2")
        back = evener("decrypt", "-k", keyfile, "-i", identity, evener.home / f"{form}.2", "-")
        assert back == b"content"
    return f"{len(FORMATS)} formats"


def keys_that_age_encrypted(evener: Evener) -> str:
    age, identity, recipient = age_with_identity(evener)
    for form in FORMATS:
        bare = evener.write(f"{form}.bare", evener("keygen", "--format", form))
        for armor in [], ["--armor"]:
            wrapped = evener.home / "wrapped"
            command = [age, "-r", recipient, *armor, "-o", wrapped, bare]
            subprocess.run(command, check=True)
            one = evener.write("one", b"content")
            sealed = evener.home / "sealed"
            evener("encrypt", "-k", wrapped, "-i", identity, "--overwrite", one, sealed)
            assert evener("decrypt", "-k", bare, sealed, "-") == b"content"
    return f"{len(FORMATS)} formats, binary and armored"


def files(evener: Evener) -> str:
    """Files of age, binary and armored, in both directions."""
    age, identity, recipient = age_with_identity(evener)
    sizes = [0, 1, *around(65_536, 131_072), 300_000]
    for size in sizes:
        plain = evener.write("plain", content(size))
        sealed = evener.home / "file.age"
        for armor in [], ["-a"]:
            subprocess.run([age, "-r", recipient, *armor, "-o", sealed, plain], check=True)
            assert evener("decrypt", "-i", identity, sealed, "-") == content(size)
            evener("encrypt", "--format", "age", "-r", recipient, *armor, "--overwrite", "-q",
                   plain, sealed)  # fmt: skip
            command = [age, "-d", "-i", identity, sealed]
            assert subprocess.run(command, check=True, capture_output=True).stdout == content(size)
    return f"{len(sizes)} sizes, binary and armored"


def trees_for_recipients(evener: Evener) -> str:
    """The key in DST/evener-key.age is one that age shows."""
    age, identity, recipient = age_with_identity(evener)
    plain, sealed, back = (evener.home / name for name in ("plain", "sealed", "back"))
    (plain / "sub").mkdir(parents=True)
    (plain / "sub" / "file").write_bytes(b"content")
    evener("encrypt", "-r", recipient, plain, sealed, "--quiet")
    wrapped = sealed / "evener-key.age"
    shown = subprocess.run(
        [age, "-d", "-i", identity, wrapped], check=True, capture_output=True
    ).stdout
    bare = evener.write("bare", shown)
    assert evener("decrypt", "-k", bare, sealed / "sub" / "file.enc", "-") == b"content"
    evener("decrypt", "-i", identity, sealed, back, "--quiet")
    assert (back / "sub" / "file").read_bytes() == b"content"
    assert not (back / "evener-key.age").exists()
    return "1 tree"


def keys_under_a_passphrase(evener: Evener) -> str:
    age = find_program("age")
    passphrase = evener.write("passphrase", b"open sesame\n")
    ours, theirs = evener.home / "ours.age", evener.home / "theirs.age"
    evener("keygen", "--passphrase-file", passphrase, "-o", ours)
    shown = evener.home / "shown"
    on_a_terminal([age, "-d", "-o", str(shown), str(ours)], "open sesame", 1)
    bare = evener.write("bare", shown.read_bytes())
    assert bare.read_bytes().startswith(b"evener-key:v1:")
    on_a_terminal([age, "-p", "-o", str(theirs), str(bare)], "open sesame", 2)
    one = evener.write("one", b"content")
    for number, wrapped in enumerate((ours, theirs)):
        sealed = evener.home / f"sealed-{number}"
        evener("encrypt", "-k", wrapped, "--passphrase-file", passphrase, one, sealed)
        assert evener("decrypt", "-k", bare, sealed, "-") == b"content"
    return "one of ours and one of age's"


CHECKS = [
    keys_for_a_recipient,
    keys_that_age_encrypted,
    files,
    trees_for_recipients,
    keys_under_a_passphrase,
]


def age_with_identity(evener: Evener) -> tuple[str, Path, str]:
    age, keygen = find_program("age"), find_program("age-keygen")
    identity = evener.home / "identity"
    subprocess.run([keygen, "-o", identity], check=True, capture_output=True)
    asked = subprocess.run([keygen, "-y", identity], check=True, capture_output=True)
    return age, identity, asked.stdout.decode().strip()


def on_a_terminal(command: list[str], answer: str, times: int) -> None:
    """Runs a program that asks for a passphrase on its terminal, and answers."""
    process, terminal = pty.fork()
    if process == 0:
        os.execv(command[0], command)
    seen = b""
    answered = 0
    while True:
        try:
            piece = os.read(terminal, 1000)
        except OSError:
            break  # The program has closed it.
        if not piece:
            break
        seen += piece
        # Each question ends in a colon; what was typed is not shown.
        if answered < times and seen.rstrip().endswith(b":"):
            seen = b""
            answered += 1
            os.write(terminal, answer.encode() + b"\n")
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(terminal)
    assert status == 0, f"{command}: {status}: {seen.decode()}"
