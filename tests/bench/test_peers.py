from __future__ import annotations

import io
import json
import random

import numpy as np
import pytest
from bench.common import Interval, all_met, installed, verdicts
from bench.peers import Figures, best_peer, chosen, targets
from bench.peers_child import run_epoch
from bench.peers_contestants import CONTESTANTS, LIMIT, OWN, SHARED
from bench.peers_job import Job, make_job, prepared
from bench.peers_process import FailedError, Process
from PIL import Image

from bench import peers

BY_NAME = {contestant.name: contestant for contestant in CONTESTANTS}
# These start processes or import much: the whole bench runs them.
QUICK = ("plain loop", "thread pool", SHARED, OWN, "spdl, per picture", "spdl, per batch")


@pytest.fixture(scope="session")
def job(tmp_path_factory):
    """Sixteen pictures in batches of four, for two workers."""
    return make_job(tmp_path_factory.mktemp("peers"), pictures=16, workers=2, batch_size=4)


def jpeg(width=60, height=40):
    ramp = np.linspace(0, 255, width).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(np.repeat(ramp[None], height, axis=0)).save(file, "jpeg", quality=95)
    return file.getvalue()


# -- the job ---------------------------------------------------------------------------


def test_the_job_has_whole_batches_and_shards_for_all_workers(job):
    assert (job.pictures, job.batch_size, job.workers) == (16, 4, 2)
    assert len(job.listed()) == 16
    assert len(job.shards) % job.workers == 0
    assert {label for _, label in job.listed()} == set(range(8))
    assert Job.from_json(job.to_json()) == job


@pytest.mark.parametrize(("asked", "made"), [(1, 8), (11, 8), (13, 16)])
def test_counts_are_rounded(tmp_path, asked, made):
    assert make_job(tmp_path, asked, workers=2, batch_size=4).pictures == made


def test_epochs_have_orders_of_their_own(job):
    assert job.shuffled(1) == job.shuffled(1)
    assert job.shuffled(1) != job.shuffled(2)
    assert sorted(job.shuffled(1)) == job.listed()


def test_the_shared_function_crops_resizes_and_flips():
    data = jpeg()
    pictures = [prepared(data, random.Random(seed), 24) for seed in range(40)]
    assert {picture.shape for picture in pictures} == {(24, 24, 3)}
    assert all(picture.dtype == np.uint8 and picture.flags.writeable for picture in pictures)
    rising = [bool(picture[:, -1].mean() > picture[:, 0].mean()) for picture in pictures]
    assert 10 < sum(rising) < 30
    spans = [np.ptp(picture.mean((0, 2))) for picture in pictures]
    assert min(spans) < 130 < 200 < max(spans)
    assert (prepared(data, random.Random(3), 24) == pictures[3]).all()


# -- contestants -----------------------------------------------------------------------


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.filterwarnings("ignore")
def test_contestants_do_the_whole_job_twice(job, name):
    contestant = BY_NAME[name]
    missing = [package for package in contestant.needs if not installed(package)]
    if missing:
        pytest.skip(f"{missing} not installed")
    wanted = sorted(label for _, label in job.listed())
    with contestant.open(job) as epoch:
        for number in range(2):
            batches = list(epoch(number))
            labels = [int(label) for _, found in batches for label in found]
            assert sorted(labels) == wanted
            assert all(tuple(pictures.shape) == (4, 224, 224, 3) for pictures, _ in batches)
        assert run_epoch(epoch, 2, job).pictures == 16


def test_an_epoch_is_checked_and_timed(job):
    batch = np.zeros((4, 224, 224, 3), np.uint8), np.zeros(4)
    told = run_epoch(lambda number: [batch] * 4, 0, job)
    assert told.pictures == 16
    assert 0 <= told.first_s <= told.seconds
    with pytest.raises(RuntimeError, match="12 of 16 pictures came"):
        run_epoch(lambda number: [batch] * 3, 0, job)
    with pytest.raises(RuntimeError, match="a batch of float64, not uint8"):
        run_epoch(lambda number: [(batch[0].astype(float), batch[1])], 0, job)
    with pytest.raises(RuntimeError, match=r"a batch of \(3, 224, 224, 3\), not"):
        run_epoch(lambda number: [(batch[0][:3], batch[1])], 0, job)


