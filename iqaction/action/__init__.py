"""The steps of the GitHub Action: each wires parts of the package together and decides nothing."""

from __future__ import annotations


def main(step: str) -> int:
    """Run one step of the action in this process; the exit status is the step's."""
    from iqaction.action import job  # noqa: PLC0415 - the set-up step has no dependencies yet

    return job.run(step)
