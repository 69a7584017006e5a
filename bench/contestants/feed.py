# SPDX-License-Identifier: Apache-2.0
"""What the peers of bench/data share: flags, the files, and answering orders.

A peer reads an epoch and answers {"examples": N, "mean": M}; then, to each
order "run K", it reads K batches, epoch after epoch, and answers
{"ms": [W], "cpu_ms": C, "examples": N}, as bench/common/feed.c does.
"""

import argparse
import json
import resource
import sys
import time

BATCH, IMAGE_BATCH, HELD, PIXELS, SIDE = 128, 32, 10000, 784, 224
SCALE = 1 / 255


def arguments():
    """The flags of a peer. Importing a framework comes after this."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work")
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def read_idx(folder):
    import numpy as np
    images = np.fromfile(f"{folder}/images.idx", np.uint8, offset=16)
    labels = np.fromfile(f"{folder}/labels", np.uint8, offset=8)
    return images.reshape(len(labels), 28, 28), labels


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def mean_of(batches):
    import numpy as np
    count, total = 0, 0.0
    for values, labels in batches:
        values, labels = np.asarray(values), np.asarray(labels)
        count += len(labels)
        total += (values.mean(dtype=np.float64) * len(labels) +
                  labels.sum(dtype=np.float64))
    return count, total / count


def answer(epoch):
    """`epoch()` gives what iterates over (values, labels)."""
    count, mean = mean_of(epoch())
    print(json.dumps({"examples": count, "mean": mean}), flush=True)
    batches = iter(epoch())
    for line in sys.stdin:
        words = line.split()
        if len(words) != 2 or words[0] != "run":
            sys.exit(f"expected 'run K', got {line!r}")
        wanted, done, examples = int(words[1]), 0, 0
        cpu, before = cpu_seconds(), time.perf_counter()
        while done < wanted:
            batch = next(batches, None)
            if batch is None:
                batches = iter(epoch())
                continue
            done += 1
            examples += len(batch[1])
        wall = time.perf_counter() - before
        print(json.dumps({"ms": [wall / wanted * 1e3],
                          "cpu_ms": (cpu_seconds() - cpu) * 1e3,
                          "examples": examples}), flush=True)
