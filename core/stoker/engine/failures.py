"""One policy for failing samples, for every stage, source and kind of worker."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from stoker.errors import QuarantineError, RunError, SampleError
from stoker.jsonable import to_json
from stoker.pipeline import OnError, Quarantine
from stoker.sample import Origin


class Failures:
    """Decides what a failing sample does, and keeps the quarantine.

    Args:
        policy: "raise", or a `Quarantine` with its budget.
        path: the quarantine's file (JSON lines), or None to keep it in memory.
    """

    def __init__(self, policy: OnError, path: Path | None = None) -> None:
        self.policy = policy
        self.path = path
        self.records: list[dict[str, Any]] = []
        self._met_before: list[dict[str, Any]] = []
        self._counted_before = 0
        self._lock = threading.Lock()

    def go_on(self, quarantined: int) -> None:
        """Go on where another loader stood, with what it had quarantined.

        Its file may also hold samples that were only prefetched then: they come again, and are
        not counted again.

        Args:
            quarantined: samples that the other one had, for when there is no file.
        """
        with self._lock:
            self.records, self._met_before, self._counted_before = [], [], 0
            if self.path is None or not self.path.exists():
                self._counted_before = quarantined
                return
            for line in self.path.read_text("utf-8").splitlines():
                with suppress(ValueError):  # a kill may have cut the last line off
                    self.records.append(json.loads(line))
            self._met_before = list(self.records)

    @property
    def left(self) -> int:
        """Samples that may still fail before the run ends."""
        if not isinstance(self.policy, Quarantine):
            return 0
        with self._lock:
            return self.policy.budget - self._spent()

    def _spent(self) -> int:
        return self._counted_before + sum(int(entry["samples"]) for entry in self.records)

    def judge(
        self, stage: str, error: Exception, place: Origin, epoch: int, samples: int = 1
    ) -> RunError | None:
        """Return None where the run goes on without the failing samples, else what ends it."""
        failure = (
            error
            if isinstance(error, SampleError)
            else SampleError(stage, error, key=place.key, shard=place.shard, offset=place.offset)
        )
        if not isinstance(self.policy, Quarantine):
            return failure
        record: dict[str, Any] = {
            "epoch": epoch,
            "stage": stage,
            "key": failure.key,
            "shard": failure.shard,
            "offset": failure.offset,
            "samples": samples,
            "error": failure.reason,
        }
        with self._lock:
            self._note(record)
            spent = self._spent()
        if spent <= self.policy.budget:
            return None
        where = f"; all are in {self.path}" if self.path else ""
        ending = QuarantineError(
            f"{spent} samples failed, the quarantine's budget is {self.policy.budget}{where}. "
            f"The last one: {failure}"
        )
        ending.__cause__ = failure
        return ending

    def _note(self, record: dict[str, Any]) -> None:
        if record in self._met_before:
            self._met_before.remove(record)
            return
        self.records.append(record)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(to_json(record) + "\n")
