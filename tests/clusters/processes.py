"""The processes that this one has started, and theirs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Makes this process the parent of daemons that it starts, so that `end_all` finds them."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def below(root: int) -> list[int]:
    """The processes below this one that have not ended, parents before their children."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").glob("[0-9]*"):
        process = int(directory.name)
        if (its_parent := parent(process)) is not None:
            children.setdefault(its_parent, []).append(process)
    found, todo = [], [root]
    while todo:
        found += (more := children.get(todo.pop(), []))
        todo += more
    return found


def parent(process: int) -> int | None:
    """The parent of a process that has not ended."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{process}/stat").read_text()
        state, its_parent = text.rpartition(")")[2].split()[:2]
        if state != "Z":
            return int(its_parent)
    return None


def arguments(process: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text(errors="replace").split("\0")
    return []


def kill(process: int | None) -> None:
    if process is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def end_all() -> None:
    """Ends all processes below this one."""
    until = time.monotonic() + 30
    while (left := below(os.getpid())) and time.monotonic() < until:
        for process in left:
            kill(process)
        time.sleep(0.05)
