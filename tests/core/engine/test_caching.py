from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from stoker import Pipeline, Quarantine
from stoker.cache import Cache, Fed, Store
from stoker.engine.plan import make_plan
from stoker.errors import PlanError, RunError, SampleError
from stoker.loader import Loader
from stoker.parameters import param
from stoker.rng import Rng
from stoker.sample import Address, Sample
from stoker.stages import Map, Stage
from stoker_plugins.collate import List
from tests.toys import Add, Copies, Draw, KeepEven, Numbers, Stream, WithOther

MADE: list[int] = []
"""What the deterministic stage below worked on, in any thread."""


class Shelf(Store):
    """Keeps samples in a dict, up to a number of them; can lose what it has, or refuse some."""

    def __init__(self, most: int, loses: tuple[int, ...], refuses: tuple[int, ...]) -> None:
        self.kept: dict[Address, Sample] = {}
        self.most, self.loses, self.refuses = most, loses, refuses
        self.closed = 0
        self.lock = threading.Lock()

    def has(self, address: Address) -> bool:
        return address in self.kept

    def get(self, address: Address) -> Sample | None:
        return None if address in self.loses else dict(self.kept[address])

    def put(self, address: Address, sample: Sample) -> None:
        if address in self.refuses:
            raise TypeError(f"{address} cannot be kept")
        with self.lock:
            if len(self.kept) < self.most:
                self.kept[address] = dict(sample)

    @property
    def nbytes(self) -> int:
        return 100 * len(self.kept)

    @property
    def count(self) -> int:
        return len(self.kept)

    def close(self) -> None:
        self.closed += 1


@dataclass(frozen=True)
class Keep(Cache):
    """A cache for tests."""

    name: ClassVar[str] = "toy.keep"
    most: int = 10**6
    loses: tuple[int, ...] = ()
    refuses: tuple[int, ...] = ()
    opened: list[Shelf] = field(default_factory=list)
    """The stores that were opened."""

    def store(self, fed: Fed) -> Store:
        self.opened.append(Shelf(self.most, self.loses, self.refuses))
        return self.opened[-1]

    def budget(self) -> int:
        return self.max_bytes or 10**9


@dataclass(frozen=True)
class Square(Map):
    """Squares x; notes that it did, and can fail."""

    name: ClassVar[str] = "toy.square"
    kind: ClassVar[str] = "augment"
    deterministic: ClassVar[bool] = True
    fail_at: tuple[int, ...] = ()
    filter_at: tuple[int, ...] = ()
    drops: bool = param(False)  # type: ignore[misc]

    def apply(self, sample: Sample, rng: Rng) -> Sample | None:
        MADE.append(int(sample["x"]))
        if sample["x"] in self.fail_at:
            raise ValueError(f"no {sample['x']} here")
        if sample["x"] in self.filter_at:
            return None
        return {**sample, "x": sample["x"] ** 2}


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    MADE.clear()


@contextmanager
def loading(*stages: Stage, batch: int = 4, **options: Any) -> Iterator[Loader]:
    options.setdefault("epochs", 1)  # each then starts when the one before is over
    with Pipeline("toy", *stages, List(batch), seed=3, **options) as loader:
        yield loader


def epochs(loader: Loader, count: int = 3) -> list[list[int]]:
    return [[x for batch in loader for x in batch["x"]] for _ in range(count)]


def places(executor: str) -> dict[str, Any]:
    return {"executor": executor, "num_workers": 1 if executor == "inline" else 2}


