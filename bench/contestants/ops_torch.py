# SPDX-License-Identifier: Apache-2.0
"""PyTorch in bench/ops: orders and answers as in ops.c."""

import torch
import torch.nn.functional as F

import ops_peer

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16,
          "bf16": torch.bfloat16, "bool": torch.bool, "i8": torch.int8,
          "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
          "u8": torch.uint8}
WIDE_UNSIGNED = {name: getattr(torch, name) for name in  # From torch 2.3 on.
                 ("uint16", "uint32", "uint64") if hasattr(torch, name)}
DTYPES |= {name.replace("uint", "u"): t for name, t in WIDE_UNSIGNED.items()}


# ---- Shapes, reductions, lookups -------------------------------------------
def copy(x):
    """A value of its own in row order: ours and JAX's results are no views."""
    return x.clone(memory_format=torch.contiguous_format)


def reduce_by(call):
    def reduce(x, axes, keep_dims=False):
        return call(x, dim=tuple(axes), keepdim=keep_dims)
    return reduce


def reduce_each(call):
    """A reduction that PyTorch has for one axis at a time."""
    def reduce(x, axes, keep_dims=False):
        for axis in sorted(axes, reverse=True):
            x = call(x, dim=axis, keepdim=keep_dims)
        return x
    return reduce


def cut(x, starts, limits, strides):
    return x[tuple(slice(a, b, c)
                   for a, b, c in zip(starts, limits, strides))]


def part_of(starts, sizes):
    return tuple(slice(int(a), int(a) + n) for a, n in zip(starts, sizes))


def update_part(x, y, *starts):
    out = x.clone()
    out[part_of(starts, y.shape)] = y
    return out


def pad(x, value, low, high, interior):
    del interior  # The cases have none.
    both = [n for pair in zip(reversed(low), reversed(high)) for n in pair]
    return F.pad(x, both, value=float(value))


def gather(x, indices, axis=0):
    if axis == 0:
        return x[indices.long()]
    return x[(slice(None),) * axis + (indices.long(),)]


def scatter(x, indices, updates, combine, axis=0):
    if combine == "add":
        return x.index_add(axis, indices, updates)
    if combine == "update":
        return x.index_copy(axis, indices.long(), updates)
    names = {"max": "amax", "min": "amin", "mul": "prod"}
    return x.index_reduce(axis, indices.long(), updates, names[combine])


def linear_scan(a, b, axis=0, reverse=False):
    h, out = torch.zeros_like(b.select(axis, 0)), []
    count = b.shape[axis]
    for i in reversed(range(count)) if reverse else range(count):
        h = a.select(axis, i) * h + b.select(axis, i)
        out.append(h)
    return torch.stack(out[::-1] if reverse else out, axis)


def scan(call):
    def compute(x, axis=0, exclusive=False, reverse=False):
        del exclusive  # The cases have none.
        return call(x.flip(axis), axis).flip(axis) if reverse \
            else call(x, axis)
    return compute


def sort(*operands, axis=0, descending=False):
    first, order = torch.sort(operands[0], dim=axis, descending=descending,
                              stable=True)
    return (first, *(x.gather(axis, order) for x in operands[1:]), order)


# ---- Convolutions and windows ----------------------------------------------
def to_channels_first(x):
    return x.movedim(-1, 1)


def to_channels_last(x):
    return x.movedim(1, -1)


def weights_first(w):
    return w.permute(w.dim() - 1, w.dim() - 2, *range(w.dim() - 2))


