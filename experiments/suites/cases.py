"""The cases of each suite: how they are built, and how each is run.

A suite is a function that returns its cases, and the reasons why some can't run here. Nothing of
another project is copied: the sources of tests are read where their own project or Debian has put
them.
"""

import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Case:
    """One run: `command` in `folder` (default: a fresh one), for at most `seconds`."""

    name: str
    command: list
    folder: pathlib.Path | None = None
    seconds: int = 60
    # Whether the output must be the same too, and not only the exit code.
    output_counts: bool = False
    # Whether the suite's cases run one after another.
    alone: bool = False
    environment: dict = dataclasses.field(default_factory=dict)
    # Where a library that the case preloads itself stands: 0 is before ours, 1 behind it.
    position: int = 0


def compile_all(sources, names, flags, folder, also=()):
    """Compiles each source to a program, unless an earlier call has; returns the programs, and how
    many did not compile."""
    folder.mkdir(parents=True, exist_ok=True)

    def compile_one(source, name):
        program = folder / name
        if program.exists():
            return program
        command = ["cc", *flags(source), "-w", "-O1", str(source), *map(str, also), "-o",
                   str(program), "-pthread", "-lrt", "-lm", "-ldl"]
        done = subprocess.run(command, capture_output=True)
        return program if done.returncode == 0 else None

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        programs = list(pool.map(compile_one, sources, names))
    compiled = [program for program in programs if program]
    return compiled, len(programs) - len(compiled)


# Areas of the Open POSIX test suite that use what the library replaces.
POSIX_AREAS = ["conformance/interfaces/pthread_*", "conformance/interfaces/sem_*",
               "conformance/interfaces/fork", "functional/threads"]


def posix(work, options):
    """The Open POSIX test suite, of the Linux Test Project."""
    if options.posix is None:
        return [], ["name a copy of the Linux Test Project by --posix: "
                    "git clone --depth 1 https://github.com/linux-test-project/ltp"]
    root = options.posix / "testcases/open_posix_testsuite"
    sources = sorted(source for area in POSIX_AREAS for source in root.glob(area + "/**/*.c"))
    names = ["_".join(source.relative_to(root).with_suffix("").parts[1:]) for source in sources]
    folder = work / "posix"
    programs, failed = compile_all(
        sources, names, lambda _: ["-std=gnu99", "-D_GNU_SOURCE", f"-I{root / 'include'}"], folder,
        [root / "lib/common.c"])
    cases = [Case(program.name, [program]) for program in programs]
    return cases, [f"{failed} sources do not compile"] if failed else []


# Headers of glibc's own sources that its tests and their helpers include.
GLIBC_HEADERS = ["intprops*.h", "array_length.h", "verify.h", "libc-diag.h", "scratch_buffer.h",
                 "libc-pointer-arith.h"]
# What glibc's build system would otherwise define.
GLIBC_SHIM = """
#include <limits.h>
#include <elf.h>
#define libc_hidden_def(name)
#define libc_hidden_proto(name)
#define DEFAULT_STACK_PERMS (PF_R | PF_W)
""" + "".join(f'#define {name}_PATH "/usr"\n' for name in [
    "SRCDIR", "OBJDIR", "OBJDIR_ELF_LDSO", "INSTDIR", "LIBDIR", "SLIBDIR", "BINDIR", "SBINDIR",
    "ROOTSBINDIR", "LOCALEDIR", "COMPLOCALEDIR", "SYSCONFDIR"])


def glibc(work, options):
    """glibc's own tests of threads, as far as they need neither its build nor its internals."""
    if options.glibc is None:
        return [], ["apt-get install glibc-source, or name an archive by --glibc"]
    root = work / "glibc"
    root.mkdir(parents=True, exist_ok=True)
    parts = ["nptl/*", "sysdeps/pthread/*", "support/*", "test-skeleton.c",
             "malloc/scratch_buffer*", *(f"include/{name}" for name in GLIBC_HEADERS)]
    subprocess.run(["tar", "xf", options.glibc, "-C", root, "--strip-components=1", "--wildcards",
                    *(f"*/{part}" for part in parts)], check=True)
    own = work / "shim"
    own.mkdir(exist_ok=True)
    (own / "shim.h").write_text(GLIBC_SHIM)
    (own / "config.h").touch()
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-DTIMEOUTFACTOR=1", f"-I{root}", f"-I{root}/support",
             f"-I{own}", f"-I{root}/sysdeps/pthread", "-idirafter", f"{root}/include", "-include",
             f"{own}/shim.h"]
    library = glibc_support(root, own, flags)
    sources = sorted([*root.glob("nptl/tst-*.c"), *root.glob("sysdeps/pthread/tst-*.c")])
    folder = work / "glibc-tests"
    programs, failed = compile_all(
        sources, [source.stem for source in sources],
        lambda source: [*flags, f"-I{source.parent}"], folder, [library])
    cases = [Case(program.name, [program], seconds=120) for program in programs]
    why = f"{failed} sources need glibc's own build, or are part of another test"
    return cases, [why] if failed else []


