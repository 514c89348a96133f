"""Both caches in pipelines: what they must not change, and what they must save."""

from __future__ import annotations

import dataclasses
import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from stoker import Pipeline, Quarantine
from stoker.engine.forecast import forecast
from stoker.engine.plan import make_plan
from stoker.errors import PlanError, SampleError
from stoker.loader import Loader
from stoker.rng import Rng
from stoker.sample import Sample
from stoker.stages import Map
from stoker_plugins import augment, cache, collate, decode, read
from tests.toys import Stream

COUNT = 24


@dataclass(frozen=True)
class Seen(Map):
    """Notes the keys that come through."""

    name: ClassVar[str] = "test.seen"
    kind: ClassVar[str] = "seen"
    deterministic: ClassVar[bool] = True
    keys: list[str] = field(default_factory=list)

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        self.keys.append(sample["__key__"])
        return sample


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    for number in range(COUNT):
        folder = tmp_path / "pictures" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        picture = rng.integers(0, 255, (40 + number, 50, 3), np.uint8)
        Image.fromarray(picture).save(folder / f"{number:02d}.png")
    return tmp_path / "pictures"


@pytest.fixture(params=["memory", "disk"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return cache.Memory() if request.param == "memory" else cache.Disk(tmp_path / "cache")


def pipeline(pictures: Path, *keeping: Any, seen: Seen | None = None, **options: Any) -> Pipeline:
    return Pipeline(
        "cached",
        read.Files(str(pictures), shuffle=True),
        decode.Image(),
        *([seen] if seen is not None else []),
        augment.Resize(32),
        *keeping,
        augment.RandomResizedCrop(24),
        augment.Flip(),
        collate.Stack(5),
        **{"epochs": 3, "seed": 5, **options},
    )


def batches(loader: Loader, epochs: int = 3) -> list[tuple[list[str], Any]]:
    return [
        (batch["__key__"], batch["image"].numpy().tolist())
        for _ in range(epochs)
        for batch in loader
    ]


@pytest.mark.parametrize("workers", ["inline", 1, 4])
def test_batches_are_the_same_and_nothing_is_decoded_twice(
    pictures: Path, kept: Any, workers: int | str
) -> None:
    def placed(made: Pipeline) -> Pipeline:
        for index, stage in enumerate(made.stages[:-1]):
            if workers == "inline":
                changes: dict[str, Any] = {"executor": "inline"}
            else:
                changes = {"executor": "thread", "num_workers": workers}
            made = made.with_stage(index, type(stage)(**{**_parameters(stage), **changes}))
        return made

    with placed(pipeline(pictures)) as loader:
        plain = batches(loader)
    seen = Seen()
    made = placed(pipeline(pictures, kept, seen=seen, epochs=1))
    with made as loader:
        assert batches(loader) == plain
        assert loader.ledger.cached == 2 * COUNT
        assert loader.ledger.balanced
    assert sorted(seen.keys) == sorted(set(seen.keys))
    assert len(seen.keys) == COUNT


def _parameters(stage: Any) -> dict[str, Any]:
    from stoker.parameters import parameters

    return {name: getattr(stage, name) for name in parameters(type(stage))}


@pytest.mark.parametrize("stop", [1, 4, 6, 9, 13])
def test_resume_is_exact_with_what_is_kept_and_without(
    pictures: Path, kept: Any, stop: int
) -> None:
    with pipeline(pictures) as loader:
        plain = batches(loader)
    with pipeline(pictures, kept) as loader:
        found = []
        while len(found) < stop:
            for batch in loader:
                found.append((batch["__key__"], batch["image"].numpy().tolist()))
                if len(found) == stop:
                    break
        state = loader.state_dict()
    with pipeline(pictures, kept) as loader:
        loader.load_state_dict(state)
        while len(found) < len(plain):
            found += [(batch["__key__"], batch["image"].numpy().tolist()) for batch in loader]
    assert found == plain


def test_what_is_quarantined_is_so_in_every_epoch(pictures: Path, kept: Any) -> None:
    bad = next(pictures.glob("*/07.png"))
    bad.write_bytes(b"\x89PNG no more")
    with pipeline(pictures, kept, on_error=Quarantine(3), epochs=1) as loader:
        keys = [key for _ in range(3) for batch in loader for key in batch["__key__"]]
        assert loader.ledger.quarantined == 3
        assert loader.ledger.cached == 2 * (COUNT - 1)
        assert loader.ledger.balanced
    assert len(keys) == 3 * (COUNT - 1)
    assert not [key for key in keys if key.endswith("07")]


def in_numpy(image: Any) -> Any:
    image += 40
    return image


def test_B18_a_stage_behind_it_cannot_change_what_is_kept(pictures: Path, kept: Any) -> None:
    """A function that works in place gets a copy of its own, in every epoch."""
    stages = pipeline(pictures).stages
    made = Pipeline(
        "brighter", *stages[:3], kept, augment.Apply(in_numpy, field="image"), collate.List(8),
        seed=5,
    )  # fmt: skip
    with made as loader:
        once = [image.tolist() for batch in loader for image in batch["image"]]
        twice = [image.tolist() for batch in loader for image in batch["image"]]
    assert len(once) == COUNT
    assert sorted(map(str, once)) == sorted(map(str, twice))


@dataclass(frozen=True)
class InPlace(Map):
    """Changes an array in place, as the contract forbids."""

    name: ClassVar[str] = "test.in_place"
    kind: ClassVar[str] = "augment"

    def apply(self, sample: Sample, rng: Rng) -> Sample:
        sample["image"] += 40
        return sample


def test_B18_a_stage_that_breaks_the_contract_fails_in_the_first_epoch(
    pictures: Path, kept: Any
) -> None:
    made = Pipeline("x", *pipeline(pictures).stages[:3], kept, InPlace(), collate.List(8), seed=5)
    with made as loader, pytest.raises(SampleError, match=r"test.in_place.*read-only"):
        list(loader)


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        (augment.Flip(), "augment.flip may make something else of a sample in every epoch"),
        (augment.Apply(len, field="image"), "declare it deterministic where it draws nothing"),
        (cache.Memory(), "one cache is enough"),
    ],
)
def test_what_must_not_stand_before_it(pictures: Path, kept: Any, stage: Any, reason: str) -> None:
    stages = pipeline(pictures).stages
    with pytest.raises(PlanError, match=reason):
        make_plan(Pipeline("x", *stages[:3], stage, kept, *stages[3:]))


