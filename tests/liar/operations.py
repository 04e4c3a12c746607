"""The program's operations on a lying engine, and the judge of what came of them."""

import pathlib
import shutil

from stage import files

NAMES = ["encrypt", "decrypt", "verify", "stream", "remove_source", "resume"]
NEVER = 10**9


class Operations:
    """Each has a lying engine do something, and returns how it ended and what is wrong."""

    def __init__(self, stage, options):
        self.stage, self.options = stage, options
        self.tree, self.sealed = stage.tree, stage.sealed
        self.out = stage.home / "out"

    def perform(self, name, lie, after):
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        # What was learnt of the engines before is not to keep the liar out of work.
        (self.out / "profile").write_text('{"version": 2, "profiles": []}')
        return getattr(self, name)(lie, after)

    def evener(self, command, lie, after, *arguments, stdin=None):
        options = [*self.options, "--profile", self.out / "profile"]
        return self.stage.evener(command, *self.stage.secret(), *options, *arguments,
                                 lie=lie, after=after, stdin=stdin)

    def require_honesty_succeeds(self):
        """Without this, a suite whose every run is refused would call every lie told."""
        for name in NAMES:
            ended, wrong = self.perform(name, "flip", NEVER)
            if wrong or ended.returncode != 0:
                raise SystemExit(f"{name} without a lie, {self.options}: {wrong}, status "
                                 f"{ended.returncode}: {ended.stderr.decode(errors='replace')}")

    def sound(self, *arguments):
        command, *rest = arguments
        return self.stage.evener(command, *self.stage.secret(), "--engine", "openssl", *rest)

    def encrypt(self, lie, after, *more):
        ended = self.evener("encrypt", lie, after, *more, self.tree, self.out / "sealed")
        return ended, self.wrong_ciphertexts(self.out / "sealed", self.tree)

    def decrypt(self, lie, after):
        ended = self.evener("decrypt", lie, after, self.sealed, self.out / "plain")
        there, right = files(self.out / "plain"), files(self.tree)
        return ended, [path for path in there if there[path] != right[path]]

    def verify(self, lie, after):
        # Nothing is written that could be wrong; that a good file fails is told by the status.
        return self.evener("verify", lie, after, self.sealed), []

    def stream(self, lie, after):
        path = pathlib.Path("deep/large")
        plain = (self.tree / path).read_bytes()
        ended = self.evener("encrypt", lie, after, "-", "-", stdin=plain)
        (self.out / "large.enc").write_bytes(ended.stdout)
        back = self.sound("decrypt", self.out / "large.enc", self.out / "large")
        # What ends too soon, and is known to, is no result.
        is_right = back.returncode == 0 and (self.out / "large").read_bytes() == plain
        return ended, [] if is_right or ended.returncode != 0 else [path]

    def remove_source(self, lie, after):
        source = self.out / "source"
        shutil.copytree(self.tree, source)
        ended = self.evener("encrypt", lie, after, "--remove-source", source, self.out / "sealed")
        wrong = self.wrong_ciphertexts(self.out / "sealed", self.tree)
        left, sealed = files(source), files(self.out / "sealed")
        for path in files(self.tree):
            output = path.with_name(path.name + ".enc")
            if path not in left and (output not in sealed or path in wrong):
                raise SystemExit(f"{path} is lost, by {lie} after {after} with {self.options}")
        return ended, wrong

    def resume(self, lie, after):
        shutil.copytree(self.sealed, self.out / "sealed", copy_function=shutil.copy2)
        for path in list((self.out / "sealed").rglob("*.enc"))[::2]:
            path.unlink()
        return self.encrypt(lie, after, "--resume")

    def wrong_ciphertexts(self, sealed, right):
        """Those that a sound engine does not turn into what they were."""
        plain = self.out / "back"
        if not sealed.exists():
            return []
        self.sound("decrypt", sealed, plain)
        there, right = files(plain), files(right)
        outputs = [path.with_name(path.name.removesuffix(".enc")) for path in files(sealed)]
        return [path for path in outputs if there.get(path) != right[path]]


def judge(ended, wrong, must_be_right):
    """`right`, `told`, `refused` before the work began, or what no engine may bring about, in capitals."""
    messages = ended.stderr.decode(errors="replace")
    unnamed = [path for path in wrong if path.name not in messages and "-:" not in messages]
    if not wrong:
        return {0: "right", 2: "refused"}.get(ended.returncode, "told")
    if ended.returncode == 0:
        return "WRONG"
    if must_be_right:
        return "WRONG, TOLD"
    # A program that died could name nothing.
    return "UNNAMED" if unnamed and ended.returncode in (0, 1) else f"told, {len(wrong)} named"


def is_bad(verdict):
    return verdict.split(",")[0].isupper()


def worst(verdicts):
    return max(verdicts, key=lambda verdict: (is_bad(verdict), verdict))
