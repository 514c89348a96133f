"""Runs a pipeline with its step: the epochs, the evaluations, and what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from stoker.engine.forecast import forecast
from stoker.engine.plan import make_plan
from stoker.jsonable import to_json
from stoker.loader import Loader
from stoker.observer import Observer
from stoker.pipeline import Pipeline
from stoker.plugins import host
from stoker.run.counters import Counters
from stoker.run.evaluation import Evaluation, open_step
from stoker.run.folder import RunFolder
from stoker.run.interrupts import Interrupted, Interrupts
from stoker.run.lock import RunLock
from stoker.run.recorder import Observers, Recorder
from stoker.run.report import markdown
from stoker.run.result import error_of, finite, run_result, total_steps
from stoker.run.resume import FINISHED, Resumption, resumption, with_resume
from stoker.run.saver import Saver
from stoker.session import StepSession

INTERRUPTED = "interrupted"


class Run:
    """One run of a pipeline, from plan to report.

    Args:
        pipeline: what to run; it must end in a step.
        runs: folder that holds run folders.
        observers: told what happens, beside those of plugins.
        command: how the run was started, for the report.
        resume: what to go on from: `auto` for the newest unfinished run of this pipeline in
            `runs`, or the folder of a run or of one of its checkpoints; None starts afresh.

    Raises:
        PlanError: all that is wrong with the pipeline, at once.
        UsageError: what is to be resumed is not there, or is another run.
        CheckpointError: what is to be resumed has no checkpoint that is whole.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        runs: Path = Path("runs"),
        observers: Sequence[Observer] = (),
        command: str = "",
        resume: str | Path | None = None,
    ) -> None:
        self.plan = make_plan(pipeline, needs_step=True)
        self.notes: list[str] = []
        """What people should know before it starts."""
        resumed: Resumption | None = None
        if resume is not None:
            resumed = resumption(str(resume), self.plan, runs, self.notes)
        if resumed is not None:
            self.folder, self._lock = RunFolder.of(resumed.run), resumed.lock
        else:
            self.folder = RunFolder(runs, pipeline.name)
            self._lock = RunLock(self.folder.path, fresh=True)
        self._predicted = forecast(self.plan)
        if self._predicted is not None:
            self.notes.append(f"predicted: {self._predicted}")
        self._observers = Observers([*observers, *host().observers()])
        self._command = command
        self._counters = Counters()
        self._saver = Saver(self.folder, self.plan, self._counters, resumed)
        self._interrupts = Interrupts()
        self._started = perf_counter()
        self._status = FINISHED

    def execute(self) -> dict[str, Any]:
        """Run to the end and return the result, which result.json holds too.

        The result is written also when the run fails. `error` then says why.

        Raises:
            StokerError: the run failed; its folder holds what was measured until then.
            Interrupted: SIGTERM or Ctrl-C; what was trained until then is saved.
        """
        with self._interrupts:
            try:
                return self._execute()
            finally:
                self._lock.release()

    def _execute(self) -> dict[str, Any]:
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
                self._saver.begin(session, loader)
                with Recorder(loader, self.progress, self._window):
                    self._epochs(loader, session, evaluation)
                self._counters.read_losses()
        except BaseException as error:
            failure = error
            self._status = INTERRUPTED if isinstance(error, KeyboardInterrupt) else "failed"
        result = self._result(loader, evaluation, failure)
        self.folder.write("result.json", to_json(result, indent=1))
        self.folder.write("report.md", markdown(result))
        self._observers.tell("on_end", result)
        if failure is not None:
            raise failure
        if self._status == INTERRUPTED:
            assert self._interrupts.number is not None
            raise Interrupted(self._interrupts.number, self._standing())
        loader.ledger.check()
        return result

    # -- the loop ------------------------------------------------------------------

    def _epochs(self, loader: Loader, session: StepSession, evaluation: Evaluation | None) -> None:
        counters = self._counters
        counters.tick()
        while True:
            if not counters.closed:
                self._train(loader, session)
                stopped = self._status != FINISHED
                if stopped:  # saved as it is, before the epoch is closed: it may go on here
                    self._saver.save()
                if self._status == INTERRUPTED:
                    return
                self._close(session)
                if stopped:
                    self._evaluate(session, evaluation)
                    return
                self._saver.save_if_due()
            if not counters.evaluated:
                self._evaluate(session, evaluation)
            last = counters.epoch + 1 >= self.plan.pipeline.options.epochs
            if self._status == INTERRUPTED or last or self._must_stop():
                self._saver.save()
                return
            counters.next_epoch()

    def _train(self, loader: Loader, session: StepSession) -> None:
        """Take the present epoch's batches, as many as are left of it."""
        counters = self._counters
        counters.tick()
        # A loader that knows that all were taken stands at the next epoch already.
        left = loader if loader.epoch == counters.epoch and not self._must_stop() else ()
        try:
            for batch in self._interrupts.batches(left):
                counters.remember(batch)
                counters.note(session(batch))
                self._saver.note(loader)
                if self._must_stop():
                    break
                counters.tick(training=True)
                self._saver.save_if_due()
            else:
                if left is loader:
                    self._saver.note(loader)
        except Interrupted as stop:
            self._stop(stop)
        counters.tick(training=True)

    def _close(self, session: StepSession) -> None:
        """End the epoch's training, a half-filled window included."""
        counters = self._counters
        closing = session.end_epoch()
        if closing is not None:
            counters.updates += closing.updated
        counters.tick(training=True)
        counters.read_losses()
        counters.closed = True

    def _evaluate(self, session: StepSession, evaluation: Evaluation | None) -> None:
        """Measure the epoch's model, or take what the step itself measured in the whole run."""
        counters = self._counters
        if evaluation is not None and counters.steps:
            try:
                metrics = evaluation.measure(session.model, self._interrupts)
            except Interrupted as stop:
                self._stop(stop)
                return
            record = {"event": "evaluation", "epoch": counters.epoch, "steps": counters.steps}
            counters.evaluations.append({**record, "metrics": metrics})
            self.folder.append(counters.evaluations[-1])
            self._observers.tell("on_evaluation", counters.epoch, metrics)
        elif evaluation is None and self._status == FINISHED:
            last = counters.epoch + 1 >= self.plan.pipeline.options.epochs
            own = session.results() if last else {}
            if own:
                counters.evaluations.append({"epoch": counters.epoch, "metrics": dict(own)})
        counters.tick()
        counters.evaluated = True

    def _must_stop(self) -> bool:
        options = self.plan.pipeline.options
        if options.max_steps is not None and self._counters.steps >= options.max_steps:
            self._status = "stopped at max_steps"
        elif options.max_time is not None and perf_counter() - self._started >= options.max_time:
            self._status = "stopped at max_time"
        return self._status != FINISHED

    def _stop(self, stop: Interrupted) -> None:
        """End in order at a first signal; at a second one, at once."""
        if stop.at_once:
            raise stop
        self._status = INTERRUPTED

    # -- what is told --------------------------------------------------------------

    def _standing(self) -> str:
        if self._saver.newest is None:
            return self._saver.standing
        command = self._command or f"stoker run {self.plan.pipeline.name}"
        return f"{self._saver.standing}; to go on: {with_resume(command, self.folder.path)}"

    def progress(self) -> dict[str, Any]:
        """Return how far the run is."""
        counters = self._counters
        return {
            "epoch": counters.epoch,
            "epochs": self.plan.pipeline.options.epochs,
            "steps": counters.steps,
            "total_steps": total_steps(self.plan),
            "samples": counters.samples,
            "loss": finite(counters.losses[-1]) if counters.losses else None,
            "elapsed_s": counters.elapsed_now_s,
        }

    def _window(self, window: dict[str, Any]) -> None:
        self.folder.append(window)
        self._observers.tell("on_window", window)

    def _result(
        self, loader: Loader, evaluation: Evaluation | None, failure: BaseException | None
    ) -> dict[str, Any]:
        self._counters.tick()
        return {
            "pipeline": self.plan.pipeline.name,
            "status": self._status,
            "error": error_of(failure, loader),
            **run_result(self.plan, self._counters, loader, evaluation, self._predicted),
            "checkpoint": None if self._saver.newest is None else str(self._saver.newest),
            "checkpoint_failures": self._saver.failures,
            "observer_faults": self._observers.faults,
            "broken_plugins": host().broken(),
            "command": self._command,
            "run": str(self.folder.path),
        }
