"""Runs a pipeline with its step: the epochs, the evaluations, and what came of them."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from stoker.engine.plan import Plan, make_plan
from stoker.errors import LedgerError, StokerError
from stoker.jsonable import to_json
from stoker.loader import Loader
from stoker.observer import Observer
from stoker.pipeline import Pipeline
from stoker.plugins import host
from stoker.run.folder import RunFolder
from stoker.run.recorder import Observers, Recorder
from stoker.run.report import markdown
from stoker.run.versions import versions
from stoker.sample import KEY
from stoker.session import StepContext, StepOutcome, StepSession

if TYPE_CHECKING:
    import torch

# Losses stay on the device and are read this often at most: reading waits for it.
READ_LOSSES_S = 1.0


class Run:
    """One run of a pipeline, from plan to report.

    Args:
        pipeline: what to run; it must end in a step.
        runs: folder that holds run folders.
        observers: told what happens, beside those of plugins.
        command: how the run was started, for the report.

    Raises:
        PlanError: all that is wrong with the pipeline, at once.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        runs: Path = Path("runs"),
        observers: Sequence[Observer] = (),
        command: str = "",
    ) -> None:
        self.plan = make_plan(pipeline, needs_step=True)
        self.folder = RunFolder(runs, pipeline.name)
        self._observers = Observers([*observers, *host().observers()])
        self._command = command
        self._pending: list[Any] = []
        self._losses: list[float] = []
        self._read_at = 0.0
        self._epoch = self._steps = self._samples = self._updates = 0
        self._training_s = 0.0
        self._evaluations: list[dict[str, Any]] = []
        self._started = perf_counter()
        self._status = "finished"
        self._order = hashlib.blake2b(digest_size=16)

    def execute(self) -> dict[str, Any]:
        """Run to the end and return the result, which result.json holds too.

        The result is written also when the run fails. `error` then says why.

        Raises:
            StokerError: the run failed; its folder holds what was measured until then.
        """
        result: dict[str, Any] = {}
        self._observers.tell("on_start", self.plan.to_dict(), str(self.folder.path))
        loader = Loader(self.plan, quarantine=self.folder.quarantine)
        failure: BaseException | None = None
        evaluation: Evaluation | None = None
        try:
            with ExitStack() as stack:
                stack.callback(loader.close)
                for wrapper in host().wrappers(self.plan):
                    stack.enter_context(wrapper)
                session = stack.enter_context(open_step(self.plan))
                if self.plan.evaluation is not None:
                    evaluation = stack.enter_context(Evaluation(self.plan.evaluation))
                with Recorder(loader, self.progress, self._window):
                    self._epochs(loader, session, evaluation)
                self._read_losses()
        except BaseException as error:
            failure = error
            self._status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        result = self._result(loader, evaluation, failure)
        self.folder.write("result.json", to_json(result, indent=1))
        self.folder.write("report.md", markdown(result))
        self._observers.tell("on_end", result)
        if failure is not None:
            raise failure
        loader.ledger.check()
        return result

    # -- the loop ------------------------------------------------------------------

    def _epochs(self, loader: Loader, session: StepSession, evaluation: Evaluation | None) -> None:
        options = self.plan.pipeline.options
        for self._epoch in range(options.epochs):
            begun = perf_counter()
            for batch in loader:
                self._remember(batch)
                self._note(session(batch))
                if self._must_stop(begun):
                    break
            closing = session.end_epoch()
            if closing is not None:
                self._updates += closing.updated
            self._training_s += perf_counter() - begun
            self._read_losses()
            if evaluation is not None and self._steps:
                metrics = evaluation.measure(session.model)
                record = {"event": "evaluation", "epoch": self._epoch, "steps": self._steps}
                self._evaluations.append({**record, "metrics": metrics})
                self.folder.append(self._evaluations[-1])
                self._observers.tell("on_evaluation", self._epoch, metrics)
            if self._status != "finished":
                return
        own = session.results() if evaluation is None else {}
        if own:
            self._evaluations.append({"epoch": self._epoch, "metrics": dict(own)})

    def _remember(self, batch: Any) -> None:
        """Take a batch's keys into the digest that stands for the order of samples."""
        keys = batch.get(KEY) if isinstance(batch, dict) else None
        if isinstance(keys, list):
            self._order.update("\n".join(map(str, keys)).encode())

    def _note(self, outcome: StepOutcome) -> None:
        self._steps += 1
        self._samples += outcome.samples
        self._updates += outcome.updated
        if outcome.loss is not None:
            self._pending.append(outcome.loss)
        if perf_counter() - self._read_at > READ_LOSSES_S:
            self._read_losses()

    def _must_stop(self, begun: float) -> bool:
        options = self.plan.pipeline.options
        if options.max_steps is not None and self._steps >= options.max_steps:
            self._status = "stopped at max_steps"
        elif options.max_time is not None and perf_counter() - self._started >= options.max_time:
            self._status = "stopped at max_time"
        return self._status != "finished"

    def _read_losses(self) -> None:
        self._losses += [float(loss) for loss in self._pending]
        self._pending.clear()
        self._read_at = perf_counter()

    # -- what is told --------------------------------------------------------------

    def progress(self) -> dict[str, Any]:
        """Return how far the run is."""
        options = self.plan.pipeline.options
        return {
            "epoch": self._epoch,
            "epochs": options.epochs,
            "steps": self._steps,
            "total_steps": total_steps(self.plan),
            "samples": self._samples,
            "loss": finite(self._losses[-1]) if self._losses else None,
            "elapsed_s": perf_counter() - self._started,
        }

    def _window(self, window: dict[str, Any]) -> None:
        self.folder.append(window)
        self._observers.tell("on_window", window)

    def _result(
        self, loader: Loader, evaluation: Evaluation | None, failure: BaseException | None
    ) -> dict[str, Any]:
        report = loader.report().to_dict()
        last = self._evaluations[-1]["metrics"] if self._evaluations else {}
        error = None
        if failure is not None:
            text = str(failure) or type(failure).__name__
            error = (
                text if isinstance(failure, StokerError) else f"{type(failure).__name__}: {text}"
            )
        elif not loader.ledger.balanced:
            error = f"{LedgerError.__name__}: {loader.ledger}"
        return {
            "pipeline": self.plan.pipeline.name,
            "status": self._status,
            "error": error,
            "epochs": self._epoch + 1,
            "steps": self._steps,
            "updates": self._updates,
            "samples": self._samples,
            "throughput": self._samples / self._training_s if self._training_s else None,
            "training_s": self._training_s,
            "elapsed_s": perf_counter() - self._started,
            "losses": [finite(loss) for loss in self._losses],
            "evaluation": {name: finite(value) for name, value in last.items()},
            "evaluations": self._evaluations,
            "order": self._order.hexdigest(),
            "stages": report["stages"],
            "ledger": report["ledger"],
            "quarantined": loader.failures.records[:20],
            "cpu_s": report["cpu_s"],
            "unattributed_cpu_s": report["unattributed_cpu_s"],
            "peak_prefetch_bytes": report["peak_prefetch_bytes"],
            "evaluation_stages": evaluation.stages() if evaluation else [],
            "plan": self.plan.to_dict(),
            "observer_faults": self._observers.faults,
            "broken_plugins": host().broken(),
            "command": self._command,
            "versions": versions(),
            "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "run": str(self.folder.path),
        }


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

    def measure(self, model: Any) -> dict[str, float]:
        """Return the metrics of a model over the whole set."""
        self._loader.set_epoch(0)
        with open_step(self._plan, model) as session:
            for batch in self._loader:
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


def total_steps(plan: Plan) -> int | None:
    """Return the steps that a whole run takes, or None where only reading tells."""
    options = plan.pipeline.options
    if plan.gather is None or plan.samples is None:
        return options.max_steps
    batches = plan.gather.batches(plan.samples)
    if batches is None:
        return options.max_steps
    return min(batches * options.epochs, options.max_steps or batches * options.epochs)


def finite(value: float) -> float | None:
    """Return a number that JSON can hold: None for NaN and infinities."""
    return value if math.isfinite(value) else None
