# SPDX-License-Identifier: Apache-2.0
"""The cases of bench/ops: graphs as text, in shapes drawn from a seed.

A family draws one case after another. Families of elementwise ops come from
the table of ops, the others from functions here. bench/contestants/ops.c
describes the text.
"""

import math
import re

FLOATS = ("f32", "f32", "f32", "f64", "bf16", "f16")
INTS = ("i32", "i64", "i8", "u8", "i16")
POSITIVE = {"log", "sqrt", "rsqrt", "pow", "log1p", "div", "remainder"}
ATTRS = {"dtype": "d", "sizes": "s"}
# Rows that are timed as the gradients of others, or that compute nothing.
REACHED = {
    "batch_norm_grad", "layer_norm_grad", "rms_norm_grad", "attention_grad",
    "window_sum_grad", "window_max_grad", "softmax_cross_entropy_grad",
    "window_max_pick", "random_by_example", "replica_id"}


class Case:
    def __init__(self, name):
        self.name, self.flops = name, 0
        self.statements = []

    def _add(self, *words):
        self.statements.append(" ".join(str(w) for w in words))
        return str(len(self.statements) - 1)

    def arg(self, dtype, shape, low=None, high=None):
        if high is None:
            high = 1 if dtype in FLOATS else 2 if dtype == "bool" else 50
        if low is None:
            low = 0 if dtype[0] in "bu" and dtype != "bf16" else -high
        text = "x".join(str(n) for n in shape) or "scalar"
        return self._add("in", dtype, text, low, high)

    def op(self, name, *values, **attrs):
        return self._add("op", name, *values,
                         *(attr_text(*item) for item in attrs.items()))

    def scalar(self, dtype, value):
        """A constant; the text form of ops has none, so it is an argument."""
        return self._add("in", dtype, "scalar", value, value)

    def out(self, *values):
        self._add("out", *values)
        return self

    def grad(self, y, *wrt):
        self.name += " gradient"
        self._add("grad", y, *wrt)
        return self

    @property
    def text(self):
        return " ; ".join(self.statements)

    # What users write of several ops.
    def mean(self, x, axes, count, dtype):
        total = self.op("reduce_sum", x, axes=axes, keep_dims=True)
        return self.op("mul", total, self.scalar(dtype, 1 / count))


def attr_text(name, value):
    kind = ATTRS.get(name)
    if isinstance(value, (list, tuple)):
        return f"{name}:{kind or 'I'}={','.join(str(n) for n in value)}"
    if isinstance(value, bool):
        return f"{name}:b={int(value)}"
    kind = kind or {int: "i", float: "f", str: "t"}[type(value)]
    return f"{name}:{kind}={value}"


def text_of(shape):
    return "[" + ",".join(str(n) for n in shape) + "]"


