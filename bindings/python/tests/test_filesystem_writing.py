from __future__ import annotations

import contextlib
import errno
import functools
import gc
import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from stores import CONTENT, KEY, held

import evener
from evener.fsspec import EvenerFileSystem


def test_files_that_are_whole(fs: EvenerFileSystem) -> None:
    fs.makedirs("d", exist_ok=True)
    fs.pipe_file("d/a", b"old")
    with fs.open("d/a", "wb") as file:
        assert file.write(CONTENT) == file.tell() == len(CONTENT)
        file.flush()
        assert file.writable()
        assert not file.readable()
        assert fs.cat_file("d/a") == b"old"
    assert fs.cat_file("d/a") == CONTENT
    with pytest.raises(ValueError, match="closed"):
        file.write(b"")
    with fs.open("d/text", "w", encoding="latin-1") as text:
        text.write("Grüße")
    with fs.open("d/text", "r", encoding="latin-1") as text:
        assert text.read() == "Grüße"
    assert held(fs) == ["d/a.enc", "d/text.enc"]


def test_nothing_is_left_after_an_exception(fs: EvenerFileSystem) -> None:
    fs.makedirs("d", exist_ok=True)
    fs.pipe_file("d/a", b"old")
    for mode in ("wb", "w"):
        for name in ("d/a", "d/b"):
            with pytest.raises(LookupError), fs.open(name, mode) as file:  # noqa: PT012
                file.write(CONTENT * 20 if mode == "wb" else "text")
                raise LookupError
    unclosed = fs.open("d/b", "wb")
    unclosed.write(CONTENT)
    with pytest.warns(ResourceWarning):
        del unclosed
    assert held(fs) == ["d/a.enc"]
    assert fs.cat_file("d/a") == b"old"


def test_nothing_is_left_of_wrapped_files(fs: EvenerFileSystem) -> None:
    fs.makedirs("d", exist_ok=True)
    fs.pipe_file("d/a", b"old")
    with (  # noqa: PT012
        pytest.raises(LookupError),
        fs.open("d/a", "wb") as file,
        io.TextIOWrapper(file) as text,
    ):
        text.write("half")
        raise LookupError
    for wrap in (lambda: fs.open("d/a", "w"), lambda: io.TextIOWrapper(fs.open("d/a", "wb"))):
        with pytest.warns(ResourceWarning, match="unclosed file: nothing is stored as 'd/a'"):
            wrap().write("half")
    cycle = [fs.open("d/a", "w")]
    cycle[0].cycle = cycle
    cycle[0].write("half")
    del cycle
    with pytest.warns(ResourceWarning, match="unclosed"):
        gc.collect()
    with pytest.warns(ResourceWarning, match="unclosed"):
        fs.open("d/a", "wb").write(b"half")
    assert fs.cat_file("d/a") == b"old"
    assert held(fs) == ["d/a.enc"]
    with fs.open("d/a", "wb") as file, io.TextIOWrapper(file) as text:
        text.write("whole")
    assert fs.cat_file("d/a") == b"whole"
    with fs.open("d/a", "wb") as file:
        file.write(b"closed before the end")
        file.close()
        assert fs.cat_file("d/a") == b"whole"
    assert fs.cat_file("d/a") == b"closed before the end"


def test_nothing_is_left_when_python_exits(tmp_path: Path) -> None:
    program = """if True:
        import sys, evener
        fs = evener.filesystem(sys.argv[1], keys=evener.generate())
        files = fs.open("text", "w"), fs.open("bytes", "wb")
        files[0].write("half")
        files[1].write(b"half")
        sys.exit(3)
    """
    assert subprocess.run([sys.executable, "-c", program, tmp_path], check=False).returncode == 3
    assert not [*tmp_path.iterdir()]


def test_closing_waits_for_writes(fs: EvenerFileSystem) -> None:
    fs.makedirs("d", exist_ok=True)
    file = fs.open("d/a", "wb")
    begun, put = threading.Event(), file._target.write

    def write(sealed: bytes) -> None:
        begun.set()
        time.sleep(0.1)
        put(sealed)

    file._target.write = write
    thread = threading.Thread(target=file.write, args=(bytes(5 << 20),))
    thread.start()
    begun.wait()
    file.close()
    thread.join()
    assert fs.cat_file("d/a") == bytes(5 << 20)


def test_nothing_is_stored_after_a_failed_write(fs: EvenerFileSystem) -> None:
    fs.makedirs("d", exist_ok=True)
    fs.pipe_file("d/a", b"old")

    def fail(_: bytes) -> None:
        raise OSError(errno.ENOSPC, "full")

    for mode in ("wb", "w"):
        file = fs.open("d/a", mode)
        writer = file if mode == "wb" else file.buffer
        put, writer._target.write = writer._target.write, fail
        with pytest.raises(OSError, match="full"):
            writer.write(CONTENT * 20)
        writer._target.write = put
        for again in (functools.partial(writer.write, b"more"), file.close):
            with pytest.raises(OSError, match="an earlier write failed"):
                again()
    with pytest.raises(OSError, match="an earlier write failed"), fs.open("d/a", "wb") as file:  # noqa: PT012
        put, file._target.write = file._target.write, fail
        with contextlib.suppress(OSError):
            file.write(CONTENT * 20)
        file._target.write = put
    assert fs.cat_file("d/a") == b"old"
    assert held(fs) == ["d/a.enc"]