def test_a_stream_and_processes_are_refused(pictures: Path, kept: Any) -> None:
    stages = pipeline(pictures).stages
    with pytest.raises(PlanError, match="is a stream, which is read whether or not"):
        make_plan(Pipeline("x", Stream(), kept, collate.List(4)))
    with pytest.raises(PlanError, match='executor="process": a cache is shared by all workers'):
        make_plan(
            Pipeline("x", *stages[:3], dataclasses.replace(kept, executor="process"), *stages[3:])
        )


# -- what feeds a cache on disk ----------------------------------------------------------------


def folders(place: Path) -> int:
    return len(list(place.glob("samples-*")))


def run(pictures: Path, place: Path, decoder: Any = None, size: int = 32) -> int:
    """Run one epoch; return how many samples were kept already."""
    made = Pipeline(
        "fed", read.Files(str(pictures)), decoder or decode.Image(), augment.Resize(size),
        cache.Disk(place), collate.List(8), seed=5, epochs=1,
    )  # fmt: skip
    with made as loader:
        list(loader)
        return loader.ledger.cached


def test_a_later_run_decodes_nothing_and_any_change_begins_anew(
    pictures: Path, tmp_path: Path
) -> None:
    place = tmp_path / "cache"
    assert run(pictures, place) == 0
    assert run(pictures, place) == COUNT
    assert run(pictures, place, size=30) == 0
    assert run(pictures, place, decoder=decode.Image(mode="L")) == 0
    assert folders(place) == 3
    file = next(pictures.glob("*/03.png"))
    data = file.read_bytes()
    out = io.BytesIO()
    Image.new("RGB", (50, 50)).save(out, "PNG")
    file.write_bytes(out.getvalue())
    assert run(pictures, place) == 0  # a file changed
    file.write_bytes(data)
    os.utime(file, (1, 1))
    assert run(pictures, place) == 0
    assert run(pictures, place) == COUNT
    assert folders(place) == 5
    about = next(place.glob("samples-*/about.txt")).read_text()
    assert "read.files" in about
    assert "decode.image" in about


def test_S3_files_of_equal_names_from_two_folders_never_meet(tmp_path: Path) -> None:
    """One cache folder serves both sources, one after the other and again."""
    for name, value in (("one", 10), ("two", 200)):
        (tmp_path / name / "class").mkdir(parents=True)
        for number in range(3):
            picture = np.full((8, 8, 3), value, np.uint8)
            Image.fromarray(picture).save(tmp_path / name / "class" / f"{number}.png")
            os.utime(tmp_path / name / "class" / f"{number}.png", (1, 1))
    for _ in range(2):
        for name, value in (("one", 10), ("two", 200)):
            keep = cache.Disk(tmp_path / "cache")
            source = read.Files(str(tmp_path / name))
            with Pipeline("x", source, decode.Image(), keep, collate.List(3), epochs=1) as loader:
                [batch] = list(loader)
            assert {int(image.max()) for image in batch["image"]} == {value}
    assert folders(tmp_path / "cache") == 2


def test_the_forecast_is_what_comes(pictures: Path, kept: Any) -> None:
    made = pipeline(pictures, kept)
    found = forecast(make_plan(made))
    assert found is not None
    with Loader(make_plan(made)) as loader:
        list(loader)
        desk = next(part.desk for part in loader.segments if part.desk is not None)
        held = desk.held
    assert held.samples == COUNT
    assert found.nbytes == pytest.approx(held.nbytes, rel=0.05)
