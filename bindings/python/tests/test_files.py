from __future__ import annotations

import copy
import errno
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import evener


def test_a_tree_there_and_back(tmp_path: Path, photos: Path, key: evener.KeyRing) -> None:
    sealed, restored = tmp_path / "sealed", tmp_path / "restored"
    report = evener.encrypt(photos, sealed, keys=key)
    assert (report.operation, report.format, report.files) == ("encrypt", "cobblestone-256", 2)
    assert report.bytes == 300_019
    assert evener.verify(sealed, keys=key).files == 2
    evener.decrypt(str(sealed), os.fsencode(restored), keys=key)
    assert (restored / "deep" / "two").read_bytes() == bytes(300_000)
    listed = evener.list(sealed, keys=key)
    assert [(it.path.removeprefix(str(sealed)), it.size) for it in listed] == [
        ("/deep/two.enc", 300_000),
        ("/one.enc", 19),
    ]


def test_a_sealed_tree(tmp_path: Path, photos: Path, key: evener.KeyRing) -> None:
    sealed, restored = tmp_path / "sealed", tmp_path / "restored"
    assert evener.encrypt(photos, sealed, keys=key, sealed=True).generation == 1
    (photos / "three").write_bytes(b"3")
    assert evener.encrypt(photos, sealed, keys=key).generation == 2
    assert not list(sealed.rglob("*one*"))
    assert evener.verify(sealed, keys=key).generation == 2
    paths = [it.path for it in evener.list(sealed, keys=key, generation=1)]
    assert "one" in paths
    assert "three" not in paths
    evener.decrypt(sealed, restored, keys=key)
    assert (restored / "three").read_bytes() == b"3"


def test_options_that_a_sealed_tree_refuses(
    tmp_path: Path, photos: Path, key: evener.KeyRing
) -> None:
    sealed, restored = tmp_path / "sealed", tmp_path / "restored"
    evener.encrypt(photos, sealed, keys=key, sealed=True)
    never: list[dict[str, object]] = [
        {"remove_source": True},
        {"follow_symlinks": True},
        {"context": b"x"},
        {"suffix": ".x"},
    ]
    to_read = ["dry_run", "skip_changing", "one_file_system"]
    for refused in [*never, {"existing": "update"}, *({name: True} for name in to_read)]:
        with pytest.raises(ValueError, match="a sealed tree"):
            evener.decrypt(sealed, restored, keys=key, **refused)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="a sealed tree"):
            evener.verify(sealed, keys=key, **refused)  # type: ignore[arg-type]
        assert not restored.exists()
    to_seal = [{"existing": "overwrite"}, {"existing": "resume"}, {"overwrite": True}]
    for refused in [*never, *to_seal, {"sparse": True}]:
        with pytest.raises(ValueError, match="a sealed tree"):
            evener.encrypt(photos, sealed, keys=key, **refused)  # type: ignore[arg-type]
    assert (photos / "one").exists()
    (photos / "three").write_bytes(b"3")
    evener.encrypt(photos, sealed, keys=key, dry_run=True)
    assert evener.verify(sealed, keys=key).generation == 1
    evener.decrypt(sealed, restored, keys=key)
    evener.decrypt(sealed, restored, keys=key, existing="overwrite")


def test_options_that_are_for_sealed_trees_alone(
    tmp_path: Path, photos: Path, key: evener.KeyRing
) -> None:
    plain, restored = tmp_path / "plain", tmp_path / "restored"
    to_write = [{"padding": 100}, {"checksum": True}, {"recipients_changed": True}]
    to_read = [{"generation": 1}, {"signers": "ssh-ed25519 AAAA"}, {"unsigned": True}]
    for options in [*to_write, *to_read]:
        with pytest.raises(ValueError, match="is for sealed trees"):
            evener.encrypt(photos, plain, keys=key, **options)  # type: ignore[arg-type]
    evener.encrypt(photos, plain, keys=key)
    for options in to_read:
        with pytest.raises(ValueError, match="is for sealed trees"):
            evener.decrypt(plain, restored, keys=key, **options)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="is for sealed trees"):
            evener.list(plain, keys=key, **options)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="is for sealed trees"):
            evener.open(plain / "one.enc", keys=key, **options)  # type: ignore[arg-type]
    assert not restored.exists()


