# SPDX-License-Identifier: Apache-2.0
"""JAX in bench/ops: orders and answers as in ops.c."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import ops_peer

DTYPES = ops_peer.NUMPY
KEYS = []  # The last one is that of the trace: no constant, as nothing folds.


# ---- Shapes, reductions, lookups -------------------------------------------
def reduce_by(call):
    def reduce(x, axes, keep_dims=False):
        return call(x, axis=tuple(axes), keepdims=keep_dims)
    return reduce


def pad(x, value, low, high, interior):
    return lax.pad(x, value, list(zip(low, high, interior)))


def gather(x, indices, axis=0):
    return jnp.take(x, indices, axis, mode="clip")


def scatter(x, indices, updates, combine, axis=0):
    at = x.at[(slice(None),) * axis + (indices,)]
    name = {"update": "set", "mul": "multiply"}.get(combine, combine)
    return getattr(at, name)(updates, mode="drop")


def along(x, indices, axis):
    """The whole index of what take_along takes."""
    place = list(jnp.meshgrid(*(jnp.arange(n) for n in indices.shape),
                              indexing="ij"))
    place[axis] = indices
    return tuple(place)


def linear_scan(a, b, axis=0, reverse=False):
    def join(x, y):
        return x[0] * y[0], y[0] * x[1] + y[1]
    return lax.associative_scan(join, (a, b), reverse=reverse, axis=axis)[1]


def scan(call):
    def compute(x, axis=0, exclusive=False, reverse=False):
        del exclusive  # The cases have none.
        return call(x, axis=axis, reverse=reverse)
    return compute


def sort(*operands, axis=0, descending=False):
    if descending and len(operands) == 1:
        order = jnp.argsort(operands[0], axis, descending=True)
        return jnp.take_along_axis(operands[0], order, axis), order
    places = lax.broadcasted_iota(jnp.int64, operands[0].shape, axis)
    return lax.sort((*operands, places), dimension=axis, num_keys=1)


# ---- Convolutions and windows ----------------------------------------------
def paddings(padding, same, rank):
    if same:
        return "SAME"
    return list(zip(padding[::2], padding[1::2])) if padding \
        else [(0, 0)] * rank


def convolution(x, w, strides=None, dilations=None, padding=None, same=False,
                groups=1):
    rank = x.ndim - 2
    letters = "DHW"[3 - rank:]
    return lax.conv_general_dilated(
        x, w, strides or [1] * rank, paddings(padding, same, rank),
        rhs_dilation=dilations or [1] * rank, feature_group_count=groups,
        dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C"))


def conv_bias_act(x, w, bias, activation="", **how):
    y = convolution(x, w, **how) + bias
    return jax.nn.relu(y) if activation == "relu" else y


def conv_grad_input(dy, w, sizes, **how):
    x = jnp.zeros(sizes, dy.dtype)
    return jax.vjp(lambda x: convolution(x, w, **how), x)[1](dy)[0]


def conv_grad_weights(x, dy, sizes, **how):
    w = jnp.zeros(sizes, dy.dtype)
    return jax.vjp(lambda w: convolution(x, w, **how), w)[1](dy)[0]


def reduce_window(x, window, reduce, strides=None, dilations=None,
                  padding=None, same=False, count_padding=False):
    rank = len(window)
    pads = paddings(padding, same, rank)
    how = ((1, *window, 1), (1, *(strides or [1] * rank), 1),
           pads if same else [(0, 0), *pads, (0, 0)], None,
           (1, *(dilations or [1] * rank), 1))
    if reduce == "max":
        return lax.reduce_window(x, -jnp.inf, lax.max, *how)
    zero = np.zeros((), x.dtype)
    y = lax.reduce_window(x, zero, lax.add, *how)
    if reduce == "sum":
        return y
    if count_padding or (not same and not padding):
        return y / float(np.prod(window))
    return y / lax.reduce_window(jnp.ones_like(x), zero, lax.add, *how)


# ---- Normalization, attention, losses --------------------------------------
def wide(x):
    return x.astype(jnp.float32) if x.dtype.itemsize == 2 else x


def normalize(x, axes, epsilon):
    wider = wide(x)
    mean = jnp.mean(wider, axes, keepdims=True)
    variance = jnp.mean(jnp.square(wider - mean), axes, keepdims=True)
    return (wider - mean) * lax.rsqrt(variance + epsilon)


def batch_norm(x, scale, offset, epsilon, activation=""):
    y = normalize(x, tuple(range(x.ndim - 1)), epsilon) * scale + offset
    y = y.astype(x.dtype)
    return jax.nn.relu(y) if activation == "relu" else y


def batch_norm_inference(x, scale, offset, mean, variance, epsilon,
                         activation=""):
    y = (wide(x) - mean) * lax.rsqrt(variance + epsilon) * scale + offset
    y = y.astype(x.dtype)
    return jax.nn.relu(y) if activation == "relu" else y


def layer_norm(x, scale, offset, epsilon):
    return (normalize(x, -1, epsilon) * scale + offset).astype(x.dtype)


def rms_norm(x, scale, epsilon):
    wider = wide(x)
    mean = jnp.mean(jnp.square(wider), -1, keepdims=True)
    return (wider * lax.rsqrt(mean + epsilon) * scale).astype(x.dtype)


def attention(q, k=None, v=None, num_heads=1, causal=False, scale=None):
    if k is None:
        q, k, v = jnp.split(q, 3, -1)
    q, k, v = (x.reshape(*x.shape[:-1], num_heads, -1) for x in (q, k, v))
    y = jax.nn.dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    return y.reshape(*y.shape[:2], -1)


def matmul(a, b, transpose_a=False, transpose_b=False):
    return jnp.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)


def dense(x, w, bias=None, activation=""):
    y = jnp.matmul(x, w) + (0 if bias is None else bias)
    return jax.nn.relu(y) if activation == "relu" else y


def cross_entropy(x, labels):
    y = jax.nn.log_softmax(wide(x))
    picked = jnp.take_along_axis(y, labels[:, None], -1)[:, 0]
    return (-picked).astype(x.dtype)


def gelu_grad(dy, x):
    dy, x = jnp.broadcast_arrays(dy, x)
    return jax.vjp(jax.nn.gelu, x)[1](dy)[0]


def draw(call):
    def compute(sizes, dtype, low=0.0, high=1.0, mean=0.0, deviation=1.0,
                **_):
        return call(KEYS[-1], tuple(sizes), DTYPES[dtype], low, high, mean,
                    deviation)
    return compute


TABLE = {
    "constant": lambda value: jnp.asarray(
        float(value.split(",")[1]), DTYPES[value.split(",")[0]]),
    "convert": lambda x, dtype: x.astype(DTYPES[dtype]),
    "bitcast": lambda x, dtype: lax.bitcast_convert_type(x, DTYPES[dtype]),
    "not": jnp.bitwise_not, "and": jnp.bitwise_and, "or": jnp.bitwise_or,
    "xor": jnp.bitwise_xor, "shift_left": jnp.left_shift,
    "shift_right_arithmetic": jnp.right_shift,
    "shift_right_logical": lax.shift_right_logical,
    "popcount": lax.population_count, "count_leading_zeros": lax.clz,
    "select": jnp.where, "clamp": lax.clamp, "neg": jnp.negative,
    "relu_grad": lambda dy, y: jnp.where(y > 0, dy, 0), "rsqrt": lax.rsqrt,
    "gelu": jax.nn.gelu, "relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus, "erf": lax.erf, "erfc": lax.erfc,
    "gelu_grad": gelu_grad,
    "mul": jnp.multiply, "sub": jnp.subtract, "div": lax.div, "pow": jnp.power,
    "atan2": jnp.arctan2, "remainder": lax.rem, "is_finite": jnp.isfinite,
    "round_away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "add_n": lambda *xs: sum(xs[1:], xs[0]),
    "reshape": lambda x, sizes: jnp.reshape(x, sizes),
    "broadcast": lambda x, sizes: jnp.broadcast_to(x, sizes),
    "transpose": lambda x, permutation: jnp.transpose(x, permutation),
    "reduce_sum": reduce_by(lambda x, **how: jnp.sum(x, dtype=x.dtype, **how)),
    "reduce_mean": reduce_by(jnp.mean),
    "reduce_max": reduce_by(jnp.max), "reduce_min": reduce_by(jnp.min),
    "reduce_product": reduce_by(
        lambda x, **how: jnp.prod(x, dtype=x.dtype, **how)),
    "reduce_and": reduce_by(jnp.all), "reduce_or": reduce_by(jnp.any),
    "argmax": lambda x, axis=0: jnp.argmax(x, axis),
    "argmin": lambda x, axis=0: jnp.argmin(x, axis),
    "matmul": matmul, "dense": dense, "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax, "softmax_cross_entropy": cross_entropy,
    "one_hot": lambda x, depth, dtype: jax.nn.one_hot(
        x, depth, dtype=DTYPES[dtype]),
    "slice": lambda x, starts, limits, strides: lax.slice(
        x, starts, limits, strides),
    "dynamic_slice": lambda x, *starts, sizes: lax.dynamic_slice(
        x, starts, sizes),
    "dynamic_update_slice": lambda x, y, *starts: lax.dynamic_update_slice(
        x, y, starts),
    "pad": pad,
    "concatenate": lambda *xs, axis=0: jnp.concatenate(xs, axis),
    "reverse": lambda x, axes: jnp.flip(x, axes),
    "gather": gather, "scatter": scatter,
    "take_along": lambda x, i, axis=0: jnp.take_along_axis(
        x, i, axis, mode="clip"),
    "add_along": lambda x, i, y, axis=0: x.at[along(x, i, axis)].add(
        y, mode="drop"),
    "cumsum": scan(lax.cumsum), "cumprod": scan(lax.cumprod),
    "linear_scan": linear_scan, "sort": sort,
    "top_k": lambda x, k: lax.top_k(x, k),
    "iota": lambda sizes, dtype, axis=0: lax.broadcasted_iota(
        DTYPES[dtype], sizes, axis),
    "random_uniform": draw(lambda key, n, t, low, high, *_: jax.random.uniform(
        key, n, t, low, high)),
    "random_normal": draw(lambda key, n, t, _, __, m, d: m +
                          d * jax.random.normal(key, n, t)),
    "random_truncated_normal": draw(
        lambda key, n, t, _, __, m, d: m +
        d * jax.random.truncated_normal(key, -2, 2, n, t)),
    "random_bits": lambda sizes, dtype, **_: jax.random.bits(
        KEYS[-1], tuple(sizes), DTYPES[dtype]),
    "random_permutation": lambda sizes, dtype, **_: jax.random.permutation(
        KEYS[-1], sizes[0]).astype(DTYPES[dtype]),
    "convolution": convolution, "conv_bias_act": conv_bias_act,
    "conv_grad_input": conv_grad_input,
    "conv_grad_weights": conv_grad_weights, "reduce_window": reduce_window,
    "batch_norm": batch_norm, "batch_norm_inference": batch_norm_inference,
    "layer_norm": layer_norm, "rms_norm": rms_norm, "attention": attention,
}
for _name in ("abs sign exp log sqrt tanh add maximum minimum expm1 log1p "
              "ceil floor round cos sin tan cbrt equal not_equal less "
              "less_equal greater greater_equal").split():
    TABLE[_name] = getattr(jnp, _name)


def prepare(case):
    args = {number: jnp.asarray(array) for number, array in case.args.items()}
    wrt = [number for number, _ in case.out[1:]]

    def gradients(args):
        def forward(some):
            return case.compute(TABLE, args | some)
        y, back = jax.vjp(forward, {i: args[i] for i in wrt})
        made = back(y)[0]
        return [y, *(made[i] for i in wrt)]

    @jax.jit
    def compiled(args, key):
        KEYS.append(key)
        return gradients(args) if case.is_grad else case.compute(TABLE, args)

    key = jax.random.key(7)
    return lambda: jax.block_until_ready(compiled(args, key))


def sum_of(x, count):
    x = np.asarray(x).reshape(-1)[:count].astype(np.float64)
    return float(np.abs(x).sum())


if __name__ == "__main__":
    ops_peer.arguments()  # The threads are the cores that it may use.
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    ops_peer.serve(prepare, sum_of)
