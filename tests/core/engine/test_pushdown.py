from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy
import pytest

from stoker import Pipeline
from stoker.engine.plan import make_plan
from stoker.engine.pushdown import push_down, served
from stoker.parameters import parameters, shown
from stoker.region import Decoder, Part, Region, take_part
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map, Stage, Use
from stoker_plugins.collate import List
from tests.toys import Numbers


@dataclass(frozen=True)
class Grid(Decoder):
    """Makes a 'picture' of the numbers 0 to 99, or the rows of it that are used."""

    name: ClassVar[str] = "toy.grid"
    lazy: bool = False
    """It cannot make parts."""

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        ask = None if self.lazy else self.ask(rng)
        region = ask(10, 10) if ask is not None else None
        grid = numpy.arange(100).reshape(10, 10)
        sample["made"] = 100
        if region is not None:
            top, _, bottom, _ = region.outline()
            grid = grid[top:bottom]
            sample["made"] = grid.size
            box = (region.top - top, region.left, region.height, region.width)
            Part(region, box, (10, 10)).note(sample, "image")
        sample["image"] = grid
        return sample


@dataclass(frozen=True)
class Rows(Map):
    """Keeps two neighbouring rows, drawn at random."""

    name: ClassVar[str] = "toy.rows"
    kind: ClassVar[str] = "augment"

    def use_of(self, field: str) -> Use:
        return "part" if field == "image" else "none"

    def region(self, field: str, height: int, width: int, rng: Rng) -> Region:
        return Region(rng.random.randrange(height - 1), 0, 2, width)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        image, part = sample["image"], take_part(sample, "image")
        region = self.region("image", *image.shape, rng) if part is None else None
        top = int(region.top if region is not None else part.box[0])  # type: ignore[union-attr]
        sample["image"] = image[top : top + 2]
        return sample


@dataclass(frozen=True)
class Look(Map):
    """Looks at the picture, or says that it does not."""

    name: ClassVar[str] = "toy.look"
    kind: ClassVar[str] = "augment"
    away: bool = False

    def use_of(self, field: str) -> Use:
        return "none" if self.away else "whole"

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        return sample


def run(*stages: Stage, **options: Any) -> tuple[list[Any], list[int]]:
    with Pipeline("toy", Numbers(12), *stages, List(4), epochs=2, seed=5, **options) as loader:
        batches = list(loader)
    images = [numpy.asarray(image).tolist() for batch in batches for image in batch["image"]]
    return images, [int(size) for batch in batches for size in batch["made"]]


@pytest.mark.parametrize("executor", ["inline", "thread", "process"])
def test_the_decoder_makes_less_and_the_result_is_the_same(executor: Any) -> None:
    stages = (Grid(executor=executor), Rows(executor=executor))
    whole, all_of_it = run(*stages, pushdown=False)
    found, made = run(*stages)
    assert found == whole
    assert set(all_of_it) == {100}
    assert set(made) == {20}
    assert len({str(image) for image in found}) > 3  # it is drawn, sample by sample


def test_one_that_cannot_make_parts_gives_the_whole() -> None:
    assert run(Grid(lazy=True), Rows())[0] == run(Grid(), Rows())[0]


def test_who_may_stand_between() -> None:
    def asked(*between: Stage) -> str:
        stages = (Numbers(4), Grid(), *between, Rows())
        return served(push_down(stages, [stage.name for stage in stages])[1])

    assert asked() == "toy.rows"
    assert asked(Look(away=True)) == "toy.rows"
    assert asked(Look()) == ""
    assert asked(Grid()) == ""  # another picture takes this one's place


def test_occurrences_draw_apart() -> None:
    """The name with its number seeds the draws of the second crop, in the decoder too."""
    stages = (Look(away=True), Grid(), Rows(), Grid(), Rows())
    assert run(*stages)[0] == run(*stages, pushdown=False)[0]


def test_the_plan_shows_it_and_lets_it_be() -> None:
    plan = make_plan(Pipeline("toy", Numbers(4), Grid(), Rows(), List(2)))
    assert "makes only what toy.rows uses" in str(plan)
    assert plan.notes == ["toy.grid makes only what toy.rows uses (pushdown=False: all)"]
    stages = [stage for segment in plan.to_dict()["segments"] for stage in segment["stages"]]
    assert [stage["serves"] for stage in stages[:3]] == [None, "toy.rows", None]
    off = make_plan(Pipeline("toy", Numbers(4), Grid(), Rows(), List(2), pushdown=False))
    assert off.notes == []


def test_the_request_is_no_parameter_and_travels() -> None:
    (_, grid, _) = push_down((Numbers(4), Grid(), Rows()), ("toy.numbers", "toy.grid", "toy.rows"))
    assert "request" not in parameters(Grid)
    assert shown(grid) == "toy.grid()"
    assert pickle.loads(pickle.dumps(grid)) == grid
    assert isinstance(grid, Grid)
    assert replace(grid, request=None) == Grid()


def test_the_generator_of_another_stage() -> None:
    mine = Rng(7, "toy.grid").move(1, 20, 3)
    theirs = Rng(7, "toy.rows").move(1, 20, 3)
    assert mine.of("toy.rows").random.random() == theirs.random.random()
    mine.move(1, 21)
    assert mine.of("toy.rows").seed == theirs.move(1, 21).seed
