"""How many rare lies go through by default: what docs/evidence/reliability.md says about them."""

import json
import os
import shutil
from statistics import median

# Milliseconds that a message takes longer; files, bytes of each; one message wrong in so many.
CASES = [(3, 1, 20_000_000, 400), (0, 1, 20_000_000, 400), (5, 60, 60_000, 50), (0, 60, 60_000, 50)]
RUNS = 36


def measure(stage):
    print("| pause | files | wrong in | verified (median) | runs | right | told | wrong, status 0 |")
    print("|---|---|---|---|---|---|---|---|")
    for pause, files, length, every in CASES:
        tree = stage.home / "rare"
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir()
        for number in range(files):
            (tree / f"{number}").write_bytes(os.urandom(length))
        stage.environment.update(EVENER_SHIM_PAUSE=str(pause), EVENER_SHIM_LIE_EVERY=str(every))
        # A verdict, and the share of the messages that were verified.
        runs = [one_run(stage, tree) for _ in range(RUNS)]
        shares = [share for verdict, share in runs if verdict != "told"]
        counts = [sum(verdict == kind for verdict, _ in runs) for kind in ["right", "told", "wrong"]]
        share = f"{100 * median(shares):.1f} %" if shares else "–"
        row = [f"{pause} ms", files, f"1 in {every}", share, RUNS, *counts]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
        if ("wrong", 1.0) in runs:
            raise SystemExit("a lie went through although every message was verified")


def one_run(stage, tree):
    out = stage.home / "out"
    shutil.rmtree(out, ignore_errors=True)
    ended = stage.evener("encrypt", *stage.secret(), "--json", "--engine", stage.engine, tree, out,
                         lie="rare", after=10)
    if ended.returncode not in (0, 1):
        raise SystemExit(ended.stderr.decode())
    if ended.returncode == 1:
        return "told", None
    (engine,) = json.loads(ended.stdout)["engines"].values()
    verified = engine["verified_jobs"]
    share = verified / (verified + engine["unverified_jobs"])
    checked = stage.evener("verify", *stage.secret(), "--engine", "openssl", out)
    return "right" if checked.returncode == 0 else "wrong", share
