"""Runs a job that `evener job plan` has made on a Ray cluster, one task for each shard.

evener.ray.run("s3://lake/jobs/november", key="/etc/evener/job.key", finish=True)

Each node needs this package, and the key file at the same path.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util.metrics import Counter

from ._errors import EvenerError

__all__ = ["JobError", "run"]


class JobError(EvenerError):
    """The program failed for the job, or for shards of it."""


class RepeatableError(JobError):
    """The same may succeed later, or on another node."""


def run(
    job: str | os.PathLike[str],
    *,
    key: str | os.PathLike[str] | None = None,
    key_command: str | None = None,
    address: str | None = None,
    workers: int | None = None,
    cpus: float = 1,
    retries: int = 3,
    env: Mapping[str, str] | None = None,
    progress: bool = True,
    finish: bool = False,
    **options: object,
) -> dict[str, Any]:
    """Does the shards that are not done yet, the largest first; with `finish`, finishes the job.

    `key` is the path of a key file, and `key_command` prints the key; the key itself never passes
    through Ray. A shard takes `cpus` cores, and at most `workers` shards are done at once. A shard
    that fails or loses its node is repeated `retries` times, except after a conflict. `env` is
    added to the program's environment; `options` are those of all commands of `evener job`, such
    as `endpoint_url="http://store:9000"`.

    Returns a report: `job`, all its `shards`, those that this run has `done`, the `bytes` of their
    objects, `seconds`, and `finished`, which is true if the job has made its generation. If a shard
    fails, all others are done all the same; then this raises a `JobError`. Call it again then.
    """
    arguments = [
        f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
        for name, value in {"key": key, "key_command": key_command, **options}.items()
        if value is not None and value is not False
    ]
    program = _Program(os.fspath(job), arguments, dict(env or {}))
    begun, before = time.monotonic(), program.call("status")
    if not ray.is_initialized():
        ray.init(address=address)
    repeats = {"max_retries": retries, "retry_exceptions": [RepeatableError]}
    shard = ray.remote(_shard).options(num_cpus=cpus, scheduling_strategy="SPREAD", **repeats)
    start = functools.partial(shard.remote, program, max(int(cpus), 1))
    missing, done, moved, shown = before["missing"], 0, 0, 0.0
    failures: dict[int, BaseException] = {}
    with contextlib.closing(_ended(start, missing, workers, cpus)) as all_ended:
        for task, number in all_ended:
            try:
                moved += ray.get(task)
                done += 1
            except ray.exceptions.RayError as error:
                failures[number] = getattr(error, "cause", None) or error
            now = time.monotonic()
            if progress and (now > shown + 10 or done + len(failures) == len(missing)):
                counts = f"{before['done'] + done} of {before['shards']} shards"
                rate = f"{moved} bytes, {moved / (now - begun) / 1e6:.1f} MB/s"
                print(f"{counts}, {len(failures)} failed, {rate}", file=sys.stderr, flush=True)
                shown = now
    if failures:
        share, (number, cause) = f"{len(failures)} of {len(missing)}", [*failures.items()][0]
        raise JobError(f"{share} shards failed; shard {number}: {cause}") from cause
    if finish:
        program.call("finish")
    seconds, finished = time.monotonic() - begun, finish or before["finished"]
    report = {"job": program.job, "shards": before["shards"], "done": done, "bytes": moved}
    return report | {"seconds": seconds, "finished": finished}


def _ended(start: Any, numbers: list[int], most: int | None, cpus: float) -> Any:
    """Starts tasks in this order, and gives each with its number when it has ended."""
    waiting, running = iter(numbers), dict[Any, int]()
    try:
        while True:
            # More than there is room for, so that no core waits and an autoscaler sees the need.
            limit = most or 2 * int(ray.cluster_resources().get("CPU", 0) / cpus) or 1
            while len(running) < limit and (number := next(waiting, None)) is not None:
                running[start(number)] = number
            if not running:
                return
            for task in ray.wait(list(running), timeout=1)[0]:
                yield task, running.pop(task)
    finally:
        # After an interruption. The program ends itself when its parent process has ended.
        for task in running:
            ray.cancel(task, force=True)


def _shard(program: _Program, threads: int, number: int) -> int:
    """Does a shard on a node, and returns the bytes of its objects."""
    counts = {"failed_attempts": 1}
    try:
        done = program.call("run", "--shard", str(number), "--jobs", str(threads))
        counts = {"shards": 1, "bytes": done["bytes"]}
        return int(done["bytes"])
    finally:
        for name, value in counts.items():
            if value:
                Counter(f"evener_job_{name}", tag_keys=("job",)).inc(value, {"job": program.job})


@dataclass(frozen=True)
class _Program:
    """The program with the arguments of all commands for a job. Ray copies it to the nodes."""

    job: str
    arguments: list[str]
    env: dict[str, str] = field(repr=False)

    def call(self, verb: str, *more: str) -> dict[str, Any]:
        """Runs a command to its end, and returns its document."""
        command = [sys.executable, "-m", "evener", "job", verb, self.job, *self.arguments, *more]
        env, null = {**os.environ, **self.env}, subprocess.DEVNULL
        ended = subprocess.run([*command, "--json"], env=env, stdin=null, capture_output=True)
        # Done, now or before by another process. A conflict is 4.
        if ended.returncode in (0, 3):
            return dict(json.loads(ended.stdout))
        kind = JobError if ended.returncode == 4 else RepeatableError
        said = ended.stderr.decode(errors="replace")[-2000:].strip()
        raise kind(f"`evener job {verb}` ended with status {ended.returncode}: {said}")
