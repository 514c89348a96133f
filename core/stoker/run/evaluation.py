"""Measuring the model between epochs, and opening a plan's step."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stoker.engine.plan import Plan
from stoker.loader import Loader
from stoker.run.interrupts import Interrupts
from stoker.session import StepContext

if TYPE_CHECKING:
    import torch


class Evaluation:
    """The evaluating pipeline at work: one loader for the whole run.

    Every measurement is epoch 0 of it, so that all see the same data in the same order.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._loader = Loader(plan)

    def __enter__(self) -> Evaluation:
        return self

    def __exit__(self, *error: object) -> None:
        self._loader.close()

    def measure(self, model: Any, interrupts: Interrupts) -> dict[str, float]:
        """Return the metrics of a model over the whole set.

        Raises:
            Interrupted: a signal came; the model and the generators are as they were.
        """
        self._loader.set_epoch(0)
        with open_step(self._plan, model) as session:
            for batch in interrupts.batches(self._loader):
                session(batch)
            session.end_epoch()
            metrics = dict(session.results())
        self._loader.ledger.check()
        return metrics

    def stages(self) -> list[dict[str, Any]]:
        """Return what each stage did, over all measurements."""
        return [asdict(row) for row in self._loader.report().stages]


def open_step(plan: Plan, model: Any = None) -> Any:
    """Return the context of a plan's step, opened for its device, seed and policies."""
    device = torch_device(plan.device)
    step = plan.step
    assert step is not None
    return step.open(
        StepContext(device, plan.pipeline.options.seed, plan.precision, plan.memory, model)
    )


def torch_device(name: str) -> torch.device:
    """Return the torch device of a name."""
    import torch

    return torch.device(name)
