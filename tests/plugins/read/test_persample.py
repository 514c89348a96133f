import pickle
from pathlib import Path

import numpy
import pytest

from stoker.errors import UsageError
from stoker_plugins.read.persample import by_place, mark, values_of


def test_every_way_gives_one_value_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "w.npy"
    numpy.save(path, numpy.array([1.0, 2.0, 3.0]))
    for given in ([1, 2, 3], (1, 2, 3), numpy.array([1, 2, 3]), path, str(path)):
        assert list(values_of(given, range(3), "weights")) == [1, 2, 3]
        assert by_place(given)
    assert list(values_of(lambda address: address + 1, numpy.arange(3), "weights")) == [1, 2, 3]
    assert not by_place(abs)


def test_a_function_gets_plain_addresses() -> None:
    assert values_of(type, numpy.arange(2), "label") == [int, int]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([1, 2], "weights has 2 values and the source 3 samples; give one"),
        (numpy.ones((3, 1)), r"weights has shape \(3, 1\): allowed is one value a sample"),
        (3, "weights=3: allowed are a list or an array"),
        ("none.npy", r"weights='none.npy' cannot be loaded.*give a \.npy file"),
        (lambda address: 1 / (address - 1), "failed at address 1: ZeroDivisionError"),
    ],
)
def test_what_does_not_fit_is_said(given: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        values_of(given, range(3), "weights")


def test_S2_no_pickle_and_no_archive_is_loaded(tmp_path: Path) -> None:
    numpy.save(tmp_path / "objects.npy", numpy.array([{}, {}, {}]), allow_pickle=True)
    numpy.savez(tmp_path / "several.npz", numpy.ones(3))
    with pytest.raises(UsageError, match="cannot be loaded"):
        values_of(tmp_path / "objects.npy", range(3), "weights")
    (tmp_path / "bare.npy").write_bytes(pickle.dumps([1.0, 2.0, 3.0]))
    with pytest.raises(UsageError, match="cannot be loaded"):
        values_of(tmp_path / "bare.npy", range(3), "weights")
    with pytest.raises(UsageError, match="holds several arrays"):
        values_of(tmp_path / "several.npz", range(3), "weights")


def test_the_mark_is_of_the_files_content(tmp_path: Path) -> None:
    path = tmp_path / "w.npy"
    numpy.save(path, numpy.array([1.0, 2.0]))
    before = mark(path)
    assert before == mark(str(path))
    numpy.save(path, numpy.array([2.0, 1.0]))
    assert mark(path) not in (before, "")
    assert mark([1, 2]) == ""
    assert mark(tmp_path / "none.npy").startswith("none:")
