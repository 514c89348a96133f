"""What came of a run, as result.json holds it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from stoker.engine.forecast import Forecast
from stoker.engine.plan import Plan
from stoker.errors import LedgerError, StokerError
from stoker.loader import Loader
from stoker.run.counters import Counters
from stoker.run.evaluation import Evaluation
from stoker.run.versions import versions


def run_result(
    plan: Plan,
    counters: Counters,
    loader: Loader,
    evaluation: Evaluation | None,
    predicted: Forecast | None,
) -> dict[str, Any]:
    """Return counts and ledger of the whole run, and the stages of its last start, JSON-able."""
    report = loader.report().to_dict()
    last: Mapping[str, float] = counters.evaluations[-1]["metrics"] if counters.evaluations else {}
    return {
        "epochs": counters.epoch + 1,
        "steps": counters.steps,
        "updates": counters.updates,
        "samples": counters.samples,
        "throughput": counters.samples / counters.training_s if counters.training_s else None,
        "training_s": counters.training_s,
        "elapsed_s": counters.elapsed_s,
        "resumed_at": counters.resumed_at,
        "losses": [finite(loss) for loss in counters.losses],
        "evaluation": {name: finite(value) for name, value in last.items()},
        "evaluations": counters.evaluations,
        "order": counters.order.hex(),
        "stages": report["stages"],
        "ledger": report["ledger"],
        "cache": _cache(loader, predicted),
        "quarantined": loader.failures.records[:20],
        "cpu_s": report["cpu_s"],
        "unattributed_cpu_s": report["unattributed_cpu_s"],
        "peak_prefetch_bytes": report["peak_prefetch_bytes"],
        "evaluation_stages": evaluation.stages() if evaluation else [],
        "plan": plan.to_dict(),
        "versions": versions(),
        "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _cache(loader: Loader, predicted: Forecast | None) -> dict[str, Any] | None:
    """Return what a cache holds beside what was predicted of it, None where there is none."""
    desk = next((part.desk for part in loader.segments if part.desk is not None), None)
    if desk is None:
        return None
    return {
        **desk.held._asdict(),
        "predicted": predicted.to_dict() if predicted is not None else None,
    }


def error_of(failure: BaseException | None, loader: Loader) -> str | None:
    """Return what went wrong in a run, or None."""
    if failure is not None:
        text = str(failure) or type(failure).__name__
        named = isinstance(failure, StokerError)
        return text if named else f"{type(failure).__name__}: {text}"
    return None if loader.ledger.balanced else f"{LedgerError.__name__}: {loader.ledger}"


def total_steps(plan: Plan) -> int | None:
    """Return the steps that a whole run takes, or None where only reading tells."""
    options = plan.pipeline.options
    if plan.gather is None or plan.samples is None:
        return options.max_steps
    if plan.share is not None:
        batches: int | None = plan.share.rounds(plan.samples)
    else:
        batches = plan.gather.batches(plan.samples)
    if batches is None:
        return options.max_steps
    return min(batches * options.epochs, options.max_steps or batches * options.epochs)


def finite(value: float) -> float | None:
    """Return a number that JSON can hold: None for NaN and infinities."""
    return value if math.isfinite(value) else None
