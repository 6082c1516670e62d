"""Processes and threads of Python that share locks, pools and barriers, by fork and by spawn;
prints the sums."""

import concurrent.futures
import multiprocessing
import multiprocessing.shared_memory
import subprocess
import threading


def square(number):
    return number * number


def echo(number):
    return subprocess.run(["echo", str(number)], capture_output=True).stdout


def add(value, count):
    for _ in range(count):
        with value.get_lock():
            value.value += 1


def main():
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        value = context.Value("i", 0)
        processes = [context.Process(target=add, args=(value, 500)) for _ in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        with context.Pool(4) as pool:
            total = sum(pool.imap_unordered(square, range(500), 20))
        print(method, value.value, total, [process.exitcode for process in processes])
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        print(sum(pool.map(square, range(5000))))
        print(list(pool.map(echo, range(20)))[-1])
    barrier = threading.Barrier(20)
    turn = threading.Condition()
    met = []

    def meet():
        for _ in range(50):
            barrier.wait()
        with turn:
            met.append(1)
            turn.notify_all()

    threads = [threading.Thread(target=meet) for _ in range(20)]
    for thread in threads:
        thread.start()
    with turn:
        while not turn.wait_for(lambda: len(met) == 20, timeout=0.001):
            pass
    print(len(met))


if __name__ == "__main__":
    main()
