from __future__ import annotations

import io
import json
import random
import sys

import numpy as np
import pytest
from bench.common import installed
from bench.peers_bare import plain_loop, thread_pool
from bench.peers_child import run_epoch
from bench.peers_contestants import BY_NAME, CONTESTANTS, FAST, LIMITS, STOKER
from bench.peers_envs import ENVIRONMENTS
from bench.peers_job import IMAGE, JPEG, PILLOW, Job, made, prepared, whole_batches
from bench.peers_measure import Figures, allowed_off, interpreters, measure, usual_mean
from bench.peers_pictures import Photographs, make_pictures
from bench.peers_process import FailedError, Process
from PIL import Image

from bench import peers, peers_measure

SIDE = 32
# These start processes or need environments of their own: the whole bench runs them.
QUICK = (
    "plain loop",
    "plain loop" + FAST,
    "thread pool",
    *STOKER.values(),
    *(name + fast for name in ("SPDL, per picture", "SPDL, per batch") for fast in ("", FAST)),
    *("torchdata.nodes", "grain, threads"),
)


def photograph(seed, width=700, height=560):
    """A gradient of a colour of its own, with a grain, as large as a photograph."""
    draw = np.random.default_rng(seed)
    ramp = np.linspace(40, 180, width)[None, :, None] * draw.uniform(0.5, 1, 3)
    grain = draw.normal(0, 6, (height, width, 1))
    return Image.fromarray(np.clip(ramp + grain, 0, 255).astype(np.uint8))


def material(count=3):
    sources = [(f"photo{seed}", lambda seed=seed: photograph(seed)) for seed in range(count)]
    return Photographs("photographs made for a test", sources)


@pytest.fixture(scope="session")
def job(tmp_path_factory):
    """Sixteen pictures in batches of four, for two workers."""
    cache = tmp_path_factory.mktemp("peers")
    made = make_pictures(cache, material(), 16, 4, per_shard=4)
    return Job(made.files, made.shards, 16, str(cache / "formats"), 4, SIDE)


def jpeg(width=60, height=40):
    ramp = np.linspace(0, 255, width).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(np.repeat(ramp[None], height, axis=0)).save(file, "jpeg", quality=95)
    return file.getvalue()


# -- the job ---------------------------------------------------------------------------


def test_the_job_has_whole_batches_and_travels(job):
    assert (job.pictures, job.batch_size, job.workers) == (16, 4, 2)
    assert len(job.listed()) == 16
    assert len(job.shards) % job.workers == 0
    assert {label for _, label in job.listed()} == {0, 1}  # a tenth of three is for validation
    assert Job.from_json(job.to_json()) == job


@pytest.mark.parametrize(
    ("asked", "made", "per_shard"), [(1, 8, 1), (11, 8, 1), (13, 16, 2), (4000, 4000, 500)]
)
def test_counts_are_rounded_to_whole_batches_of_all_workers(asked, made, per_shard):
    assert whole_batches(asked, workers=2, batch_size=4) == (made, per_shard)


def test_epochs_have_orders_of_their_own(job):
    assert job.shuffled(1) == job.shuffled(1)
    assert job.shuffled(1) != job.shuffled(2)
    assert sorted(job.shuffled(1)) == job.listed()


def test_the_pillow_function_crops_resizes_and_flips():
    data = jpeg()
    pictures = [prepared(data, random.Random(seed), 24) for seed in range(40)]
    assert {picture.shape for picture in pictures} == {(24, 24, 3)}
    assert all(picture.dtype == np.uint8 and picture.flags.writeable for picture in pictures)
    rising = [bool(picture[:, -1].mean() > picture[:, 0].mean()) for picture in pictures]
    assert 10 < sum(rising) < 30
    spans = [np.ptp(picture.mean((0, 2))) for picture in pictures]
    assert min(spans) < 130 < 200 < max(spans)
    assert (prepared(data, random.Random(3), 24) == pictures[3]).all()


