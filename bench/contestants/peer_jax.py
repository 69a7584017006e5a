# SPDX-License-Identifier: Apache-2.0
"""JAX: one jitted step on a tree of weights whose buffers are donated.

Replicas are virtual CPU devices: the step is mapped over them by shard_map,
the batch lies split on them and gradients are averaged by pmean.
"""

import os

import peer
import peer_models

args = peer.arguments()
if args.device == "cpu":
    os.environ["JAX_PLATFORMS"] = "cpu"
flags = os.environ.get("XLA_FLAGS", "")
if args.replicas > 1:
    flags += f" --xla_force_host_platform_device_count={args.replicas}"
os.environ["XLA_FLAGS"] = flags.strip()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

if args.precision == "f64":
    jax.config.update("jax_enable_x64", True)
if args.device == "gpu":
    jax.config.update("jax_default_matmul_precision", args.products)
AXIS = "replicas"
COMPUTE = {"f32": jnp.float32, "f64": jnp.float64, "bf16": jnp.bfloat16}[
    args.precision]
# What sums and norms are kept in.
WIDE = jnp.float64 if args.precision == "f64" else jnp.float32


def dense(p, name, x):
    y = x @ p[f"{name}/kernel"].astype(COMPUTE)
    bias = p.get(f"{name}/bias")
    return y if bias is None else y + bias.astype(COMPUTE)


def conv(p, name, x, stride=1):
    y = lax.conv_general_dilated(
        x, p[f"{name}/kernel"].astype(COMPUTE), (stride, stride), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"))
    bias = p.get(f"{name}/bias")
    return y if bias is None else y + bias.astype(COMPUTE)


def batch_norm(p, stats, name, x):
    wide = x.astype(WIDE)
    mean = wide.mean((0, 1, 2))
    variance = jnp.square(wide).mean((0, 1, 2)) - jnp.square(mean)
    for key, value in (("moving_mean", mean), ("moving_variance", variance)):
        stats[f"{name}/{key}"] = (peer.BN_MOMENTUM * p[f"{name}/{key}"]
                                  + (1 - peer.BN_MOMENTUM) * value)
    scale = p[f"{name}/scale"] * lax.rsqrt(variance + peer.BN_EPSILON)
    return (wide * scale + (p[f"{name}/offset"] - mean * scale)).astype(COMPUTE)


def layer_norm(p, name, x):
    wide = x.astype(WIDE)
    mean = wide.mean(-1, keepdims=True)
    variance = jnp.square(wide - mean).mean(-1, keepdims=True)
    y = (wide - mean) * lax.rsqrt(variance + peer.LN_EPSILON)
    return (y * p[f"{name}/scale"] + p[f"{name}/offset"]).astype(COMPUTE)


def cnn(p, stats, x):
    x = jax.nn.relu(conv(p, "conv1", x))
    x = jax.nn.relu(conv(p, "conv2", x))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1),
                          "VALID")
    x = jax.nn.relu(dense(p, "hidden", x.reshape(x.shape[0], -1)))
    return dense(p, "logits", x)


def gpt(p, stats, tokens):
    table = p["embedding/table"].astype(COMPUTE)
    x = table[tokens] + p["positions"].astype(COMPUTE)
    blocks, heads = peer.GPTS[args.model][3:]
    for i in range(1, blocks + 1):
        y = layer_norm(p, f"block{i}/norm1", x)
        qkv = dense(p, f"block{i}/attention/qkv", y)
        shape = (*qkv.shape[:2], heads, -1)
        q, k, v = (part.reshape(shape) for part in jnp.split(qkv, 3, -1))
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + dense(p, f"block{i}/attention/out", y.reshape(x.shape))
        y = jax.nn.gelu(dense(p, f"block{i}/up",
                              layer_norm(p, f"block{i}/norm2", x)))
        x = x + dense(p, f"block{i}/down", y)
    return layer_norm(p, "norm", x) @ table.T


MODELS = {
    **peer_models.models(dense, conv, batch_norm, jax.nn.relu,
                         lambda x: x.mean((1, 2))),
    "cnn": cnn,
    "gpt": gpt,
    "gpt-large": gpt,
}


def loss_of(trained, averaged, x, labels):
    stats = {}
    logits = MODELS[args.model](trained | averaged, stats, x).astype(WIDE)
    picked = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - picked).mean(), stats


def update(kind, rate, trained, slots, gradients):
    each = jax.tree.map
    if kind == "sgd":
        return each(lambda w, g: w - rate * g, trained, gradients), slots
    if kind == "momentum":
        slots = each(lambda m, g: 0.9 * m + g, slots, gradients)
        return each(lambda w, m: w - rate * m, trained, slots), slots
    t = slots["t"] + 1
    m = each(lambda m, g: 0.9 * m + 0.1 * g, slots["m"], gradients)
    v = each(lambda v, g: 0.999 * v + 0.001 * g * g, slots["v"], gradients)
    scale = rate / (1 - 0.9 ** t)
    root = lax.rsqrt(1 - 0.999 ** t)
    trained = each(
        lambda w, m, v: w - scale * m / (jnp.sqrt(v) * root + 1e-8),
        trained, m, v)
    return trained, {"t": t, "m": m, "v": v}


def first_slots(kind, trained):
    if kind == "sgd":
        return ()
    zeros = jax.tree.map(jnp.zeros_like, trained)
    if kind == "momentum":
        return zeros
    return {"t": jnp.zeros((), WIDE), "m": zeros,
            "v": jax.tree.map(jnp.zeros_like, trained)}


def train_step(state, x, labels):
    trained, averaged, slots = state
    (loss, stats), gradients = jax.value_and_grad(loss_of, has_aux=True)(
        trained, averaged, x, labels)
    if args.replicas > 1:
        loss, stats, gradients = lax.pmean((loss, stats, gradients), AXIS)
    trained, slots = update(*peer.OPTIMIZERS[args.model], trained, slots,
                            gradients)
    return (trained, stats, slots), loss


def main():
    weights, x, labels = (peer.load(args.weights) if args.weights
                          else peer.make_gpt(args.model))
    weights = {name: jnp.asarray(w, WIDE) for name, w in weights.items()}
    trained = {n: w for n, w in weights.items() if peer.is_trained(n)}
    averaged = {n: w for n, w in weights.items() if not peer.is_trained(n)}
    kind, _ = peer.OPTIMIZERS[args.model]
    state = (trained, averaged, first_slots(kind, trained))
    x = jnp.asarray(x, COMPUTE if x.dtype.kind == "f" else None)
    labels = jnp.asarray(labels)
    step = train_step
    if args.replicas > 1:
        mesh = Mesh(jax.devices(), (AXIS,))
        whole, split = PartitionSpec(), PartitionSpec(AXIS)
        # Each device differentiates its own loss; pmean joins them.
        step = jax.shard_map(step, mesh=mesh, in_specs=(whole, split, split),
                             out_specs=(whole, whole), check_vma=False)
        state = jax.device_put(state, NamedSharding(mesh, whole))
        x, labels = jax.device_put((x, labels), NamedSharding(mesh, split))
    step = jax.jit(step, donate_argnums=0)

    def start():
        nonlocal state
        state, loss = step(state, x, labels)
        return loss

    # A run's steps wait: never more than one of them is in flight.
    peer.answer(lambda: float(start()), start=start)


if __name__ == "__main__":
    main()
