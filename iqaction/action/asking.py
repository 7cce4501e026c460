"""What a job of the action asks for: the inputs and the decision as a session's options."""

from __future__ import annotations

from pathlib import Path

from iqaction.action import keys
from iqaction.action.job import Job
from iqaction.action.settings import Settings
from iqaction.action.work import Decision
from iqaction.circumstances import Circumstances
from iqaction.session import RunOptions

UNKNOWN = "http://127.0.0.1"  # stands for an endpoint that did not start, and is not asked


def options(
    job: Job, settings: Settings, decision: Decision, endpoint: str, around: Circumstances
) -> RunOptions:
    """The options of the run that compares. Raises ConfigError for a key that is not there."""
    keys.api_key(job, settings)  # masks it, before anything else can print it
    return RunOptions(
        evidence=job.work.evidence,
        plan=Path(decision.plan) if decision.plan else None,
        endpoint=endpoint,
        model=keys.model(settings),
        dialect=settings.dialect,
        baseline=decision.baseline,
        suite=decision.suite,
        api_key_env=settings.api_key_env,
        reference=settings.reference_endpoint,
        reference_model=settings.reference_model,
        capture=not decision.baseline,
        circumstances=around,
    )