# ---- Shapes ----------------------------------------------------------------
def draw_shape(rng, rank=None, most=1 << 21):
    """Large, odd, thin, one row, one column; of 2^14 to `most` elements."""
    count = int(2 ** rng.uniform(14, math.log2(most)))
    style = rng.choice(("large", "odd", "thin", "wide", "row", "column"))
    rank = rank or rng.choice((1, 2, 2, 3, 4))
    if rank == 1:
        return [count | 1 if style == "odd" else count & ~7]
    if style in ("row", "column"):
        shape = [1] * rank
        shape[-1 if style == "row" else 0] = count
    elif style in ("thin", "wide"):
        few = rng.choice((2, 3, 5, 7, 12))
        shape = [1] * (rank - 2) + [count // few, few]
        if style == "wide":
            shape.reverse()
    else:
        shape = [max(2, round(count ** (1 / rank) * 2 ** rng.uniform(-2, 2)))
                 for _ in range(rank - 1)]
        shape.append(max(1, count // math.prod(shape)))
        shape = [n | 1 if style == "odd" else max(8, n & ~7) if i == rank - 1
                 else n for i, n in enumerate(shape)]
    return shape


def draw_odd(rng, low, high):
    return int(2 ** rng.uniform(math.log2(low), math.log2(high)))


def broadcast_shape(rng, shape):
    """A shape that broadcasts to another: each way of it."""
    way = rng.choice(("same", "same", "scalar", "row", "column", "any"))
    if way == "same":
        return shape
    if way == "scalar":
        return []
    if way == "row":
        return shape[-1:]
    if way == "column":
        return shape[:-1] + [1]
    return [n if rng.random() < 0.5 else 1 for n in shape]


# ---- Elementwise -----------------------------------------------------------
DTYPES_OF_RULE = {
    "float": FLOATS, "float_pair": FLOATS, "is_finite": FLOATS,
    "signed": FLOATS + INTS[:3], "number": FLOATS + INTS,
    "arithmetic": FLOATS + INTS, "compare": FLOATS + INTS,
    "select": FLOATS + INTS, "clamp": FLOATS + INTS, "add_n": FLOATS,
    "bits": INTS + ("bool",), "bits_pair": INTS + ("bool",),
    "integer": INTS, "integer_pair": INTS, "convert": FLOATS + INTS,
    "bitcast": ("f32",)}


class Row:
    """A row of the table of ops."""

    def __init__(self, text):
        parts = re.match(
            r'(\w+),\s*"(\w+)",\s*((?:LS_\w+\([^)]*\))|\d+),\s*([^,]+),'
            r'\s*(\w+),\s*(\w+),\s*(\w+),\s*(\w+),', text)
        (_, self.name, inputs, self.traits, self.shape, self.gradient, _,
         self.kernel) = parts.groups()
        self.inputs = int(re.search(r"\d+", inputs).group())
        if self.name == "add_n":
            self.inputs = 4
        self.is_elementwise = "LS_OP_ELEMENTWISE" in self.traits
        self.has_kernel = self.kernel not in ("none", "engine")


def read_rows(root):
    text = (root / "include/lockstep/ops.def").read_text()
    text = re.sub(r"//.*", "", text)
    return [Row(" ".join(part.split()))
            for part in text.split("LS_OP(")[1:]]


def draw_elementwise(rng, row):
    dtype = rng.choice(DTYPES_OF_RULE[row.shape])
    shape = draw_shape(rng)
    low = None if row.name not in POSITIVE else 0.1 if dtype in FLOATS else 1
    high = 2 if dtype in FLOATS else 7
    shapes = [shape] * row.inputs
    if row.inputs == 2:
        shapes[rng.randrange(2)] = broadcast_shape(rng, shape)
    if row.name == "clamp":
        shapes = [[], shape, []]
    is_float = dtype in FLOATS
    case = Case(f"{row.name} {dtype} " + "".join(text_of(s) for s in shapes))
    case.flops = math.prod(shape)
    args = []
    for i, size in enumerate(shapes):
        if row.name == "select" and i == 0:
            args.append(case.arg("bool", size))
        elif row.name.startswith("shift") and i == 1:
            args.append(case.arg(dtype, size, 0, 7))
        elif row.name == "clamp" and i != 1:
            args.append(case.scalar(dtype, (0, 0, 1)[i]))
        else:
            args.append(case.arg(dtype, size, low, high))
    attrs = {}
    if row.name in ("convert", "bitcast"):
        attrs["dtype"] = "i32" if row.name == "bitcast" else rng.choice(
            [t for t in FLOATS + INTS if t != dtype])
        case.name += f" to {attrs['dtype']}"
    y = case.op(row.name, *args, **attrs)
    differentiable = is_float and row.gradient != "none" and \
        row.name not in ("convert", "gelu_grad", "relu_grad")
    if differentiable and rng.random() < 0.4:
        return case.grad(y, *(args[1:] if row.name == "select" else args[1:2]
                              if row.name == "clamp" else args))
    return case.out(y)


# ---- Families of other ops -------------------------------------------------
FAMILIES = {}


def family(call):
    FAMILIES[call.__name__.rstrip("_")] = call
    return call


def maybe_grad(rng, case, y, dtype, *wrt):
    return case.grad(y, *wrt) if dtype in FLOATS and rng.random() < 0.5 \
        else case.out(y)


def draw_axes(rng, shape):
    rank = len(shape)
    way = rng.choice(("all", "last", "first", "any", "middle"))
    if way == "all":
        return list(range(rank))
    if way == "last":
        return [rank - 1]
    if way == "first":
        return [0]
    if way == "middle" and rank > 2:
        return [rank // 2]
    axes = [i for i in range(rank) if rng.random() < 0.5]
    return axes or [rng.randrange(rank)]


def reduction(name, dtypes):
    def draw(rng):
        dtype, shape = rng.choice(dtypes), draw_shape(rng)
        axes = draw_axes(rng, shape)
        case = Case(f"{name} {dtype} {text_of(shape)} axes {axes}")
        case.flops = math.prod(shape)
        x = case.arg(dtype, shape)
        y = case.op(name, x, axes=axes, keep_dims=rng.random() < 0.3)
        return case.out(y) if name == "reduce_product" else \
            maybe_grad(rng, case, y, dtype, x)
    FAMILIES[name] = draw


for _name in ("reduce_sum", "reduce_max", "reduce_min"):
    reduction(_name, FLOATS + INTS)
reduction("reduce_product", FLOATS)
reduction("reduce_and", ("bool",))
reduction("reduce_or", ("bool",))


def arg_of(name):
    def draw(rng):
        dtype, shape = rng.choice(FLOATS + INTS), draw_shape(rng)
        axis = rng.randrange(len(shape))
        case = Case(f"{name} {dtype} {text_of(shape)} axis {axis}")
        return case.out(case.op(name, case.arg(dtype, shape), axis=axis))
    FAMILIES[name] = draw


arg_of("argmax")
arg_of("argmin")


@family
def iota(rng):
    dtype, shape = rng.choice(("f32", "i32", "i64")), draw_shape(rng)
    axis = rng.randrange(len(shape))
    case = Case(f"iota {dtype} {text_of(shape)} axis {axis}")
    return case.out(case.op("iota", sizes=shape, dtype=dtype, axis=axis))


def random_of(name, dtypes):
    def draw(rng):
        dtype, shape = rng.choice(dtypes), draw_shape(rng)
        case = Case(f"{name} {dtype} {text_of(shape)}")
        return case.out(case.op(name, sizes=shape, dtype=dtype, seed=7))
    FAMILIES[name] = draw


random_of("random_uniform", FLOATS)
random_of("random_normal", FLOATS)
random_of("random_truncated_normal", ("f32", "f64"))
random_of("random_bits", ("u32", "u64"))


@family
def random_permutation(rng):
    count = draw_odd(rng, 1 << 12, 1 << 19)
    case = Case(f"random_permutation i64 [{count}]")
    return case.out(case.op("random_permutation", sizes=[count], dtype="i64",
                            seed=7))


@family
def reshape(rng):
    dtype, shape = rng.choice(FLOATS), draw_shape(rng)
    case = Case(f"reshape {dtype} {text_of(shape)}")
    return case.out(case.op("reshape", case.arg(dtype, shape),
                            sizes=[math.prod(shape)]))


@family
def broadcast(rng):
    dtype, shape = rng.choice(FLOATS + INTS), draw_shape(rng)
    small = broadcast_shape(rng, shape)
    case = Case(f"broadcast {dtype} {text_of(small)} to {text_of(shape)}")
    x = case.arg(dtype, small)
    return maybe_grad(rng, case, case.op("broadcast", x, sizes=shape), dtype,
                      x)


@family
def transpose(rng):
    dtype = rng.choice(FLOATS + INTS)
    shape = draw_shape(rng, rng.choice((2, 3, 4)))
    order = list(range(len(shape)))
    while order == sorted(order):
        rng.shuffle(order)
    case = Case(f"transpose {dtype} {text_of(shape)} by {order}")
    return case.out(case.op("transpose", case.arg(dtype, shape),
                            permutation=order))


@family
def matmul(rng):
    dtype = rng.choice(FLOATS + ("i32", "i8", "i64"))
    m, k, n = rng.choice((
        [draw_odd(rng, 64, 700) for _ in range(3)],
        [1, draw_odd(rng, 256, 2048), draw_odd(rng, 256, 2048)],
        [draw_odd(rng, 256, 2048), draw_odd(rng, 256, 2048), 1],
        [draw_odd(rng, 2, 9), draw_odd(rng, 256, 2048),
         draw_odd(rng, 256, 2048)],
        [draw_odd(rng, 256, 4096), draw_odd(rng, 2, 9),
         draw_odd(rng, 64, 1024)],
        [draw_odd(rng, 32, 128), draw_odd(rng, 4096, 40000),
         draw_odd(rng, 8, 64)]))
    ta, tb = rng.random() < 0.3, rng.random() < 0.3
    batch = rng.choice(([], [], [draw_odd(rng, 2, 9)]))
    if dtype not in ("f32", "f64", "bf16"):
        m, k, n = (max(1, v // 2) for v in (m, k, n))
    if batch:
        k = max(1, k // batch[0])
    case = Case(f"matmul {dtype} {text_of(batch)} {m}x{k}x{n}"
                + " a'" * ta + " b'" * tb)
    case.flops = 2 * m * k * n * math.prod(batch)
    a = case.arg(dtype, batch + ([k, m] if ta else [m, k]))
    b = case.arg(dtype, batch + ([n, k] if tb else [k, n]))
    y = case.op("matmul", a, b, transpose_a=ta, transpose_b=tb)
    if dtype in FLOATS and rng.random() < 0.3:
        case.flops *= 3
        return case.grad(y, a, b)
    return case.out(y)


@family
def dense(rng):
    dtype = rng.choice(FLOATS)
    m, k, n = (draw_odd(rng, 1, 600), draw_odd(rng, 32, 1100),
               draw_odd(rng, 8, 1100))
    case = Case(f"dense relu {dtype} {m}x{k}x{n}")
    case.flops = 2 * m * k * n
    args = [case.arg(dtype, s) for s in ([m, k], [k, n], [n])]
    y = case.op("dense", *args, activation="relu")
    if rng.random() < 0.4:
        case.flops *= 3
        return case.grad(y, *args)
    return case.out(y)


def lines(name):
    def draw(rng):
        dtype, shape = rng.choice(FLOATS), draw_shape(rng, 2)
        case = Case(f"{name} {dtype} {text_of(shape)}")
        x = case.arg(dtype, shape)
        return maybe_grad(rng, case, case.op(name, x), dtype, x)
    FAMILIES[name] = draw


lines("softmax")
lines("log_softmax")


@family
def softmax_cross_entropy(rng):
    dtype, shape = rng.choice(FLOATS), draw_shape(rng, 2)
    case = Case(f"softmax_cross_entropy {dtype} {text_of(shape)}")
    x, labels = case.arg(dtype, shape), case.arg("i32", shape[:1], 0, shape[1])
    return maybe_grad(rng, case, case.op("softmax_cross_entropy", x, labels),
                      dtype, x)


@family
def one_hot(rng):
    count, depth = draw_odd(rng, 100, 20000), draw_odd(rng, 4, 512)
    dtype, index = rng.choice(FLOATS), rng.choice(("i32", "i64"))
    case = Case(f"one_hot {dtype} [{count}] {index} depth {depth}")
    return case.out(case.op("one_hot", case.arg(index, [count], 0, depth),
                            depth=depth, dtype=dtype))


@family
def slice_(rng):
    dtype, shape = rng.choice(FLOATS + INTS), draw_shape(rng)
    strides = [rng.choice((1, 1, 1, 2, 3)) for _ in shape]
    starts = [rng.randrange(max(1, n // 4)) for n in shape]
    limits = [n - rng.randrange(max(1, n // 4)) for n in shape]
    case = Case(f"slice {dtype} {text_of(shape)} {starts} {limits} {strides}")
    x = case.arg(dtype, shape)
    y = case.op("slice", x, starts=starts, limits=limits, strides=strides)
    return maybe_grad(rng, case, y, dtype, x)


@family
def dynamic_slice(rng):
    dtype, shape = rng.choice(FLOATS), draw_shape(rng)
    sizes = [max(1, n - n // 3) for n in shape]
    case = Case(f"dynamic_slice {dtype} {text_of(shape)} of {sizes}")
    x = case.arg(dtype, shape)
    starts = [case.arg("i32", [], 0, n // 3 + 1) for n in shape]
    y = case.op("dynamic_slice", x, *starts, sizes=sizes)
    return maybe_grad(rng, case, y, dtype, x)


@family
def dynamic_update_slice(rng):
    dtype, shape = rng.choice(FLOATS), draw_shape(rng)
    sizes = [max(1, n - n // 3) for n in shape]
    case = Case(f"dynamic_update_slice {dtype} {text_of(shape)} by {sizes}")
    x, y = case.arg(dtype, shape), case.arg(dtype, sizes)
    starts = [case.arg("i32", [], 0, n // 3 + 1) for n in shape]
    return case.out(case.op("dynamic_update_slice", x, y, *starts))


@family
def pad(rng):
    dtype, shape = rng.choice(FLOATS), draw_shape(rng)
    low, high = ([rng.randrange(4) for _ in shape] for _ in range(2))
    case = Case(f"pad {dtype} {text_of(shape)} {low} {high}")
    x, value = case.arg(dtype, shape), case.scalar(dtype, 0)
    y = case.op("pad", x, value, low=low, high=high, interior=[0] * len(shape))
    return maybe_grad(rng, case, y, dtype, x)


@family
def concatenate(rng):
    dtype, shape = rng.choice(FLOATS + INTS), draw_shape(rng)
    axis, count = rng.randrange(len(shape)), rng.choice((2, 3, 5))
    case = Case(f"concatenate {dtype} {count} of {text_of(shape)} axis {axis}")
    args = [case.arg(dtype, shape) for _ in range(count)]
    y = case.op("concatenate", *args, axis=axis)
    return maybe_grad(rng, case, y, dtype, *args)


@family
def reverse(rng):
    dtype, shape = rng.choice(FLOATS + INTS), draw_shape(rng)
    axes = draw_axes(rng, shape)
    case = Case(f"reverse {dtype} {text_of(shape)} axes {axes}")
    x = case.arg(dtype, shape)
    return maybe_grad(rng, case, case.op("reverse", x, axes=axes), dtype, x)


def draw_lookup(rng):
    """Rows of a table, or elements of a line along any axis."""
    width = rng.choice((1, 1, 3, 16, 64, 300))
    rows = draw_odd(rng, 100, (1 << 20) // width)
    picks = draw_odd(rng, 1000, (1 << 20) // width)
    return [rows] if width == 1 else [rows, width], picks


@family
def gather(rng):
    dtype, index = rng.choice(FLOATS), rng.choice(("i32", "i64"))
    shape, picks = draw_lookup(rng)
    axis = 0
    if len(shape) == 2 and shape[0] < 5000 and rng.random() < 0.4:
        shape, axis = shape[::-1], 1
    case = Case(f"gather {dtype} {text_of(shape)} {picks} {index} axis {axis}")
    x = case.arg(dtype, shape)
    i = case.arg(index, [picks], 0, shape[axis])
    return maybe_grad(rng, case, case.op("gather", x, i, axis=axis), dtype, x)


@family
def scatter(rng):
    dtype, index = rng.choice(("f32", "f32", "f64", "bf16", "i32")), \
        rng.choice(("i32", "i64"))
    combine = rng.choice(("add", "add", "update", "max"))
    shape, picks = draw_lookup(rng)
    case = Case(f"scatter {combine} {dtype} {text_of(shape)} {picks} {index}")
    args = [case.arg(dtype, shape), case.arg(index, [picks], 0, shape[0]),
            case.arg(dtype, [picks] + shape[1:])]
    return case.out(case.op("scatter", *args, combine=combine, axis=0))


def draw_along(rng):
    shape = draw_shape(rng, rng.choice((1, 2, 3)), 1 << 20)
    axis = rng.randrange(len(shape))
    picks = list(shape)
    picks[axis] = max(1, int(shape[axis] * rng.choice((0.3, 1, 2))))
    return shape, axis, picks


@family
def take_along(rng):
    dtype, index = rng.choice(FLOATS), rng.choice(("i32", "i64"))
    shape, axis, picks = draw_along(rng)
    case = Case(f"take_along {dtype} {text_of(shape)} {index} "
                f"{text_of(picks)} axis {axis}")
    x, i = case.arg(dtype, shape), case.arg(index, picks, 0, shape[axis])
    return maybe_grad(rng, case, case.op("take_along", x, i, axis=axis), dtype,
                      x)


@family
def add_along(rng):
    dtype, index = rng.choice(("f32", "f64", "i32")), "i64"
    shape, axis, picks = draw_along(rng)
    case = Case(f"add_along {dtype} {text_of(shape)} {index} {text_of(picks)} "
                f"axis {axis}")
    args = [case.arg(dtype, shape), case.arg(index, picks, 0, shape[axis]),
            case.arg(dtype, picks)]
    return case.out(case.op("add_along", *args, axis=axis))


def scan_of(name, dtypes):
    def draw(rng):
        dtype, shape = rng.choice(dtypes), draw_shape(rng)
        axis, back = rng.randrange(len(shape)), rng.random() < 0.3
        case = Case(f"{name} {dtype} {text_of(shape)} axis {axis}"
                    + " reverse" * back)
        x = case.arg(dtype, shape)
        y = case.op(name, x, axis=axis, reverse=back)
        return maybe_grad(rng, case, y, dtype, x) if name == "cumsum" \
            else case.out(y)
    FAMILIES[name] = draw


scan_of("cumsum", FLOATS + ("i32", "i64"))
scan_of("cumprod", FLOATS)


@family
def linear_scan(rng):
    dtype = rng.choice(("f32", "f64", "bf16"))
    shape = [draw_odd(rng, 2, 32), draw_odd(rng, 16, 256),
             draw_odd(rng, 8, 256)]
    case = Case(f"linear_scan {dtype} {text_of(shape)} axis 1")
    args = [case.arg(dtype, shape), case.arg(dtype, shape)]
    y = case.op("linear_scan", *args, axis=1)
    return maybe_grad(rng, case, y, dtype, *args)


@family
def sort(rng):
    dtype = rng.choice(FLOATS + ("i32", "i64", "u8"))
    shape = draw_shape(rng, rng.choice((1, 2, 2)), 1 << 19)
    axis, down = rng.randrange(len(shape)), rng.random() < 0.3
    case = Case(f"sort {dtype} {text_of(shape)} axis {axis}" + " down" * down)
    y = case.op("sort", case.arg(dtype, shape), axis=axis, descending=down)
    return case.out(y, *([y + ":1"] if rng.random() < 0.5 else []))


@family
def top_k(rng):
    dtype = rng.choice(FLOATS[:3])
    shape = draw_shape(rng, 2, 1 << 19)
    k = min(shape[-1], rng.choice((1, 5, 50)))
    case = Case(f"top_k {dtype} {text_of(shape)} k {k}")
    y = case.op("top_k", case.arg(dtype, shape), k=k)
    return case.out(y, y + ":1")


# ---- Convolutions, windows, normalization, attention -----------------------
def draw_convolution(rng):
    """Everyday, 1x1, strided, dilated, grouped, depthwise, long and deep."""
    kind = rng.choice(("plain", "1x1", "strided", "dilated", "grouped",
                       "depthwise", "1d", "3d", "first", "5x5"))
    batch = rng.choice((1, 2, 8))
    side = rng.choice((7, 14, 15, 28, 33, 56))
    cin, cout = (rng.choice((8, 16, 24, 32, 64, 96, 128)) for _ in range(2))
    if side > 20:
        cin, cout = min(cin, 64), min(cout, 64)
    window, how = [3, 3], {}
    if kind == "1x1":
        window = [1, 1]
    elif kind == "strided":
        how["strides"] = [2, 2]
    elif kind == "dilated":
        how["dilations"] = [2, 2]
    elif kind == "grouped":
        how["groups"] = 4
    elif kind == "depthwise":
        how["groups"] = cout = cin
    elif kind == "1d":
        window, side = [rng.choice((3, 5, 9))], draw_odd(rng, 100, 2000)
    elif kind == "3d":
        window, side = [3, 3, 3], rng.choice((7, 10))
    elif kind == "first":
        cin, side, window = 3, 64, [7, 7]
        how["strides"] = [2, 2]
    elif kind == "5x5":
        window = [5, 5]
    rank = len(window)
    if kind != "1x1":
        reach = [(k - 1) * d // 2 for k, d in
                 zip(window, how.get("dilations", [1] * rank))]
        how["padding"] = [n for r in reach for n in (r, r)]
    groups = how.get("groups", 1)
    stride = how.get("strides", [1])[0]
    x = [batch, *[side] * rank, cin]
    w = [*window, cin // groups, cout]
    y = [batch, *[(side - 1) // stride + 1] * rank, cout]
    if kind == "1x1":
        y = [batch, side, side, cout]
    elif kind == "first":
        y = [batch, *[(side - 1) // 2 + 1] * 2, cout]
    flops = 2 * math.prod(y) * math.prod(w[:-1])
    return kind, x, w, y, how, flops


def convolution_of(name):
    def draw(rng):
        dtype = rng.choice(("f32", "f32", "f32", "f64", "bf16", "f16"))
        kind, x, w, y, how, flops = draw_convolution(rng)
        case = Case(f"{name} {kind} {dtype} {text_of(x)} {text_of(w)}")
        case.flops = flops
        if name == "convolution":
            args = [case.arg(dtype, x), case.arg(dtype, w)]
        elif name == "conv_bias_act":
            args = [case.arg(dtype, x), case.arg(dtype, w),
                    case.arg(dtype, w[-1:])]
            how["activation"] = "relu"
        elif name == "conv_grad_input":
            args = [case.arg(dtype, y), case.arg(dtype, w)]
            how["sizes"] = x
        else:
            args = [case.arg(dtype, x), case.arg(dtype, y)]
            how["sizes"] = w
        return case.out(case.op(name, *args, **how))
    FAMILIES[name] = draw


for _name in ("convolution", "conv_bias_act", "conv_grad_input",
              "conv_grad_weights"):
    convolution_of(_name)


@family
def reduce_window(rng):
    dtype, reduce = rng.choice(FLOATS), rng.choice(("max", "max", "mean",
                                                    "sum"))
    size = rng.choice((2, 3, 3, 7))
    stride = rng.choice((1, 2, size))
    shape = [rng.choice((1, 4)), *[rng.choice((28, 33, 56))] * 2,
             rng.choice((1, 3, 16, 64))]
    case = Case(f"reduce_window {reduce} {dtype} {text_of(shape)} {size}x{size}"
                f" by {stride}")
    case.flops = math.prod(shape) // stride ** 2 * size ** 2
    x = case.arg(dtype, shape)
    y = case.op("reduce_window", x, window=[size] * 2, reduce=reduce,
                strides=[stride] * 2)
    return maybe_grad(rng, case, y, dtype, x)


def channels_of(dtype):
    return "f32" if dtype in ("bf16", "f16") else dtype


@family
def batch_norm(rng):
    dtype = rng.choice(("f32", "f32", "f64", "bf16"))
    shape = [rng.choice((8, 32)), *[rng.choice((7, 14, 28))] * 2,
             rng.choice((16, 30, 64))]
    wide = channels_of(dtype)
    case = Case(f"batch_norm {dtype} {text_of(shape)}")
    args = [case.arg(dtype, shape), case.arg(wide, shape[-1:]),
            case.arg(wide, shape[-1:])]
    y = case.op("batch_norm", *args, epsilon=1e-5)
    return maybe_grad(rng, case, y, dtype, *args)


@family
def batch_norm_inference(rng):
    dtype = rng.choice(("f32", "f64", "bf16"))
    shape = [rng.choice((1, 8, 32)), *[rng.choice((7, 14, 28))] * 2,
             rng.choice((16, 30, 64))]
    wide = channels_of(dtype)
    case = Case(f"batch_norm_inference {dtype} {text_of(shape)}")
    args = [case.arg(dtype, shape), *(
        case.arg(wide, shape[-1:], 0.1) for _ in range(4))]
    return case.out(case.op("batch_norm_inference", *args, epsilon=1e-5))


@family
def layer_norm(rng):
    dtype, shape = rng.choice(("f32", "f32", "f64", "bf16")), \
        draw_shape(rng, 2)
    wide = channels_of(dtype)
    case = Case(f"layer_norm {dtype} {text_of(shape)}")
    args = [case.arg(dtype, shape), case.arg(wide, shape[-1:]),
            case.arg(wide, shape[-1:])]
    y = case.op("layer_norm", *args, epsilon=1e-5)
    return maybe_grad(rng, case, y, dtype, *args)


@family
def rms_norm(rng):
    dtype, shape = rng.choice(("f32", "f32", "f64")), draw_shape(rng, 2)
    case = Case(f"rms_norm {dtype} {text_of(shape)}")
    args = [case.arg(dtype, shape), case.arg(dtype, shape[-1:])]
    y = case.op("rms_norm", *args, epsilon=1e-5)
    return maybe_grad(rng, case, y, dtype, *args)


@family
def attention(rng):
    dtype = rng.choice(("f32", "f32", "bf16", "f64"))
    batch, tokens = rng.choice(((1, 512), (4, 128), (8, 65), (16, 33)))
    heads, depth = rng.choice((1, 4, 8)), rng.choice((16, 32, 64))
    causal = rng.random() < 0.5
    case = Case(f"attention {dtype} [{batch},{tokens},{heads}x{depth}]"
                + " causal" * causal)
    case.flops = 4 * batch * tokens ** 2 * heads * depth
    shape = [batch, tokens, heads * depth]
    args = [case.arg(dtype, shape) for _ in range(3)]
    y = case.op("attention", *args, num_heads=heads, causal=causal)
    return maybe_grad(rng, case, y, dtype, *args)


# ---- Composites, as users write them ---------------------------------------
def norm_by_hand(case, x, shape, axes, dtype):
    count = math.prod(shape[a] for a in axes)
    mean = case.mean(x, axes, count, dtype)
    r = case.op("sub", x, mean)
    variance = case.mean(case.op("mul", r, r), axes, count, dtype)
    scale = case.op("rsqrt", case.op("add", variance,
                                     case.scalar(dtype, 1e-5)))
    return case.op("mul", r, scale)


@family
def layer_norm_by_hand(rng):
    dtype, shape = rng.choice(("f32", "f64", "bf16")), draw_shape(rng, 2)
    case = Case(f"layer_norm_by_hand {dtype} {text_of(shape)}")
    x, scale, offset = (case.arg(dtype, s)
                        for s in (shape, shape[-1:], shape[-1:]))
    r = norm_by_hand(case, x, shape, [1], dtype)
    y = case.op("add", case.op("mul", r, scale), offset)
    return maybe_grad(rng, case, y, dtype, x, scale, offset)


@family
def group_norm_by_hand(rng):
    dtype = rng.choice(("f32", "f32", "bf16"))
    n, side, groups, each = rng.choice((1, 4, 8)), rng.choice((7, 14, 28)), \
        rng.choice((4, 8)), rng.choice((2, 4, 8))
    shape, split = [n, side, side, groups * each], [n, side, side, groups,
                                                    each]
    case = Case(f"group_norm_by_hand {dtype} {text_of(shape)} {groups} groups")
    x, scale, offset = (case.arg(dtype, s)
                        for s in (shape, shape[-1:], shape[-1:]))
    r = norm_by_hand(case, case.op("reshape", x, sizes=split), split,
                     [1, 2, 4], dtype)
    r = case.op("reshape", r, sizes=shape)
    y = case.op("add", case.op("mul", r, scale), offset)
    return maybe_grad(rng, case, y, dtype, x, scale, offset)


@family
def bilinear_by_gathers(rng):
    dtype, side, big = "f32", rng.choice((32, 56)), rng.choice((64, 100, 128))
    channels = rng.choice((1, 3, 16))
    shape = [side * side, channels]
    case = Case(f"bilinear_by_gathers {dtype} {side} to {big}, {channels} "
                "channels")
    x = case.arg(dtype, shape)
    total = None
    for _ in range(4):
        index = case.arg("i32", [big * big], 0, side * side)
        share = case.arg(dtype, [big * big, 1], 0, 1)
        part = case.op("mul", case.op("gather", x, index, axis=0), share)
        total = part if total is None else case.op("add", total, part)
    return maybe_grad(rng, case, total, dtype, x)


@family
def roll_by_concat(rng):
    dtype, shape = rng.choice(FLOATS), draw_shape(rng)
    axis = rng.randrange(len(shape))
    by = max(1, shape[axis] // 3)
    case = Case(f"roll_by_concat {dtype} {text_of(shape)} axis {axis}")
    x = case.arg(dtype, shape)
    parts = []
    for low, high in ((by, shape[axis]), (0, by)):
        starts, limits = [0] * len(shape), list(shape)
        starts[axis], limits[axis] = low, high
        if low < high:
            parts.append(case.op("slice", x, starts=starts, limits=limits,
                                 strides=[1] * len(shape)))
    return maybe_grad(rng, case, case.op("concatenate", *parts, axis=axis),
                      dtype, x)


@family
def select_by_mask(rng):
    dtype, shape = rng.choice(FLOATS), draw_shape(rng)
    case = Case(f"select_by_mask {dtype} {text_of(shape)}")
    x, y = case.arg(dtype, shape), case.arg(dtype, shape)
    mask = case.op("greater", x, case.scalar(dtype, 0.25))
    z = case.op("select", mask, y, case.op("mul", x, y))
    return maybe_grad(rng, case, z, dtype, x, y)


@family
def attention_mask(rng):
    dtype, tokens = rng.choice(("f32", "bf16")), rng.choice((64, 100, 256))
    shape = [rng.choice((4, 16)), tokens, tokens]
    case = Case(f"attention_mask {dtype} {text_of(shape)}")
    x = case.arg(dtype, shape)
    rows, columns = (case.op("iota", sizes=[tokens, tokens], dtype="i32",
                             axis=a) for a in (0, 1))
    mask = case.op("greater_equal", rows, columns)
    mask = case.op("broadcast", mask, sizes=shape)
    low = case.op("broadcast", case.scalar(dtype, -1e4), sizes=shape)
    y = case.op("softmax", case.op("select", mask, x, low))
    return maybe_grad(rng, case, y, dtype, x)


@family
def mean_squared_error(rng):
    dtype, shape = rng.choice(FLOATS), draw_shape(rng)
    case = Case(f"mean_squared_error {dtype} {text_of(shape)}")
    x, y = case.arg(dtype, shape), case.arg(dtype, shape)
    d = case.op("sub", x, y)
    loss = case.op("reduce_sum", case.op("mul", d, d),
                   axes=list(range(len(shape))))
    loss = case.op("mul", loss, case.scalar(dtype, 1 / math.prod(shape)))
    return maybe_grad(rng, case, loss, dtype, x)


@family
def softmax_by_hand(rng):
    dtype, shape = rng.choice(FLOATS), draw_shape(rng, 2)
    case = Case(f"softmax_by_hand {dtype} {text_of(shape)}")
    x = case.arg(dtype, shape)
    most = case.op("reduce_max", x, axes=[1], keep_dims=True)
    e = case.op("exp", case.op("sub", x, most))
    y = case.op("div", e, case.op("reduce_sum", e, axes=[1], keep_dims=True))
    return maybe_grad(rng, case, y, dtype, x)


@family
def separable_convolution(rng):
    dtype = rng.choice(("f32", "bf16"))
    n, side, c = rng.choice((1, 4)), rng.choice((14, 28)), rng.choice((16, 64))
    case = Case(f"separable_convolution {dtype} [{n},{side},{side},{c}]")
    x = case.arg(dtype, [n, side, side, c])
    deep, wide = case.arg(dtype, [3, 3, 1, c]), case.arg(dtype, [1, 1, c, c])
    case.flops = 2 * n * side * side * c * (9 + c) * 3
    y = case.op("convolution", x, deep, padding=[1] * 4, groups=c)
    y = case.op("convolution", case.op("relu", y), wide)
    return case.grad(y, x, deep, wide)


# ---- Draws -----------------------------------------------------------------
def all_families(root):
    """Functions that draw a case, by name: one for each row with a kernel,
    then the composites; and the rows that no case reaches."""
    rows = read_rows(root)
    made = {row.name: lambda rng, row=row: draw_elementwise(rng, row)
            for row in rows if row.is_elementwise and row.has_kernel}
    made |= FAMILIES
    missing = [row.name for row in rows if row.has_kernel
               and row.name not in made and row.name not in REACHED]
    return made, missing


def draw_cases(families, count, rng):
    """`count` cases, each family as often as the others, or one time less."""
    names, cases = sorted(families), []
    while len(cases) < count:
        rng.shuffle(names)
        cases += [families[name](rng) for name in names[:count - len(cases)]]
    return cases
