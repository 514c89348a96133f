"""What stages do to their process that is theirs to do, where children can import them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from multiprocessing import get_context
from time import sleep

import numpy as np

from stoker.sample import Sample


def ends_a_program(sample: Sample) -> Sample:
    with subprocess.Popen(["sleep", "20"]) as program:
        program.terminate()
    return {**sample, "code": program.returncode}


def ends_a_process(sample: Sample) -> Sample:
    process = get_context("fork").Process(target=sleep, args=(20,))
    process.start()
    process.terminate()
    process.join()
    return {**sample, "code": process.exitcode}


def dies_and_leaves_a_program(sample: Sample) -> Sample:
    os.system("sleep 6 > /dev/null 2>&1 &")
    os.kill(os.getpid(), signal.SIGKILL)
    return sample


def dies_and_leaves_a_copy(sample: Sample) -> Sample:
    if os.fork() == 0:
        sleep(6)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
    return sample


def copy_exits(sample: Sample) -> Sample:
    pid = os.fork()
    if pid == 0:
        sys.exit(7)
    _, status = os.waitpid(pid, 0)
    return {**sample, "code": os.waitstatus_to_exitcode(status)}


def copy_comes_out_too(sample: Sample) -> Sample:
    return {**sample, "code": 1 if os.fork() else 0}


def takes_all_descriptors(sample: Sample) -> Sample:
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 64), hard))
    try:
        while True:
            _kept.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return sample


_kept: list[int] = []


def brings_an_array(sample: Sample) -> Sample:
    return {**sample, "a": np.zeros(100_000 * (1 + sample["x"]), np.uint8)}


def exits_at_two(sample: Sample) -> Sample:
    if sample["x"] == 2:
        sys.exit("enough")
    return {**sample, "worked": True}
