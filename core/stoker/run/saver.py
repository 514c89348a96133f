"""Saves a run and lets it go on: when it is due, what it holds, and never at the run's cost."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from stoker.engine.plan import Plan
from stoker.errors import CheckpointError, reason_of
from stoker.loader import Loader
from stoker.run import checkpoints
from stoker.run.counters import Counters
from stoker.run.evaluation import torch_device
from stoker.run.folder import RunFolder
from stoker.run.generators import generators_state, restore_generators
from stoker.run.identity import identity
from stoker.run.resume import Resumption
from stoker.session import StepSession


class Saver:
    """Writes a run's checkpoints and keeps the newest ones.

    Does nothing before `begin`, and nothing at all where the step has no state.

    Args:
        folder: the run's.
        plan: tells how often, how many to keep, and what the run is.
        counters: of the run.
        resumed: what the run goes on from; that checkpoint stays.
    """

    def __init__(
        self, folder: RunFolder, plan: Plan, counters: Counters, resumed: Resumption | None
    ) -> None:
        self.failures: list[str] = []
        """What could not be written, and why."""
        self.newest: Path | None = resumed.checkpoint.folder if resumed else None
        self._folder, self._plan, self._counters, self._resumed = folder, plan, counters, resumed
        self._options = plan.pipeline.options
        self._resumed_from = self.newest
        self._session = StepSession()
        self._place: Callable[[], dict[str, Any]] | None = None
        """Gives the loader's state after the last step; None: nothing is saved."""
        self._saved: tuple[int, int, bool, bool] | None = None
        self._tried_step = 0
        self._tried_at = perf_counter()

    # -- going on ------------------------------------------------------------------

    def begin(self, session: StepSession, loader: Loader) -> None:
        """Take session and loader, and put all parts where the checkpoint left them.

        Raises:
            CheckpointError: a part is missing or does not fit.
        """
        self._session = session
        if session.state_dict() is not None:
            self._place = loader.bookmark()
        if self._resumed is not None:
            self._go_on(self._resumed.checkpoint, loader)
            self._resumed = None  # its tensors are taken over
        self._tried_at = perf_counter()

    def _go_on(self, checkpoint: checkpoints.Checkpoint, loader: Loader) -> None:
        if self._place is None:
            raise CheckpointError(f"{self._plan.names[-1]} has no state that could go on")
        state, counters = checkpoint.state, self._counters
        missing = [name for name in self._state() if state.get(name) is None]
        if missing:
            raise CheckpointError(f"{checkpoint.folder} lacks {', '.join(missing)}")
        self._session.load_state_dict(state["step"])
        counters.load_state_dict(state["counters"])
        loader.load_state_dict(state["loader"])
        self._place = loader.bookmark()
        # Last: opening a step draws its weights.
        restore_generators(state["generators"], torch_device(self._plan.device))
        counters.resumed_at.append(counters.steps)
        self._saved, self._tried_step = self._standing(), counters.steps
        self._folder.append(
            {
                "event": "resumed",
                "time": time.time(),
                "epoch": counters.epoch,
                "steps": counters.steps,
                "checkpoint": checkpoint.folder.name,
            }
        )

    # -- saving --------------------------------------------------------------------

    def note(self, loader: Loader) -> None:
        """Take where the loader stands: after each step, and at an epoch's end."""
        if self._place is not None:
            self._place = loader.bookmark()

    def save_if_due(self) -> None:
        """Save where enough steps or minutes went by, at a boundary between updates."""
        every, minutes = self._options.save_every_steps, self._options.save_every_minutes
        steps = self._counters.steps
        by_steps = every is not None and steps // every > self._tried_step // every
        by_time = minutes is not None and perf_counter() - self._tried_at >= minutes * 60
        if (by_steps or by_time) and self._session.at_boundary:
            self.save()

    def save(self) -> None:
        """Save the run, unless it stands where it was saved. A failure is a warning."""
        counters = self._counters
        if self._place is None or not counters.steps or self._standing() == self._saved:
            return
        facts = {
            "pipeline": self._plan.pipeline.name,
            "epoch": counters.epoch,
            "epochs": self._options.epochs,
            "identity": identity(self._plan),
        }
        run = self._folder.path
        try:
            self.newest = checkpoints.write(run, counters.steps, self._state(), facts)
        except Exception as error:  # a full disk must not cost the run as well
            self._tell(reason_of(error))
        else:
            self._saved = self._standing()
            protected = [path for path in (self.newest, self._resumed_from) if path is not None]
            checkpoints.prune(run, self._options.keep_checkpoints, protected)
        self._tried_step, self._tried_at = counters.steps, perf_counter()

    @property
    def standing(self) -> str:
        """What was saved, or why nothing was, in words."""
        if self._saved is not None:
            return f"saved at step {self._saved[0]:,}"
        if self._place is None:
            return "nothing was saved, since the step has no state"
        return f"nothing was saved, since {'saving failed' if self.failures else 'no step ended'}"

    def _tell(self, reason: str) -> None:
        fault = f"step {self._counters.steps}: {reason}"
        self.failures.append(fault)
        rest = f"{self.newest.name} stays" if self.newest else "there is no older one"
        warnings.warn(
            f"the checkpoint could not be written, at {fault}; the run goes on, {rest}",
            RuntimeWarning,
            stacklevel=3,
        )

    def _state(self) -> dict[str, Any]:
        return {
            "step": self._session.state_dict(),
            "counters": self._counters.state_dict(),
            "loader": self._place() if self._place is not None else None,
            "generators": generators_state(torch_device(self._plan.device)),
        }

    def _standing(self) -> tuple[int, int, bool, bool]:
        counters = self._counters
        return counters.steps, counters.epoch, counters.closed, counters.evaluated
