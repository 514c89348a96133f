"""SIGTERM and Ctrl-C as an orderly end: after the present step, or at once while data is waited
for; the second one ends whatever is under way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """A signal ended the run.

    Args:
        number: of the signal.
        remark: what became of the run, and how to go on.
        at_once: it was the second one: nothing is waited for.
    """

    def __init__(self, number: int, remark: str = "", *, at_once: bool = False) -> None:
        self.number = number
        self.at_once = at_once
        self.exit_code = 128 + number
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        super().__init__(f"interrupted by {name}" + (f": {remark}" if remark else ""))


class Interrupts:
    """Watches for signals while entered; does nothing outside the main thread.

    Nothing is raised while a step computes. The loop asks `number`, or takes its batches
    from `batches`, which raises.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        """Of the first signal, once there was one."""
        self._waiting = False
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                before = signal.getsignal(number)
                # An ignored one (nohup, a background job) stays ignored; None is a handler
                # that Python did not set and could not put back.
                if before is not None and before is not signal.SIG_IGN:
                    self._before[number] = before
                    signal.signal(number, self._hear)
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()

    def batches(self, source: Iterable[Any]) -> Iterator[Any]:
        """Yield from a source; waiting for it ends at once when a signal comes.

        Raises:
            Interrupted: a signal came, now or since the last batch was taken.
        """
        iterator = iter(source)
        while True:
            try:
                self._waiting = True
                if self.number is not None:
                    raise Interrupted(self.number)
                batch = next(iterator)
            except StopIteration:
                return
            finally:
                self._waiting = False
            yield batch
            del batch  # or it would live while the next one is made

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            self._restore()
            raise Interrupted(number, "at once, by a second signal", at_once=True)
        self.number = number
        if self._waiting:
            raise Interrupted(number)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
