"""Data sets, samplers, transforms and collates that workers can be started with by any method."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, get_worker_info


def burn(seconds: float) -> int:
    """Use a core for some time, in Python."""
    until, count = time.thread_time() + seconds, 0
    while time.thread_time() < until:
        for _ in range(200):
            count += 1
    return count


class Compose:
    """As in torchvision: an object with `.transforms`."""

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        self.transforms = transforms

    def __call__(self, sample: Any) -> Any:
        for transform in self.transforms:
            sample = transform(sample)
        return sample


class KeywordCompose:
    """As in albumentations: members take and give fields by keyword."""

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, **fields: Any) -> Any:
        for transform in self.transforms:
            fields = transform(**fields)
        return fields


class Scale:
    def __init__(self, factor: float = 2.0) -> None:
        self.factor = factor
        self.calls = 0

    def __call__(self, sample: Any) -> Any:
        self.calls += 1
        return sample * self.factor


class KeywordScale:
    def __call__(self, *, image: Any, **fields: Any) -> dict[str, Any]:
        return {"image": image * 2.0, **fields}


class ModuleScale(torch.nn.Module):
    """As in torchvision's version 2: a module with `forward`."""

    def forward(self, sample: torch.Tensor) -> torch.Tensor:
        return sample * 3.0


class Sleep:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, sample: Any) -> Any:
        time.sleep(self.seconds)
        return sample


class Burn:
    """Python code that keeps a core busy."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, sample: Any) -> Any:
        burn(self.seconds)
        return sample


def doubled(sample: Any) -> Any:
    return sample * 2


class Rows(Dataset[Any]):
    """Random rows: drawn from all generators that a loader seeds."""

    def __init__(self, count: int = 24, transform: Callable[..., Any] | None = None) -> None:
        self.count, self.transform = count, transform
        self.visited: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        if index >= self.count:
            raise IndexError(index)
        self.visited.append(index)
        row = torch.rand(3) + random.random() + float(numpy.random.rand())
        info = get_worker_info()
        kind = type(info.dataset).__qualname__ if info else "main"
        same = info is None or info.dataset is self
        sample = row if self.transform is None else self.transform(row)
        return {"row": sample, "index": index, "seen": len(self.visited), "in": (kind, same)}


class Many(Rows):
    """Gives all items of a batch at once."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


class Faulty(Rows):
    """Fails on one item."""

    def __init__(self, bad: int, error: Exception, count: int = 24) -> None:
        super().__init__(count)
        self.bad, self.error = bad, error

    def __getitem__(self, index: int) -> Any:
        if index == self.bad:
            raise type(self.error)(*self.error.args)
        return super().__getitem__(index)


def failing(sample: Any) -> Any:
    raise ValueError("this transform fails")


class Stream(IterableDataset[Any]):
    """Shares its items out among workers."""

    def __init__(self, count: int = 23, transform: Callable[..., Any] | None = None) -> None:
        self.count, self.transform = count, transform

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for index in range(first, self.count, step):
            row = torch.rand(2) + random.random()
            yield {"row": row if self.transform is None else self.transform(row), "index": index}


class EveryOther(Sampler[int]):
    """A sampler with a state of its own."""

    def __init__(self, count: int) -> None:
        self.count, self.epochs = count, 0

    def __len__(self) -> int:
        return self.count // 2

    def __iter__(self) -> Iterator[int]:
        self.epochs += 1
        yield from range(self.epochs % 2, self.count, 2)


class Pairs(Sampler[list[int]]):
    """A batch sampler with batches of different sizes."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[list[int]]:
        yield list(range(3))
        yield list(range(3, self.count))


class Rowwise:
    """A collate with a state and a name of its own."""

    def __init__(self) -> None:
        self.batches = 0

    def __call__(self, samples: list[Any]) -> Any:
        self.batches += 1
        return torch.stack([sample["row"] for sample in samples]), self.batches


def seed_workers(worker_id: int) -> None:
    info = get_worker_info()
    assert info is not None
    info.dataset.count -= 1  # type: ignore[attr-defined]


def loader(dataset: Any, **settings: Any) -> DataLoader[Any]:
    """Return a DataLoader that always begins with the same random numbers."""
    generator = torch.Generator()
    generator.manual_seed(3)
    return DataLoader(dataset, generator=generator, **settings)


def two_threads(worker_id: int) -> None:
    torch.set_num_threads(2)


class Pictures(Dataset[Any]):
    """Crops of a JPEG file that is decoded anew for each sample."""

    def __init__(self, path: str, count: int = 12, side: int = 224) -> None:
        self.path, self.count, self.side = path, count, side

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        from PIL import Image

        with Image.open(self.path) as picture:
            crop = picture.convert("RGB").crop((0, 0, self.side, self.side))
        return torch.from_numpy(numpy.asarray(crop).copy()).permute(2, 0, 1)


class SlowOnes(Dataset[Any]):
    """One sample in fifty takes much longer."""

    def __init__(self, count: int = 400) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.1 if index % 50 == 7 else 0.002)
        return torch.zeros(4)


class Wide(Dataset[Any]):
    """Samples that take some copying to be put together."""

    def __init__(self, count: int = 400) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(3, 256, 256)


class Stacked:
    """A person's own loader: a DataLoader without batches, put together by whoever iterates.

    Putting together takes as long as was waited for the samples, or longer, on any machine.
    """

    def __init__(self, samples: DataLoader[Any], size: int) -> None:
        self.samples, self.size = samples, size

    def __iter__(self) -> Iterator[Any]:
        waiting: list[torch.Tensor] = []
        began = time.monotonic()
        for sample in self.samples:
            waiting.append(sample)
            if len(waiting) == self.size:
                yield stacked(waiting, time.monotonic() - began)
                waiting, began = [], time.monotonic()


def stacked(samples: list[torch.Tensor], seconds: float) -> torch.Tensor:
    """Put samples together, again and again, for some time."""
    until = time.monotonic() + seconds
    batch = torch.stack(samples)
    while time.monotonic() < until:
        batch = torch.stack(samples)
    return batch
