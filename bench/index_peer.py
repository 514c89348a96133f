"""What many people have: a list of file names in forked DataLoader workers (pytorch#13246).

    python -m bench.index_peer KEYS EPOCHS

Every look at a string writes its reference count, and so copies its page into the
worker. Writes the workers' private memory before the first batch and after each epoch,
as one JSON list of lists.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import psutil
from torch.utils.data import DataLoader, Dataset

from bench.index_data import key

WORKERS = 2


class Names(Dataset[int]):
    """Names, of which it gives the length."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> int:
        return len(self.names[index])


def main(arguments: Sequence[str]) -> None:
    """Run the epochs and say what the workers hold."""
    keys, epochs = map(int, arguments)
    loader: Any = DataLoader(
        Names([key(number) for number in range(keys)]),
        batch_size=1000,
        shuffle=True,
        collate_fn=sum,
        num_workers=WORKERS,
        persistent_workers=True,
        multiprocessing_context="fork",
    )
    private = []
    batches = iter(loader)
    next(batches)
    private.append(_private(batches))
    for _ in batches:
        pass
    private.append(_private(batches))
    for _ in range(epochs - 1):
        batches = iter(loader)
        for _ in batches:
            pass
        private.append(_private(batches))
    print(json.dumps(private))


def _private(batches: Any) -> list[int]:
    return [psutil.Process(one.pid).memory_full_info().uss for one in batches._workers]


if __name__ == "__main__":
    main(sys.argv[1:])
