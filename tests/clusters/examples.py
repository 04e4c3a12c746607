"""Checks the examples for clusters: their syntax, their types, and their commands in a job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import kubernetes.client
import yaml

EXAMPLES = Path("examples")
RUFF = ["ruff", "--quiet", "--config", "bindings/python/pyproject.toml"]
PYTHON = [EXAMPLES, "tests/clusters"]


def main() -> None:
    subprocess.run(["shellcheck", EXAMPLES / "slurm-job.sh"], check=True)
    subprocess.run([*RUFF, "check", *PYTHON], check=True)
    subprocess.run([*RUFF, "format", "--check", *PYTHON], check=True)
    job = yaml.safe_load((EXAMPLES / "kubernetes-job.yaml").read_text())
    check_types(job)
    [container] = job["spec"]["template"]["spec"]["containers"]
    [script] = container["args"]
    subprocess.run(["shellcheck", "--shell=sh", "-"], input=script, text=True, check=True)
    with tempfile.TemporaryDirectory() as home:
        local = LocalJob(Path(home))
        local.check_pods([*container["command"], script])
        local.check_slurm()
    print("the examples for Kubernetes and Slurm do their shards, and end as they should")


def check_types(job: dict) -> None:
    """Kubernetes' own client knows all fields."""
    client = kubernetes.client.ApiClient()
    known = client.deserialize(json.dumps(job), "V1Job", "application/json")
    assert client.sanitize_for_serialization(known) == job


class LocalJob:
    """A job in a directory, with a shard that takes a second and small ones."""

    def __init__(self, home: Path) -> None:
        self.job, self.key = home / "job", home / "job.key"
        (home / "source").mkdir()
        with (home / "source" / "long").open("wb") as long:
            long.truncate(1 << 28)
        for number in range(4):
            (home / "source" / f"{number}").write_bytes(b"content")
        evener("keygen", "-q", "-o", self.key)
        plan = [home / "source", home / "sealed", "--job", self.job, "-k", self.key]
        evener("job", "plan", *plan, "--objects", "1")

    def check_pods(self, command: list[str]) -> None:
        """A pod succeeds if it or another one has done the shard, and passes SIGTERM on."""
        script = command[-1].replace("s3://lake/jobs/november", str(self.job))
        command = [*command[:-1], script.replace("/etc/evener/job.key", str(self.key))]
        assert self.start(command, JOB_COMPLETION_INDEX="1").wait() == 0
        assert self.start(command, JOB_COMPLETION_INDEX="1").wait() == 0
        assert self.start(command, JOB_COMPLETION_INDEX="one").wait() == 2
        # The largest shard, the second one that has an attempt.
        pod = self.start(command, JOB_COMPLETION_INDEX="0")
        while pod.poll() is None and len(list((self.job / "attempts").iterdir())) < 2:
            time.sleep(0.01)
        pod.send_signal(signal.SIGTERM)
        assert pod.wait() == 130, pod.returncode

    def check_slurm(self) -> None:
        """A task of the array is the worker of its number."""
        task = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2"}
        command = ["sh", EXAMPLES / "slurm-job.sh", self.job, self.key]
        assert self.start(command, SLURM_CPUS_PER_TASK="2", **task).wait() == 0
        evener("job", "finish", self.job, "-k", self.key)

    def start(self, command: list[str | Path], **environment: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, env=os.environ | environment)


def evener(*arguments: str | Path) -> None:
    subprocess.run(["evener", *arguments], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
