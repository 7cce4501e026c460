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


def test_boot__secrets_of_the_job(tmp_path):
    """What the workflow gave by a variable that is called a secret is neither in the log nor in
    what the report shows of the server's: GitHub hides it in its own log only."""
    desk = Desk(
        tmp_path,
        HF_TOKEN="hf_canary_0123",
        HTTPS_PROXY="http://ann:canary-pw@proxy:3128",
        MODEL="canary-model",
        inputs={
            "boot": "command",
            "boot_command": "echo $HF_TOKEN $HTTPS_PROXY $MODEL; exit 3",
            "endpoint": f"http://127.0.0.1:{free_port()}",
        },
    )
    desk.decided()

    assert desk.step("boot") == 0
    found = desk.work.endpoint()
    for text in (desk.log, found.problem, found.log_tail):
        assert "*** http://***@proxy:3128 canary-model" in text
        assert "hf_canary" not in text
        assert "canary-pw" not in text
