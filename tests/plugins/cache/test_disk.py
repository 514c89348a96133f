from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from stoker.cache import Fed
from stoker.errors import UsageError
from stoker_plugins.cache import Disk
from stoker_plugins.cache import disk as disk_module
from stoker_plugins.cache import room as room_module
from stoker_plugins.cache.disk import DiskStore
from stoker_plugins.cache.folder import CacheFolder
from stoker_plugins.cache.records import RecordWriter
from tests.plugins.cache.trees import same, samples

FED = Fed("a" * 32, "read -> decode")
OTHER = Fed("b" * 32, "read -> decode2")


def opened(folder: Path, fed: Fed = FED, budget: int = 10**9) -> DiskStore:
    return DiskStore(folder, fed, budget)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("samples-*/*.samples"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(samples)
def test_what_is_kept_comes_back_now_and_later(tmp_path: Path, sample: dict[str, Any]) -> None:
    store = opened(tmp_path)
    for address in (7, "näme/1.jpg", (3, "x")):
        store.put(address, sample)
        assert store.has(address)
        assert same(store.get(address), sample) or store.count >= 3  # kept by an earlier example
    store.close()
    again = opened(tmp_path)
    assert again.count == 3
    again.close()


def test_a_later_store_finds_all_and_adds_to_it(tmp_path: Path) -> None:
    for start in (0, 10, 20):
        store = opened(tmp_path)
        assert store.count == start
        for number in range(start + 10):
            store.put(number, {"x": np.full(100, number)})
        store.close()
    store = opened(tmp_path)
    assert [store.get(n)["x"][0] for n in range(30)] == list(range(30))  # type: ignore[index]
    assert len(files(tmp_path)) == 3
    assert store.nbytes == sum(file.stat().st_size for file in files(tmp_path))
    store.close()


def test_what_one_writes_another_that_is_open_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "_LOOK_EVERY_S", 0.0)
    one, two = opened(tmp_path), opened(tmp_path)
    one.put(1, {"x": 1})
    assert two.has(1)
    assert two.get(1) == {"x": 1}
    two.put(2, {"x": 2})
    assert one.get(2) is None  # not looked for yet
    assert one.has(2)
    assert one.get(2) == {"x": 2}
    one.close()
    two.close()


