"""Earlier runs on the base branch are shown where they can be read, and are nobody's verdict."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import replace

import pytest
import report_factory as made
from fake_github.fake import FakeGithub
from fake_github.state import Fault
from unit.action.desk import Desk, pull_request
from unit.action.on_github import ran

from iqaction.action import history, tokens
from iqaction.action.work import Decision
from iqaction.evidence import report_json
from iqaction.report import Past, Report
from iqaction.verdict import Verdict

NAME = "inferquality-default-1"


@pytest.fixture
def github() -> Iterator[FakeGithub]:
    with FakeGithub() as running:
        yield running

    assert running.state.violations == []


def packed(
    report: Report | None = None, data: bytes = b"", method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("plan.json", "{}")
        archive.writestr("report.json", report_json.to_bytes(report) if report else data)
    return out.getvalue()


def past(home, github: FakeGithub, **more: str) -> tuple[tuple[Past, ...], Desk]:
    payload = pull_request()
    payload["pull_request"]["base"]["ref"] = "main"
    desk = Desk(home, github, payload=payload, **more)
    job = desk.job
    client = tokens.client(job)[0]
    return history.past(job, job.settings(), job.event(), client, Decision("measure")), desk


def sha(number: int) -> str:
    return f"{number:040x}"


def test_past(tmp_path, github):
    """Runs of main, the oldest first, each with its verdict and how much worse it was."""
    ran(github, 1, sha(1), packed(made.passed()), NAME)
    ran(
        github,
        2,
        sha(2),
        packed(made.failed_by_score()),
        NAME,
        event="schedule",
        conclusion="failure",
    )

    found, _ = past(tmp_path, github)

    assert [(p.head_sha, p.verdict, p.started_at) for p in found] == [
        (sha(1), Verdict.PASS, "2026-11-01T10:00:00Z"),
        (sha(2), Verdict.FAIL, "2026-11-02T10:00:00Z"),
    ]
    assert found[0].url == "https://github.com/acme/serve/actions/runs/1"
    assert found[0].figures == history.figures(made.passed())
    assert found[0].figures["score:reference.kl"] > 0


def test_past__others(tmp_path, github):
    """A pull request's run, another branch's, one under way and this run itself are not shown."""
    data = packed(made.passed())
    ran(github, 1, sha(1), data, NAME, event="pull_request")
    ran(github, 2, sha(2), data, NAME, head_branch="topic")
    ran(github, 3, sha(3), data, NAME, conclusion="cancelled")
    ran(github, 4, sha(4), data, NAME, head_repository="stranger/serve")
    ran(github, 5, sha(5), data, "inferquality-other-1")
    ran(github, 50, sha(6), data, NAME)

    assert past(tmp_path, github)[0] == ()


def test_past__the_last_eight(tmp_path, github):
    """No more are shown, and no more requests are made than that takes."""
    for number in range(1, 21):
        ran(github, number, sha(number), packed(made.passed()), NAME)

    found, _ = past(tmp_path, github)

    assert [int(p.head_sha, 16) for p in found] == list(range(13, 21))
    assert len(github.state.log) == 1 + 8 + 8


def spoilt() -> bytes:
    """A report packed in a way that GitHub never packs, with a byte of it changed."""
    data = bytearray(packed(made.passed(), method=zipfile.ZIP_LZMA))
    at = data.index(b"report.json") + len(b"report.json") + 40
    data[at] ^= 0xFF
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [b"", b"no archive", packed(data=b""), packed(data=b"{}"), packed(data=b"[" * 100_000),
     packed(data=b" " * (9 << 20)), packed(made.passed())[:-80], spoilt()],
)  # fmt: skip
def test_past__no_report(tmp_path, github, data):
    """What is no report is left out, with a line in the log; the others are shown."""
    ran(github, 1, sha(1), packed(made.passed()), NAME)
    ran(github, 2, sha(2), data, NAME)

    found, desk = past(tmp_path, github)

    assert [int(p.head_sha, 16) for p in found] == [1]
    assert "run 2 is not shown" in desk.log


@pytest.mark.parametrize("path", [r"/actions/artifacts\?", r"/actions/runs/\d+$"])
def test_past__github_fails(tmp_path, github, path):
    """A failure of GitHub's is a line in the log, soon: it waits no longer than for a few tries."""
    ran(github, 1, sha(1), packed(made.passed()), NAME)
    github.state.faults = [Fault("GET", path, times=99, status=500)]

    found, desk = past(tmp_path, github)

    assert found == ()
    assert "earlier runs are not shown" in desk.log
    assert sum(desk.waits) <= 20


def test_past__nobody_to_ask(tmp_path):
    """Without a token, or a branch's name, nothing is asked."""
    desk = Desk(tmp_path)
    job = desk.job

    assert history.past(job, job.settings(), job.event(), None, Decision("measure")) == ()


def test_figures__numbers_alone():
    """What was not computed is left out, and so is a name that could be markup."""
    report = made.passed()
    (first, *stages) = report.stages
    check = replace(first.checks[0], metric="<script>")
    strange = replace(report, stages=(replace(first, checks=(check,)), *stages))

    assert all(isinstance(v, float) for v in history.figures(report).values())
    assert not any("<" in name for name in history.figures(strange))
    assert len(history.figures(strange)) < len(history.figures(report))
