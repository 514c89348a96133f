"""What a Stoker pipeline would give, from facts made by hand."""

from __future__ import annotations

from stoker.watching.model import Model
from stoker.watching.outlook import Outlook, outlook

from .made import facts, slot

C_CODE, PYTHON = (5, 5, 190), (180, 10, 10)


def of(**given: object) -> Outlook:
    made = facts(**given)  # type: ignore[arg-type]
    return outlook(made, Model(made))


def test_transport_is_saved_where_the_cores_bind() -> None:
    seen = of(workers=4, cores=4.0, item_ms=1.0, send_ms=5.0, step_ms=0.5, looks=C_CODE)
    assert seen.over_best is not None
    assert 1.2 < seen.over_best.value < 1.6  # 15.5 ms of CPU a batch become 10.5
    assert "no transport" in seen.reason
    assert "the cores would bind" in seen.reason


def test_a_python_bound_transform_gains_nothing_in_threads() -> None:
    stages = {"transform[0] Loop": slot(1000, 0.9, looks=PYTHON)}
    seen = of(workers=4, cores=4.0, step_ms=0.5, stages=stages, looks=(0, 0, 0))
    assert seen.reason.startswith("no gain, transform[0] Loop holds the GIL 9")
    assert "threads would fight for it" in seen.reason
    assert seen.over_best is not None
    assert seen.over_best.value == 1.0
    assert seen.gil_share is not None
    assert seen.gil_share[0] > 0.8


def test_no_gain_where_the_step_binds() -> None:
    seen = of(workers=4, step_ms=50.0, looks=C_CODE)
    assert seen.reason == "no gain, the step is the bottleneck"


def test_without_workers_threads_are_compared_with_workers_too() -> None:
    seen = of(workers=0, cores=8.0, item_ms=2.0, step_ms=5.0, looks=C_CODE)
    assert seen.gain is not None
    assert seen.gain.value > 3.0
    assert seen.over_best is not None
    assert seen.over_best.value < 1.1
    assert "no gain over the right num_workers" in seen.reason


def test_unknown_where_too_little_was_seen() -> None:
    assert "too short" in of(workers=2, item_ms=2.0, step_ms=0.5, looks=(1, 0, 1)).reason
    seen = of(workers=2, kind="iterable", looks=C_CODE)
    assert seen.gain is None
    assert seen.reason.startswith("unknown: ")
    assert str(seen).startswith("As a Stoker pipeline: unknown")
