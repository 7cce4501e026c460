"""The step's outputs: a few values for later steps of a workflow.

Knows their names: no hyphen in any, because a shell drops variables that have one. Values are
single lines without characters that a shell or a workflow expression reads, because people paste
outputs into scripts.
"""

from __future__ import annotations

from iqaction.report import Report
from iqaction.surfaces import _facts, _standing
from iqaction.surfaces._base import Effect, SetOutput
from iqaction.surfaces._escape import hex_or_nothing, output


def render(report: Report) -> list[Effect]:
    """All outputs, also the empty ones, in a fixed order.

    ``verdict`` is one of the four words, or "ACCEPTED" where the job is green without a PASS.
    """
    found = _facts.partings(report)
    named = {f.unit for _, faults in _facts.faults(report) for f in faults}
    values = {
        "verdict": _standing.output(report),
        "headline": output(report.headline),
        "suite": output(report.suite),
        "evidence_root": hex_or_nothing(report.evidence_root),
        "plan_sha256": hex_or_nothing(report.plan_sha256),
        "settings_sha256": hex_or_nothing(report.settings_sha256),
        "baseline_root": hex_or_nothing(report.baseline_root),
        "real_divergences": str(sum(d.kind == "real" for p in found for d in p.found)),
        "named_prompts": str(len(named)),
    }
    return [SetOutput(name, value) for name, value in values.items()]
