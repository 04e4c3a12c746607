"""versitygw, a server of S3's protocol on this machine, with one bucket, `bucket`."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from pathlib import Path

PROGRAM = Path("target/object-stores/bin/versitygw")
ACCESS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


class Store:
    def __init__(self, home: Path) -> None:
        self.port = free_port()
        (home / "bucket").mkdir(parents=True)
        env = os.environ | {"ROOT_ACCESS_KEY": "key", "ROOT_SECRET_KEY": "secret"}
        command = [PROGRAM, "--port", f"127.0.0.1:{self.port}", "--quiet", "posix", home]
        with (home.parent / "store.log").open("wb") as log:
            subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    @property
    def environment(self) -> dict[str, str]:
        """For programs that use the store without a line."""
        return ACCESS | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}

    def put(self, directory: Path, prefix: str) -> None:
        """Makes an object of each file in the directory."""
        names = ",".join(sorted(it.name for it in directory.iterdir()))
        put = ["-Z", "--no-progress-meter", "-T", f"{{{names}}}"]
        self._curl(*put, path=f"{prefix}/", cwd=directory)

    def names(self, prefix: str) -> list[str]:
        """The objects below a prefix."""
        return self._listed(f"?list-type=2&prefix={prefix.replace('/', '%2F')}", "Contents")

    def remove(self, name: str) -> None:
        self._curl("-X", "DELETE", path=name)

    def open_uploads(self) -> list[str]:
        return self._listed("?uploads=", "Upload")

    def _listed(self, query: str, element: str) -> list[str]:
        answer = self._curl(path=query)
        assert "<IsTruncated>true" not in answer, "a listing of one page"
        return re.findall(rf"<{element}>.*?<Key>(.*?)</Key>.*?</{element}>", answer, re.DOTALL)

    def _curl(self, *options: str, path: str, cwd: Path | None = None) -> str:
        command = ["curl", "-sSf", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "key:secret"]
        command += ["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", *options]
        command.append(f"http://127.0.0.1:{self.port}/bucket/{path}")
        return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
