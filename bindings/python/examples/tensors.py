"""Compares with safetensors: python bindings/python/examples/tensors.py [GIBIBYTES [ROUNDS]]

Loads an encrypted file and the same one unencrypted in turn, in processes of their own. Prints the
median ratio ours / theirs of wall time, CPU time, page faults, and the most memory used.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import safetensors.numpy

import evener
import evener.safetensors

PROGRAM = """if True:
    import json, resource, sys, time
    import evener, evener.safetensors, safetensors.numpy
    theirs = lambda: safetensors.numpy.load_file(sys.argv[1])
    ours = lambda: evener.safetensors.load_numpy(sys.argv[1], keys=evener.KeyRing.load(sys.argv[2]))
    before, begun = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    kept = ours() if len(sys.argv) > 2 else theirs()
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps([wall, cpu, after.ru_minflt - before.ru_minflt, after.ru_maxrss]))
"""


def main() -> None:
    gibibytes = float(sys.argv[1]) if len(sys.argv) > 1 else 2
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as name:
        plain, sealed, key = (str(Path(name) / it) for it in ("plain", "sealed", "key"))
        evener.generate().save(key)
        side = int((gibibytes * 2**30 / 4 / 64) ** 0.5)
        tensors = {f"layer {it}": np.full((side, side), it, np.float32) for it in range(64)}
        safetensors.numpy.save_file(tensors, plain)
        evener.safetensors.save(tensors, sealed, keys=evener.KeyRing.load(key))
        del tensors
        pairs = [(spent(plain), spent(sealed, key)) for _ in range(rounds + 1)][1:]
    for index, what in enumerate(["wall time", "CPU time", "page faults", "memory"]):
        ratio = statistics.median(ours[index] / theirs[index] for theirs, ours in pairs)
        best = [min(it[side][index] for it in pairs) for side in (0, 1)]
        print(f"{what:12} {ratio:5.2f} x, at best {best[1]:g} against {best[0]:g}")
    print(f"{os.cpu_count()} cores")


def spent(*arguments: str) -> list[float]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return [float(it) for it in json.loads(done.stdout)]


if __name__ == "__main__":
    main()
