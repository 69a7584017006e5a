# SPDX-License-Identifier: Apache-2.0
"""A peer of bench/checkpoint: saves and loads as many arrays as ours.

'run K' saves and loads K times. A save ends when fsync says that it is on the
disk; what is loaded is copied into arrays that are there, as into a model's.

usage: checkpoint_peer.py torch|safetensors MIB FOLDER THREADS
"""

import json
import os
import sys
import time
from pathlib import Path

TENSORS = 64
kind, mib, folder, threads = sys.argv[1], *sys.argv[2:5]
path = Path(folder) / f"peer.{kind}"
size = int(mib) * 2**20 // TENSORS // 4

import torch  # noqa: E402

torch.set_num_threads(int(threads))
state = {f"weights_{i}": torch.arange(size, dtype=torch.float32) + i
         for i in range(TENSORS)}
if kind == "safetensors":
    from safetensors.torch import load_file, save_file


def sync(name):
    handle = os.open(name, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def save():
    aside = path.with_suffix(".new")
    if kind == "torch":
        torch.save(state, aside)
    else:
        save_file(state, aside)
    returned = time.monotonic()
    sync(aside)
    aside.rename(path)
    sync(folder)
    return returned


def load():
    held = torch.load(path) if kind == "torch" else load_file(path)
    for name, value in held.items():
        state[name].copy_(value)


def run():
    os.sync()
    begin = time.monotonic()
    returned = save()
    durable = time.monotonic()
    path.read_bytes()  # It is in the system's cache, for all alike.
    loading = time.monotonic()
    load()
    done = time.monotonic()
    return [(returned - begin) * 1e3, (durable - begin) * 1e3,
            (done - loading) * 1e3]


run()
print(json.dumps({"version": torch.__version__}), flush=True)
for line in sys.stdin:
    order, count = line.split()[:2]
    print(json.dumps({"ms": [run() for _ in range(int(count))]}), flush=True)
