"""A child against what its stages start: none of it may hold its socket, or pass for it."""

from __future__ import annotations

import os
import signal
import socket
import threading
import traceback
from typing import Any

_UNHEARD = (signal.SIGINT, signal.SIGTERM)


def hear_no_signals() -> None:
    """Do not end by a signal that is meant for the parent, which decides when to end.

    What stages start has its signals as usual: an ignored one would stay ignored there, and
    `terminate()` would wait for ever.
    """
    for number in _UNHEARD:
        signal.signal(number, _unheard)
        signal.siginterrupt(number, False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _UNHEARD)


def keep_for_itself(end: socket.socket, page_fd: int) -> None:
    """Let nothing that stages start hold the socket: its closing tells that this process ended.

    Args:
        end: to the parent.
        page_fd: file that is shared with the parent.
    """
    os.set_inheritable(end.fileno(), False)
    os.set_inheritable(page_fd, False)

    mask = threading.local()  # it is each thread's own, and any may fork

    def before() -> None:  # a signal to the copy waits until it is heard there
        mask.was = signal.pthread_sigmask(signal.SIG_BLOCK, _UNHEARD)

    def in_parent() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask.was)

    def in_copy() -> None:
        end.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        in_parent()

    os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_copy)


def code_of(error: BaseException | None) -> int:
    """Return the exit code of a copy that comes out of a stage; print what it came out with."""
    if error is None:
        return 0
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        return error.code or 0
    traceback.print_exception(error)
    return 1


def _unheard(number: int, frame: Any) -> None:
    """Do nothing: unlike SIG_IGN, a handler is not inherited by other programs."""