def test_names_that_a_file_can_not_have(tmp_path: Path) -> None:
    fs = evener.filesystem(tmp_path, keys=KEY)
    with pytest.raises(OSError, match="too long"):
        fs.open("n" * 252, "wb")
    with pytest.raises(FileExistsError) as raised, fs.open("a", "xb"):
        fs.pipe_file("a", b"first")
    assert (raised.value.filename, raised.value.filename2) == (str(tmp_path / "a.enc"), None)


def test_a_child_leaves_the_files_of_its_parent_alone(fs: EvenerFileSystem) -> None:
    fs.makedirs("d", exist_ok=True)
    file = fs.open("d/a", "wb")
    file.write(CONTENT * 20)
    child = os.fork()
    if child == 0:
        try:
            with contextlib.suppress(evener.EvenerError):
                file.close()
            del file
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    file.close()
    assert fs.cat_file("d/a") == CONTENT * 20


def test_new_files(fs: EvenerFileSystem) -> None:
    fs.makedirs("d", exist_ok=True)
    with fs.open("d/a", "xb") as file:
        file.write(b"new")
    for write in (
        lambda: fs.open("d/a", "xb").close(),
        lambda: fs.pipe_file("d/a", b"newer", mode="create"),
    ):
        with pytest.raises(FileExistsError):
            write()
    # It appears while another is written.
    with pytest.raises(FileExistsError), fs.open("d/b", "xb") as file:  # noqa: PT012
        fs.pipe_file("d/b", b"first")
        file.write(b"second")
    assert fs.cat(["d/a", "d/b"]) == {"d/a": b"new", "d/b": b"first"}
    assert held(fs) == ["d/a.enc", "d/b.enc"]


def test_other_modes(fs: EvenerFileSystem) -> None:
    fs.pipe_file("a", b"")
    for mode in ("ab", "r+b", "a", "w+b"):
        with pytest.raises(io.UnsupportedOperation, match="an encrypted file can't be changed"):
            fs.open("a", mode)
    with pytest.raises(io.UnsupportedOperation, match="can't be changed"):
        fs.touch("a", truncate=False)
    fs.touch("b", truncate=False)
    assert fs.size("b") == 0
    with pytest.raises(io.UnsupportedOperation, match="open to write"), fs.open("b", "wb") as file:
        file.read()
    with pytest.raises(ValueError, match="compress what you write"):
        fs.open("a", "wb", compression="gzip")


def test_transactions(fs: EvenerFileSystem) -> None:
    fs.makedirs("d", exist_ok=True)
    with fs.transaction:
        for name in ("d/a", "d/b"):
            with fs.open(name, "wb") as file:
                file.write(CONTENT)
        assert not fs.exists("d/a")
    assert fs.cat_file("d/a") == fs.cat_file("d/b") == CONTENT
    with pytest.raises(LookupError), fs.transaction:  # noqa: PT012
        with fs.open("d/c", "wb") as file:
            file.write(CONTENT)
        raise LookupError
    with fs.transaction:
        with contextlib.suppress(LookupError), fs.open("d/c", "wb"):
            raise LookupError
        fs.open("d/a", "wb").write(b"not closed")
    assert fs.find("d") == ["d/a", "d/b"]
    assert fs.cat_file("d/a") == b"not closed"
    assert held(fs) == ["d/a.enc", "d/b.enc"]


def test_copies_and_removal(fs: EvenerFileSystem, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "a").write_bytes(CONTENT)
    (source / "b").write_bytes(b"b")
    fs.put(str(source), "tree", recursive=True)
    assert fs.du("tree") == 300_001
    fs.get("tree", str(target), recursive=True)
    assert (target / "a").read_bytes() == CONTENT
    fs.copy("tree/a", "tree/c")
    fs.mv("tree/a", "tree/d")
    assert fs.find("tree") == ["tree/b", "tree/c", "tree/d"]
    fs.makedirs("other", exist_ok=True)
    fs.mv("tree/d", "other/")
    fs.mv("tree", "moved", recursive=True)
    assert fs.find("") == ["moved/b", "moved/c", "other/d"]
    assert fs.cat_file("other/d") == CONTENT
    fs.rm("moved/b")
    with pytest.raises(IsADirectoryError):
        fs.rm("moved")
    fs.rm(["moved", "other"], recursive=True)
    assert not fs.exists("moved/c")
    assert not fs.find("")
    assert not held(fs)
    with pytest.raises(FileNotFoundError):
        fs.rm("moved/c")
