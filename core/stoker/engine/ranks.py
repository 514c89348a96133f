"""Which rank this is, and what of an epoch is its share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from stoker.engine.course import Share
from stoker.pipeline import Options
from stoker.stages import Caution, Expand, Gather, Stage, StreamSource


def rank_of(options: Options) -> tuple[int, int]:
    """Return rank and number of ranks: as declared, or as torchrun says, or 0 of 1.

    Torchrun says both; one of them alone is of something else.
    """
    rank, size = options.rank, options.world_size
    own = _environ("RANK") if rank is None else rank
    all_of = _environ("WORLD_SIZE") if size is None else size
    if own is None or all_of is None:
        return rank or 0, size or 1
    return own, all_of


def _environ(name: str) -> int | None:
    try:
        return int(os.environ.get(name, ""))
    except ValueError:
        return None


def _nonsense(options: Options) -> Iterator[str]:
    """Yield what the environment says of ranks that is no number, where it is asked."""
    for name, declared in (("RANK", options.rank), ("WORLD_SIZE", options.world_size)):
        text = os.environ.get(name)
        if declared is None and text is not None and _environ(name) is None:
            yield (
                f"the environment has {name}={text!r}, which is no whole number: unset it, or "
                f"give the pipeline its {name.lower()}"
            )


def share_of(options: Options, stages: Sequence[Stage]) -> Share | None:
    """Return this rank's share, None where there is only one rank, or no batches to share."""
    rank, size = rank_of(options)
    gather = _gather(stages)
    batch: Any = getattr(gather, "batch_size", None)
    if size < 2 or gather is None or not isinstance(batch, int):
        return None
    return Share(rank, size, batch, _pads(gather))


def remarks(
    options: Options, stages: Sequence[Stage], names: Sequence[str], samples: int | None
) -> Iterator[str]:
    """Yield what keeps ranks from sharing an epoch, and what that does to it as a `Caution`."""
    yield from _nonsense(options)
    rank, size = rank_of(options)
    if not 0 <= rank < size:
        yield f"rank={rank} of world_size={size}: ranks count from 0 to world_size - 1"
    if size < 2:
        return
    gather = _gather(stages)
    where = f"over {size} ranks"
    if gather is None or not isinstance(getattr(gather, "batch_size", None), int):
        yield (
            f"{where} each batch is a block of batch_size samples; "
            f"{'no stage makes batches' if gather is None else f'{gather.name} has none'}: "
            "use a collate stage with a batch_size"
        )
        return
    if getattr(gather, "merge_last", False):
        yield (
            f"{gather.name}: merge_last=True {where}: the last batch of one rank cannot be merged "
            "with another's; set drop_last=True, or leave both off"
        )
    if not options.in_order:
        yield f"in_order=False {where}: ranks stay aligned only in order; leave in_order=True"
    for name, stage in zip(names, stages, strict=True):
        if isinstance(stage, Expand):
            yield (
                f"{name} makes several samples of one, so that batches {where} would differ in "
                "size; expand the data beforehand, or use one rank"
            )
        if isinstance(stage, StreamSource):
            if _pads(gather):
                yield (
                    f"{name} is a stream, which cannot be filled up for equal batch counts "
                    f"{where}: set drop_last=True, or use an indexed source"
                )
            yield Caution(f"{name}: each of {size} ranks reads the whole stream for its share")
    share = share_of(options, stages)
    if samples and share is not None:
        yield from _tail(share, samples, where)


def _tail(share: Share, samples: int, where: str) -> Iterator[str]:
    rounds = share.rounds(samples)
    whole = rounds * share.world_size * share.size
    if rounds == 0:
        yield (
            f"{samples} samples are too few for one batch of {share.size} on each rank {where}; "
            "lower batch_size or set drop_last=False"
        )
    elif not share.pads and whole < samples:
        yield Caution(f"{where} {samples - whole} of {samples} samples are left out each epoch")
    elif share.pads:
        blocks = -(-samples // share.size)
        padded = rounds * share.world_size - blocks
        if padded:
            yield Caution(
                f"{where} {padded} batches an epoch repeat samples of its start, so that each "
                f"rank gets {rounds}; they are marked, and evaluation leaves them out"
            )


def _gather(stages: Sequence[Stage]) -> Gather | None:
    return next((stage for stage in stages if isinstance(stage, Gather)), None)


def _pads(gather: Gather) -> bool:
    return not getattr(gather, "drop_last", gather.batches(1) == 0)