def test_names_are_unique_and_only_libraries_are_peers():
    assert len(BY_NAME) == len(CONTESTANTS)
    assert all(contestant.settings for contestant in CONTESTANTS)
    assert not any(BY_NAME[name].peer for name in (LIMIT, "plain loop", "thread pool", SHARED, OWN))
    assert sum(contestant.peer for contestant in CONTESTANTS) >= 8
    assert [one.name for one in chosen("limit, stoker")] == [LIMIT, SHARED, OWN]
    assert chosen("") == list(CONTESTANTS)
    with pytest.raises(SystemExit, match="no such contestant; there are: limit, plain loop"):
        chosen("limit,nobody")


# -- processes and rounds --------------------------------------------------------------


def test_a_process_runs_epochs_and_ends(job):
    with Process("plain loop", job) as process:
        cold_s, _ = process.warm_up()
        told = process.epoch()
        child = process._child
    assert cold_s > 0
    assert told.pictures == 16
    assert 0 < told.first_s < told.seconds
    assert told.cpu_s >= 0
    assert child.returncode == 0


def test_a_process_that_fails_says_why(job, tmp_path):
    gone = Job(str(tmp_path), (), 16, 4)
    with Process("plain loop", gone) as process:
        with pytest.raises(FailedError, match="plain loop failed: RuntimeError: 0 of 16"):
            process.warm_up()


def figures(rates, others=0.0):
    return Figures(1.0, 2**20, list(rates), [0.002] * 3, [0.1] * 3, [others] * 3)


def test_targets_compare_with_the_limit_and_the_best_peer():
    found = {
        LIMIT: figures([1000, 1010, 990]),
        "webdataset": figures([800, 810, 790]),
        "torch DataLoader": figures([900, 950, 940]),
        "thread pool": figures([990, 990, 990]),
        SHARED: figures([950, 955, 945]),
    }
    assert best_peer(found) == "torch DataLoader"
    limit, level = targets(found, {})
    assert limit.met
    assert limit.figure == Interval(*[pytest.approx(0.95, abs=0.01)] * 3)
    assert level.met
    assert "torch DataLoader" in level.name
    found[SHARED] = figures([880, 890, 870])
    assert not any(target.met for target in targets(found, {}))
    found[SHARED] = figures([890, 960, 910])  # now ahead, now behind
    assert targets(found, {})[1].met


def test_what_is_missing_is_said_and_meets_nothing():
    alone = {SHARED: figures([950, 955, 945])}
    assert best_peer(alone) is None
    result = {"targets": {target.name: target.to_dict() for target in targets(alone, {})}}
    assert not all_met(result)
    assert all(line.startswith("not measured") for line in verdicts(result))


def test_epochs_that_others_disturbed_are_told():
    assert peers._disturbed({"a": figures([1] * 3, 0.05)}) == []
    caution = peers._disturbed({"a": figures([1] * 3, 0.05), "b": figures([1] * 3, 0.5)})
    assert caution == ["in 3 of 6 epochs other processes took more than 0.1 of a core (most: 0.50)"]


@pytest.mark.slow
def test_the_bench_measures_and_writes(tmp_path, capsys):
    out = tmp_path / "peers.json"
    given = ["--pictures", "128", "--rounds", "2", "--only", "limit,thread pool,stoker", "--json"]
    assert peers.main([*given, "--out", str(out)]) == 0
    printed = json.loads(capsys.readouterr().out)
    result = json.loads(out.read_text())
    assert printed == result
    assert set(result["images_per_s"]) == {LIMIT, "thread pool", SHARED, OWN}
    assert result["pictures"] % 64 == 0
    assert result["left_out"] == {}
    assert all(rate["value"] > 0 for rate in result["images_per_s"].values())
    assert all(mib > 5 for mib in result["peak_pss_mib"].values())
    assert "2 rounds" in result["cautions"][0]
    assert result["command"] == (
        "python -m bench.peers --rounds 2 --pictures 128 --only limit,thread pool,stoker"
    )
    assert LIMIT in peers.table(result)
    assert str(tmp_path) not in out.read_text()


def test_a_peer_that_is_not_installed_is_left_out(job, monkeypatch):
    monkeypatch.setattr(peers, "installed", lambda package: False)
    silent = lambda text: None  # noqa: E731
    peers_only = [contestant for contestant in CONTESTANTS if contestant.needs]
    found, left_out = peers.measure(peers_only, job, 1, silent)
    assert found == {}
    assert left_out["torchdata.nodes, threads"] == "torch and torchdata not installed"
    assert set(left_out) == {contestant.name for contestant in peers_only}
