#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/*.txt: what the reference models do in JAX.

Each model takes 20 steps on one batch, once in f64 and once in f32, with the
optimizer and the rate it has by default. First values and the batch come from
the generator of tests/support/golden.c, which gives the same numbers there.

A line is "<dtype> loss <step> <number>" or, of a variable after the last step,
  <dtype> norm <variable> <number>       sqrt(sum of x^2) over its elements
  <dtype> checksum <variable> <number>   sum of x * c over them, where c are
                     numbers of the generator, so that each at each place counts
and "batch <size>" says how many examples the batch has.

Needs JAX: pip install 'jax[cpu]'. Run it from anywhere:
  python3 tools/make-goldens.py [model...]
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

STEPS = 20
STREAM_EXAMPLES, STREAM_LABELS, STREAM_CHECKSUM = 1000, 1001, 1002


# ---- Numbers ----------------------------------------------------------------
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


def initial_value(index, name, shape):
    """Of variable `index` of a model."""
    x = signed(index, math.prod(shape)).reshape(shape)
    if len(shape) == 1:  # Around 1 or around 0.
        return x / 8 + (1 if name.endswith(("scale", "variance")) else 0)
    # The power of two that is in the range of Glorot and Bengio.
    window = math.prod(shape[:-2])
    scale, n = 1.0, 6
    while n < window * (shape[-2] + shape[-1]):
        scale, n = scale / 2, n * 4
    return x * scale


def batch_of(model):
    shape = (model.batch, *model.example)
    if model.tokens:
        x = (hashes(STREAM_EXAMPLES, math.prod(shape)) >> 16) % model.classes
        x, labels = x.astype(np.int32).reshape(shape), shape
    else:
        x = (hashes(STREAM_EXAMPLES, math.prod(shape)) >> 24) / 256.0
        x, labels = x.reshape(shape), shape[:1]
    y = (hashes(STREAM_LABELS, math.prod(labels)) >> 16) % model.classes
    return x, y.astype(np.int32).reshape(labels)


# ---- Layers -----------------------------------------------------------------
def dense(v, name, x):
    y = x @ v[f"{name}/kernel"]
    return y + v[f"{name}/bias"] if f"{name}/bias" in v else y


