"""For people who write plugins: run one stage as the engine would, and check its contract."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from stoker.errors import SampleError
from stoker.parameters import faults
from stoker.rng import Rng
from stoker.sample import Batch, Sample
from stoker.stages import BatchMap, Expand, Gather, Map, Source, Stage, StreamSource, Worker

__all__ = ["apply", "assemble", "check_stage", "order", "read_all"]


def apply(
    stage: Map | Expand | BatchMap, item: Any, *, seed: int = 0, epoch: int = 0, position: int = 0
) -> Any:
    """Return what a stage makes of one sample (or batch), opened and closed as in a worker."""
    rng = Rng(seed, stage.name).move(epoch, position)
    opened: Any = stage.open(Worker(stage.name))
    with opened as function:
        result = function(item, rng)
        return list(result) if isinstance(stage, Expand) else result


def assemble(stage: Gather, samples: Sequence[Sample]) -> Batch:
    """Return the batch that a collate stage makes of samples."""
    import torch

    with stage.open(Worker(stage.name)) as function:
        return function(samples, lambda shape, dtype: torch.empty(shape, dtype=dtype))


def order(source: Source, *, epoch: int = 0, seed: int = 0) -> list[Any]:
    """Return an epoch's addresses, in order."""
    return list(source.addresses(epoch, Rng(seed, source.name).move(epoch, 0)))


def read_all(source: Source | StreamSource, *, epoch: int = 0, seed: int = 0) -> Iterator[Sample]:
    """Yield the samples of an epoch, in order.

    Raises:
        SampleError: that a stream yields in a sample's place.
    """
    opened: Any = source.open(Worker(source.name))
    with opened as read:
        if isinstance(source, Source):
            for address in order(source, epoch=epoch, seed=seed):
                yield read(address)
        else:
            for shard in source.shards(epoch, Rng(seed, source.name).move(epoch, 0)):
                for sample in read(shard):
                    if isinstance(sample, SampleError):
                        raise sample
                    yield sample


def check_stage(stage: Stage) -> None:
    """Assert what every stage must hold: its names, its parameters, and that it travels.

    Raises:
        AssertionError: names the promise that is broken.
    """
    cls = type(stage)
    assert "." in cls.name, f"{cls.__name__}.name must be 'namespace.variant', is {cls.name!r}"
    assert cls.kind, f"{cls.__name__}.kind is empty"
    assert cls.__doc__, f"{cls.__name__} has no docstring"
    assert dataclasses.is_dataclass(stage), f"{cls.__name__} is no dataclass"
    params: Any = cls.__dict__.get("__dataclass_params__")
    decorated = params is not None and params.frozen
    assert decorated, f"{cls.__name__} must be decorated with @dataclass(frozen=True)"
    wrong = list(faults(stage))
    assert not wrong, f"{cls.name}: {wrong}"
    try:
        travelled = pickle.dumps(stage)
    except Exception:
        return  # closures and lambdas are allowed: such a stage runs in threads
    assert pickle.loads(travelled) == stage, f"{cls.name} is not equal after pickling"
