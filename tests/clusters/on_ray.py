"""Jobs on four Ray nodes: the rate, deaths of processes and nodes, and a second run.

python tests/clusters/on_ray.py SEEDS
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import processes
from jobs import Job, Source
from lines import Lines
from ray_nodes import HEAD, NODES, OTHERS, Nodes
from store import ACCESS, Store, free_port

# Of each node's line: bytes a second, and seconds for a request.
RATE, DELAY = 40e6, 0.05
# Sixteen equal shards, with one request at a time, so that the lines determine the rate.
EQUAL = [100_000] * 256
# A long object in each shard or two, which takes an upload in parts.
MIXED = [9 << 20 if number % 20 == 7 else number * 1000 for number in range(120)]


class Cluster:
    def __init__(self, home: Path) -> None:
        self.home, self.store = home, Store(home / "store")
        self.lines = Lines(NODES, self.store.port, RATE, DELAY)
        (home / "ray").mkdir()
        environments = {node: ACCESS | {"AWS_ENDPOINT_URL": self.lines.url(node)} for node in NODES}
        self.environment = environments[HEAD]
        self.nodes = Nodes(home / "ray", free_port(), environments)

    def begin(self, *runs: dict) -> subprocess.Popen[str]:
        """Starts a driver that runs jobs one after another."""
        driver = Path(__file__).with_name("driver.py")
        command = [sys.executable, driver, self.nodes.address, HEAD, json.dumps(runs)]
        return subprocess.Popen(
            command,
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *runs: dict) -> list[dict]:
        """Runs jobs to their ends, and returns the reports."""
        driver = self.begin(*runs)
        output, errors = driver.communicate()
        assert driver.returncode == 0, errors
        return json.loads(output)


def main() -> None:
    processes.adopt_orphans()
    # Ray's sockets need short paths.
    with tempfile.TemporaryDirectory(prefix="evener-", dir="/tmp") as home:
        try:
            cluster = Cluster(Path(home))
            measure_rates(cluster)
            source = Source(cluster.home / "mixed", cluster.store, MIXED)
            fail_in_one_shard(cluster, source)
            for seed in range(int(sys.argv[1])):
                kill_at_random(cluster, source, seed)
            find_no_key(cluster, source)
        finally:
            processes.end_all()


def measure_rates(cluster: Cluster) -> None:
    """The store is slow for each node alone, so twice the nodes have twice the rate."""
    source = Source(cluster.home / "equal", cluster.store, EQUAL)
    jobs = [Job(f"rate-{number}", source, len(EQUAL) // 16) for number in range(4)]
    # The first one also starts Ray's processes. A busy machine costs some of the rate.
    runs = zip(jobs, (4, 1, 2, 4), strict=True)
    reports = cluster.run(*(job.run(workers=workers, requests=1) for job, workers in runs))
    rates = [report["bytes"] / report["seconds"] for report in reports[1:]]
    for workers, rate, goal in zip((1, 2, 4), rates, (1, 1.9, 3.6), strict=True):
        ratio = rate / rates[0]
        compared = f"{ratio:.2f} times the rate of one; the goal is {goal}"
        print(f"{workers} workers: {rate / 1e6:.2f} MB/s, {compared}")
    job = jobs[-1]
    job.evener("job", "finish", job.address)
    run_again(cluster, job)
    job.check(cluster.lines.requests, cluster.home / "decrypted")


def run_again(cluster: Cluster, job: Job) -> None:
    """A finished job moves nothing, by Ray or by hand."""
    before = len(cluster.lines.requests)
    [report] = cluster.run(job.run(finish=True))
    assert (report["done"], report["bytes"], report["finished"]) == (0, 0, True), report
    shard = [job.address, "--shard", "0"]
    job.evener("job", "run", *shard, status=3, environment=cluster.environment)
    moved = job.moved(cluster.lines.requests[before:])
    assert not moved, moved
    print("a finished job that runs again moves nothing")


def fail_in_one_shard(cluster: Cluster, source: Source) -> None:
    """A shard that always fails does not keep Ray from the others, and the error tells why."""
    job = Job("failing", source, 30)
    [name, *_] = cluster.store.names("jobs/failing/shards/")
    cluster.store.remove(name)
    driver = cluster.begin(job.run(retries=1))
    errors = driver.communicate()[1]
    assert driver.returncode == 1, errors
    assert "evener.ray.JobError: 1 of 4 shards failed; shard" in errors, errors
    assert "`evener job run` ended with status 1" in errors, errors
    assert job.state()["done"] == 3
    print("a shard that fails leaves the others done", flush=True)


def kill_at_random(cluster: Cluster, source: Source, seed: int) -> None:
    chance = random.Random(seed)
    first, begun, killed = len(cluster.lines.requests), time.monotonic(), []
    job = Job(f"killed-{seed}", source, 10)
    run = job.run(retries=20, requests=4)
    driver = cluster.begin(run)
    for kind in chance.sample(["program", "worker", "node", "driver"], 4):
        await_moment(cluster, driver, chance)
        if kind == "driver":
            driver.kill()
            driver.communicate()
            driver = cluster.begin(run)
        elif kind == "node":
            node = chance.choice(OTHERS)
            processes.kill(cluster.nodes.raylet(node))
            cluster.nodes.start(node)
        elif running := cluster.nodes.programs():
            process = chance.choice(running)
            processes.kill(process if kind == "program" else processes.parent(process))
        else:
            continue
        killed.append(kind)
    driver.communicate()
    cluster.run(run | {"finish": True})
    left = len(cluster.store.open_uploads())
    job.check(cluster.lines.requests[first:], cluster.home / "decrypted")
    said = f"seed {seed}, {time.monotonic() - begun:.0f} s: {', '.join(killed)} died"
    print(f"{said}, with {left} uploads open at the end; all is well", flush=True)


def find_no_key(cluster: Cluster, source: Source) -> None:
    """Ray has never got the key: its files and logs don't have it."""
    secret = source.key.read_bytes().split(b":")[-1].strip()
    files = [it for it in (cluster.home / "ray").rglob("*") if it.is_file()]
    assert files
    assert not [it for it in files if secret in it.read_bytes()]
    print(f"none of {len(files)} files of Ray has the key", flush=True)


def await_moment(cluster: Cluster, driver: subprocess.Popen[str], chance: random.Random) -> None:
    """Waits until shards are being done, and then up to a second, or for a long object's upload."""
    while driver.poll() is None and not cluster.nodes.programs():
        time.sleep(0.05)
    until, awaits_upload = time.monotonic() + chance.uniform(0, 1), chance.random() < 0.5
    while time.monotonic() < until + awaits_upload:
        if awaits_upload and cluster.store.open_uploads():
            return
        time.sleep(0.02)


if __name__ == "__main__":
    main()
