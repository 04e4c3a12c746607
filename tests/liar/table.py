"""The table that the suites of liars print, and the sum of it."""

import sys

from operations import is_bad

UNTRIED = "–"
NOT_ASKED = "not asked"


class Table:
    def __init__(self):
        self.header = None
        self.seen = self.bad = self.not_asked = 0

    def add(self, who, lie, names, cells):
        if names != self.header:
            self.header = names
            print(f"\n| who | lie | {' | '.join(names)} |".replace("_", " "))
            print("|---" * (2 + len(names)) + "|")
        print(f"| {who} | {lie} | {' | '.join(cells)} |", flush=True)
        self.seen += sum(cell not in (UNTRIED, NOT_ASKED) for cell in cells)
        self.not_asked += cells.count(NOT_ASKED)
        self.bad += sum(is_bad(cell) for cell in cells)

    def end(self, name):
        if self.bad:
            sys.exit(f"{name}: {self.bad} of {self.seen} lies went through")
        print(f"\npassed: {self.seen} lies, of which none went through")
