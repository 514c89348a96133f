import pytest

from stoker_plugins.read.keys import Grouping, lacking, split


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a/22.0/1.1.png", ("a/22.0/1", "1.png")),
        ("Track 2.0 (x).mp3", ("Track 2", "0 (x).mp3")),
        ("train.v1/0001.jpg", ("train.v1/0001", "jpg")),
        ("./0001.jpg", ("./0001", "jpg")),
        ("x.JPG", ("x", "jpg")),
        ("z.TestData.pth", ("z", "testdata.pth")),
    ],
)
def test_B01_B02_key_ends_at_first_dot_after_last_slash(name: str, parts: tuple[str, str]) -> None:
    assert split(name) == parts


@pytest.mark.parametrize(
    "name", ["README", "a.b/README", "a/.hidden.jpg", "a.", "__meta__", "__meta__/x.json"]
)
def test_names_of_no_sample(name: str) -> None:
    assert split(name) is None


def test_members_of_one_key_are_one_sample() -> None:
    grouping = Grouping("s.tar")
    placed = [grouping.place(name) for name in ("a.jpg", "README", "a.cls", "b.jpg")]
    assert placed[1] is None
    assert [(p.key, p.field, p.first, p.fault) for p in placed if p] == [
        ("a", "jpg", True, None),
        ("a", "cls", False, None),
        ("b", "jpg", True, None),
    ]


@pytest.mark.parametrize("second", ["q.jpg", "q.JPG"])
def test_B02_B05_two_members_of_one_field_are_both_named(second: str) -> None:
    grouping = Grouping("s.tar")
    grouping.place("q.JPG")
    placed = grouping.place(second)
    assert placed is not None
    assert placed.fault is not None
    assert "'q.JPG'" in placed.fault
    assert repr(second) in placed.fault


def test_B04_a_key_that_returns_is_refused() -> None:
    grouping = Grouping("s.tar")
    grouping.place("0.jpg")
    grouping.place("1.jpg")
    with pytest.raises(ValueError, match=r"s\.tar: sample '0' returns with '0\.txt' after '1'"):
        grouping.place("0.txt")


def test_same_key_in_another_shard_is_another_sample() -> None:
    for shard in ("s0.tar", "s1.tar"):
        placed = Grouping(shard).place("img.jpg")
        assert placed is not None
        assert placed.first


def test_S1_lacking_names_member_and_fields_seen() -> None:
    assert lacking(("jpg", "cls"), ["cls", "jpg"], "x") is None
    text = lacking(("jpg", "cls"), ["jpg"], "a/x")
    assert text == "sample 'a/x' lacks required cls; its members: a/x.jpg"
