"""Ray nodes on this machine, each with an address and a line to the store of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import processes

HEAD, *OTHERS = NODES = [f"127.0.0.{number}" for number in (2, 3, 4, 5)]


class Nodes:
    """Nodes with one core each. The first one is the head, at which the driver is."""

    def __init__(self, home: Path, port: int, environments: dict[str, dict[str, str]]) -> None:
        self.address, self._home, self._environments = f"{HEAD}:{port}", home, environments
        options = ["--head", f"--port={port}", f"--temp-dir={home}", "--include-dashboard=false"]
        self._start(HEAD, *options)
        for node in OTHERS:
            self.start(node)

    def start(self, node: str) -> None:
        self._start(node, f"--address={self.address}")

    def _start(self, node: str, *options: str) -> None:
        command = [Path(sys.executable).with_name("ray"), "start", *options, "--num-cpus=1"]
        # Small, and not in the memory that /dev/shm may lack in a container.
        command += [f"--plasma-directory={self._home}", "--object-store-memory=80000000"]
        command += [f"--node-ip-address={node}", "--include-log-monitor=false"]
        settings = {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_enable_metrics_collection": "false",
            # Ray's processes on a node stay while other nodes are measured.
            "RAY_idle_worker_killing_time_threshold_ms": "600000",
            # A node that is gone is noticed after a second.
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_timeout_ms": "2000",
            "RAY_health_check_failure_threshold": "2",
        }
        env, null = os.environ | settings | self._environments[node], subprocess.DEVNULL
        with (self._home / "starts").open("ab") as log:
            subprocess.run(command, env=env, stdin=null, stdout=log, stderr=log, check=True)

    def raylet(self, node: str) -> int | None:
        """The process that is the node, if it runs."""
        wanted = f"--node_ip_address={node}"
        found = (it for it in processes.below(os.getpid()) if wanted in processes.arguments(it))
        return next((it for it in found if "raylet" in processes.arguments(it)[0]), None)

    def programs(self) -> list[int]:
        """The processes of `evener job run` on all nodes."""
        raylets = [it for node in NODES if (it := self.raylet(node)) is not None]
        below = (process for raylet in raylets for process in processes.below(raylet))
        return [it for it in below if processes.arguments(it)[1:3] == ["job", "run"]]