def test_a_sealed_tree_for_others(tmp_path: Path, photos: Path) -> None:
    # The identity in age's own tests, and the recipients of that and of another one.
    first = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
    second = "age1lvyvwawkr0mcnnnncaghunadrqkmuf9e6507x9y920xxpp866cnql7dp2z"
    sealed = tmp_path / "sealed"
    one, two = evener.age(recipients=[first]), evener.age(recipients=[second])
    evener.encrypt(photos, sealed, keys=one, sealed=True)
    (photos / "three").write_bytes(b"3")
    with pytest.raises(evener.EvenerError, match="recipients"):
        evener.encrypt(photos, sealed, keys=two)
    with pytest.raises(evener.EvenerError):
        evener.encrypt(photos, sealed, keys=evener.age(passphrase="of the tree"))
    assert evener.encrypt(photos, sealed, keys=two, recipients_changed=True).generation == 2
    with pytest.raises(evener.EvenerError, match="recipients"):
        evener.encrypt(photos, sealed, keys=one)


def test_a_passphrase_keeps_the_key_of_a_sealed_tree(tmp_path: Path, photos: Path) -> None:
    sealed, key = tmp_path / "sealed", evener.age(passphrase="of the tree")
    evener.encrypt(photos, sealed, keys=key, sealed=True)
    wrapped = sorted(sealed.glob("keys/*"))
    (photos / "three").write_bytes(b"3")
    assert evener.encrypt(photos, sealed, keys=key).generation == 2
    assert wrapped
    assert sorted(sealed.glob("keys/*")) == wrapped
    assert evener.verify(sealed, keys=key).generation == 2


def test_names_that_are_no_utf8(tmp_path: Path, key: evener.KeyRing) -> None:
    name = os.fsdecode(b"caf\xe9")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / name).write_bytes(b"x")
    evener.encrypt(tree, tmp_path / "sealed", keys=key)
    assert evener.list(tmp_path / "sealed", keys=key)[0].path.endswith(name + ".enc")
    file = os.fsencode(tmp_path) + b"/sealed/caf\xe9.enc"
    evener.decrypt(file, os.fsencode(tmp_path) + b"/\xff", keys=key)
    assert (tmp_path / os.fsdecode(b"\xff")).read_bytes() == b"x"
    with pytest.raises(evener.ExistsError) as raised:
        evener.encrypt(tree, tmp_path / "sealed", keys=key)
    assert raised.value.report is not None
    assert raised.value.report.failures[0].path == str(tree / name)


def test_a_changed_file(tmp_path: Path, photos: Path, key: evener.KeyRing) -> None:
    sealed = tmp_path / "sealed"
    evener.encrypt(photos, sealed, keys=key)
    changed = sealed / "one.enc"
    changed.write_bytes(changed.read_bytes()[:-1] + b"?")
    with pytest.raises(evener.DamagedError, match="one.enc: chunk 0") as raised:
        evener.verify(sealed, keys=key)
    error = pickle.loads(pickle.dumps(raised.value))
    assert error.path == str(changed)
    assert error.report.files == 1
    with pytest.raises(evener.DamagedError):
        evener.verify(sealed, keys=evener.generate())


def test_a_changed_index(tmp_path: Path, photos: Path, key: evener.KeyRing) -> None:
    sealed = tmp_path / "sealed"
    evener.encrypt(photos, sealed, keys=key, sealed=True)
    listed = evener.list(sealed, keys=key)
    named = {it.document["stored"][0] for it in listed if "stored" in it.document}
    index = [it for it in sealed.glob("data/*/*") if it.relative_to(sealed).as_posix() not in named]
    assert index
    for file in index:
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    calls: list[Callable[[], object]] = [
        lambda: evener.verify(sealed, keys=key),
        lambda: evener.decrypt(sealed, tmp_path / "restored", keys=key),
        lambda: evener.list(sealed, keys=key),
        lambda: evener.open(sealed, member="one", keys=key),
    ]
    for call in calls:
        with pytest.raises(evener.DamagedError, match="changed"):
            call()


