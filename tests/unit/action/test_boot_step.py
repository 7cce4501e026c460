"""The step that boots: nothing is started where there is nothing to compare with."""

from __future__ import annotations

import shlex
from dataclasses import replace

from unit.action.desk import Desk
from unit.boot.factory import free_port

from iqaction.action import reports
from iqaction.circumstances import Circumstances

PROBLEM = "there is no baseline, and what the merge-base serves gave none: it did not start"


def test_boot__there_is_a_problem_already(tmp_path):
    """The reference step failed: the candidate is not started, and the report says why."""
    started = tmp_path / "started"
    desk = Desk(
        tmp_path,
        inputs={
            "boot": "command",
            "boot_command": f"touch {shlex.quote(str(started))}; exit 1",
            "endpoint": f"http://127.0.0.1:{free_port()}",
        },
    )
    desk.decided(circumstances=replace(Circumstances(problem=PROBLEM), run=desk.run))

    assert desk.step("boot") == 0
    assert not started.exists()
    assert desk.work.endpoint().problem == PROBLEM

    assert desk.step("observe") == 0
    assert reports.stored(desk.work.evidence).problems[0] == PROBLEM
    assert desk.step("gate") == 3
