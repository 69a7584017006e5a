# SPDX-License-Identifier: Apache-2.0
"""Whole models for bench/ops --models, beside the five of bench/compare: a
training step without its optimizer, the loss and the gradients of all weights,
or a prediction. Dense layers take relu, unless they say otherwise."""

import math

from op_cases import Case, draw_odd

FAMILIES = {}


def family(call):
    FAMILIES[call.__name__] = call
    return call


class Model(Case):
    """A case with weights; flops are three times those of the prediction."""

    def __init__(self, name, dtype="f32"):
        super().__init__(name)
        self.dtype, self.weights = dtype, []

    def weight(self, *shape):
        scale = (3 / math.prod(shape[:-1])) ** 0.5 if len(shape) > 1 else 0.1
        self.weights.append(self.arg(self.dtype, shape, -scale, scale))
        return self.weights[-1]

    def dense(self, x, rows, n, m, activation="relu"):
        self.flops += 2 * rows * n * m
        how = {"activation": activation} if activation else {}
        return self.op("dense", x, self.weight(n, m), self.weight(m), **how)

    def conv(self, x, y_shape, size, cin, **how):
        """Makes values of `y_shape` and of size times size taps."""
        groups, pad = how.get("groups", 1), how.pop("pad", size // 2)
        w = [size, size, cin // groups, y_shape[-1]]
        self.flops += 2 * math.prod(y_shape) * math.prod(w[:-1])
        return self.op("conv_bias_act", x, self.weight(*w), self.weight(w[-1]),
                       activation="relu", padding=[pad] * 4, **how)

    def loss(self, logits, rows, classes):
        labels = self.arg("i32", [rows], 0, classes)
        y = self.op("softmax_cross_entropy", logits, labels)
        return self.train(self.op("reduce_sum", y, axes=[0]))

    def train(self, loss):
        self.flops *= 3
        return self.grad(loss, *self.weights)

    def part(self, x, shape, axis, low, high):
        starts, limits = [0] * len(shape), list(shape)
        starts[axis], limits[axis] = low, high
        return self.op("slice", x, starts=starts, limits=limits,
                       strides=[1] * len(shape))

    def norm(self, x, width):
        return self.op("layer_norm", x, self.weight(width), self.weight(width),
                       epsilon=1e-5)

    def add(self, x, y):
        return self.op("add", x, y)


@family
def wide_mlp(rng):
    rows, dtype = rng.choice((1, 7, 100)), rng.choice(("f32", "bf16"))
    m = Model(f"wide_mlp {dtype} batch {rows}", dtype)
    x = m.arg(dtype, [rows, 784])
    x = m.dense(x, rows, 784, 2048)
    x = m.dense(x, rows, 2048, 2048)
    return m.loss(m.dense(x, rows, 2048, 10, None), rows, 10)


@family
def odd_convolutions(rng):
    n = rng.choice((1, 5, 16))
    m = Model(f"odd_convolutions batch {n}")
    x = m.arg("f32", [n, 45, 37, 3])
    x = m.conv(x, [n, 23, 19, 18], 5, 3, strides=[2, 2])
    x = m.conv(x, [n, 23, 19, 30], 3, 18, dilations=[2, 2], pad=2)
    x = m.conv(x, [n, 23, 19, 30], 3, 30, groups=3)
    x = m.conv(x, [n, 23, 19, 30], 7, 30, groups=30)
    x = m.op("reduce_window", x, window=[3, 3], reduce="max", strides=[2, 2])
    x = m.op("reduce_sum", x, axes=[1, 2])
    return m.loss(m.dense(x, n, 30, 11, None), n, 11)


@family
def bottlenecks(rng):
    n, c = rng.choice((1, 8)), rng.choice((64, 128))
    m = Model(f"bottlenecks {c} batch {n}")
    x = m.arg("f32", [n, 14, 14, c])
    for _ in range(3):
        y = m.conv(x, [n, 14, 14, c // 4], 1, c)
        y = m.conv(y, [n, 14, 14, c // 4], 3, c // 4)
        x = m.add(x, m.conv(y, [n, 14, 14, c], 1, c // 4))
    x = m.op("reduce_sum", x, axes=[1, 2])
    return m.loss(m.dense(x, n, c, 10, None), n, 10)


def recurrent(name, gates):
    def draw(rng):
        n, steps, c = rng.choice((1, 8, 32)), 24, rng.choice((64, 128))
        m = Model(f"{name} batch {n}, {steps} steps of {c}")
        xs = m.arg("f32", [steps, n, c])
        w, b = m.weight(2 * c, gates * c), m.weight(gates * c)
        wide = m.weight(2 * c, c) if name == "gru" else None
        zeros = m.arg("f32", [n, c], 0, 0)
        h, state = zeros, zeros
        for t in range(steps):
            x = m.part(xs, [steps, n, c], 0, t, t + 1)
            x = m.op("reshape", x, sizes=[n, c])
            z = m.op("dense", m.op("concatenate", x, h, axis=1), w, b)
            m.flops += 4 * n * c * (gates + (name == "gru")) * c
            z = [m.part(z, [n, gates * c], 1, i * c, (i + 1) * c)
                 for i in range(gates)]
            if name == "lstm":
                i, f, o = (m.op("sigmoid", g) for g in z[:3])
                state = m.add(m.op("mul", f, state),
                              m.op("mul", i, m.op("tanh", z[3])))
                h = m.op("mul", o, m.op("tanh", state))
            else:
                r, u = (m.op("sigmoid", g) for g in z)
                both = m.op("concatenate", x, m.op("mul", r, h), axis=1)
                new = m.op("tanh", m.op("matmul", both, wide))
                h = m.add(h, m.op("mul", u, m.op("sub", new, h)))
        return m.loss(m.dense(h, n, c, 10, None), n, 10)
    FAMILIES[name] = draw


recurrent("lstm", 4)
recurrent("gru", 2)


def block(m, x, n, tokens, width, heads):
    rows = n * tokens
    y = m.norm(x, width)
    y = m.dense(y, rows, width, 3 * width, None)
    m.flops += 4 * n * tokens ** 2 * width
    y = m.op("attention", y, num_heads=heads, causal=True)
    x = m.add(x, m.dense(y, rows, width, width, None))
    y = m.dense(m.norm(x, width), rows, width, 4 * width, None)
    return m.add(x, m.dense(m.op("gelu", y), rows, 4 * width, width, None))


@family
def transformer(rng):
    n, dtype = rng.choice((1, 2)), rng.choice(("f32", "bf16"))
    tokens, width = 512, 128
    m = Model(f"transformer {dtype} {n}x{tokens} tokens of {width}", dtype)
    if dtype != "f32":
        m.norm = lambda x, width: m.op(
            "layer_norm", x, *(m.arg("f32", [width]) for _ in range(2)),
            epsilon=1e-5)
    x = m.arg(dtype, [n, tokens, width])
    for _ in range(2):
        x = block(m, x, n, tokens, width, 4)
    x = m.op("reshape", x, sizes=[n * tokens, width])
    logits = m.dense(x, n * tokens, width, 256, None)
    return m.loss(logits, n * tokens, 256)


@family
def decoding(rng):
    """One token after `tokens` others, whose keys and values are kept."""
    n, tokens, width, heads = rng.choice((1, 4)), 512, 256, 4
    m = Model(f"decoding batch {n} after {tokens} tokens of {width}")
    x = m.arg("f32", [n, 1, width])
    at = m.arg("i32", [], tokens - 1, tokens)
    zero = m.arg("i32", [], 0, 0)
    kept = []
    for _ in range(4):
        y = m.norm(x, width)
        y = m.dense(y, n, width, 3 * width, None)
        q, *new = (m.part(y, [n, 1, 3 * width], 2, i * width, (i + 1) * width)
                   for i in range(3))
        old = [m.arg("f32", [n, tokens, width]) for _ in range(2)]
        kept += [m.op("dynamic_update_slice", a, b, zero, at, zero)
                 for a, b in zip(old, new)]
        y = m.op("attention", q, *kept[-2:], num_heads=heads)
        m.flops += 4 * n * tokens * width
        x = m.add(x, m.dense(y, n, width, width, None))
        y = m.dense(m.norm(x, width), n, width, 4 * width, None)
        x = m.add(x, m.dense(m.op("gelu", y), n, 4 * width, width, None))
    return m.out(m.dense(x, n, width, 256, None), *kept)


@family
def u_net(rng):
    n, side, c = rng.choice((1, 4)), 48, rng.choice((8, 16))
    m = Model(f"u_net batch {n}, {side}x{side}, {c} channels")
    x, kept, cin = m.arg("f32", [n, side, side, 3]), [], 3
    for level in range(3):
        size, wide = side >> level, c << level
        x = m.conv(x, [n, size, size, wide], 3, cin)
        x = m.conv(x, [n, size, size, wide], 3, wide)
        cin = wide
        if level < 2:
            kept.append(x)
            x = m.op("reduce_window", x, window=[2, 2], reduce="max",
                     strides=[2, 2])
    for level in (1, 0):
        size, wide = side >> level, c << level
        small = [n, size // 2, 1, size // 2, 1, 2 * wide]
        large = [n, size // 2, 2, size // 2, 2, 2 * wide]
        x = m.op("broadcast", m.op("reshape", x, sizes=small), sizes=large)
        x = m.op("reshape", x, sizes=[n, size, size, 2 * wide])
        x = m.op("concatenate", kept[level], x, axis=3)
        x = m.conv(x, [n, size, size, wide], 3, 3 * wide)
    y = m.op("mul", x, x)
    return m.train(m.op("reduce_sum", y, axes=[0, 1, 2, 3]))


@family
def recommender(rng):
    """Rows of a large table; the table's gradient is dense, or its rows are
    updated in place of one."""
    rows, width = 1 << 20, 16
    n, fields = rng.choice((64, 512)), draw_odd(rng, 8, 26)
    sparse = rng.random() < 0.5
    m = Model(f"recommender {'sparse' if sparse else 'dense'} batch {n}, "
              f"{fields} of {rows} rows")
    table = m.arg("f32", [rows, width])
    ids = m.arg("i32", [n * fields], 0, rows)
    x = m.op("gather", table, ids, axis=0)
    if sparse:
        update = m.op("mul", x, m.scalar("f32", -0.1))
        return m.out(m.op("scatter", table, ids, update, combine="add",
                          axis=0))
    m.weights.append(table)
    x = m.op("reshape", x, sizes=[n, fields * width])
    x = m.dense(x, n, fields * width, 128)
    return m.loss(m.dense(x, n, 128, 2, None), n, 2)
