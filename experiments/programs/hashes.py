"""Hashes blocks in threads that share a queue and a dictionary.

hashlib lets go of the interpreter lock for large blocks, so the threads really run side by side.
Prints the digests, so that runs under different locks can be compared.
"""

import hashlib
import queue
import threading

BLOCKS, THREADS = 10000, 8
work = queue.Queue(maxsize=32)
digests = {}
lock = threading.Lock()


def worker():
    while (number := work.get()) is not None:
        block = number.to_bytes(4, "little") * 16384
        digest = hashlib.sha256(block).hexdigest()
        with lock:
            digests[number] = digest


threads = [threading.Thread(target=worker) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for number in range(BLOCKS):
    work.put(number)
for _ in threads:
    work.put(None)
for thread in threads:
    thread.join()
print(hashlib.sha256("".join(digests[n] for n in range(BLOCKS)).encode()).hexdigest())
