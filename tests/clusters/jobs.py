"""Jobs of Evener from one prefix of the store to others, and what must hold for each."""

from __future__ import annotations

import collections
import filecmp
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

from lines import Request
from store import Store

EVENER = [sys.executable, "-m", "evener"]


class Source:
    """Objects that are the same at each run of these tests, and a key."""

    def __init__(self, home: Path, store: Store, lengths: list[int]) -> None:
        self.directory, self.key, self.store = home / "source", home / "job.key", store
        self.directory.mkdir(parents=True)
        for number, length in enumerate(lengths):
            (self.directory / f"{number:04}").write_bytes(random.Random(number).randbytes(length))
        self.prefix = home.name
        store.put(self.directory, self.prefix)
        subprocess.run([*EVENER, "keygen", "-q", "-o", self.key], check=True)


class Job:
    def __init__(self, name: str, source: Source, objects: int) -> None:
        self.source, self.prefix = source, f"sealed/{name}"
        self.address, self.target = f"s3://bucket/jobs/{name}", f"s3://bucket/{self.prefix}"
        plan = [f"s3://bucket/{source.prefix}", self.target, "--job", self.address]
        self.evener("job", "plan", *plan, "--objects", str(objects))

    def evener(
        self, *arguments: str | Path, status: int = 0, environment: dict[str, str] | None = None
    ) -> str:
        """Runs the program, by default without a line, and returns what it prints."""
        ended = subprocess.run(
            [*EVENER, *arguments, "-k", self.source.key],
            env=os.environ | (environment or self.source.store.environment),
            capture_output=True,
            text=True,
        )
        if ended.returncode != status:
            raise AssertionError(f"{arguments}: status {ended.returncode}: {ended.stderr}")
        return ended.stdout

    def run(self, **arguments: object) -> dict:
        """The arguments of `evener.ray.run` for this job."""
        return {"job": self.address, "key": str(self.source.key)} | arguments

    def state(self) -> dict:
        return json.loads(self.evener("job", "status", self.address, "--json"))

    def check(self, requests: list[Request], scratch: Path) -> None:
        """Nothing is lost, changed, published twice, or left behind."""
        assert self.state()["finished"], self.state()
        self.evener("decrypt", "-q", self.target, scratch)
        names = sorted(it.name for it in self.source.directory.iterdir())
        assert sorted(it.name for it in scratch.iterdir()) == names
        _, other, failed = filecmp.cmpfiles(self.source.directory, scratch, names, shallow=False)
        assert other + failed == []
        shutil.rmtree(scratch)
        published = self.published(requests)
        assert len(published) >= len(names), published
        assert max(published.values()) == 1, published
        self.evener("job", "clean", self.address)
        assert self.source.store.open_uploads() == []
        assert self.source.store.names(self.address.removeprefix("s3://bucket/") + "/") == []

    def published(self, requests: list[Request]) -> collections.Counter[str]:
        """How often each data file was created."""
        made: collections.Counter[str] = collections.Counter()
        for each in requests:
            path, _, query = each.target.partition("?")
            is_made = (each.method, query) == ("PUT", "")
            is_joined = each.method == "POST" and "uploadId=" in query
            is_data = path.startswith(f"/bucket/{self.prefix}/data/") and ".evener-" not in path
            if is_data and (is_made or is_joined) and each.status == 200:
                made[path] += 1
        return made

    def moved(self, requests: list[Request]) -> list[Request]:
        """The requests that read objects of the source or touch the target's data."""
        areas = rf"/bucket/({re.escape(self.source.prefix)}|{re.escape(self.prefix)}/data)/"
        return [it for it in requests if re.match(areas, it.target) and it.sent + it.received > 0]
