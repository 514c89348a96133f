import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy
import pytest

from stoker import Pipeline
from stoker.errors import PlanError, RunError
from stoker.fingerprint import fingerprint
from stoker.parameters import shown
from stoker.rng import Rng
from stoker.stages import Source, Worker
from stoker.testing import order
from stoker_plugins.read import (
    Balanced,
    Dataset,
    DatasetStream,
    Files,
    Mix,
    Repeated,
    Synthetic,
    WebDataset,
    Weighted,
)
from stoker_plugins.read.nested import inner, reorders
from tests.plugins.read.helpers import cautions, pairs, problems, write_tar

OVER = [
    lambda source: Weighted(source, weights=abs_1),
    lambda source: Balanced(source, label=abs_1),
    lambda source: Repeated(source, length="longer"),
    lambda source: Mix([source]),
]
IDS = ["weighted", "balanced", "repeated", "mix"]


def abs_1(address: Any) -> int:
    return 1


@pytest.fixture(params=OVER, ids=IDS)
def over(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("cat/a.jpg", "cat/b.jpg", "dog/a.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def test_a_problem_of_the_source_inside_is_told_and_names_it(over: Any) -> None:
    (said,) = problems(over(Files("missing")))
    assert said.startswith(("source: ", "sources[0]: "))
    assert "no such folder" in said
    (said,) = problems(over(Synthetic(samples=0)))
    assert "samples=0: allowed is int of at least 1" in said


def test_a_caution_stays_one(over: Any, tree: Path) -> None:
    (tree / "owl").mkdir()
    assert problems(over(Files(tree))) == []
    assert any("'owl'" in line for line in cautions(over(Files(tree))))


def test_workers_are_the_outer_sources(over: Any) -> None:
    (said,) = cautions(over(Dataset(range(5), num_workers=3)))
    assert "num_workers=3 of read.dataset has no effect there" in said


def test_a_stream_is_refused_before_anything_starts(over: Any) -> None:
    with pytest.raises(PlanError, match=r"source.*allowed is .*Source"):
        Pipeline("x", over(DatasetStream([1, 2]))).loader().close()


def test_it_prints_as_calls_inside_one_another(over: Any) -> None:
    text = shown(over(Files("photos", shuffle=True)))
    assert "read.files(root='photos', shuffle=True)" in text
    assert shown(over(over(Synthetic(4)))).count("read.synthetic(samples=4)") == 1


def test_equal_parameters_are_equal_stages_with_arrays_too() -> None:
    source = Synthetic(2)
    one, other = (Weighted(source, weights=numpy.array([1.0, 2.0])) for _ in range(2))
    assert one == other
    assert one != dataclasses.replace(one, weights=numpy.array([2.0, 1.0]))
    assert one != dataclasses.replace(one, source=Synthetic(3))
    assert one != Repeated(source)
    assert Pipeline("x", one) == Pipeline("x", other)


def test_the_data_inside_tell(over: Any, tree: Path) -> None:
    source = over(Files(tree))
    before, text = fingerprint([source], 3), source.content()
    assert (before, text) == (fingerprint([over(Files(tree))], 3), over(Files(tree)).content())
    (tree / "dog/a.jpg").write_bytes(b"longer than it was")
    assert source.content() != text
    assert fingerprint([source], 3) != before


def test_the_file_of_weights_or_labels_tells(tmp_path: Path) -> None:
    path = tmp_path / "values.npy"
    numpy.save(path, numpy.array([1, 2]))
    sources = [Weighted(Synthetic(2), weights=path), Balanced(Synthetic(2), label=path)]
    before = [source.content() for source in sources]
    numpy.save(path, numpy.array([2, 1]))
    assert all(source.content() != old for source, old in zip(sources, before, strict=True))


@dataclass(frozen=True)
class Opens(Source):
    """Notes who opens it, and that it is closed."""

    name: ClassVar[str] = "toy.opens"
    log: Any = None

    def addresses(self, epoch: int, rng: Rng) -> range:
        return range(3)

    def open(self, worker: Worker) -> Any:
        from contextlib import contextmanager

        @contextmanager
        def opened() -> Any:
            self.log.append(worker)
            yield lambda address: {"__key__": str(address)}
            self.log.append("closed")

        return opened()


def test_it_is_opened_once_a_worker_in_it_and_closed(over: Any) -> None:
    log: list[Any] = []
    with over(Opens(log)).open(Worker("read", 1, 2, "thread")) as read:
        addresses = order(over(Opens(log)))
        assert read(addresses[0])["__key__"].endswith(("0", "1", "2"))
        assert len(log) == 1
    assert (log[0].index, log[0].count, log[0].executor) == (1, 2, "thread")
    assert log[1:] == ["closed"]


def test_a_bound_on_open_files_is_shared_by_all_sources_of_a_mix() -> None:
    log: list[Any] = []
    with Mix([Opens(log), Opens(log)]).open(Worker("read", 0, 4)):
        assert [worker.count for worker in log] == [8, 8]


def test_origin_is_that_of_the_sample(over: Any, tree: Path) -> None:
    source = over(Files(tree, shuffle=True))
    for address in order(source):
        sample, origin = source.read(address), source.origin(address)
        assert (origin.key, origin.shard) == (sample["__key__"], sample["__url__"])


def test_reorders_sees_an_order_that_changes() -> None:
    assert reorders(Synthetic(50, shuffle=True))
    assert not reorders(Synthetic(50))
    assert not reorders(Repeated(Synthetic(5)))
    assert reorders(Weighted(Synthetic(50), weights=[1] * 50))
    assert not reorders(Dataset([]))


def test_generators_inside_differ_at_any_depth() -> None:
    rng = Rng(1, "read.mix").move(2, 0)
    deeper = inner(rng, 2)
    seeds = [
        *(rng.seed, deeper.seed, inner(deeper, 2).seed),
        *(inner(rng, 2, 1).seed, inner(rng, 2, 0, 1).seed, inner(rng.move(3, 0), 3).seed),
    ]
    assert len(set(seeds)) == len(seeds)
    assert inner(rng.move(2, 0), 2).seed == deeper.seed


def test_a_function_is_asked_once_where_the_order_stays() -> None:
    asked: list[Any] = []

    def value(address: Any) -> int:
        asked.append(address)
        return 1 + address % 2

    for source in (
        Weighted(Dataset(range(5)), weights=value),
        Balanced(Dataset(range(5)), label=value),
    ):
        asked.clear()
        assert order(source) != order(source, epoch=1)
        assert asked == [0, 1, 2, 3, 4]
        assert problems(source) == []
        assert len(asked) == 5


@dataclass(frozen=True)
class Growing(Source):
    """Has one more sample in each epoch, none in the first."""

    name: ClassVar[str] = "toy.growing"

    def addresses(self, epoch: int, rng: Rng) -> range:
        return range(epoch)


def test_an_epoch_without_samples_has_no_order() -> None:
    for make in OVER[:3]:
        assert len(order(make(Growing()))) == 0
        assert len(order(make(Growing()), epoch=3)) > 2


def test_broken_shards_inside_are_a_caution_and_fail_the_run_as_ever(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", pairs(3))
    path.write_bytes(path.read_bytes()[:700])
    for make in OVER:
        source = make(WebDataset(path))
        assert problems(source) == []
        assert "the run will fail" in cautions(source)[0]
        with pytest.raises(RunError, match="1 of 1 shards cannot be used"):
            order(source)