def glibc_support(root, own, flags):
    """Builds the helpers of glibc's tests, unless an earlier call has: those of `support/` that
    compile outside its build."""
    def compile_one(source):
        done = subprocess.run(["cc", *flags, "-w", "-c", source, "-o", own / f"{source.stem}.o"],
                              capture_output=True)
        return done.returncode == 0

    library = own / "libsupport.a"
    if library.exists():
        return library
    skipped = ("tst-", "test-driver", "test-run", "links-dso")
    sources = [source for source in root.glob("support/*.c")
               if not source.stem.startswith(skipped) and "container" not in source.stem]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, sources))
    subprocess.run(["ar", "rcs", library, *own.glob("*.o")], check=True)
    return library


def python(_work, _options):
    """The tests of threads that come with Python."""
    # Debian's own interpreter: another in PATH may have other tests.
    interpreter = "/usr/bin/python3"
    names = ["test_thread", "test_threading", "test_threading_local", "test_threadsignals",
             "test_threadedtempfile", "test_queue", "test_concurrent_futures", "test_sched",
             "test_multiprocessing_fork", "test_fork1", "test_subprocess", "test_asyncio"]
    found = subprocess.run([interpreter, "-c", "import test.test_threading"], capture_output=True)
    if found.returncode != 0:
        return [], ["apt-get install libpython3.11-testsuite (or that of your Python)"]
    return [Case(name, [interpreter, "-m", "test", "-q", name], seconds=600) for name in names], []


def glib(_work, _options):
    """The tests of GLib that Debian installs."""
    folder = pathlib.Path("/usr/libexec/installed-tests/glib")
    names = ["asyncqueue", "cond", "mutex", "rec-mutex", "rwlock", "once", "private", "thread",
             "thread-pool", "thread-pool-slow", "thread-deprecated", "spawn-multithreaded",
             "mainloop", "timeout", "unix-multithreaded", "signals", "threadtests", "gdbus-threading",
             "task", "gsubprocess", "slice-threadinit", "slice-concurrent", "atomic"]
    found = [name for name in names if (folder / name).exists()]
    if not found:
        return [], ["apt-get install libglib2.0-tests"]
    return [Case(name, [folder / name], folder, seconds=300) for name in found], []


def stress(_work, _options):
    """stress-ng's stressors of what threads share, which verify themselves."""
    if not shutil.which("stress-ng"):
        return [], ["apt-get install stress-ng"]
    # Without `resources` and `tmpfs`, which use up memory or disk: runs with them filled the disk.
    names = ["mutex", "pthread", "sem", "futex", "malloc", "fork", "vm-addr", "lockbus",
             "schedpolicy", "tree", "mmap", "judy", "spawn", "nanosleep", "timer", "sigpipe",
             "prefetch", "funccall", "peterson", "daemon", "exec", "clone", "mq"]
    return [Case(name, ["stress-ng", f"--{name}", "2", "--timeout", "2", "--verify"], alone=True)
            for name in names], []


