# SPDX-License-Identifier: Apache-2.0
"""What all peers share: flags, first weights, and answering orders.

A peer is a process that builds its training step, runs it once and then does
what it is told on standard input, as bench/contestants/serve.c does:

  run K   K steps, each timed with its loss at hand; the answer is one line
          {"ms": [...], "loss": L}
"""

import argparse
import json
import os
import sys
import time

import numpy as np

# What a step does with its gradients: the kind and the rate. Momentum is 0.9;
# Adam has 0.9, 0.999 and 1e-8. As in the reference models.
OPTIMIZERS = {
    "tiny": ("sgd", 0.1),
    "mlp": ("sgd", 0.1),
    "cnn": ("adam", 1e-3),
    "resnet20": ("momentum", 0.1),
    "gpt": ("adam", 1e-3),
}
BN_MOMENTUM, BN_EPSILON, LN_EPSILON = 0.9, 1e-5, 1e-5
GPT_BLOCKS, GPT_HEADS = 4, 4
RESNET_STAGES, RESNET_BLOCKS = 3, 3

_DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32}


def arguments():
    """The flags of a peer. Importing a framework comes after this."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=OPTIMIZERS)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--precision", default="f32",
                        choices=("f32", "f64", "bf16"))
    parser.add_argument("--compile", action="store_true")  # PyTorch's.
    parser.add_argument("--rank", type=int, default=0)     # PyTorch's.
    parser.add_argument("--meet", default="")              # PyTorch's.
    return parser.parse_args()


def load(path):
    """The file of `serve --export`: weights by name, examples, labels."""
    arrays = {}
    with open(path, "rb") as file:
        heads = []
        for line in iter(file.readline, b"\n"):
            name, dtype, *shape = line.decode().split()
            heads.append((name, _DTYPES[dtype], [int(n) for n in shape]))
        for name, dtype, shape in heads:
            count = int(np.prod(shape, dtype=np.int64))
            data = np.fromfile(file, dtype, count)
            arrays[name] = data.reshape(shape)
    return arrays, arrays.pop("examples"), arrays.pop("labels")


def is_trained(name):
    return "/moving_" not in name


def resnet_units():
    """(stage, block, whether it halves the image), in order."""
    for stage in range(1, RESNET_STAGES + 1):
        for block in range(1, RESNET_BLOCKS + 1):
            yield stage, block, stage > 1 and block == 1


def answer(step, tell=None, mean=lambda loss: loss):
    """Runs `step`, which returns the loss as a float, as it is ordered.

    For a peer of many processes: `tell` passes each order on first, and `mean`
    makes the loss of all from that of this one, which is not timed.
    """
    print(json.dumps({"loss": mean(step())}), flush=True)
    for line in sys.stdin:
        words = line.split()
        if len(words) != 2 or words[0] != "run":
            sys.exit(f"expected 'run K', got {line!r}")
        if tell is not None:
            tell(line)
        times, loss = [], 0.0
        for _ in range(int(words[1])):
            before = time.perf_counter()
            loss = step()
            times.append((time.perf_counter() - before) * 1e3)
        print(json.dumps({"ms": times, "loss": mean(loss)}), flush=True)