def test_existing_outputs(tmp_path: Path, photos: Path, key: evener.KeyRing) -> None:
    sealed = tmp_path / "sealed"
    evener.encrypt(photos, sealed, keys=key)
    with pytest.raises(FileExistsError):
        evener.encrypt(photos, sealed, keys=key)
    assert evener.encrypt(photos, sealed, keys=key, existing="resume").files_skipped == 2
    assert evener.encrypt(photos, sealed, keys=key, existing="update").files_unchanged == 2
    assert evener.encrypt(photos, sealed, keys=key, overwrite=True).files == 2


def test_key_files(tmp_path: Path, key: evener.KeyRing) -> None:
    key.save(tmp_path / "my.key")
    assert (tmp_path / "my.key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "one").write_bytes(b"1")
    evener.encrypt(tmp_path / "one", tmp_path / "one.enc", keys=key)
    evener.verify(tmp_path / "one.enc", keys=evener.KeyRing.load(tmp_path / "my.key"))
    with pytest.raises(evener.KeyError):
        key.save(tmp_path / "my.key")
    secret = "evener-key:v1:cobblestone-256:c2VjcmV0"
    (tmp_path / "bad.key").write_text(secret)
    (tmp_path / "bad.key").chmod(0o600)
    with pytest.raises(evener.KeyError) as raised:
        evener.KeyRing.load(tmp_path / "bad.key")
    assert "c2VjcmV0" not in str(raised.value)
    with pytest.raises(ValueError, match="16 or 32 bytes"):
        evener.KeyRing.of_bytes(b"short")


def test_keys_show_no_secret() -> None:
    key = evener.KeyRing.of_bytes(b"sixteen bytes of")
    assert repr(key) == str(key) == "<evener.KeyRing of cobblestone-128>"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="pickled"):
            leak(key)
    assert vars(type(key)).get("__dict__") is None


