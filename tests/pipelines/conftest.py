from __future__ import annotations

import pytest

from stoker_pipelines.digits_data import make_digits
from stoker_pipelines.photos_data import make_photos


@pytest.fixture(scope="session")
def digits_folder(tmp_path_factory):
    """The digits as shards, made once for all tests, which only read them."""
    folder = tmp_path_factory.mktemp("data") / "digits"
    make_digits(folder)
    return folder


@pytest.fixture(scope="session")
def photos_folder(tmp_path_factory):
    """A few photos as shards, made once for all tests, which only read them."""
    folder = tmp_path_factory.mktemp("data") / "photos"
    make_photos(folder, train=64, val=32, samples_per_shard=40)
    return folder
