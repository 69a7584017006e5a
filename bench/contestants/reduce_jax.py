# SPDX-License-Identifier: Apache-2.0
"""JAX: psum over virtual CPU devices, in a loop of one jitted function.

The loop carries what was added up, so each psum waits for the one before; the
vectors are 0 then, as sums of sums would soon be infinite.
"""

import os

import reduce

args = reduce.arguments()
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") +
    f" --xla_force_host_platform_device_count={args.replicas}").strip()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

AXIS = "replicas"
mesh = Mesh(np.array(jax.devices()), (AXIS,))
split = PartitionSpec(AXIS)


def add_up(trips, x):
    return lax.fori_loop(0, trips, lambda i, x: lax.psum(x, AXIS), x)


loop = jax.jit(
    jax.shard_map(add_up, mesh=mesh, in_specs=(PartitionSpec(), split),
                  out_specs=split, check_vma=False), donate_argnums=1)
vectors = None


def put(array):
    return jax.device_put(array, NamedSharding(mesh, split))


def prepare(size):
    global vectors
    length = size // 4
    vectors = None
    ones = np.repeat(np.arange(1, args.replicas + 1, dtype=np.float32), length)
    total = float(loop(jnp.int32(1), put(ones))[0])
    vectors = put(np.zeros(args.replicas * length, np.float32))
    return total


def run(trips):
    global vectors
    vectors = loop(jnp.int32(trips), vectors)
    vectors.block_until_ready()


reduce.answer(prepare, run)
