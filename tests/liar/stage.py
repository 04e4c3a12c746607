"""What the suites of liars work on: a key, a tree, and that tree encrypted by a sound engine."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CIPHER = "aes-128-cbc"


class Stage:
    """A subclass has `engine`, the name of the engine that lies, and `lying`."""

    # How long files are, in units of 3,000 bytes.
    chunks, large = 20, 250

    def __init__(self, home, built, environment):
        self.home, self.built = pathlib.Path(home), pathlib.Path(built)
        self.environment = dict(environment, XDG_CACHE_HOME=f"{home}/cache")
        self.key = self.home / "my.key"
        self.evener("keygen", "-o", self.key)
        self.tree, self.sealed = self.home / "tree", self.home / "sealed"
        self.make_tree()
        self.reference("encrypt", self.tree, self.sealed)

    def make_tree(self):
        (self.tree / "deep").mkdir(parents=True)
        for number in range(12):
            content = bytes((number * 7 + index * 31) % 251 for index in range(3000))
            (self.tree / f"small-{number}").write_bytes(content[: 100 + number * 200])
        for number in range(4):
            (self.tree / "deep" / f"chunks-{number}").write_bytes(content * (self.chunks + number))
        (self.tree / "deep" / "large").write_bytes(content * self.large)

    def run(self, command, **options):
        return subprocess.run(command, env=self.environment, capture_output=True, **options)

    def evener(self, *arguments, lie=None, after=0, stdin=None):
        command = [self.built / "evener", *arguments]
        if lie:
            return self.lying(command, lie, after, input=stdin)
        return self.run(command, input=stdin)

    def lying(self, command, lie, after, **options):
        """Runs a command whose engine lies after so many operations."""
        raise NotImplementedError

    def reference(self, command, *arguments):
        ended = self.evener(command, *self.secret(), "--engine", "openssl", *arguments)
        assert ended.returncode == 0, ended.stderr.decode()

    def secret(self):
        """The options that say what to encrypt with."""
        return ["-k", self.key]


def files(root):
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
