"""What a live comparison leaves where a server does not answer. Real engines are compared in
tests/integration/test_live_baseline_real.py.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from unit.test_session import prompts

from iqaction import live_baseline, session
from iqaction.progress import Quiet
from iqaction.session import RunOptions
from iqaction.verdict import Verdict

PLAN = """\
stages:
  - trajectory: {prompts: prompts.jsonl, limit: 8, max_tokens: 2}
"""


@pytest.fixture
def addresses() -> Iterator[tuple[str, str]]:
    """Two where nobody answers."""
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        first, second = (f"http://127.0.0.1:{one.getsockname()[1]}/v1" for one in taken)
        yield first, second


def options(home: Path, addresses: tuple[str, str]) -> RunOptions:
    (home / "plan.yml").write_text(PLAN)
    (home / "prompts.jsonl").write_bytes(prompts())
    return RunOptions(home / "out", home / "plan.yml", addresses[0], baseline=addresses[1])


def test_run__nobody_there(tmp_path: Path, addresses: tuple[str, str]) -> None:
    """Where the baseline does not answer, a report says so, and it is whole."""
    outcome = live_baseline.run(options(tmp_path, addresses), progress=Quiet())

    assert (outcome.complete, outcome.report.verdict) == (False, Verdict.NOT_RUN)
    assert "the baseline: " in outcome.report.headline
    assert addresses[1] in outcome.problem
    assert (tmp_path / "out" / "report.html").is_file()
    assert session.verify(tmp_path / "out").ok


def test_run__nobody_there_again(tmp_path: Path, addresses: tuple[str, str]) -> None:
    """The report of a run that was stopped does not stand in the way of the next, and is kept."""
    for _ in range(3):
        outcome = live_baseline.run(options(tmp_path, addresses), progress=Quiet())

        assert outcome.report.verdict is Verdict.NOT_RUN
    assert (tmp_path / "out.live" / "stopped" / "report.json").is_file()
