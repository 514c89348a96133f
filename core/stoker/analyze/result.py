"""An analysis as one JSON-able object."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stoker.analyze.block import capacity_per_s
from stoker.analyze.diagnosis import Diagnosis
from stoker.analyze.evidence import Evidence
from stoker.measure.snapshot import Report, StageRow


def to_dict(
    diagnosis: Diagnosis, evidence: Evidence, whole: Report, versions: dict[str, Any]
) -> dict[str, Any]:
    """Return everything an analysis found."""
    return {
        "pipeline": evidence.pipeline,
        "throughput": evidence.throughput.to_dict(),
        "windows": [
            {"window_s": report.window_s, "samples_per_s": report.stages[-1].items_per_s}
            for report in evidence.windows
        ],
        "stages": [_stage(row) for row in whole.stages],
        "loader_alone": evidence.loader_alone.to_dict() if evidence.loader_alone else None,
        "step_alone": evidence.step_alone.to_dict() if evidence.step_alone else None,
        "bottleneck": diagnosis.bottleneck,
        "ceiling_ratio": diagnosis.ceiling.to_dict(),
        "bounds": [bound.to_dict() for bound in diagnosis.bounds],
        "gil_busy": evidence.gil_busy,
        "gil_holders": dict(evidence.gil_holders),
        "causes": {str(segment): dict(shares) for segment, shares in evidence.causes.items()},
        "ledger": dict(whole.ledger),
        "host": {**asdict(evidence.host), "quota": versions.get("quota")},
        "cautions": list(evidence.cautions),
        "notes": list(evidence.notes),
        "version": versions["stoker"],
        "versions": versions,
    }


def _stage(row: StageRow) -> dict[str, Any]:
    return {**asdict(row), "capacity_per_s": capacity_per_s(row)}