def test_age(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1")
    key = evener.age(passphrase="correct horse battery staple")
    evener.encrypt(tmp_path / "one", tmp_path / "one.age", keys=key)
    assert (tmp_path / "one.age").read_bytes().startswith(b"age-encryption.org/v1")
    evener.decrypt(tmp_path / "one.age", tmp_path / "two", keys=key)
    assert (tmp_path / "two").read_bytes() == b"1"
    with pytest.raises(ValueError, match="identity"):
        evener.age()
    with pytest.raises(evener.KeyError):
        evener.age(tmp_path / "absent")


def test_identities_of_age(tmp_path: Path, photos: Path) -> None:
    identity = tmp_path / "identity.txt"
    # The identity in age's own tests.
    identity.write_text(
        "AGE-SECRET-KEY-1EGTZVFFV20835NWYV6270LXYVK2VKNX2MMDKWYKLMGR48UAWX40Q2P2LM0\n"
    )
    identity.chmod(0o600)
    key = evener.age(identity)
    assert key.format == "age"
    for sealed in (False, True):
        target, restored = tmp_path / f"target-{sealed}", tmp_path / f"restored-{sealed}"
        evener.encrypt(photos, target, keys=key, sealed=sealed)
        assert (target / "one.age").exists() != sealed
        evener.decrypt(target, restored, keys=key)
        assert (restored / "one").read_bytes() == b"not quite a picture"
    sealed_bytes = evener.seal_bytes(bytes(200_000), keys=key)
    assert evener.open_bytes(sealed_bytes, keys=key) == bytes(200_000)
    with pytest.raises(ValueError, match="no context"):
        evener.seal_bytes(b"", keys=key, context=b"?")
    only_others = evener.age(
        recipients=["age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"]
    )
    with pytest.raises(evener.EvenerError):
        evener.verify(tmp_path / "target-False", keys=only_others)


def test_progress(tmp_path: Path, photos: Path, key: evener.KeyRing) -> None:
    told: list[evener.Progress] = []
    evener.encrypt(photos, tmp_path / "sealed", keys=key, progress=told.append)
    assert told[-1] == (2, 300_019, 2, 300_019)
    evener.verify(tmp_path / "sealed", keys=key, progress=True)
    os.link(photos / "deep" / "two", photos / "two")
    for sealed in (False, True):
        target, restored = tmp_path / f"target-{sealed}", tmp_path / f"restored-{sealed}"
        evener.encrypt(photos, target, keys=key, sealed=sealed, progress=told.append)
        assert told[-1] == (3, 300_019, 3, 300_019)
        evener.decrypt(target, restored, keys=key, progress=told.append)
        assert told[-1].done_bytes == told[-1].found_bytes > 300_019
        evener.verify(target, keys=key, progress=told.append)
        assert told[-1].done_bytes == told[-1].found_bytes > 300_019
    evener.encrypt(photos / "one", tmp_path / "one.enc", keys=key, progress=told.append)
    assert told[-1] == (1, 19, 1, 19)

    def refuse(_: evener.Progress) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        evener.verify(tmp_path / "sealed", keys=key, progress=refuse)


def test_other_threads_go_on(tmp_path: Path, key: evener.KeyRing) -> None:
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(256 << 20)
    counted = 0
    is_over = threading.Event()

    def count() -> None:
        nonlocal counted
        while not is_over.wait(0.001):
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    evener.encrypt(big, tmp_path / "big.enc", keys=key)
    is_over.set()
    thread.join()
    assert counted > 5


def test_an_interrupt_ends_it(tmp_path: Path) -> None:
    """The source is so long that only the interrupt can end the run."""
    os.mkfifo(tmp_path / "fifo")
    program = """if True:
        import sys, evener
        try:
            evener.encrypt(sys.argv[1], sys.argv[2], keys=evener.generate(), progress=print)
        except KeyboardInterrupt:
            sys.exit(7)
    """
    big, output = tmp_path / "big", tmp_path / "big.enc"
    with big.open("wb") as file:
        file.truncate(1 << 40)
    command = [sys.executable, "-uc", program, str(big), str(output)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        begun = time.monotonic()
        child.stdout.read()
        assert child.wait() == 7
    print(f"ended {time.monotonic() - begun:.3f} s after the interrupt")
    assert not output.exists()


def test_too_many_open_files(tmp_path: Path, photos: Path, key: evener.KeyRing) -> None:
    evener.encrypt(photos / "one", tmp_path / "one.enc", keys=key)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(evener.SystemError) as raised:
            evener.open(tmp_path / "one.enc", keys=key)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    error = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(raised.value, OSError)
    assert error.errno == errno.EMFILE
    assert error.path == str(tmp_path / "one.enc")
    assert "one.enc: can't open it: Too many open files" in str(error)


def test_a_sealed_tree_that_is_not_believed(
    tmp_path: Path, photos: Path, key: evener.KeyRing
) -> None:
    sealed = tmp_path / "sealed"
    evener.encrypt(photos, sealed, keys=key, sealed=True)
    (photos / "three").write_bytes(b"3")
    evener.encrypt(photos, sealed, keys=key)

    def calls(key: evener.KeyRing) -> list[Callable[[], object]]:
        return [
            lambda: evener.verify(sealed, keys=key),
            lambda: evener.decrypt(sealed, tmp_path / "restored", keys=key),
            lambda: evener.list(sealed, keys=key),
            lambda: evener.open(sealed, member="one", keys=key),
            lambda: evener.filesystem(sealed, keys=key, sealed=True),
        ]

    for call in calls(evener.generate()):
        with pytest.raises(evener.KeyError, match="the key given is not that of the tree"):
            call()
    root, marker = sealed / "tree" / f"{2:019}", sealed / "evener-tree-v1"
    for file, reason in ((root, "is no valid root"), (marker, "is damaged")):
        whole = file.read_bytes()
        for changed in (whole[:-1], whole + b"?"):
            file.write_bytes(changed)
            for call in calls(key):
                with pytest.raises(evener.DamagedError, match=reason):
                    call()
        file.write_bytes(whole)
    root.unlink()
    with pytest.raises(evener.EvenerError, match="--allow-rollback accepts"):
        evener.verify(sealed, keys=key)
    assert evener.verify(sealed, keys=key, allow_rollback=True).generation == 1
    assert evener.verify(sealed, keys=key).generation == 1
