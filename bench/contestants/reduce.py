# SPDX-License-Identifier: Apache-2.0
"""What the peers of bench/all_reduce share: flags, and answering orders.

A peer is a process (or the first of some) that does what it is told on standard
input, as bench/contestants/reduce.c does:

  run K BYTES   K all-reduces of vectors of so many bytes; the answer is one
                line {"ms": [...], "sum": S}, of one each, with S the first
                element of the sum of vectors that hold r + 1 on replica r
"""

import argparse
import json
import sys
import time

MOST_CALLS = 10


def arguments():
    """The flags of a peer. Importing a framework comes after this."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rank", type=int, default=0)  # PyTorch's.
    parser.add_argument("--meet", default="")           # PyTorch's.
    return parser.parse_args()


def answer(prepare, run, tell=None):
    """`prepare(bytes)` makes vectors of a size and gives the first element of
    their sum; `run(count)` makes that many all-reduces. `tell` passes each
    order on first."""
    print("{}", flush=True)
    size, total = 0, 0.0
    for line in sys.stdin:
        if tell is not None:
            tell(line)
        order, count, wanted = line.split()
        if order != "run":
            sys.exit(f"expected 'run K BYTES', got {line!r}")
        if int(wanted) != size:
            size = int(wanted)
            total = prepare(size)
        count = int(count)
        calls = min(count, MOST_CALLS)
        times = []
        for i in range(calls):
            trips = (i + 1) * count // calls - i * count // calls
            before = time.perf_counter()
            run(trips)
            times.append((time.perf_counter() - before) / trips * 1e3)
        print(json.dumps({"ms": times, "sum": total}), flush=True)
