from __future__ import annotations

import pytest

from stoker_pipelines.digits_data import make_digits


@pytest.fixture(scope="session")
def digits_folder(tmp_path_factory):
    """The digits as shards, made once for all tests, which only read them."""
    folder = tmp_path_factory.mktemp("data") / "digits"
    make_digits(folder)
    return folder
