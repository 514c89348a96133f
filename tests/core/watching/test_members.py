"""Finding the transforms that an object holds."""

from __future__ import annotations

import functools
from typing import Any

import torch

from stoker.watching.members import find, members_of, name_of

from .loaders import Compose, KeywordCompose, KeywordScale, ModuleScale, Rows, Scale, doubled


def labels(thing: object) -> list[str]:
    return [place.label for place in find(thing)]


def test_members_of_a_compose_in_their_order() -> None:
    rows = Rows(transform=Compose([Scale(), doubled, ModuleScale()]))
    assert labels(rows) == [
        "transform[0] Scale",
        "transform[1] doubled",
        "transform[2] ModuleScale",
    ]


def test_tuples_and_keywords() -> None:
    holder: Any = Rows()
    holder.transforms_of_images = KeywordCompose((KeywordScale(), KeywordScale()))
    tupled: Any = Rows(transform=Compose((Scale(),)))
    assert labels(holder) == [f"transforms_of_images[{n}] KeywordScale" for n in (0, 1)]
    assert labels(tupled) == ["transform[0] Scale"]
    assert find(tupled)[0].within == 0


def test_a_compose_in_a_compose() -> None:
    inner = Compose([Scale(), doubled])
    found = labels(Rows(transform=Compose([inner, Scale()])))
    assert found[:2] == ["transform[0] Compose", "transform[0][0] Scale"]
    assert "transform[1] Scale" in found


def test_a_transform_that_stands_alone() -> None:
    rows: Any = Rows(transform=Scale())
    rows.target_transform = doubled
    rows.tokenizer = functools.partial(doubled)
    rows.label_of = doubled  # not named as a transform
    assert labels(rows) == [
        "transform Scale",
        "target_transform doubled",
        "tokenizer doubled",
    ]


def test_through_subsets_and_lists_of_data_sets() -> None:
    data = torch.utils.data
    rows = Rows(transform=Compose([Scale()]))
    both = data.ConcatDataset([data.Subset(rows, [0, 1]), rows])
    assert labels(both) == ["transform[0] Scale"]


def test_a_module_level_compose_and_a_closure() -> None:
    assert labels(_Global()) == ["COMPOSE[0] Scale"]
    compose = Compose([Scale(), Scale()])

    def collate(samples: Any) -> Any:
        return compose(samples)

    assert labels(collate) == ["compose[0] Scale", "compose[1] Scale"]
    assert labels(functools.partial(collate)) == labels(collate)


_COMPOSE = Compose([Scale()])


class _Global(Rows):
    def __getitem__(self, index: int) -> Any:
        return _COMPOSE(super().__getitem__(index))


def test_a_sequential_is_a_compose_only_where_it_transforms() -> None:
    layers = torch.nn.Sequential(ModuleScale(), torch.nn.Identity())
    rows: Any = Rows(transform=layers)
    assert labels(rows) == ["transform[0] ModuleScale", "transform[1] Identity"]
    model: Any = Rows()
    model.backbone = layers
    assert labels(model) == []


def test_cycles_big_lists_and_lazy_things() -> None:
    class Lazy:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} was read")

        @property
        def transforms(self) -> Any:
            raise AssertionError("a property was read")

    rows: Any = Rows(transform=Compose([Scale()]))
    rows.me, rows.lazy = rows, Lazy()
    rows.samples = [Compose([Scale()]) for _ in range(1000)]
    assert labels(rows) == ["transform[0] Scale"]


def test_what_is_no_compose() -> None:
    class Named:
        def __init__(self, transforms: Any) -> None:
            self.transforms = transforms

    assert members_of(Named("resize")) == []
    assert members_of(Named([1, 2])) == []
    assert members_of(Named([])) == []
    assert members_of(None) == []


def test_names() -> None:
    assert name_of(functools.partial(functools.partial(doubled))) == "doubled"
    assert name_of(Scale()) == "Scale"
    assert name_of(Scale().__call__) == "__call__"
    assert name_of(len) == "len"