def pads(padding, same, window, sizes, strides, dilations):
    """What is before and after each spatial dimension."""
    if not same:
        return [(padding[2 * i], padding[2 * i + 1])
                for i in range(len(window))] if padding else \
            [(0, 0)] * len(window)
    out = []
    for n, k, s, d in zip(sizes, window, strides, dilations):
        need = max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        out.append((need // 2, need - need // 2))
    return out


def geometry(x, window, strides, dilations, padding, same):
    """The input, padded unless the padding is even, and what is left."""
    rank = len(window)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    low_high = pads(padding, same, window, x.shape[2:], strides, dilations)
    if all(a == b for a, b in low_high):
        return x, strides, dilations, [a for a, _ in low_high]
    flat = [n for pair in reversed(low_high) for n in pair]
    return F.pad(x, flat), strides, dilations, [0] * rank


def convolution(x, w, strides=None, dilations=None, padding=None, same=False,
                groups=1, bias=None):
    call = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3]
    x, strides, dilations, padding = geometry(
        to_channels_first(x), w.shape[:-2], strides, dilations, padding, same)
    return to_channels_last(call(x, weights_first(w), bias, strides, padding,
                                 dilations, groups))


def conv_bias_act(x, w, bias, activation="", **how):
    y = convolution(x, w, bias=bias, **how)
    return F.relu(y) if activation == "relu" else y


def conv_gradient(dy, x, w, wanted, strides=None, dilations=None, padding=None,
                  same=False, groups=1):
    x = to_channels_first(x)
    first = pads(padding, same, w.shape[:-2], x.shape[2:],
                 strides or [1] * (x.dim() - 2),
                 dilations or [1] * (x.dim() - 2))
    if any(a != b for a, b in first):
        raise NotImplementedError("uneven padding")
    made = torch.ops.aten.convolution_backward(
        to_channels_first(dy), x, weights_first(w), None,
        strides or [1] * (x.dim() - 2), [a for a, _ in first],
        dilations or [1] * (x.dim() - 2), False, [0] * (x.dim() - 2), groups,
        [wanted == 0, wanted == 1, False])
    if wanted == 0:
        return to_channels_last(made[0])
    return made[1].permute(*range(2, made[1].dim()), 1, 0)


def conv_grad_input(dy, w, sizes, **how):
    return conv_gradient(dy, dy.new_empty(sizes), w, 0, **how)


def conv_grad_weights(x, dy, sizes, **how):
    return conv_gradient(dy, x, x.new_empty(sizes), 1, **how)


def reduce_window(x, window, reduce, strides=None, dilations=None,
                  padding=None, same=False, count_padding=False):
    del count_padding
    rank = len(window)
    x = to_channels_first(x)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    low_high = pads(padding, same, window, x.shape[2:], strides, dilations)
    even = [a for a, _ in low_high]
    if any(a != b for a, b in low_high):
        flat = [n for pair in reversed(low_high) for n in pair]
        x = F.pad(x, flat, value=float("-inf") if reduce == "max" else 0.0)
        even = [0] * rank
    if reduce == "max":
        call = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
        return to_channels_last(call(x, window, strides, even, dilations))
    call = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
    y = call(x, window, strides, even)
    if reduce == "sum":
        y = y * float(torch.tensor(window).prod())
    return to_channels_last(y)


# ---- Normalization, attention, losses --------------------------------------
def batch_norm(x, scale, offset, epsilon, activation=""):
    y = F.batch_norm(to_channels_first(x), None, None, scale, offset, True,
                     0.0, epsilon)
    y = to_channels_last(y)
    return F.relu(y) if activation == "relu" else y


def batch_norm_inference(x, scale, offset, mean, variance, epsilon,
                         activation=""):
    y = F.batch_norm(to_channels_first(x), mean, variance, scale, offset,
                     False, 0.0, epsilon)
    y = to_channels_last(y)
    return F.relu(y) if activation == "relu" else y


def attention(q, k=None, v=None, num_heads=1, causal=False, scale=None):
    if k is None:
        q, k, v = q.chunk(3, -1)
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2)
               for x in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    return y.transpose(1, 2).flatten(2)


def matmul(a, b, transpose_a=False, transpose_b=False):
    return torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)


def dense(x, w, bias=None, activation=""):
    y = torch.matmul(x, w) if bias is None or x.dim() != 2 \
        else torch.addmm(bias, x, w)
    if bias is not None and x.dim() != 2:
        y = y + bias
    return F.relu(y) if activation == "relu" else y


def one_hot(x, depth, dtype):
    return F.one_hot(x.long(), depth).to(DTYPES[dtype])


def cross_entropy(x, labels):
    return F.cross_entropy(x, labels.long(), reduction="none")


def draw(call):
    def compute(sizes, dtype, low=0.0, high=1.0, mean=0.0, deviation=1.0,
                **_):
        return call(torch.empty(sizes, dtype=DTYPES[dtype]), low, high, mean,
                    deviation)
    return compute


