"""Tells pgbench's runs as ratios: each server over stock in the same round, medians with ranges.

Takes a file of JSON lines as experiments/pgbench.sh writes them, and prints a table: transactions a
second of stock, each other server over it, how far single rounds of stock are from stock's median
(the noise), and whether a difference is beyond that.
"""

import json
import statistics
import sys

# Fewer rounds say the same by chance more often than once in twenty: 2 to the power of 1 - 6 is 3 %.
ENOUGH = 6
SERVERS = ["stock", "off", "on", "preload"]


def spread(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f}..{max(values):.3f})"


def main(path):
    with open(path, encoding="utf-8") as lines:
        runs = [json.loads(line) for line in lines]
    points = {}
    for run in runs:
        rounds = points.setdefault((run["script"], run["clients"], run["cpus"]), {})
        rounds.setdefault(run["round"], {})[run["server"]] = run["tps"]
    head = ["script, clients on CPUs", "rounds", "stock, tps", "noise", *SERVERS[1:]]
    head.append("beyond the noise")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for (script, clients, cpus), rounds in sorted(points.items()):
        # A round that was cut off has no ratios.
        whole = [tps for tps in rounds.values() if len(tps) == len(SERVERS)]
        if not whole:
            continue
        stock = [tps["stock"] for tps in whole]
        middle = statistics.median(stock)
        noise = statistics.median(abs(tps / middle - 1) for tps in stock)
        ratios = {name: [tps[name] / tps["stock"] for tps in whole] for name in SERVERS[1:]}
        # Beyond, if no round says the opposite and the median is farther off than stock from itself.
        beyond = [
            name
            for name, of in ratios.items()
            if abs(statistics.median(of) - 1) > noise and (min(of) > 1 or max(of) < 1)
        ] or ["none"]
        if len(whole) < ENOUGH:
            beyond = ["too few rounds to say"]
        cells = [f"{script}, {clients} on {cpus}", len(whole), f"{middle:.0f}"]
        cells.append(f"{100 * noise:.1f} %")
        cells += [spread(ratios[name]) for name in SERVERS[1:]] + [", ".join(beyond)]
        print("| " + " | ".join(map(str, cells)) + " |")


main(sys.argv[1])
