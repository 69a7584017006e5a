# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: one tf.function on variables, updated by its fused training ops.

Replicas are logical CPUs under a MirroredStrategy; gradients are averaged by
its own reduction and each device updates its own copies.
"""

import os

import peer
import peer_models

args = peer.arguments()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf  # noqa: E402

COMPUTE = {"f32": tf.float32, "f64": tf.float64, "bf16": tf.bfloat16}[
    args.precision]
# What sums and norms are kept in.
WIDE = tf.float64 if args.precision == "f64" else tf.float32


def cast(x):
    return tf.cast(x, COMPUTE)


def dense(p, name, x):
    y = tf.matmul(x, cast(p[f"{name}/kernel"]))
    bias = p.get(f"{name}/bias")
    return y if bias is None else tf.nn.bias_add(y, cast(bias))


def conv(p, name, x, stride=1):
    y = tf.nn.conv2d(x, cast(p[f"{name}/kernel"]), stride, "SAME")
    bias = p.get(f"{name}/bias")
    return y if bias is None else tf.nn.bias_add(y, cast(bias))


def batch_norm(p, stats, name, x):
    scale, offset = p[f"{name}/scale"], p[f"{name}/offset"]
    if COMPUTE == tf.float64:  # The fused op has no f64.
        mean, variance = tf.nn.moments(x, (0, 1, 2))
        y = tf.nn.batch_normalization(x, mean, variance, offset, scale,
                                      peer.BN_EPSILON)
    else:
        y, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            x, scale, offset, epsilon=peer.BN_EPSILON)
    stats[f"{name}/moving_mean"] = mean
    stats[f"{name}/moving_variance"] = variance
    return y


def layer_norm(p, name, x):
    wide = tf.cast(x, WIDE)
    mean, variance = tf.nn.moments(wide, -1, keepdims=True)
    return cast(tf.nn.batch_normalization(
        wide, mean, variance, p[f"{name}/offset"], p[f"{name}/scale"],
        peer.LN_EPSILON))


def cnn(p, stats, x):
    x = tf.nn.relu(conv(p, "conv1", x))
    x = tf.nn.relu(conv(p, "conv2", x))
    x = tf.nn.max_pool2d(x, 2, 2, "VALID")
    x = tf.reshape(x, (x.shape[0], -1))
    return dense(p, "logits", tf.nn.relu(dense(p, "hidden", x)))


def attention(q, k, v, batch, size):
    """Of [batch, size, width]; there is no fused one on CPUs."""
    def heads(x):
        x = tf.reshape(x, (batch, size, peer.GPTS["gpt"][4], -1))
        return tf.transpose(x, (0, 2, 1, 3))

    q, k, v = heads(q), heads(k), heads(v)
    scores = tf.matmul(q, k, transpose_b=True) * cast(q.shape[-1] ** -0.5)
    mask = tf.linalg.band_part(tf.ones((size, size), COMPUTE), -1, 0)
    y = tf.matmul(tf.nn.softmax(scores + (1 - mask) * cast(-1e9)), v)
    return tf.reshape(tf.transpose(y, (0, 2, 1, 3)), (batch, size, -1))


def gpt(p, stats, tokens):
    batch, size = tokens.shape
    table = cast(p["embedding/table"])
    x = tf.gather(table, tokens) + cast(p["positions"])
    width = x.shape[-1]

    def flat_dense(name, x):  # One product instead of one per example.
        y = dense(p, name, tf.reshape(x, (batch * size, -1)))
        return tf.reshape(y, (batch, size, -1))

    for i in range(1, peer.GPTS["gpt"][3] + 1):
        qkv = flat_dense(f"block{i}/attention/qkv",
                         layer_norm(p, f"block{i}/norm1", x))
        y = attention(*tf.split(qkv, 3, -1), batch, size)
        x += flat_dense(f"block{i}/attention/out", y)
        y = flat_dense(f"block{i}/up", layer_norm(p, f"block{i}/norm2", x))
        x += flat_dense(f"block{i}/down", tf.nn.gelu(y, approximate=True))
    x = tf.reshape(layer_norm(p, "norm", x), (batch * size, width))
    logits = tf.matmul(x, table, transpose_b=True)
    return tf.reshape(logits, (batch, size, -1))


MODELS = {
    **peer_models.models(dense, conv, batch_norm, tf.nn.relu,
                         lambda x: tf.reduce_mean(x, (1, 2))),
    "cnn": cnn,
    "gpt": gpt,
}


class Optimizer:
    """The fused training ops, on slots that lie beside their variables."""

    def __init__(self, kind, rate, variables):
        self.kind, self.rate = kind, tf.constant(rate, WIDE)
        slots = {"sgd": 0, "momentum": 1, "adam": 2}[kind]
        self.slots = [[tf.Variable(tf.zeros_like(v), trainable=False)
                       for _ in range(slots)] for v in variables]
        self.powers = [tf.Variable(tf.constant(b, WIDE), trainable=False)
                       for b in (0.9, 0.999)]

    def _apply(self, w, g, *slots):
        g = tf.convert_to_tensor(g)
        if self.kind == "sgd":
            tf.raw_ops.ResourceApplyGradientDescent(
                var=w.handle, alpha=self.rate, delta=g)
        elif self.kind == "momentum":
            tf.raw_ops.ResourceApplyMomentum(
                var=w.handle, accum=slots[0].handle, lr=self.rate, grad=g,
                momentum=tf.constant(0.9, WIDE))
        else:
            m, v, power1, power2 = slots
            tf.raw_ops.ResourceApplyAdam(
                var=w.handle, m=m.handle, v=v.handle, beta1_power=power1,
                beta2_power=power2, lr=self.rate,
                beta1=tf.constant(0.9, WIDE), beta2=tf.constant(0.999, WIDE),
                epsilon=tf.constant(1e-8, WIDE), grad=g)

    def apply(self, update, variables, gradients):
        """update(variable, function, arguments) runs it where that lies."""
        powers = [p.read_value() for p in self.powers] \
            if self.kind == "adam" else []
        for w, g, slots in zip(variables, gradients, self.slots):
            update(w, self._apply, (g, *slots, *powers))
        if self.kind == "adam":
            for power, beta in zip(self.powers, (0.9, 0.999)):
                update(power, lambda p, b: p.assign(p * b),
                       (tf.constant(beta, WIDE),))


def update_here(variable, function, arguments):
    function(variable, *arguments)


def keep_average(average, value):
    average.assign(peer.BN_MOMENTUM * average + (1 - peer.BN_MOMENTUM) * value)


def main():
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(args.threads)
    many = args.replicas > 1
    strategy = tf.distribute.get_strategy()
    if many:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * args.replicas)
        strategy = tf.distribute.MirroredStrategy(
            [f"CPU:{i}" for i in range(args.replicas)],
            tf.distribute.HierarchicalCopyAllReduce())
    weights, x, labels = peer.load(args.weights)
    with strategy.scope():
        p = {name: tf.Variable(tf.constant(w, WIDE), name=name.replace("/", "_"),
                               trainable=peer.is_trained(name))
             for name, w in weights.items()}
        trained = [w for w in p.values() if w.trainable]
        optimizer = Optimizer(*peer.OPTIMIZERS[args.model], trained)
    if x.dtype.kind == "f":
        x = tf.cast(x, COMPUTE)
    net = MODELS[args.model]

    def gradients_of(x, labels):
        stats = {}
        with tf.GradientTape() as tape:
            logits = tf.cast(net(p, stats, x), WIDE)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        return loss, stats, tape.gradient(loss, trained)

    def apply_merged(strategy, loss, stats, gradients):
        extended = strategy.extended
        mean = tf.distribute.ReduceOp.MEAN
        gradients = extended.batch_reduce_to(mean, list(zip(gradients,
                                                            trained)))
        optimizer.apply(extended.update, trained, gradients)
        for name, value in stats.items():
            extended.update(p[name], keep_average,
                            (extended.reduce_to(mean, value, p[name]),))
        return strategy.reduce(mean, loss, axis=None)

    def replica_step(x, labels):
        loss, stats, gradients = gradients_of(x, labels)
        context = tf.distribute.get_replica_context()
        return context.merge_call(apply_merged, args=(loss, stats, gradients))

    @tf.function
    def step(x, labels):
        if many:
            return strategy.run(replica_step, args=(x, labels))
        loss, stats, gradients = gradients_of(x, labels)
        optimizer.apply(update_here, trained, gradients)
        for name, value in stats.items():
            keep_average(p[name], value)
        return loss

    if many:
        def split(array):
            shares = tf.split(tf.convert_to_tensor(array), args.replicas)
            return strategy.experimental_distribute_values_from_function(
                lambda c: shares[c.replica_id_in_sync_group])
        x, labels = split(x), split(labels)
    else:
        x, labels = tf.convert_to_tensor(x), tf.convert_to_tensor(labels)

    def run():
        loss = step(x, labels)
        if many:
            loss = strategy.experimental_local_results(loss)[0]
        return float(loss)

    peer.answer(run)


if __name__ == "__main__":
    main()
