from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from stoker import Pipeline
from stoker.rng import Rng
from stoker.testing import apply, check_stage
from stoker_plugins import augment, collate, read
from tests.plugins.augment.pictures import noise

CLASSES = 10


def batch(count: int = 8, kind: str = "uint8") -> dict[str, Any]:
    pictures = torch.from_numpy(np.stack([noise(12, 16, seed=n) for n in range(count)]))
    if kind == "float":
        pictures = pictures.permute(0, 3, 1, 2) / 255
    return {"__key__": list("abcdefgh"[:count]), "image": pictures, "label": torch.arange(count)}


def test_contracts() -> None:
    check_stage(augment.Mixup(CLASSES))
    check_stage(augment.Cutmix(CLASSES))


def drawn(stage: Any, count: int, position: int = 0) -> tuple[torch.Tensor, float]:
    """Return whom each is mixed with, and the share that was drawn."""
    draw = Rng(0, stage.name).move(0, position).numpy
    draw.random()
    return torch.from_numpy(draw.permutation(count)), float(draw.beta(stage.alpha, stage.alpha))


@pytest.mark.parametrize("kind", ["uint8", "float"])
def test_mixup_is_the_blend_of_two(kind: str) -> None:
    stage = augment.Mixup(CLASSES, alpha=0.4)
    for position in range(5):
        given = batch(kind=kind)
        before = given["image"].clone()
        out = apply(stage, given, position=position)
        other, first = drawn(stage, 8, position)
        wanted = first * before.double() + (1 - first) * before[other].double()
        tolerance = 0.51 if kind == "uint8" else 1e-5
        assert (out["image"].double() - wanted).abs().max() <= tolerance
        assert out["image"].dtype == before.dtype
        assert torch.equal(given["image"], before)  # what came in stays
        for row in range(8):
            shares = torch.zeros(CLASSES)
            shares[row] += first
            shares[int(other[row])] += 1 - first
            assert torch.allclose(out["label"][row], shares, atol=1e-6)


@pytest.mark.parametrize("kind", ["uint8", "float"])
def test_cutmix_pastes_one_box_and_shares_by_its_area(kind: str) -> None:
    stage = augment.Cutmix(CLASSES)
    areas = []
    for position in range(30):
        given = batch(kind=kind)
        out = apply(stage, given, position=position)
        other, _ = drawn(stage, 8, position)
        channel = 3 if kind == "uint8" else 1
        own = (out["image"] == given["image"]).all(dim=channel)
        pasted = (out["image"] == given["image"][other]).all(dim=channel)
        assert (own | pasted).all()
        row = int((other != torch.arange(8)).nonzero()[0])
        box = ~own[row]
        areas.append(float(box.float().mean()))
        if box.any():
            rows, columns = box.any(1).nonzero(), box.any(0).nonzero()
            height, width = rows.max() - rows.min() + 1, columns.max() - columns.min() + 1
            assert int(box.sum()) == int(height * width)
        assert float(out["label"][row, row]) == pytest.approx(1 - areas[-1], abs=1e-6)
        assert torch.allclose(out["label"].sum(1), torch.ones(8))
    assert min(areas) < 0.2
    assert max(areas) > 0.5


def test_labels_become_shares_also_where_nothing_is_mixed() -> None:
    for stage in (augment.Mixup(CLASSES, p=0.0), augment.Cutmix(CLASSES, p=0.0)):
        out = apply(stage, batch())
        assert torch.equal(out["image"], batch()["image"])
        assert out["label"].argmax(1).tolist() == list(range(8))
        assert out["label"].dtype == torch.float32


def test_one_after_the_other() -> None:
    out = apply(augment.Cutmix(CLASSES), apply(augment.Mixup(CLASSES), batch()))
    assert torch.allclose(out["label"].sum(1), torch.ones(8))
    assert (out["label"] > 0).sum(1).max() > 2


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"label": torch.tensor([0, 10])}, ValueError, r"class 10; allowed is 0 to 9"),
        ({"label": torch.tensor([-1, 1])}, ValueError, "class -1"),
        ({"label": torch.zeros(2, 4)}, ValueError, "shares of 4 classes"),
        ({"label": torch.tensor([0.7, 1.9])}, ValueError, r"class numbers \(2,\) or shares"),
        ({"label": torch.zeros(2, 2, 2)}, ValueError, r"has shape \(2, 2, 2\)"),
        ({"label": torch.tensor([1, 2, 3])}, ValueError, r"has shape \(3,\)"),
        ({"label": [1, 2]}, TypeError, "field 'label' holds"),
        ({"image": [1, 2]}, TypeError, "needs a tensor, as collate.Stack"),
    ],
)
def test_what_cannot_be_mixed_is_named(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        apply(augment.Mixup(CLASSES), batch(2) | changes)
    missing = batch(2)
    del missing["label"]
    with pytest.raises(KeyError, match="no field 'label'; the sample has: image"):
        apply(augment.Mixup(CLASSES), missing)


def test_cutmix_finds_the_channels_or_asks() -> None:
    last = batch()["image"].float()  # (B, H, W, C) of floats
    out = apply(augment.Cutmix(CLASSES), {**batch(), "image": last}, position=3)
    same = apply(augment.Cutmix(CLASSES), batch(), position=3)
    assert torch.equal(out["image"], same["image"].float())
    unclear = {**batch(), "image": torch.zeros(8, 3, 9, 3)}
    with pytest.raises(ValueError, match='set layout="channels_last" or "channels_first"'):
        apply(augment.Cutmix(CLASSES), unclear)
    apply(augment.Cutmix(CLASSES, layout="channels_first"), unclear)


def test_an_endless_alpha_is_refused() -> None:
    for stage in (augment.Mixup(9, alpha=float("inf")), augment.Cutmix(9, alpha=0.0)):
        assert list(stage.check(None))  # type: ignore[arg-type]


def test_the_draws_depend_on_the_batch_alone() -> None:
    runs = []
    for workers in (1, 3):
        made = Pipeline(
            "mixed", read.Synthetic(24, num_workers=workers), collate.Stack(4),
            augment.Mixup(1000, label="cls"), augment.Cutmix(1000, label="cls"), seed=3, epochs=2,
        )  # fmt: skip
        with made as loader:
            runs.append([b["image"].numpy().tobytes() for _ in range(2) for b in loader])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 12
