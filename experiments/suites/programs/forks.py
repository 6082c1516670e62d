"""Threads that allocate all the time while the process forks; every child allocates too. Prints how
many children ended well."""

import os
import threading

stop = threading.Event()


def allocate():
    while not stop.is_set():
        for size in (100, 5_000, 200_000):
            bytearray(size)
        [str(number) * 50 for number in range(200)]


threads = [threading.Thread(target=allocate) for _ in range(6)]
for thread in threads:
    thread.start()
well = 0
for _ in range(150):
    child = os.fork()
    if child == 0:
        kept = [bytearray(size) for size in range(0, 300_000, 10_000)]
        os._exit(len(kept) % 7)
    well += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 30 % 7
stop.set()
for thread in threads:
    thread.join()
print(well)
