# SPDX-License-Identifier: MIT OR Apache-2.0
# Two threads compute, and one at a time has the interpreter's lock: both say for how long they did not run.
import json, threading, time

sums = {"waited": 0, "delayed": 0, "total": 0}

def delay():
    return int(open("/proc/thread-self/schedstat").read().split()[1])

def computes():
    start, ran, without = time.monotonic_ns(), time.thread_time_ns(), delay()
    while time.monotonic_ns() - start < 10**9:
        sum(range(1000))
    length = time.monotonic_ns() - start
    sums["total"] += length
    sums["delayed"] += delay() - without
    sums["waited"] += length - (time.thread_time_ns() - ran)

threads = [threading.Thread(target=computes) for _ in range(2)]
for one in threads: one.start()
for one in threads: one.join()
print(json.dumps({"kind": "truth", **sums}, separators=(",", ":")))
