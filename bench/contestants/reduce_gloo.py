# SPDX-License-Identifier: Apache-2.0
"""PyTorch: gloo's all_reduce in place, a process for each replica.

Rank 0 passes its orders on to the others. The vectors are 0 when it is timed,
as sums of sums would soon be infinite.
"""

import ranks
import reduce

args = reduce.arguments()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

vector = None


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
    others = ranks.Others(args)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=args.meet, rank=args.rank,
                            world_size=args.replicas)

    reduce.answer(prepare, run, others.tell)
    others.close()
    dist.destroy_process_group()


main()
