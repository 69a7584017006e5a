# SPDX-License-Identifier: Apache-2.0
"""What the peers of bench/ops share: orders, cases and answers as in ops.c."""

import argparse
import json
import sys
import time

import ml_dtypes
import numpy as np

SUMMED = 1000
NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16,
         "bf16": ml_dtypes.bfloat16, "bool": np.bool_,
         "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
         "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}
FLOATS = ("f32", "f64", "f16", "bf16")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def draw_numbers(dtype, shape, seed, low, high):
    """The numbers of argument `seed`, as ops.c draws them."""
    h = np.arange(int(np.prod(shape)), dtype=np.uint32)
    h = h * np.uint32(2654435761) + np.uint32(seed * 40503)
    h ^= h >> np.uint32(15)
    h *= np.uint32(0x2c1b3c6d)
    h ^= h >> np.uint32(12)
    h *= np.uint32(0x297a2d39)
    h ^= h >> np.uint32(15)
    value = low + (high - low) * (h >> np.uint32(8)).astype(np.float64) / 2**24
    if dtype not in FLOATS:
        value = np.floor(value).astype(np.int64)
    return value.astype(NUMPY[dtype]).reshape(shape)


def read_attr(word):
    name, _, value = word.partition(":")
    kind, value = value[0], value[2:]
    if kind in "Is":
        value = [int(n) for n in value.split(",")] if value else []
    else:
        value = {"i": int, "b": lambda b: b != "0", "f": float}.get(
            kind, str)(value)
    return name, value


class Case:
    """A case's statements, its arguments, and how its values are computed."""

    def __init__(self, text):
        statements = [s.split() for s in text.split(";")]
        self.args, self.ops = {}, []
        for number, (kind, *words) in enumerate(statements):
            if kind == "in":
                shape = [] if words[1] == "scalar" else [
                    int(n) for n in words[1].split("x")]
                self.args[number] = draw_numbers(
                    words[0], shape, len(self.args), float(words[2]),
                    float(words[3]))
            elif kind == "op":
                refs = [read_ref(w) for w in words[1:] if "=" not in w]
                attrs = dict(read_attr(w) for w in words[1:] if "=" in w)
                self.ops.append((number, words[0], refs, attrs))
            else:
                self.is_grad = kind == "grad"
                self.out = [read_ref(w) for w in words]

    def uses(self, number):
        """The ops that take value `number`, with the operand that it is."""
        return [(name, at) for _, name, refs, _ in self.ops
                for at, ref in enumerate(refs) if ref == (number, 0)]

    def compute(self, table, args):
        """All results, from values of the arguments."""
        values = {number: (value,) for number, value in args.items()}
        for number, name, refs, attrs in self.ops:
            made = table[name](*(values[i][k] for i, k in refs), **attrs)
            values[number] = made if isinstance(made, (tuple, list)) \
                else (made,)
        return [values[i][k] for i, k in self.out] if not self.is_grad \
            else values[self.out[0][0]][self.out[0][1]]


def read_ref(word):
    number, _, output = word.partition(":")
    return int(number), int(output or 0)


def serve(prepare, sum_of):
    """Answers orders. `prepare` makes a function of a case that computes and
    waits for a list of results, `sum_of` the sum of a result's first magnitudes."""
    print("{}", flush=True)
    prepared, work = None, None
    for line in sys.stdin:
        _, trips, text = line.split(" ", 2)
        try:
            if text != prepared:
                prepared, work = None, None
                work = prepare(Case(text))
                prepared = text
            times, cpu_times, results = [], [], []
            for _ in range(int(trips)):
                before, cpu_before = time.perf_counter(), time.process_time()
                results = work()
                cpu_times.append((time.process_time() - cpu_before) * 1e3)
                times.append((time.perf_counter() - before) * 1e3)
            sums = [sum_of(r, SUMMED) for r in results]
            answer = {"ms": times, "cpu_ms": cpu_times,
                      "sums": [s if np.isfinite(s) else 0 for s in sums]}
        except Exception as why:  # Whatever a framework refuses a case with.
            answer = {"error": f"{type(why).__name__}: {why}"[:300]}
        print(json.dumps(answer), flush=True)
