#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/mlp.txt: what the reference model mlp does in JAX.

The model is 784 -> dense 512 relu -> dense 512 relu -> dense 10, the mean
softmax cross-entropy over one batch of 256 examples, and 20 steps of SGD with
rate 0.1, once in f64 and once in f32. First values and the batch come from the
generator of tests/support/mlp.c, which gives the same numbers here.

A line is "<dtype> <what> <index> <number>":
  loss i       the loss of step i
  norm v       sqrt(sum of x^2) over variable v after the last step
  checksum v   sum of x * c over it, where c are numbers of the generator,
               so that each element at each place counts

Needs JAX: pip install 'jax[cpu]'. Run it from anywhere:
  python3 tools/make-goldens.py [file]
"""

import math
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_default_matmul_precision", "highest")

SIZES = [784, 512, 512, 10]
BATCH = 256
STEPS = 20
RATE = 0.1
STREAM_EXAMPLES, STREAM_LABELS, STREAM_CHECKSUM = 100, 101, 102


def hashes(stream, count):
    """The first `count` elements of a stream of the generator, as u32."""
    offset = (stream + 1) * 0x9E3779B9 & 0xFFFFFFFF
    x = np.arange(count, dtype=np.uint32) + np.uint32(offset)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x21F0AAAD)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x735A2D97)
    x ^= x >> np.uint32(15)
    return x


def signed(stream, count):
    """Multiples of 2^-11 in [-1, 1)."""
    return ((hashes(stream, count) >> 20).astype(np.float64) - 2048) / 2048


def initial_values():
    values = []
    for fan_in, fan_out in zip(SIZES, SIZES[1:]):
        scale, n = 1.0, 6
        while n < fan_in + fan_out:
            scale, n = scale / 2, n * 4
        for shape in [(fan_in, fan_out), (fan_out,)]:
            x = signed(len(values), math.prod(shape)) * scale
            values.append(x.reshape(shape))
    return values


def batch():
    x = (hashes(STREAM_EXAMPLES, BATCH * SIZES[0]) >> 24) / 256.0
    y = (hashes(STREAM_LABELS, BATCH) >> 16) % SIZES[-1]
    return x.reshape(BATCH, SIZES[0]), y.astype(np.int32)


def loss_of(values, x, y):
    for i in range(0, len(values), 2):
        x = x @ values[i] + values[i + 1]
        if i + 2 < len(values):
            x = jax.nn.relu(x)
    rows = jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], axis=1)
    return -rows.mean()


@jax.jit
def step(values, x, y):
    loss, grads = jax.value_and_grad(loss_of)(values, x, y)
    return loss, [v - RATE * g for v, g in zip(values, grads)]


def run(name, dtype):
    values = [jnp.asarray(v, dtype) for v in initial_values()]
    x, y = batch()
    x = jnp.asarray(x, dtype)
    for i in range(STEPS):
        loss, values = step(values, x, y)
        assert loss.dtype == dtype
        yield f"{name} loss {i} {float(loss)!r}"
    for i, value in enumerate(values):
        v = np.asarray(value, np.float64).ravel()
        yield f"{name} norm {i} {math.sqrt(math.fsum(v * v))!r}"
        total = math.fsum(v * signed(STREAM_CHECKSUM, v.size))
        yield f"{name} checksum {i} {total!r}"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    path = root / "tests" / "golden" / "mlp.txt"
    if len(sys.argv) > 1:
        path = pathlib.Path(sys.argv[1])
    lines = [*run("f64", jnp.float64), *run("f32", jnp.float32)]
    head = f"# Made by tools/make-goldens.py with JAX {jax.__version__}.\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