@pytest.mark.parametrize("executor", ["inline", "thread"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("most", [0, 7, 100])
def test_what_it_has_is_not_made_again(executor: str, shuffle: bool, most: int) -> None:
    keep = Keep(most=most, **places(executor))
    stages = (Numbers(21, shuffle=shuffle, **places(executor)), Square(**places(executor)))
    with loading(*stages, Draw(**places(executor))) as loader:
        plain = [list(loader) for _ in range(3)]
    MADE.clear()
    with loading(*stages, keep, Draw(**places(executor))) as loader:
        assert [list(loader) for _ in range(3)] == plain
        assert len(MADE) == 3 * 21 - 2 * min(most, 21)
        ledger = loader.ledger
        assert (ledger.read, ledger.cached, ledger.delivered) == (len(MADE), 63 - len(MADE), 63)
        assert ledger.balanced
    assert [shelf.closed for shelf in keep.opened] == [1]


def test_epochs_that_overlap() -> None:
    """The next epoch is begun before the last samples of this one are kept."""
    keep = Keep(executor="thread", num_workers=2)
    stages = (Numbers(30, executor="thread"), Square(executor="thread"), keep)
    with loading(*stages, epochs=3) as loader:
        assert epochs(loader) == [[n * n for n in range(30)]] * 3
        ledger = loader.ledger
        assert 0 < ledger.cached <= 60
        assert ledger.cached + ledger.read == 90
        assert ledger.balanced


def test_with_process_workers_before_it() -> None:
    stages = (Numbers(21), Square(executor="process", num_workers=2), Keep(executor="thread"))
    with loading(*stages, Draw(executor="thread")) as loader:
        first, second, third = epochs(loader)
        assert first == second == third == [n * n for n in range(21)]
        rows = {row.name: row for row in loader.report().stages}
        assert rows["toy.square"].items == 21
        assert rows["toy.keep"].items == 63


def test_what_it_lost_is_made_again_in_place() -> None:
    with loading(Numbers(21), Square(), Keep(loses=(0, 5, 20))) as loader:
        assert epochs(loader) == [[n * n for n in range(21)]] * 3
        assert sorted(MADE) == sorted([*range(21), 0, 5, 20, 0, 5, 20])
        assert loader.ledger.balanced


def test_filters_and_quarantine_before_it() -> None:
    square = Square(fail_at=(3, 9), filter_at=(4, 5, 6, 7), drops=True)
    with loading(Numbers(21), square, Keep(), on_error=Quarantine(6)) as loader:
        wanted = [n * n for n in range(21) if n not in (3, 4, 5, 6, 7, 9)]
        assert epochs(loader) == [wanted] * 3
        ledger = loader.ledger
        assert (ledger.filtered, ledger.quarantined, ledger.cached) == (12, 6, 30)
        assert ledger.balanced


def test_what_cannot_be_kept_fails_as_a_sample_does() -> None:
    with loading(Numbers(21), Square(), Keep(refuses=(6,)), on_error=Quarantine(9)) as loader:
        assert epochs(loader) == [[n * n for n in range(21) if n != 6]] * 3
        assert [record["stage"] for record in loader.failures.records] == ["toy.keep"] * 3
        assert loader.ledger.balanced
    with loading(Numbers(21), Square(), Keep(refuses=(6,)), batch=1) as loader:
        seen = []
        with pytest.raises(SampleError, match=r"toy.keep.*6 cannot be kept"):
            for batch in loader:
                seen += batch["x"]
        assert seen == [n * n for n in range(6)]
    assert loader.ledger.balanced


@dataclass(frozen=True)
class FailsLater(Map):
    """Fails at a number, but not the first time that it sees it."""

    name: ClassVar[str] = "toy.fails_later"
    kind: ClassVar[str] = "augment"
    deterministic: ClassVar[bool] = True
    at: int = 11
    seen: list[int] = field(default_factory=list)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        if sample["x"] == self.at and self.at in self.seen:
            raise ValueError("now it fails")
        self.seen.append(int(sample["x"]))
        return sample


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("apart", [False, True])
def test_an_error_before_it_comes_after_all_that_lies_before_it(workers: int, apart: bool) -> None:
    """Some of a chunk's samples are kept, others are made, and one of those fails."""
    keep = Keep(most=8, num_workers=workers + apart, executor="thread")
    fails = FailsLater(num_workers=workers, executor="thread")
    stages = (Numbers(40, num_workers=workers, executor="thread"), fails, keep)
    with loading(*stages, batch=1, prefetch_batches=40) as loader:
        assert epochs(loader, 1) == [list(range(40))]
        seen: list[int] = []
        with pytest.raises(SampleError, match="now it fails"):
            for batch in loader:
                seen += batch["x"]
        assert seen == list(range(len(seen)))
        assert len(seen) <= 11
    assert loader.ledger.balanced


@pytest.mark.parametrize("stop", range(0, 30, 5))
def test_resume_in_any_epoch(stop: int) -> None:
    stages = (Numbers(21, shuffle=True), Square(), Keep(most=9), Draw())
    with loading(*stages) as loader:
        whole = [list(loader) for _ in range(3)]
    flat = [batch for epoch in whole for batch in epoch]
    got: list[Any] = []
    with loading(*stages) as loader:
        state = loader.state_dict()
        while len(got) < min(stop, len(flat)):
            for batch in loader:
                got.append(batch)
                state = loader.state_dict()
                if len(got) == stop:
                    break
    with loading(*stages) as loader:
        loader.load_state_dict(state)
        while loader.epoch < 3:
            got += list(loader)
        assert loader.ledger.balanced
    assert got == flat


def test_left_iterations_balance() -> None:
    with loading(Numbers(60), Square(), Keep(), Draw(), prefetch_batches=3) as loader:
        for _ in range(4):
            for number, _ in enumerate(loader):
                if number == 2:
                    break
    assert loader.ledger.balanced


def test_over_ranks_each_keeps_its_own() -> None:
    options: dict[str, Any] = {"world_size": 2}
    seen = []
    for rank in (0, 1):
        with loading(Numbers(32), Square(), Keep(), rank=rank, **options) as loader:
            seen.append(epochs(loader, 2))
            assert loader.ledger.cached == 16
    assert sorted(seen[0][1] + seen[1][1]) == [n * n for n in range(32)]


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ((Stream(), Keep()), "is a stream"),
        ((Numbers(8), Draw(), Keep()), "toy.draw may make something else"),
        ((Numbers(8), Copies(), Keep()), "toy.copies may make something else"),
        ((Numbers(8), WithOther(), Keep()), "may make something else"),
        ((Numbers(8), Keep(), Keep()), "one cache is enough"),
        ((Numbers(8), Keep(executor="process")), "shared by all workers"),
        ((Numbers(8), List(2), Keep()), "stands after"),
        ((Numbers(8), Keep(), WithOther()), "must all be maps"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_cached_is_refused(stages: Any, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        make_plan(Pipeline("toy", *stages))


def test_a_store_that_cannot_be_opened_is_told_to_the_caller() -> None:
    @dataclass(frozen=True)
    class Broken(Keep):
        """Cannot be opened."""

        def store(self, fed: Fed) -> Store:
            raise RunError("the disk is gone")

    with loading(Numbers(8), Broken()) as loader, pytest.raises(RunError, match="disk is gone"):
        list(loader)


def test_unused_filters_stay_where_they_are() -> None:
    """A filter that draws nothing may say so and stand before a cache."""
    with pytest.raises(PlanError, match="toy.keep_even may make"):
        make_plan(Pipeline("toy", Numbers(8), KeepEven(), Keep()))
    with pytest.raises(PlanError, match="toy.add may make"):
        make_plan(Pipeline("toy", Numbers(8), Add(), Keep()))
