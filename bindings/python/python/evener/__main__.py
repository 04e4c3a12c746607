"""`python -m evener` is the program `evener`: the package's own, or else the one in PATH."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def main() -> None:
    own = Path(__file__).with_name("_program") / "evener"
    program = str(own) if own.exists() else shutil.which("evener")
    if program is None:
        sys.exit("python -m evener: the program `evener` is neither in this package nor in PATH")
    os.execv(program, ["evener", *sys.argv[1:]])


if __name__ == "__main__":
    main()