@pytest.mark.parametrize("how", [IMAGE, JPEG])
def test_the_stages_as_a_function_draw_and_make_what_the_pillow_function_does(how, job):
    """Both make the same picture of the same draws, so that their rates can be compared."""
    if how == JPEG:
        pytest.importorskip("simplejpeg")
    with open(job.listed()[0][0], "rb") as file:
        data = file.read()
    for seed in range(12):
        random.seed(seed)
        mine = made(data, how, SIDE).astype(int)
        theirs = prepared(data, random.Random(seed), SIDE).astype(int)
        assert mine.shape == (SIDE, SIDE, 3)
        assert np.abs(mine - theirs).mean() < 3


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
            batches = [(np.array(pictures), labels) for pictures, labels in epoch(number)]
            assert sorted(int(label) for _, found in batches for label in found) == wanted
            assert {pictures.shape for pictures, _ in batches} == {(4, SIDE, SIDE, 3)}
        assert run_epoch(epoch, 2, job).pictures == 16


def test_an_epoch_is_checked_timed_and_looked_at(job):
    batch = np.full((4, SIDE, SIDE, 3), 7, np.uint8), np.zeros(4)
    told = run_epoch(lambda number: [batch] * 4, 0, job)
    assert (told.pictures, told.mean) == (16, None)
    assert 0 <= told.first_s <= told.seconds
    assert run_epoch(lambda number: [batch] * 4, 0, job, look=True).mean == 7
    channels_first = batch[0].transpose(0, 3, 1, 2), batch[1]
    assert run_epoch(lambda number: [channels_first] * 4, 0, job).pictures == 16
    assert run_epoch(lambda number: [10, 6], 0, job, look=True).mean is None
    with pytest.raises(RuntimeError, match="12 of 16 pictures came"):
        run_epoch(lambda number: [batch] * 3, 0, job)
    with pytest.raises(RuntimeError, match="a batch of float64, not uint8"):
        run_epoch(lambda number: [(batch[0].astype(float), batch[1])], 0, job)
    with pytest.raises(RuntimeError, match=r"a batch of \(3, 32, 32, 3\), not"):
        run_epoch(lambda number: [(batch[0][:3], batch[1])], 0, job)
    with pytest.raises(RuntimeError, match="3 labels with 4 pictures"):
        run_epoch(lambda number: [(batch[0], batch[1][:3])], 0, job)


def test_names_are_unique_and_only_libraries_are_peers():
    assert len(BY_NAME) == len(CONTESTANTS)
    assert all(contestant.settings for contestant in CONTESTANTS)
    ours = (*LIMITS.values(), *STOKER.values(), "plain loop", "thread pool")
    assert not any(BY_NAME[name].peer for name in ours)
    libraries = {one.opener.partition(":")[2] for one in CONTESTANTS if one.peer}
    assert libraries == {
        *("dataloader", "dataloader_of_shards", "nodes", "spdl", "webdataset", "grain"),
        *("litdata", "streaming", "tf_data", "dali"),
    }
    assert {one.environment for one in CONTESTANTS} == {"", *ENVIRONMENTS}


def test_every_peer_that_takes_a_function_runs_with_both():
    for one in CONTESTANTS:
        if one.peer and one.how == PILLOW:
            assert BY_NAME[one.name + FAST].how == JPEG
            assert BY_NAME[one.name + FAST].opener == one.opener


def test_contestants_are_chosen_by_parts_of_their_names():
    assert [one.name for one in peers.chosen("limit, stoker")] == [
        *LIMITS.values(),
        *STOKER.values(),
    ]
    assert peers.chosen("") == list(CONTESTANTS)
    with pytest.raises(SystemExit, match="--only nobody: no such contestant; there are: limit"):
        peers.chosen("limit,nobody")


# -- processes and rounds --------------------------------------------------------------


def test_a_process_warms_up_runs_epochs_and_ends(job):
    with Process("plain loop", job) as process:
        warm, told = process.warm_up(), process.epoch()
        child = process._child
    assert warm.cold_s > 0
    assert warm.pss_bytes > 2**20
    assert abs(warm.mean - usual_mean(job)) < allowed_off(16)
    assert (told.pictures, told.mean) == (16, None)
    assert 0 < told.first_s < told.seconds
    assert child.returncode == 0


def test_a_process_that_fails_says_why(job, tmp_path):
    gone = Job(str(tmp_path), (), 16, "", 4)
    with Process("plain loop", gone) as process:
        with pytest.raises(FailedError, match="plain loop failed: RuntimeError: 0 of 16"):
            process.warm_up()