TABLE = {
    "constant": lambda value: scalar(value),
    "convert": lambda x, dtype: x.to(DTYPES[dtype]),
    "bitcast": lambda x, dtype: copy(x.view(DTYPES[dtype])),
    "not": torch.bitwise_not, "and": torch.bitwise_and,
    "or": torch.bitwise_or, "xor": torch.bitwise_xor,
    "shift_left": torch.bitwise_left_shift,
    "shift_right_arithmetic": torch.bitwise_right_shift,
    "equal": torch.eq, "not_equal": torch.ne, "less": torch.lt,
    "less_equal": torch.le, "greater": torch.gt, "greater_equal": torch.ge,
    "select": torch.where, "clamp": lambda a, x, b: torch.clamp(x, a, b),
    "relu_grad": lambda dy, y: torch.where(y > 0, dy, 0),
    "gelu": lambda x: F.gelu(x, approximate="tanh"), "softplus": F.softplus,
    "gelu_grad": lambda dy, x: torch.ops.aten.gelu_backward(
        dy, x, approximate="tanh"),
    "div": lambda x, y: x / y if x.dtype.is_floating_point
    else torch.div(x, y, rounding_mode="trunc"),
    "remainder": torch.fmod, "is_finite": torch.isfinite,
    "add_n": lambda *xs: sum(xs[1:], xs[0]),
    "reshape": lambda x, sizes: copy(x.reshape(sizes)),
    "broadcast": lambda x, sizes: copy(x.expand(sizes)),
    "transpose": lambda x, permutation: copy(x.permute(permutation)),
    "reduce_sum": reduce_by(lambda x, **how: torch.sum(x, dtype=x.dtype,
                                                       **how)),
    "reduce_mean": reduce_by(torch.mean),
    "reduce_max": reduce_by(torch.amax), "reduce_min": reduce_by(torch.amin),
    "reduce_product": reduce_each(
        lambda x, **how: torch.prod(x, dtype=x.dtype, **how)),
    "reduce_and": reduce_by(torch.all), "reduce_or": reduce_by(torch.any),
    "argmax": lambda x, axis=0: torch.argmax(x, axis),
    "argmin": lambda x, axis=0: torch.argmin(x, axis),
    "matmul": matmul, "dense": dense,
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "softmax_cross_entropy": cross_entropy, "one_hot": one_hot,
    "slice": lambda x, **how: copy(cut(x, **how)),
    "dynamic_slice": lambda x, *starts, sizes: copy(
        x[part_of(starts, sizes)]),
    "dynamic_update_slice": update_part, "pad": pad,
    "concatenate": lambda *xs, axis=0: torch.cat(xs, axis),
    "reverse": lambda x, axes: x.flip(axes),
    "gather": gather, "scatter": scatter,
    "take_along": lambda x, i, axis=0: x.gather(axis, i.long()),
    "add_along": lambda x, i, y, axis=0: x.scatter_add(axis, i.long(), y),
    "cumsum": scan(lambda x, axis: torch.cumsum(x, axis, dtype=x.dtype)),
    "cumprod": scan(lambda x, axis: torch.cumprod(x, axis, dtype=x.dtype)),
    "linear_scan": linear_scan, "sort": sort,
    "top_k": lambda x, k: torch.topk(x, k),
    "iota": lambda sizes, dtype, axis=0: torch.arange(
        sizes[axis], dtype=DTYPES[dtype]).reshape(
            [-1 if i == axis else 1 for i in range(len(sizes))]
        ).expand(sizes).contiguous(),
    "random_uniform": draw(lambda x, low, high, *_: x.uniform_(low, high)),
    "random_normal": draw(lambda x, _, __, m, d: x.normal_(m, d)),
    "random_truncated_normal": draw(
        lambda x, _, __, m, d: torch.nn.init.trunc_normal_(
            x, m, d, m - 2 * d, m + 2 * d)),
    "random_bits": lambda sizes, dtype, **_: torch.randint(
        -2**63, 2**63 - 1, sizes).view(DTYPES[dtype]) if dtype == "u64"
    else torch.randint(-2**31, 2**31 - 1, sizes, dtype=torch.int32),
    "random_permutation": lambda sizes, dtype, **_: torch.randperm(
        sizes[0], dtype=DTYPES[dtype]),
    "convolution": convolution, "conv_bias_act": conv_bias_act,
    "conv_grad_input": conv_grad_input,
    "conv_grad_weights": conv_grad_weights, "reduce_window": reduce_window,
    "batch_norm": batch_norm, "batch_norm_inference": batch_norm_inference,
    "layer_norm": lambda x, s, b, epsilon: F.layer_norm(
        x, x.shape[-1:], s, b, epsilon),
    "rms_norm": lambda x, s, epsilon: F.rms_norm(
        x, x.shape[-1:], s, epsilon),
    "attention": attention, "erf": torch.special.erf,
    "erfc": torch.special.erfc,
    "cbrt": lambda x: x.sign() * x.abs() ** (1 / 3),
    "round_away": lambda x: x.sign() * (x.abs() + 0.5).floor(),
}
for _name in ("neg abs sign exp log sqrt rsqrt tanh sigmoid relu add sub mul "
              "maximum minimum pow expm1 log1p ceil floor round cos sin tan "
              "atan2").split():
    TABLE[_name] = getattr(torch, _name)


def scalar(text):
    dtype, value = text.split(",")
    return torch.tensor(float(value)).to(DTYPES[dtype])


def to_tensor(array):
    if array.dtype == ops_peer.NUMPY["bf16"]:
        return torch.from_numpy(array.astype("float32")).bfloat16()
    return torch.from_numpy(array)


def prepare(case):
    args = {}
    for number, array in case.args.items():
        x = to_tensor(array)
        if any(name in ("convolution", "conv_bias_act", "conv_grad_input")
               and at == 1 for name, at in case.uses(number)):
            # Weights are kept as PyTorch's users keep them.
            x = weights_first(x).contiguous()
            x = x.permute(*range(2, x.dim()), 1, 0)
        args[number] = x

    def forward():
        with torch.no_grad():
            return case.compute(TABLE, args)

    def backward():
        wrt = [args[i].requires_grad_() for i, _ in case.out[1:]]
        y = case.compute(TABLE, args)
        return [y.detach(), *(
            g.contiguous() for g in torch.autograd.grad(y, wrt, y.detach()))]
    return backward if case.is_grad else forward


def sum_of(x, count):
    x = x.detach().contiguous().flatten()[:count]
    if x.dtype in WIDE_UNSIGNED.values():
        x = x.to(torch.int64)
    return float(x.to(torch.float64).abs().sum())


if __name__ == "__main__":
    torch.set_num_threads(ops_peer.arguments().threads)
    ops_peer.serve(prepare, sum_of)