def test_a_long_address_is_found_again(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.put("a" * 3000, {"x": 1})
    store.put("b", {"x": 2})
    store.close()
    again = opened(tmp_path)
    assert again.get("a" * 3000) == {"x": 1}
    assert again.get("b") == {"x": 2}
    again.close()


# -- damage ----------------------------------------------------------------------------------


def test_a_file_that_was_cut_off_is_good_up_to_there(tmp_path: Path) -> None:
    store = opened(tmp_path)
    ends = []
    for number in range(5):
        store.put(number, {"x": bytes(range(200))})
        ends.append(store.nbytes)
    store.close()
    [file] = files(tmp_path)
    whole = file.read_bytes()
    for length in [*range(0, len(whole), 37), *ends, *(end - 1 for end in ends)]:
        file.write_bytes(whole[:length])
        store = opened(tmp_path)
        assert store.count == sum(end <= length for end in ends)
        assert all(store.get(n) == {"x": bytes(range(200))} for n in range(store.count))
        store.close()


def test_one_changed_byte_is_noticed_said_once_and_the_sample_made_again(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(6):
        store.put(number, {"x": np.arange(50)})
    store.close()
    [file] = files(tmp_path)
    data = bytearray(file.read_bytes())
    each = len(data) // 6
    for number in (2, 4):
        data[number * each + each - 80] ^= 1
    file.write_bytes(data)
    store = opened(tmp_path)
    with pytest.warns(RuntimeWarning, match=r"cache.disk: a kept sample is damaged .*checksum"):
        assert store.get(2) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.get(4) is None
    assert not store.has(2)
    store.put(2, {"x": np.arange(50)})
    assert np.array_equal(store.get(2)["x"], np.arange(50))  # type: ignore[index]
    store.close()
    store = opened(tmp_path)  # of the two records the later one counts
    assert np.array_equal(store.get(2)["x"], np.arange(50))  # type: ignore[index]
    assert store.has(5)
    store.close()


def test_any_byte_that_changes_is_noticed_and_costs_no_other_file(tmp_path: Path) -> None:
    store = opened(tmp_path)
    wanted = [{"x": np.arange(6), "n": n} for n in range(2)]
    for number, sample in enumerate(wanted):
        store.put(number, sample)
    store.close()
    [file] = files(tmp_path)
    whole = file.read_bytes()
    used = [i for i, value in enumerate(whole) if value]
    for at in used:
        for bit in (1, 32):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                store = opened(tmp_path)
                found = [store.get(number) if store.has(number) else None for number in range(2)]
                store.close()
            assert any(sample is None for sample in found), at
            assert all(sample is None or same(sample, wanted[n]) for n, sample in enumerate(found))
            assert len(said) <= 1


def test_a_file_with_something_else_in_it_is_told(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(3):
        store.put(number, {"x": number})
    size = store.nbytes // 3
    store.close()
    [file] = files(tmp_path)
    data = file.read_bytes()
    file.write_bytes(data[:size] + bytes(size) + data[2 * size :])
    with pytest.warns(RuntimeWarning, match=f"cache.disk: {file.name} is damaged"):
        store = opened(tmp_path)
    assert [store.has(n) for n in range(3)] == [True, False, False]
    store.close()


def test_a_folder_that_is_deleted_under_a_run_costs_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "_LOOK_EVERY_S", 0.0)
    store = opened(tmp_path / "cache")
    shutil.rmtree(tmp_path / "cache")
    with pytest.warns(RuntimeWarning, match="files cannot be read"):
        assert not store.has(1)
    with pytest.warns(RuntimeWarning, match="it keeps no more samples: No such file"):
        store.put(1, {"x": 1})
    assert store.count == 0
    store.close()


_WRITER = """
import sys, os
sys.path[:0] = {path!r}
from pathlib import Path
from stoker.cache import Fed
from stoker_plugins.cache.disk import DiskStore
store = DiskStore(Path({folder!r}), Fed("a" * 32, "read"), 10**9)
print("open", flush=True)
for number in range({start}, {stop}):
    store.put(number, {{"x": bytes([number % 251]) * 3000}})
    if number == {start} + 20:
        print("going", flush=True)
"""


def _start(folder: Path, start: int, stop: int) -> subprocess.Popen[str]:
    path = [entry for entry in sys.path if entry]
    code = _WRITER.format(path=path, folder=str(folder), start=start, stop=stop)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_a_kill_in_the_middle_of_writing_leaves_what_was_written(tmp_path: Path) -> None:
    child = _start(tmp_path, 0, 10**7)
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    assert child.stdout.readline() == "going\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    store = opened(tmp_path)
    assert store.count > 20
    assert all(store.get(n) == {"x": bytes([n % 251]) * 3000} for n in range(store.count))
    store.put("new", {"x": 1})
    store.close()


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    children = [_start(tmp_path, start, start + 60) for start in (0, 40)]
    for child in children:
        assert child.wait() == 0
        assert child.stdout is not None
        child.stdout.close()
    store = opened(tmp_path)
    assert store.count == 100
    assert all(store.get(n) == {"x": bytes([n % 251]) * 3000} for n in range(100))
    store.close()


# -- room ------------------------------------------------------------------------------------


def test_the_budget_is_that_of_all_files(tmp_path: Path) -> None:
    store = opened(tmp_path, budget=20_000)
    for number in range(50):
        store.put(number, {"x": bytes(1000)})
    assert 10 < store.count < 20
    assert sum(file.stat().st_size for file in files(tmp_path)) <= 20_000
    store.close()


def test_two_that_write_at_once_keep_one_budget(tmp_path: Path) -> None:
    one, two = opened(tmp_path, budget=20_000), opened(tmp_path, budget=20_000)
    for number in range(50):
        one.put(number, {"x": bytes(1000)})
        two.put(-number - 1, {"x": bytes(1000)})
    assert one.count > 5
    assert two.count > 5
    assert sum(file.stat().st_size for file in files(tmp_path)) <= 20_000
    one.close()
    two.close()


def test_many_threads_write_each_sample_once(tmp_path: Path) -> None:
    store = opened(tmp_path)

    def work() -> None:
        for number in range(60):
            store.put(number, {"x": bytes([number]) * 300})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.count == 60
    assert store.nbytes == sum(file.stat().st_size for file in files(tmp_path))
    assert all(store.get(n) == {"x": bytes([n]) * 300} for n in range(60))
    store.close()


def test_one_that_was_stopped_while_it_wrote_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_module, "_TRIES", 3)
    store = opened(tmp_path)
    with (tmp_path / ".taken").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        store.put(1, {"x": 1})
        assert not store.has(1)
    store.put(1, {"x": 1})
    assert store.has(1)
    store.close()


def test_older_caches_make_room_unless_somebody_uses_them(tmp_path: Path) -> None:
    old = opened(tmp_path, OTHER)
    for number in range(10):
        old.put(number, {"x": bytes(1000)})
    new = opened(tmp_path, budget=15_000)
    for number in range(10):
        new.put(number, {"x": bytes(1000)})
    assert new.count < 5
    assert old.count == 10  # in use
    new.close()
    old.close()
    new = opened(tmp_path, budget=15_000)
    for number in range(10):
        new.put(number, {"x": bytes(1000)})
    assert new.count == 10
    new.close()
    assert len(list(tmp_path.glob("samples-*"))) == 1


def test_a_full_disk_costs_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path)
    store.put(1, {"x": bytes(500)})

    def full(self: RecordWriter, buffers: Any) -> None:
        os.pwrite(self._file, b"half a record", self.end)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(RecordWriter, "_write", full)
        with pytest.warns(RuntimeWarning, match="keeps no more samples: No space left on device"):
            store.put(2, {"x": bytes(500)})
        store.put(3, {"x": bytes(500)})
    assert [store.has(n) for n in (1, 2, 3)] == [True, False, False]
    store.close()
    again = opened(tmp_path)
    assert again.count == 1
    again.close()