def test_rounds_give_pairs_of_new_processes(job):
    asked = [BY_NAME[name] for name in ("plain loop", "thread pool")]
    found, missing = measure(asked, job, 2, lambda text: None)
    assert missing == {}
    assert set(found) == {"plain loop", "thread pool"}
    for figures in found.values():
        assert len(figures.pictures_per_s) == len(figures.cold_s) == len(figures.pss_bytes) == 2
        assert all(cores > 0 for cores in figures.cores)


def test_a_peer_that_gives_other_pictures_is_missing_with_the_reason(job, monkeypatch):
    monkeypatch.setattr(peers_measure, "usual_mean", lambda job: 255.0 + allowed_off(16))
    stranger = BY_NAME["plain loop"]
    with pytest.raises(FailedError, match="plain loop gives other pictures: their mean is"):
        measure([stranger], job, 1, lambda text: None)
    object_as_peer = type(stranger)(stranger.name, "", stranger.opener, peer=True)
    found, missing = measure([object_as_peer], job, 1, lambda text: None)
    assert found == {}
    assert "gives other pictures" in missing["plain loop"]


def test_few_pictures_may_differ_more_in_their_mean():
    assert allowed_off(4096) == allowed_off(1024) == 5
    assert allowed_off(256) == 10


def test_a_peer_that_is_not_installed_is_missing_with_the_reason(job, monkeypatch):
    monkeypatch.setattr(peers_measure, "installed", lambda package: False)
    here = [one for one in CONTESTANTS if one.needs and not one.environment]
    pythons, missing = interpreters(here, job, lambda text: None)
    assert pythons == {}
    assert missing["torchdata.nodes"] == "torchdata and torch not installed"
    assert set(missing) == {one.name for one in here}


def test_others_run_in_this_interpreter(job):
    pythons, missing = interpreters([BY_NAME["plain loop"]], job, lambda text: None)
    assert (pythons, missing) == ({"plain loop": sys.executable}, {})


def test_by_hand_means_by_hand(job):
    with plain_loop(job, PILLOW) as one, thread_pool(job, PILLOW) as many:
        labels = [[list(found) for _, found in epoch(3)] for epoch in (one, many)]
    assert labels[0] == labels[1]


# -- the result ------------------------------------------------------------------------


def figures(others):
    return Figures([1.0] * 3, by_others=[others] * 3)


def test_epochs_that_others_disturbed_are_told():
    assert peers.disturbed({"a": figures(0.05)}) == []
    assert peers.disturbed({"a": figures(0.05), "b": figures(0.5)}) == [
        "in 3 of 6 epochs other processes took more than 0.1 of a core (most: 0.50)"
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], ""),
        (["--quick"], " --rounds 2 --pictures 640"),
        (["--quick", "--rounds", "3"], " --rounds 3 --pictures 640"),
        (["--only", "stoker,DALI, plain"], " --only 'stoker,DALI, plain'"),
        (["--pictures-from", "/mnt/mine"], " --pictures-from FOLDER"),
    ],
)
def test_the_command_repeats_the_run_and_names_no_place(given, told):
    assert peers.asked(given)[1] == "python -m bench.peers" + told


@pytest.mark.slow
def test_the_bench_measures_and_writes(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(peers.make_job, "__defaults__", (tmp_path / "cache",))
    for seed in range(3):
        photograph(seed).save(tmp_path / f"{seed}.jpg")
    out = tmp_path / "peers.json"
    given = ["--rounds", "1", "--pictures", "128", "--pictures-from", str(tmp_path), "--json"]
    assert peers.main([*given, "--only", "decode.image,thread pool", "--out", str(out)]) == 0
    result = json.loads(out.read_text())
    assert json.loads(capsys.readouterr().out) == result
    assert set(result["images_per_s"]) == {LIMITS[IMAGE], STOKER[IMAGE], "thread pool"}
    assert result["pictures"] == 128
    assert all(rate["value"] > 0 for rate in result["images_per_s"].values())
    assert all(mib > 5 for mib in result["peak_pss_mib"].values())
    assert "1 rounds" in result["cautions"][0]
    floor = result["targets"][f"{STOKER[IMAGE]} over {LIMITS[IMAGE]}"]
    assert floor["value"] > 0.2
    assert (floor["at_least"], floor["goal"]) == (0.92, 0.95)
    assert LIMITS[IMAGE] in peers.table(result)
    assert str(tmp_path) not in out.read_text()