def conv(v, name, x, stride=1):
    y = jax.lax.conv_general_dilated(
        x, v[f"{name}/kernel"], (stride, stride), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + v[f"{name}/bias"] if f"{name}/bias" in v else y


def batch_norm(v, averages, name, x):
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    for key, value in ("mean", mean), ("variance", variance):
        key = f"{name}/moving_{key}"
        averages[key] = 0.9 * v[key] + (1 - 0.9) * value
    x = (x - mean) / jnp.sqrt(variance + 1e-5)
    return x * v[f"{name}/scale"] + v[f"{name}/offset"]


def layer_norm(v, name, x):
    x = x - x.mean(-1, keepdims=True)
    x = x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    return x * v[f"{name}/scale"] + v[f"{name}/offset"]


def attention(v, name, x, heads):
    batch, tokens, width = x.shape
    qkv = dense(v, f"{name}/qkv", x)
    q, k, v_ = jnp.moveaxis(
        qkv.reshape(batch, tokens, 3, heads, width // heads), 2, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(width // heads)
    seen = jnp.tril(jnp.ones((tokens, tokens), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf))
    y = jnp.einsum("bhqk,bkhd->bqhd", weights, v_)
    return dense(v, f"{name}/out", y.reshape(batch, tokens, width))


# ---- Optimizers: of one variable, its slots and the number of the step from 1
def sgd(value, grad, slots, step, rate):
    return value - rate * grad, slots


def momentum(value, grad, slots, step, rate):
    slot = 0.9 * slots[0] + grad
    return value - rate * slot, (slot, slots[1])


def adam(value, grad, slots, step, rate):
    m = 0.9 * slots[0] + (1 - 0.9) * grad
    v = 0.999 * slots[1] + (1 - 0.999) * grad * grad
    m_hat, v_hat = m / (1 - 0.9**step), v / (1 - 0.999**step)
    return value - rate * m_hat / (jnp.sqrt(v_hat) + 1e-8), (m, v)


# ---- Models -----------------------------------------------------------------
class Perceptron:
    optimizer, rate, tokens = staticmethod(sgd), 0.1, False

    def __init__(self, batch, sizes):
        self.batch, self.example, self.classes = batch, sizes[:1], sizes[-1]
        names = [f"hidden{i}" for i in range(1, len(sizes) - 1)] + ["logits"]
        self.layers = list(zip(names, sizes, sizes[1:]))

    def variables(self):
        for name, inputs, units in self.layers:
            yield f"{name}/kernel", (inputs, units)
            yield f"{name}/bias", (units,)

    def logits(self, v, x):
        for name, _, _ in self.layers:
            x = dense(v, name, x)
            x = x if name == "logits" else jax.nn.relu(x)
        return x, {}


class Cnn:
    optimizer, rate, tokens = staticmethod(adam), 1e-3, False
    batch, example, classes = 8, (28, 28, 1), 10

    def variables(self):
        yield from {"conv1/kernel": (3, 3, 1, 32), "conv1/bias": (32,),
                    "conv2/kernel": (3, 3, 32, 64), "conv2/bias": (64,),
                    "hidden/kernel": (14 * 14 * 64, 128), "hidden/bias": (128,),
                    "logits/kernel": (128, 10), "logits/bias": (10,)}.items()

    def logits(self, v, x):
        x = jax.nn.relu(conv(v, "conv1", x))
        x = jax.nn.relu(conv(v, "conv2", x))
        x = x.reshape(-1, 14, 2, 14, 2, 64).max((2, 4)).reshape(-1, 14 * 14 * 64)
        return dense(v, "logits", jax.nn.relu(dense(v, "hidden", x))), {}


class Resnet20:
    optimizer, rate, tokens = staticmethod(momentum), 0.1, False
    batch, example, classes = 8, (32, 32, 3), 10

    def variables(self):
        def unit(name, inputs, filters):
            yield f"{name}/conv/kernel", (3, 3, inputs, filters)
            for part in "scale", "offset", "moving_mean", "moving_variance":
                yield f"{name}/norm/{part}", (filters,)

        yield from unit("stem", 3, 16)
        inputs = 16
        for stage in 1, 2, 3:
            filters = 8 << stage
            for block in 1, 2, 3:
                name = f"stage{stage}/block{block}"
                yield from unit(f"{name}/unit1", inputs, filters)
                yield from unit(f"{name}/unit2", filters, filters)
                if inputs != filters:
                    yield (f"stage{stage}/projection/kernel",
                           (1, 1, inputs, filters))
                inputs = filters
        yield "logits/kernel", (64, 10)
        yield "logits/bias", (10,)

    def logits(self, v, x):
        averages = {}

        def unit(name, x, stride=1):
            return batch_norm(v, averages, f"{name}/norm",
                              conv(v, f"{name}/conv", x, stride))

        x = jax.nn.relu(unit("stem", x))
        for stage in 1, 2, 3:
            for block in 1, 2, 3:
                name = f"stage{stage}/block{block}"
                stride = 2 if stage > 1 and block == 1 else 1
                y = jax.nn.relu(unit(f"{name}/unit1", x, stride))
                y = unit(f"{name}/unit2", y)
                if stride == 2:
                    x = conv(v, f"stage{stage}/projection", x, 2)
                x = jax.nn.relu(y + x)
        return dense(v, "logits", x.mean((1, 2))), averages


class Gpt:
    optimizer, rate, tokens = staticmethod(adam), 1e-3, True
    batch, example, classes = 2, (128,), 256
    width, blocks, heads = 256, 4, 4

    def variables(self):
        width = self.width
        yield "embedding/table", (self.classes, width)
        yield "positions", (*self.example, width)
        for i in range(1, self.blocks + 1):
            yield f"block{i}/norm1/scale", (width,)
            yield f"block{i}/norm1/offset", (width,)
            yield f"block{i}/attention/qkv/kernel", (width, 3 * width)
            yield f"block{i}/attention/out/kernel", (width, width)
            yield f"block{i}/norm2/scale", (width,)
            yield f"block{i}/norm2/offset", (width,)
            yield f"block{i}/up/kernel", (width, 4 * width)
            yield f"block{i}/down/kernel", (4 * width, width)
        yield "norm/scale", (width,)
        yield "norm/offset", (width,)

    def logits(self, v, tokens):
        x = v["embedding/table"][tokens] + v["positions"]
        for i in range(1, self.blocks + 1):
            name = f"block{i}"
            y = layer_norm(v, f"{name}/norm1", x)
            x = x + attention(v, f"{name}/attention", y, self.heads)
            y = dense(v, f"{name}/up", layer_norm(v, f"{name}/norm2", x))
            x = x + dense(v, f"{name}/down", jax.nn.gelu(y, approximate=True))
        return layer_norm(v, "norm", x) @ v["embedding/table"].T, {}


MODELS = {
    "tiny": Perceptron(8, (16, 16, 4)),
    "mlp": Perceptron(256, (784, 512, 512, 10)),
    "cnn": Cnn(),
    "resnet20": Resnet20(),
    "gpt": Gpt(),
}


# ---- Training ---------------------------------------------------------------
def make_step(model, x, y):
    def loss_of(values, averages):
        logits, averages = model.logits({**values, **averages}, x)
        rows = jnp.take_along_axis(
            jax.nn.log_softmax(logits), y[..., None], axis=-1)
        return -rows.mean(), averages

    def step(number, values, averages, slots):
        (loss, averages), grads = jax.value_and_grad(loss_of, has_aux=True)(
            values, averages)
        moved = {name: model.optimizer(value, grads[name], slots[name], number,
                                       model.rate)
                 for name, value in values.items()}
        return (loss, {name: new[0] for name, new in moved.items()}, averages,
                {name: new[1] for name, new in moved.items()})

    return jax.jit(step)


def run(model, dtype):
    name = jnp.dtype(dtype).name.replace("loat", "")
    values, averages = {}, {}
    for i, (key, shape) in enumerate(model.variables()):
        of = averages if "/moving_" in key else values
        of[key] = jnp.asarray(initial_value(i, key, shape), dtype)
    slots = {key: (jnp.zeros_like(v),) * 2 for key, v in values.items()}
    x, y = batch_of(model)
    step = make_step(model, jnp.asarray(x, None if model.tokens else dtype), y)
    for i in range(STEPS):
        loss, values, averages, slots = step(
            jnp.asarray(i + 1, dtype), values, averages, slots)
        assert loss.dtype == dtype
        yield f"{name} loss {i} {float(loss)!r}"
    for key, _ in model.variables():
        value = {**values, **averages}[key]
        assert value.dtype == dtype
        v = np.asarray(value, np.float64).ravel()
        yield f"{name} norm {key} {math.sqrt(math.fsum(v * v))!r}"
        total = math.fsum(v * signed(STREAM_CHECKSUM, v.size))
        yield f"{name} checksum {key} {total!r}"


def main():
    folder = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or MODELS:
        model = MODELS[name]
        lines = [f"# Made by tools/make-goldens.py with JAX {jax.__version__}.",
                 f"batch {model.batch}",
                 *run(model, jnp.float64), *run(model, jnp.float32)]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
