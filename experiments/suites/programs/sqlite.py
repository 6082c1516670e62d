"""Threads that write to one SQLite database in memory, which serialises them by its own mutexes;
prints what they have written."""

import sqlite3
import threading

URI = "file:shared?mode=memory&cache=shared"
keeper = sqlite3.connect(URI, uri=True, check_same_thread=False)
keeper.execute("CREATE TABLE t (thread INTEGER, number INTEGER)")
keeper.commit()
one = threading.Lock()


def work(thread):
    own = sqlite3.connect(URI, uri=True, timeout=60)
    for number in range(300):
        with one:
            own.execute("INSERT INTO t VALUES (?, ?)", (thread, number))
            own.commit()
        keeper.execute("SELECT 1").fetchall()
    own.close()


threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(keeper.execute("SELECT count(*), sum(number) FROM t").fetchall())
