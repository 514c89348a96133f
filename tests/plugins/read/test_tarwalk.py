import io
import os
import tarfile
from functools import partial
from pathlib import Path

import pytest

from stoker_plugins.read.tarwalk import Member, Walk
from tests.plugins.read.helpers import pairs, write_tar


def walk(path: Path) -> tuple[list[Member], bool]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        steps = Walk(partial(os.pread, descriptor), str(path), path.stat().st_size)
        return list(steps), steps.closed
    finally:
        os.close(descriptor)


def through_tarfile(path: Path) -> list[tuple[str, int, int]]:
    with tarfile.open(path) as archive:
        return [(info.name, info.offset_data, info.size) for info in archive if info.isreg()]


@pytest.mark.parametrize("layout", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_equals_tarfile(tmp_path: Path, layout: int) -> None:
    members = [(f"{'d' * 60}/{'e' * 60}/0.jpg", b"x" * 513), ("1.jpg", b""), ("2.jpg", b"y" * 512)]
    if layout != tarfile.USTAR_FORMAT:
        members += [("f" * 300 + ".jpg", b"long"), ("grüß/ü" * 30 + ".jpg", b"u")]
    path = write_tar(tmp_path / "a.tar", members, format=layout)
    found, closed = walk(path)
    assert closed
    assert [(member.name, member.offset, member.size) for member in found] == through_tarfile(path)
    assert [member.name for member in found] == [name for name, _ in members]


def test_folders_are_left_out_and_links_are_marked(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, kind in (
            ("d", tarfile.DIRTYPE),
            ("d/a.jpg", tarfile.SYMTYPE),
            ("d/b.jpg", tarfile.LNKTYPE),
            ("d/c.jpg", tarfile.REGTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "elsewhere"
            archive.addfile(info, io.BytesIO())
    found, _ = walk(tmp_path / "a.tar")
    assert [(member.name, member.link) for member in found] == [
        ("d/a.jpg", True),
        ("d/b.jpg", True),
        ("d/c.jpg", False),
    ]


def test_sizes_in_base_256_and_in_pax_records_are_understood(tmp_path: Path) -> None:
    plain = write_tar(tmp_path / "a.tar", [("a.jpg", b"x" * 700)]).read_bytes()
    wide = bytearray(plain[:512])
    wide[124:136] = b"\x80" + (700).to_bytes(11, "big")
    wide[148:156] = b" " * 8
    wide[148:156] = f"{sum(wide):06o}\0 ".encode()
    (tmp_path / "wide.tar").write_bytes(bytes(wide) + plain[512:])
    assert walk(tmp_path / "wide.tar") == walk(tmp_path / "a.tar")

    info = tarfile.TarInfo("a.jpg")
    info.size, info.pax_headers = 700, {"size": "700"}
    with tarfile.open(tmp_path / "pax.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(b"x" * 700))
    found, _ = walk(tmp_path / "pax.tar")
    assert [(found[0].name, found[0].offset, found[0].size)] == through_tarfile(
        tmp_path / "pax.tar"
    )


@pytest.mark.parametrize(
    ("length", "says"),
    [
        (0, "at offset 0: is empty"),
        (100, "at offset 0: is cut inside a header, after 100 of 512 bytes"),
        (600, "at offset 0: is cut inside '00000.jpg', of 2000 bytes"),
        (512 + 2010, "at offset 2522: is cut inside a block"),
        (512 + 2048 + 200, "at offset 2560: is cut inside a header"),
    ],
)
def test_a_cut_archive_is_an_error_that_names_it_and_the_offset(
    tmp_path: Path, length: int, says: str
) -> None:
    path = write_tar(tmp_path / "a.tar", pairs(2, size=1000))
    os.truncate(path, length)
    with pytest.raises(ValueError) as error:
        walk(path)
    assert str(path) in str(error.value)
    assert says in str(error.value)


def test_a_cut_between_two_members_leaves_it_open(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", pairs(2, size=1000))
    os.truncate(path, 512 + 2048)
    found, closed = walk(path)
    assert [member.name for member in found] == ["00000.jpg"]
    assert not closed


def test_a_damaged_header_is_no_end(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", pairs(2, size=1000))
    data = bytearray(path.read_bytes())
    data[2560 + 5] ^= 0xFF
    path.write_bytes(data)
    assert len(through_tarfile(path)) == 1  # the samples behind it are lost without a word
    with pytest.raises(ValueError, match="at offset 2560: no tar header is here: its checksum"):
        walk(path)


def test_glued_archives_are_refused(tmp_path: Path) -> None:
    first = write_tar(tmp_path / "a.tar", pairs(1))
    second = write_tar(tmp_path / "b.tar", pairs(1, start=1))
    first.write_bytes(first.read_bytes() + second.read_bytes())
    with pytest.raises(ValueError, match="data follows the end-of-archive mark"):
        walk(first)


def test_other_content_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(b"<html>not found</html>" * 100)
    with pytest.raises(ValueError, match="at offset 0: no tar header is here"):
        walk(path)


def test_a_size_below_zero_is_no_size(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", [("a.jpg", b"x" * 700)])
    data = bytearray(path.read_bytes())
    data[124:136] = b"\xff" * 11 + b"\x00"
    data[148:156] = b" " * 8
    data[148:156] = f"{sum(data[:512]):06o}\0 ".encode()
    path.write_bytes(data)
    with pytest.raises(ValueError, match="at offset 0: no tar header is here: its size is -256"):
        walk(path)


def test_sparse_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    info = tarfile.TarInfo("a.jpg")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO())
    with pytest.raises(ValueError, match="sparse"):
        walk(path)
