from collections import Counter

import pytest

from stoker.plugins import host
from stoker.testing import check_stage, order
from stoker_plugins.read import Files, Repeated, Synthetic
from stoker_plugins.read.repeated import repeats
from tests.plugins.read.helpers import cautions, problems


def test_contract() -> None:
    check_stage(Repeated(Synthetic(3, shuffle=True), times=2))
    assert host().stage_class("read.repeated") is Repeated


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        (1, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]),
        (2, [0, 1, 0, 1, 2, 3, 2, 3, 4, 4]),
        (5, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]),
        (9, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]),
    ],
)
def test_distance_is_from_one_copy_to_the_next(distance: int, expected: list[int]) -> None:
    assert repeats(5, 2, distance).tolist() == expected


@pytest.mark.parametrize("distance", [1, 3, 4, 100])
def test_longer_gives_all_samples_so_many_times(distance: int) -> None:
    source = Repeated(Synthetic(10, shuffle=True), times=3, distance=distance, length="longer")
    assert Counter(order(source)) == dict.fromkeys(range(10), 3)
    assert problems(source) == cautions(source) == []


@pytest.mark.parametrize("distance", [1, 2, 4])
@pytest.mark.parametrize("n", [1, 2, 12, 13, 14])
def test_same_keeps_the_length_and_gives_a_part(n: int, distance: int) -> None:
    drawn = order(Repeated(Synthetic(n, shuffle=True), times=3, distance=distance))
    assert len(drawn) == n
    assert len(set(drawn)) == -(-n // 3)
    assert all(count <= 3 for count in Counter(drawn).values())


def test_other_epochs_give_other_parts() -> None:
    source = Repeated(Synthetic(30, shuffle=True))
    seen = {address for epoch in range(20) for address in order(source, epoch=epoch)}
    assert seen == set(range(30))


def test_a_part_that_is_always_the_same_is_cautioned() -> None:
    (said,) = cautions(Repeated(Synthetic(30)))
    assert "the others never come; set shuffle=True on read.synthetic, or length='longer'" in said
    assert cautions(Repeated(Synthetic(30), times=1)) == []


def test_distance_of_a_batch_puts_copies_into_neighbouring_batches() -> None:
    batch = 4
    drawn = order(Repeated(Synthetic(24, shuffle=True), times=3, distance=batch, length="longer"))
    batches = [drawn[start : start + batch] for start in range(0, len(drawn), batch)]
    for step in range(0, len(batches), 3):  # as three ranks get them
        assert batches[step] == batches[step + 1] == batches[step + 2]
        assert len(set(batches[step])) == batch


def test_what_is_out_of_bounds_is_said() -> None:
    from stoker.parameters import faults

    wrong = Repeated(Files("x"), times=0, distance=0, length="double")  # type: ignore[arg-type]
    assert len(list(faults(wrong))) == 3