# Name, a command that it needs, Debian's package of it, and the run; `@` is the folder of the
# programs here, `%` that of `experiments/programs`.
PROGRAMS = [
    ("memcached-memcslap", "memcslap", "libmemcached-tools memcached",
     "%/memcached.sh 16 500 >/dev/null"),
    ("memcached-conformance", "memccapable", "libmemcached-tools memcached",
     "@/memcached-conformance.sh"),
    ("redis", "redis-server", "redis-server redis-tools", "@/redis.sh"),
    ("sysbench-threads", "sysbench", "sysbench",
     "sysbench threads --threads=16 --thread-locks=4 --time=2 run >/dev/null"),
    ("sysbench-mutex", "sysbench", "sysbench",
     "sysbench mutex --threads=16 --mutex-num=4 --mutex-locks=20000 --mutex-loops=100 run"
     " >/dev/null"),
    ("sysbench-memory", "sysbench", "sysbench",
     "sysbench memory --threads=8 --time=2 run >/dev/null"),
    ("xz", "xz", "xz-utils",
     "seq 2000000 | xz -T4 -1 --block-size=500000 -c | xz -T4 -dc | sha256sum"),
    ("zstd", "zstd", "zstd", "seq 4000000 | zstd -T4 -3 -q -c | zstd -dc | sha256sum"),
    ("pigz", "pigz", "pigz", "seq 2000000 | pigz -p 8 -c | pigz -dc | sha256sum"),
    ("pbzip2", "pbzip2", "pbzip2",
     "seq 300000 | pbzip2 -p4 -c -q | pbzip2 -dc -q | sha256sum"),
    ("sort", "sort", "coreutils",
     "seq 600000 | sort -R --parallel=8 -S 8M | sort -n --parallel=8 -S 8M | sha256sum"),
    ("git", "git", "git", "@/git.sh"),
    ("perl", "perl", "perl", "perl @/threads.pl"),
    ("ruby", "ruby", "ruby", "ruby @/threads.rb"),
    ("python", "python3", "python3", "/usr/bin/python3 %/hashes.py"),
    ("java", "java", "openjdk-17-jdk-headless", "java @/Threads.java"),
    ("rocksdb", "db_bench", "rocksdb-tools",
     "db_bench --benchmarks=fillrandom,readwhilewriting --num=20000 --threads=8 --db=$PWD/db"
     " >/dev/null 2>&1"),
    ("sqlite", "python3", "python3", "/usr/bin/python3 @/sqlite.py"),
    ("ffmpeg", "ffmpeg", "ffmpeg",
     "ffmpeg -v error -f lavfi -i testsrc=duration=2 -threads 8 -f framemd5 -"),
    ("ffmpeg-x264", "ffmpeg", "ffmpeg",
     "ffmpeg -v error -f lavfi -i testsrc=duration=2 -c:v libx264 -preset fast -threads 6 -f mpegts"
     " out.ts && ffmpeg -v error -threads 6 -i out.ts -f framemd5 -"),
    ("nginx", "nginx", "nginx curl wrk apache2-utils", "@/nginx.sh"),
    ("redis-benchmark", "redis-benchmark", "redis-server redis-tools", "@/redis-benchmark.sh"),
    ("mariadb", "mariadb-install-db", "mariadb-server", "@/mariadb.sh"),
    ("postgres", "pg_createcluster", "postgresql", "@/postgres.sh"),
    ("node", "node", "nodejs", "node @/workers.js"),
    ("cgo", "go", "golang-go", "@/cgo.sh"),
    ("jshell", "jshell", "openjdk-21-jdk-headless", "@/jshell.sh"),
    ("chromium", "chromium", "chromium", "@/chromium.sh"),
    ("make", "make", "make g++", "@/make.sh"),
    ("cargo", "cargo", "cargo", "@/cargo.sh"),
    ("ripgrep-git", "rg", "ripgrep git linux-libc-dev", "@/ripgrep.sh"),
    ("python-workers", "python3", "python3", "/usr/bin/python3 @/workers.py"),
    ("php-fpm", "cgi-fcgi", "php-fpm libfcgi-bin", "@/php-fpm.sh"),
    ("bash", "bash", "bash", "@/bash.sh"),
]


def programs(_work, _options):
    """Programs in daily use, whose output must be the same."""
    cases, why_not = [], []
    for name, needs, package, command in PROGRAMS:
        if not shutil.which(needs):
            why_not.append(f"{name}: apt-get install {package}")
            continue
        command = command.replace("@", str(HERE / "programs"))
        command = command.replace("%", str(HERE.parent / "programs"))
        cases.append(Case(name, ["sh", "-c", command], seconds=120, output_counts=True,
                          alone=True))
    return cases, why_not


def jemalloc(_work, _options):
    """Threads that allocate, and forks, with jemalloc preloaded before and behind the library."""
    library = next(pathlib.Path("/usr/lib").glob("*/libjemalloc.so.2"), None)
    if library is None:
        return [], ["apt-get install libjemalloc2"]
    cases = []
    commands = {"python-forks": ["/usr/bin/python3", HERE / "programs/forks.py"],
                "python-hashes": ["/usr/bin/python3", HERE.parent / "programs/hashes.py"]}
    for name, command in commands.items():
        for position, where in enumerate(["before", "behind"]):
            cases.append(Case(f"{name}-{where}", command, output_counts=True, seconds=120,
                              environment={"LD_PRELOAD": str(library)}, position=position))
    return cases, []


SUITES = {"posix": posix, "glibc": glibc, "python": python, "glib": glib, "stress": stress,
          "programs": programs, "jemalloc": jemalloc}
