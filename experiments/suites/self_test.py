"""Does `run.py` notice what it is for? It is run here with a library that has one fault at a time:
a lock that excludes no thread, a signal that wakes none, a wrong code. Each must be reported as a
difference, and nothing else must be.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import cases

HERE = pathlib.Path(__file__).resolve().parent
BROKEN = HERE.parents[1] / "crates/overlock-preload/tests/posix/broken.c"

# Fault of the library, case, exit code of `run.py`, and what it must print.
EXPECTED = [
    ("", "counts", 0, "1 as libc, 0 unsteady, 0 different"),
    ("", "wakes", 0, "1 as libc, 0 unsteady, 0 different"),
    ("", "tries", 0, "1 as libc, 0 unsteady, 0 different"),
    ("", "turns", 0, "unsteady turns: libc 0, none 1"),
    ("lock_does_nothing", "counts", 1, "DIFFERS counts: libc 0, none 0, in 3 of 3 runs"),
    ("signal_does_nothing", "wakes", 1, "DIFFERS wakes: libc 0, none hang, in 3 of 3 runs"),
    ("trylock_has_the_wrong_error", "tries", 1, "DIFFERS tries: libc 16, none 11, in 3 of 3 runs"),
    # A failure that is seen once, and never under libc.
    ("", "rarely", 1, "DIFFERS rarely: libc 0, none 1, in 1 of 3 runs"),
]


def suite(work, _options):
    """Cases for this test only. Two of them count their runs, to behave differently in each."""
    program = work / "locks"
    subprocess.run(["cc", "-O1", "-pthread", HERE / "programs/locks.c", "-o", program], check=True)
    found = [cases.Case(name, [program, name], seconds=2 if name == "wakes" else 60,
                        output_counts=True) for name in ["counts", "wakes", "tries"]]
    # Fails in every second run, under libc as under any library.
    turns = f'echo >>{work}/turns; exit $((1 - $(wc -l <{work}/turns) % 2))'
    # Fails only in its first run with a library.
    rarely = f'[ -z "$LD_PRELOAD" ] || mkdir {work}/was-here 2>/dev/null || exit 0; ' \
             '[ -z "$LD_PRELOAD" ]'
    found += [cases.Case(name, ["sh", "-c", script])
              for name, script in [("turns", turns), ("rarely", rarely)]]
    return found, []


def check():
    """Runs everything; returns an exit code."""
    if not shutil.which("cc"):
        sys.exit("the self-test needs a C compiler")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder, "broken.so")
        subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-pthread", BROKEN, "-o", library, "-ldl"],
                       check=True)
        for fault, case, code, text in EXPECTED:
            done = subprocess.run(
                [sys.executable, HERE / "run.py", "self-test", "--library", library, "--locks",
                 "none", "--only", case, "--repeats", "2", "--out", f"{folder}/{fault}{case}"],
                env=dict(os.environ, BROKEN=fault), stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True)
            fine = done.returncode == code and text in done.stdout
            print(f"{'ok' if fine else 'FAILED'}: {case} under {fault or 'no fault'}")
            if not fine:
                print(f"expected exit code {code} and {text!r}; exit code {done.returncode}:\n"
                      + done.stdout)
            failed += not fine
    return 1 if failed else 0
