# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader over arrays: whole batches by `__getitems__`, in the
process itself, as workers cost more than they save here."""

import sys

import feed

args = feed.arguments()

import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402


class Arrays(Dataset):
    def __init__(self):
        images, labels = feed.read_idx(args.folder)
        self.images = torch.from_numpy(images)
        self.labels = torch.from_numpy(labels)

    def __len__(self):
        return len(self.labels)

    def __getitems__(self, rows):
        rows = torch.tensor(rows)
        return self.images[rows].float().mul_(feed.SCALE), self.labels[rows]


def main():
    if args.work != "arrays":
        sys.exit(f"PyTorch has nothing for {args.work}")
    torch.set_num_threads(args.threads)
    loader = DataLoader(Arrays(), feed.BATCH, shuffle=True,
                        collate_fn=lambda batch: batch)
    feed.answer(lambda: loader)


main()
