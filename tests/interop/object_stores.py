"""Evener's objects, and those that the program in docs/design/formats.md makes with boto3."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evener import Evener, Skipped, around, content
from format_page import Readers

SERVER = Path(__file__).parents[2] / "target" / "object-stores" / "bin" / "versitygw"
# The longest has three parts.
SIZES = [0, 1, *around(16_384), 300_000, 20_000_000]


def boto3_both_ways(evener: Evener) -> str:
    readers = Readers(evener)
    try:
        import boto3  # noqa: F401
    except ImportError as error:
        raise Skipped(f"no Python package boto3: {error}") from error
    key, plain, back = evener.write("key", evener("keygen")), evener.home / "plain", "back"
    plain.mkdir()
    with server(evener.home):
        for size in SIZES:
            (plain / f"{size}").write_bytes(content(size))
            readers("objects.py", "put", key, "bucket", f"theirs/{size}.enc", given=content(size))
        evener("encrypt", "-k", key, plain, "s3://bucket/ours", "--quiet")
        evener("decrypt", "-k", key, "s3://bucket/theirs", evener.home / back, "--quiet")
        for size in SIZES:
            read = readers("objects.py", "get", key, "bucket", f"ours/{size}.enc")
            assert read == content(size), f"ours, {size} bytes"
            read = (evener.home / back / f"{size}").read_bytes()
            assert read == content(size), f"theirs, {size} bytes"
        readers("objects.py", "put", key, "bucket", "ours/1.enc", fails=True)
    return f"{len(SIZES)} objects each way"


@contextmanager
def server(home: Path) -> Iterator[None]:
    """Runs an S3 server with one bucket, which the environment names."""
    if not SERVER.exists():
        raise Skipped("versitygw is not there; tests/object-stores/install installs it")
    (home / "store" / "bucket").mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    secrets = {"ROOT_ACCESS_KEY": "key", "ROOT_SECRET_KEY": "secret"}
    command = [SERVER, "--port", f"127.0.0.1:{port}", "--quiet", "posix", home / "store"]
    before = dict(os.environ)
    started = subprocess.Popen(command, env=before | secrets, stdout=subprocess.DEVNULL)
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }  # fmt: skip
    try:
        await_port(port)
        yield
    finally:
        started.kill()
        started.wait()
        os.environ.clear()
        os.environ.update(before)


def await_port(port: int) -> None:
    for _ in range(1000):
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("versitygw does not start")


CHECKS = [boto3_both_ways]
