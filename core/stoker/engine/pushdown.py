"""Hands the question of what a crop uses to the decoder before it (see `stoker.region`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from stoker.region import Decoder, Request
from stoker.stages import Map, Stage


def push_down(stages: Sequence[Stage], names: Sequence[str]) -> tuple[Stage, ...]:
    """Return the stages with each decoder asked for what the stage after it uses.

    Only maps that do not look at the picture may stand between: anything else wants all of
    it, makes several samples of one, or keeps the whole for another epoch.

    Args:
        stages: of the plan, in order.
        names: a unique name for each.
    """
    out = list(stages)
    for index, stage in enumerate(stages):
        if isinstance(stage, Decoder):
            user = _user(stages, index, stage.makes)
            if user is not None:
                taker = stages[user]
                assert isinstance(taker, Map)
                request = Request(taker, names[user], stage.makes)
                out[index] = dataclasses.replace(stage, request=request)
    return tuple(out)


def served(stage: Stage) -> str:
    """Return the name of the stage that a decoder asks what it uses, or ""."""
    request = stage.request if isinstance(stage, Decoder) else None
    return request.name if request is not None else ""


def _user(stages: Sequence[Stage], decoder: int, field: str) -> int | None:
    """Return the first stage behind a decoder that uses its picture, if it uses a part."""
    for index in range(decoder + 1, len(stages)):
        stage = stages[index]
        if not isinstance(stage, Map):
            return None
        use = stage.use_of(field)
        if use != "none":
            return index if use == "part" else None
    return None
