"""What a run counts: how far it is, its losses, evaluations, and the order of its samples."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from time import perf_counter
from typing import Any

from stoker.errors import CheckpointError
from stoker.sample import KEY
from stoker.session import StepOutcome

# Losses stay on the device and are read this often at most: reading waits for it.
READ_LOSSES_S = 1.0


@dataclass
class Counters:
    """The counts of a whole run, over all its starts."""

    epoch: int = 0
    closed: bool = False
    """The present epoch's training is over, the last update included."""
    evaluated: bool = False
    """The present epoch was measured."""
    steps: int = 0
    samples: int = 0
    updates: int = 0
    training_s: float = 0.0
    elapsed_s: float = 0.0
    resumed_at: list[int] = field(default_factory=list)
    """The steps at which the run went on from a checkpoint."""
    order: bytes = b""
    """Stands for the order of samples: a hash of the one before and a batch's keys."""
    losses: list[float] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._pending: list[Any] = []
        self._read_at = 0.0
        self._ticked_at = perf_counter()

    @property
    def elapsed_now_s(self) -> float:
        """The time that the run took until now, in s."""
        return self.elapsed_s + perf_counter() - self._ticked_at

    def tick(self, *, training: bool = False) -> None:
        """Count the time since the last tick; `training` says that it went there."""
        now = perf_counter()
        passed, self._ticked_at = now - self._ticked_at, now
        self.elapsed_s += passed
        self.training_s += passed if training else 0.0

    def next_epoch(self) -> None:
        """Begin the next epoch."""
        self.epoch += 1
        self.closed = self.evaluated = False

    def remember(self, batch: Any) -> None:
        """Take a batch's keys into the order."""
        keys = batch.get(KEY) if isinstance(batch, dict) else None
        if isinstance(keys, list):
            text = "\n".join(map(str, keys)).encode()
            self.order = hashlib.blake2b(self.order + text, digest_size=16).digest()

    def note(self, outcome: StepOutcome) -> None:
        """Count a step."""
        self.steps += 1
        self.samples += outcome.samples
        self.updates += outcome.updated
        if outcome.loss is not None:
            self._pending.append(outcome.loss)
        if perf_counter() - self._read_at > READ_LOSSES_S:
            self.read_losses()

    def read_losses(self) -> None:
        """Read what is still on the device."""
        self.losses += [float(loss) for loss in self._pending]
        self._pending.clear()
        self._read_at = perf_counter()

    def state_dict(self) -> dict[str, Any]:
        """Return all counts, for a checkpoint."""
        import torch

        self.read_losses()
        state = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            **state,
            "resumed_at": list(self.resumed_at),
            "losses": torch.tensor(self.losses, dtype=torch.float64),  # as a list it is slow
            "evaluations": [dict(record) for record in self.evaluations],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on counting.

        Raises:
            CheckpointError: counts are missing.
        """
        names = [each.name for each in fields(self)]
        missing = [name for name in names if name not in state]
        if missing:
            raise CheckpointError(f"the checkpoint's counters lack {', '.join(missing)}")
        for name in names:
            setattr(self, name, state[name])
        self.losses = state["losses"].tolist()
        self.evaluations = [dict(record) for record in state["evaluations"]]
