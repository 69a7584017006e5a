# SPDX-License-Identifier: Apache-2.0
"""PyTorch in bench/functions: orders and answers as in functions.c.

Results go to an array that stays (`out=`).
"""

import json
import sys
import time

import torch

NAMES = {"erf": torch.special.erf, "erfc": torch.special.erfc,
         "remainder": torch.fmod}  # The sign of x, as ours.
BINARY = ("pow", "atan2", "remainder")
prepared, work = None, None


def numbers(dtype, count, stride):
    i = torch.arange(count, dtype=torch.int64)
    return (0.1 + 7.9 * (i * stride % 1000003).double() / 1000003).to(dtype)


def prepare(name, dtype, count):
    dtype = {"f32": torch.float32, "f64": torch.float64}[dtype]
    call = NAMES.get(name) or getattr(torch, name)
    args = [numbers(dtype, count, 7919)]
    if name in BINARY:
        args.append(numbers(dtype, count, 104729))
    return call, args, torch.empty(count, dtype=dtype)


torch.set_num_threads(int(sys.argv[2]))
print("{}", flush=True)
for line in sys.stdin:
    _, trips, *row = line.split()
    if row != prepared:
        prepared, work = row, prepare(row[0], row[1], int(row[2]))
    call, args, out = work
    times = []
    for _ in range(int(trips)):
        before = time.perf_counter()
        call(*args, out=out)
        times.append((time.perf_counter() - before) * 1e3)
    print(json.dumps({"ms": times, "sum": out[:1000].double().sum().item()}),
          flush=True)
