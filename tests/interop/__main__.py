"""Runs every check and says what was compared with what. See `run`."""

import os
import sys
import tempfile
import traceback
from pathlib import Path

import age_keys
import cobblestone_files
import format_page
import object_stores
import openssl_files
import tink_files
from evener import Evener, Skipped


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: run [EVENER]", file=sys.stderr)
        return 2
    program = Path(sys.argv[1]).resolve()
    failed = False
    for peer in (cobblestone_files, tink_files, openssl_files, age_keys, format_page, object_stores):
        for check in peer.CHECKS:
            name = f"{peer.__name__}: {check.__name__.replace('_', ' ')}"
            with tempfile.TemporaryDirectory() as home:
                try:
                    done = check(Evener(program, Path(home)))
                    print(f"ok       {name}: {done}")
                except Skipped as why:
                    print(f"skipped: {name}: {why}")
                    record(f"{name}: {why}")
                    failed |= os.environ.get("CI", "") not in ("", "false", "0")
                except Exception:
                    traceback.print_exc()
                    print(f"FAILED   {name}")
                    failed = True
    return 1 if failed else 0


def record(skip: str) -> None:
    """Adds a skip to the list that `make test` prints at its end."""
    if path := os.environ.get("EVENER_SKIPPED_LIST"):
        with open(path, "a") as skipped:
            print(skip, file=skipped)


if __name__ == "__main__":
    sys.exit(main())
