# SPDX-License-Identifier: Apache-2.0
"""PyTorch: gloo's all_reduce in place, a process for each replica.

Rank 0 passes its orders on to the others. The vectors are 0 when it is timed,
as sums of sums would soon be infinite.
"""

import os
import subprocess
import sys
import tempfile

import reduce

args = reduce.arguments()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

vector = None


def start_others():
    """The pipes to ranks 1 to replicas - 1, and where all meet."""
    meet = "file://" + os.path.join(tempfile.mkdtemp(), "meet")
    words = [sys.executable, *sys.argv, "--meet", meet, "--rank"]
    return meet, [
        subprocess.Popen([*words, str(rank)], stdin=subprocess.PIPE, text=True,
                         stdout=subprocess.DEVNULL).stdin
        for rank in range(1, args.replicas)]


def prepare(size):
    global vector
    vector = torch.full((size // 4,), float(args.rank + 1))
    dist.all_reduce(vector)
    total = vector[0].item()
    vector.zero_()
    dist.barrier()
    return total


def run(trips):
    for _ in range(trips):
        dist.all_reduce(vector)


def main():
    pipes = []
    if args.rank == 0:
        args.meet, pipes = start_others()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=args.meet, rank=args.rank,
                            world_size=args.replicas)

    def tell(line):
        for pipe in pipes:
            pipe.write(line)
            pipe.flush()

    reduce.answer(prepare, run, tell)
    for pipe in pipes:
        pipe.close()
    dist.destroy_process_group()


main()
