# Follows a call of a lock, step by step, until it sleeps in the kernel. Prints each function of the lock's sources that
# it enters, and the file of that function. Run by gdb; $SOURCES is the folder of the sources.
import os
import re

import gdb

FUTEX = {"i386:x86-64": 202, "aarch64": 98}
SOURCES = os.environ["SOURCES"]


def plain(name):
    """The name of a function without its parameters of types."""
    while "<" in name:
        name = re.sub(r"<[^<>]*>", "", name.replace("->", ""))
    return name


for setting in ("pagination off", "confirm off", "debuginfod enabled off"):
    gdb.execute("set " + setting)
gdb.execute("break begins", to_string=True)
gdb.execute("run", to_string=True)
# Others, such as the thread that holds the lock, stay where they are.
gdb.execute("set scheduler-locking on")
futex = FUTEX[gdb.selected_inferior().architecture().name()]
entered, changes, last = [], 0, None
for _ in range(100_000):
    gdb.execute("step", to_string=True)
    frame = gdb.newest_frame()
    table = frame.find_sal().symtab
    file = table.fullname() if table else ""
    if not file.startswith(SOURCES):
        continue
    function, file = plain(frame.name()), file[len(SOURCES):]
    if (file, function) not in entered:
        entered.append((file, function))
        print("entered", file, function, flush=True)
    changes += last not in (None, file)
    last = file
    if function.endswith("::syscall") and int(frame.read_var("number")) == futex:
        print("asleep after", changes, "changes of the file", flush=True)
        break
gdb.execute("kill")
