"""One policy for failing samples, for every stage, source and kind of worker."""

from __future__ import annotations

import threading
from pathlib import Path

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
        self.records: list[dict[str, object]] = []
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """Samples that may still fail before the run ends."""
        if not isinstance(self.policy, Quarantine):
            return 0
        with self._lock:
            return self.policy.budget - self._spent()

    def _spent(self) -> int:
        return sum(int(str(entry["samples"])) for entry in self.records)

    def judge(
        self, stage: str, error: Exception, place: Origin, samples: int = 1
    ) -> RunError | None:
        """Return None where the run goes on without the failing samples, else what ends it."""
        failure = (
            error
            if isinstance(error, SampleError)
            else SampleError(stage, error, key=place.key, shard=place.shard, offset=place.offset)
        )
        if not isinstance(self.policy, Quarantine):
            return failure
        record: dict[str, object] = {
            "stage": stage,
            "key": failure.key,
            "shard": failure.shard,
            "offset": failure.offset,
            "samples": samples,
            "error": failure.reason,
        }
        with self._lock:
            self.records.append(record)
            if self.path is not None:
                with self.path.open("a") as file:
                    file.write(to_json(record) + "\n")
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
