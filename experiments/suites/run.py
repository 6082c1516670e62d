#!/usr/bin/env python3
"""Runs programs and test suites that were written elsewhere under libc's locks and under each of
Overlock's, and prints each case that ends otherwise than under libc.

    cargo build --release -p overlock-preload && experiments/suites/run.py --out results

A case that differs is repeated, alone on the machine, under both: a test that libc too fails now
and then in the same way is "unsteady", not a difference. The exit code is 1 if there was a difference, 2 if
nothing could run. docs/suites.md lists what each suite needs, and what was seen.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import cases
import self_test

SUITES = cases.SUITES | {"self-test": self_test.suite}
LOCKS = ["none", "hybrid", "queued", "ticket", "test-and-set"]


def run(case, lock, library, counters):
    """Runs a case once; returns its exit code (negative: the signal) or `hang`, what of the output
    counts, and all of it."""
    environment = dict(os.environ, **case.environment)
    if lock != "libc":
        preload = [str(library)]
        if "LD_PRELOAD" in case.environment:
            preload.insert(case.position, case.environment["LD_PRELOAD"])
        environment |= {"LD_PRELOAD": ":".join(preload), "OVERLOCK_LOCK": lock}
        environment["OVERLOCK_COUNTERS"] = str(counters)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            case.command, cwd=case.folder or folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = str(process.wait(case.seconds))
        except subprocess.TimeoutExpired:
            status = "hang"
        try:  # whatever the case has left behind
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        output.seek(0)
        text = output.read().decode(errors="replace")
    lines = [line for line in text.splitlines() if not line.startswith("overlock: ")]
    return status, "\n".join(lines) if case.output_counts else "", text


class Suite:
    """The cases of one suite, and what they gave."""

    def __init__(self, name, found, options):
        self.name, self.cases, self.options = name, found, options
        self.results = {}

    def counters(self, lock):
        return self.options.out / f"{self.name}-{lock}.counters"

    def go(self, case, lock):
        return run(case, lock, self.options.library, self.counters(lock))

    def run_all(self, lock):
        self.counters(lock).unlink(missing_ok=True)
        jobs = 1 if self.cases[0].alone else self.options.jobs
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            given = pool.map(lambda case: self.go(case, lock), self.cases)
            for case, result in zip(self.cases, given):
                self.results[case.name, lock] = result
        print(f"{self.name}: {len(self.cases)} cases on {lock}", file=sys.stderr)

    def verdict(self, case, lock):
        """Compares a lock with libc: `same`, `unsteady`, or `DIFFERS`; and how many runs had a
        result that was never seen under libc."""
        libc, ours = self.results[case.name, "libc"], self.results[case.name, lock]
        if libc[:2] == ours[:2]:
            return "same", ""
        repeats = range(self.options.repeats)
        theirs = {libc[:2]} | {self.go(case, "libc")[:2] for _ in repeats}
        again = [ours[:2]] + [self.go(case, lock)[:2] for _ in repeats]
        others = sum(result not in theirs for result in again)
        if others == 0:
            return "unsteady", ""
        return "DIFFERS", f", in {others} of {len(again)} runs"

    def waits(self, lock):
        """How often threads waited for a replaced mutex or condition variable in all cases."""
        try:
            records = [json.loads(line) for line in self.counters(lock).read_text().splitlines()]
        except FileNotFoundError:
            return 0, 0, 0
        return (len(records), sum(record["mutex"]["locks_contended"] for record in records),
                sum(record["cond"]["waits"] for record in records))

    def report(self, file):
        """Writes a table, and the cases that differ; returns how many do."""
        different = 0
        bad = [f"{case.name} ({self.results[case.name, 'libc'][0]})" for case in self.cases
               if self.results[case.name, "libc"][0] != "0"]
        print(f"{self.name:10} libc          {len(self.cases):5} cases, "
              f"{len(self.cases) - len(bad)} passed; not: {', '.join(bad) or 'none'}", file=file)
        for lock in self.options.locks:
            verdicts = {case.name: self.verdict(case, lock) for case in self.cases}
            count = [verdict for verdict, _ in verdicts.values()].count
            passed = sum(self.results[case.name, lock][0] == "0" for case in self.cases)
            processes, contended, waits = self.waits(lock)
            print(f"{self.name:10} {lock:13} {len(self.cases):5} cases, {passed} passed,"
                  f" {count('same')} as libc, {count('unsteady')} unsteady,"
                  f" {count('DIFFERS')} different; {processes} processes,"
                  f" {contended} contended mutexes, {waits} waits for conditions", file=file)
            for case in self.cases:
                verdict, runs = verdicts[case.name]
                if verdict == "same":
                    continue
                libc, ours = self.results[case.name, "libc"], self.results[case.name, lock]
                print(f"    {verdict} {case.name}: libc {libc[0]}, {lock} {ours[0]}{runs}",
                      file=file)
                (self.options.out / f"{case.name}-{lock}.txt").write_text(ours[2])
                (self.options.out / f"{case.name}-libc.txt").write_text(libc[2])
            file.flush()
            different += count("DIFFERS")
        return different


def arguments():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(cases.SUITES))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results"))
    parser.add_argument("--library", type=pathlib.Path,
                        default=here.parents[1] / "target/release/liboverlock_preload.so")
    parser.add_argument("--posix", type=pathlib.Path, metavar="FOLDER",
                        help="a copy of the Linux Test Project")
    parser.add_argument("--glibc", type=pathlib.Path, metavar="ARCHIVE",
                        default=next(pathlib.Path("/usr/src/glibc").glob("glibc-*.tar.xz"), None),
                        help="the sources of glibc; Debian's package glibc-source has them")
    parser.add_argument("--locks", type=lambda names: names.split(","), default=LOCKS)
    parser.add_argument("--only", default="", metavar="TEXT",
                        help="cases whose name contains this")
    parser.add_argument("--work", type=pathlib.Path, metavar="FOLDER",
                        help="keep compiled tests here for the next call, instead of removing them")
    parser.add_argument("--jobs", type=int, default=4 * (os.cpu_count() or 1),
                        help="tests at once; most of them sleep")
    parser.add_argument("--repeats", type=int, default=4, metavar="N",
                        help="how often a case that differs is repeated under both")
    parser.add_argument("--self-test", action="store_true",
                        help="check that broken libraries are noticed, in some seconds")
    return parser.parse_args()


def main():
    options = arguments()
    if options.self_test:
        return self_test.check()
    options.out = options.out.resolve()
    options.library = options.library.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.library.exists():
        sys.exit(f"{options.library} is not there: cargo build --release -p overlock-preload")
    different = ran = 0
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(options.out / "suites.txt", "a"))
        work = options.work or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in options.suites or cases.SUITES:
            found, why_not = SUITES[name](work.resolve(), options)
            for reason in why_not:
                print(f"skipped: {name}: {reason}")
            found = [case for case in found if options.only in case.name]
            if not found:
                continue
            suite = Suite(name, found, options)
            for lock in ["libc", *options.locks]:
                suite.run_all(lock)
            different += suite.report(file)
            ran += 1
    print((options.out / "suites.txt").read_text(), end="")
    return 2 if not ran else 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
