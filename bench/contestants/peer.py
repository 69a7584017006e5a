# SPDX-License-Identifier: Apache-2.0
"""What all peers share: flags, first weights, and answering orders.

A peer is a process that builds its training step, runs it once and then does
what it is told on standard input, as bench/contestants/serve.c does:

  run K   K steps, each timed with its loss at hand; the answer is one line
          {"ms": [...], "loss": L}
  row K   K steps, of which the last one alone is waited for; the answer is one
          line {"ms": [mean], "loss": L}
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
    "gpt-large": ("adam", 1e-3),
}
BN_MOMENTUM, BN_EPSILON, LN_EPSILON = 0.9, 1e-5, 1e-5
# Batch, tokens, width, blocks and heads.
GPTS = {"gpt": (16, 128, 256, 4, 4), "gpt-large": (8, 1024, 768, 12, 12)}
VOCABULARY = 256
RESNET_STAGES, RESNET_BLOCKS = 3, 3

_DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32}


def arguments():
    """The flags of a peer. Importing a framework comes after this."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=OPTIMIZERS)
    # gpt-large has random ones.
    parser.add_argument("--weights")
    parser.add_argument("--device", default="cpu", choices=("cpu", "gpu"))
    # Products of f32 on GPUs: in f32, or in TF32.
    parser.add_argument("--products", default="highest",
                        choices=("highest", "default"))
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--precision", default="f32",
                        choices=("f32", "f64", "bf16"))
    parser.add_argument("--compile", action="store_true")  # PyTorch's.
    parser.add_argument("--graph", action="store_true")    # PyTorch's, of CUDA.
    parser.add_argument("--rank", type=int, default=0)     # PyTorch's.
    parser.add_argument("--meet", default="")              # PyTorch's.
    return parser.parse_args()


def make_gpt(name):
    """Random weights of a gpt, tokens and labels."""
    batch, tokens, width, blocks, _ = GPTS[name]
    rng = np.random.default_rng(0)
    shapes = {"embedding/table": (VOCABULARY, width),
              "positions": (tokens, width)}
    for i in range(1, blocks + 1):
        block = f"block{i}"
        shapes |= {f"{block}/norm1/scale": (width,),
                   f"{block}/norm1/offset": (width,),
                   f"{block}/attention/qkv/kernel": (width, 3 * width),
                   f"{block}/attention/out/kernel": (width, width),
                   f"{block}/norm2/scale": (width,),
                   f"{block}/norm2/offset": (width,),
                   f"{block}/up/kernel": (width, 4 * width),
                   f"{block}/down/kernel": (4 * width, width)}
    shapes |= {"norm/scale": (width,), "norm/offset": (width,)}
    weights = {key: np.full(shape, float(key.endswith("scale")), np.float32)
               if len(shape) == 1 else
               (rng.standard_normal(shape) * 0.02).astype(np.float32)
               for key, shape in shapes.items()}
    batches = rng.integers(0, VOCABULARY, (2, batch, tokens)).astype(np.int32)
    return weights, batches[0], batches[1]


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


def answer(step, tell=None, mean=lambda loss: loss, start=None):
    """Runs `step`, which returns the loss as a float, as it is ordered; `start`
    returns one that may be on its way.

    For a peer of many processes: `tell` passes each order on first, and `mean`
    makes the loss of all from that of this one, which is not timed.
    """
    print(json.dumps({"loss": mean(step())}), flush=True)
    for line in sys.stdin:
        words = line.split()
        if len(words) != 2 or words[0] not in ("run", "row"):
            sys.exit(f"expected 'run K' or 'row K', got {line!r}")
        if words[0] == "row":
            before = time.perf_counter()
            for _ in range(int(words[1])):
                loss = start()
            loss = float(loss)
            ms = (time.perf_counter() - before) * 1e3 / int(words[1])
            print(json.dumps({"ms": [ms], "loss": loss}), flush=True)
            continue
        if tell is not None:
            tell(line)
        times, loss = [], 0.0
        for _ in range(int(words[1])):
            before = time.perf_counter()
            loss = step()
            times.append((time.perf_counter() - before) * 1e3)
        print(json.dumps({"ms": times, "loss": mean(loss)}), flush=True)
