"""Lying engines in the C library and in Java."""

import os
import pathlib
import sys

from operations import NEVER
from stage import ROOT

C_OPERATIONS = ["session", "batch", "parallel", "in-place"]
JAVA_OPERATIONS = ["session", "batch", "parallel"]


def verdict(stage, command, operation, lie, after):
    ended = stage.lying([*command, stage.engine, operation], lie, after)
    words = ended.stdout.decode().split()
    if len(words) != 4:
        if lie != "die":
            print(operation, ended.returncode, ended.stderr.decode(), file=sys.stderr)
        # The module ended the process, which nobody can miss.
        return "told" if (lie, ended.returncode) == ("die", 99) else "NOTHING SAID"
    if words[3] == "1":
        return "told"
    return "right" if words[1] == "0" else "WRONG"


def require_honesty_succeeds(stage, command, operations):
    for operation in operations:
        if verdict(stage, command, operation, "flip", NEVER) != "right":
            raise SystemExit(f"{command[0]} {operation}: it fails without a lie")


def c_program(run, home, built):
    """Compiles it to `home`, and returns its command."""
    program = home / "liar"
    (home / "libevener.so.1").symlink_to(built / "libevener.so")
    compiled = run([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror",
                    "-Wno-missing-field-initializers", f"-I{ROOT}/bindings/c/include",
                    ROOT / "tests/liar/liar.c", f"-L{built}", "-levener",
                    f"-Wl,-rpath,{home}", "-o", program])
    assert compiled.returncode == 0, compiled.stderr.decode()
    return [program]


def java_program(run, home, built):
    """The same for Java; None where there is no JDK for it."""
    homes = sorted(pathlib.Path("/usr/lib/jvm").glob("*/bin/javac"), reverse=True)
    named = os.environ.get("JAVA_HOME")
    homes = ([pathlib.Path(named) / "bin/javac"] if named else []) + homes
    for javac in homes:
        version = run([javac, "-version"]).stdout.decode().split()
        if len(version) == 2 and int(version[1].split(".")[0]) >= 22:
            break
    else:
        print("skipped: liars in Java: there is no JDK of version 22 or later")
        return None
    classes = home / "classes"
    sources = sorted((ROOT / "bindings/java/src/main/java/io/evener").glob("*.java"))
    compiled = run([javac, "-d", classes, *sources, ROOT / "tests/liar/Liar.java"])
    assert compiled.returncode == 0, compiled.stderr.decode()
    return [javac.parent / "java", "--enable-native-access=ALL-UNNAMED", "-cp", classes,
            f"-Devener.library={built}/libevener.so", "Liar"]