def test_a_budget_that_is_not_given_is_a_share_of_the_free_disk(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    assert Disk(tmp_path / "a" / "b").budget() == pytest.approx(free / 2, rel=0.2)
    assert Disk(tmp_path, max_bytes=7).budget() == 7


# -- folders ---------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_used_is_said_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        problems = list(Disk(place).check(_around()))
        assert problems == [f"folder={str(place)!r}: {tmp_path / 'file'} is a file; give a folder"]
        with pytest.raises(UsageError, match=r"cache.disk: folder .* cannot be used"):
            Disk(place).store(FED)
    assert list(Disk(tmp_path / "new" / "deep").check(_around())) == []
    assert not (tmp_path / "new").exists()  # a plan leaves nothing behind


def test_a_read_only_folder_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o500)
    if os.geteuid() == 0:  # who may write everywhere

        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(disk_module.os, "access", lambda *_: False)
        monkeypatch.setattr(Path, "mkdir", refuse)
    [problem] = Disk(tmp_path / "new").check(_around())
    assert f"{tmp_path} cannot be written to" in problem
    with pytest.raises(UsageError, match=r"folder .*new' cannot be used: Permission denied"):
        Disk(tmp_path / "new").store(FED)
    monkeypatch.undo()
    tmp_path.chmod(0o700)


def test_a_home_that_nobody_has_is_said(tmp_path: Path) -> None:
    [problem] = Disk("~nobody-of-this-name/cache").check(_around())
    assert "Could not determine home directory" in problem


def test_a_folder_that_is_removed_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes it between its making and its locking, and even makes a new one."""
    flock, left = fcntl.flock, [2, 1]

    def removing(file: int, how: int) -> None:
        if how == fcntl.LOCK_SH and left:
            place = tmp_path / f"samples-{FED.fingerprint}"
            shutil.rmtree(place)
            if left.pop() == 1:
                place.mkdir()
                (place / ".lock").touch()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", removing)
    store = opened(tmp_path)
    assert not left
    assert CacheFolder(tmp_path).make_room(1) == 0  # in use
    store.put(1, {"x": 1})
    store.close()
    assert CacheFolder(tmp_path).make_room(1) > 0


def test_only_caches_are_removed(tmp_path: Path) -> None:
    opened(tmp_path, OTHER).close()
    (tmp_path / f"samples-{OTHER.fingerprint}" / ".lock").unlink()  # a removal was cut short
    (tmp_path / "samples-of-mine").mkdir()
    (tmp_path / "samples-of-mine" / "thesis.txt").write_text("x")
    assert CacheFolder(tmp_path).make_room(10**9) > 0
    assert [path.name for path in tmp_path.glob("samples-*")] == ["samples-of-mine"]


def _around() -> Any:
    from stoker.stages import Surroundings

    return Surroundings((Disk("x"),), 0, ("disk",))
