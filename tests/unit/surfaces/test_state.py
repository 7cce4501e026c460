"""Unit tests of the comment's first and last line."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from iqaction.report import NO_RUN, Run
from iqaction.surfaces._state import State, marker, read_state, state_line

RUN = Run(
    "org/repo",
    "pull_request",
    "c" * 40,
    "d" * 40,
    "17",
    2,
    "https://github.example/org/repo/actions/runs/17",
    "2026-11-30T12:00:00Z",
)
GOOD = {
    "run_id": "17",
    "attempt": 2,
    "head_sha": "c" * 40,
    "started_at": "2026-11-30T12:00:00Z",
    "verdict": "FAIL",
}


def line(**changed: object) -> str:
    return f"<!-- {json.dumps({**GOOD, **changed})} -->"


def test_marker__repository_and_suite() -> None:
    """Each suite of each repository has its own key, and no two pairs run together."""
    keys = {marker(r, s) for r in ("a", "a\nb", "b") for s in ("c", "b\nc", "")}

    assert len(keys) == 8  # "a" with "b\nc" and "a\nb" with "c" are one; names hold no newline
    assert all(re.fullmatch(r"<!-- inferquality:v1 key=[0-9a-f]{16} -->", k) for k in keys)
    assert marker("org/repo", "s") == "<!-- inferquality:v1 key=1836faffadeec74d -->"


def test_read_state__what_was_written() -> None:
    """The last line of a text is read back, whatever follows in blanks."""
    text = f"<!-- x -->\n\nbody\n\n{state_line(RUN, 'FAIL', {'gate': 'FAIL', 'legs': {}})}"
    state = State("17", 2, "c" * 40, "2026-11-30T12:00:00Z", "FAIL")

    assert read_state(text) == state
    assert read_state(f"{text}\r\n\r\n") == state
    assert read_state(text.replace("\n", "\r\n")) == state


def test_read_state__what_is_known_cannot_be_overridden() -> None:
    """What else is kept does not take the place of the run's own values."""
    written = state_line(RUN, "FAIL", {"verdict": "PASS", "run_id": "99"})

    assert read_state(written) == State("17", 2, "c" * 40, "2026-11-30T12:00:00Z", "FAIL")


def test_read_state__desk_run() -> None:
    """Where no workflow ran there is nothing to compare with."""
    assert read_state(state_line(NO_RUN, "PASS", {})) is None


def test_state_line__hostile_run() -> None:
    """Values that are not what they should be are left out, not written."""
    hostile = "--> <script>@x"
    bad = Run(hostile, hostile, hostile, hostile, hostile, 1, hostile, hostile)
    written = state_line(bad, "FAIL", {"legs": {hostile: hostile}})

    assert not set("<>@") & set(written[5:-4])
    assert "--" not in written[4:-3]
    assert read_state(written) is None


@pytest.mark.parametrize(
    "body",
    [
        "",
        "\n",
        "<!-- -->",
        "<!-- {} -->",
        "<!-- [] -->",
        "<!-- {bad} -->",
        "no state",
        line() + " and more",
        "> " + line(),
        line().replace("-->", "--!>"),
        line(run_id=17),
        line(run_id=""),
        line(run_id="0"),
        line(run_id="17\n"),
        line(run_id="9" * 21),
        line(run_id="१७"),
        line(attempt="2"),
        line(attempt=True),
        line(attempt=2.0),
        line(attempt=0),
        line(attempt=-1),
        line(attempt=10**7),
        line(attempt=float("nan")),
        line(attempt=None),
        line(head_sha=""),
        line(head_sha="C" * 40),
        line(head_sha="c" * 39),
        line(head_sha=["c" * 40]),
        line(started_at="yesterday"),
        line(started_at="2026-11-30"),
        line(started_at="2026-11-30T12:00:00Z "),
        line(verdict="GREEN"),
        line(verdict="pass"),
        line(verdict=None),
        f"<!-- {json.dumps({k: v for k, v in GOOD.items() if k != 'run_id'})} -->",
        line(attempt=2).replace("2,", "9" * 5000 + ",", 1),
        "<!-- " + '{"a":' * 3000 + "1" + "}" * 3000 + " -->",
        line(more="x" * 20_000),
        line() + "\n\nedited by a person",
        line().replace("FAIL", "F\x00AIL"),
    ],
)
def test_read_state__anything_odd_is_nothing(body: str) -> None:
    """A line that we would not write says nothing."""
    assert read_state(body) is None


def test_read_state__unknown_fields_and_long_texts() -> None:
    """A later version may say more, and only the end of a text is looked at."""
    assert read_state("x\n" * 1_000_000 + line(more=[1, {"a": None}])) is not None
    assert read_state(line(head_sha="c" * 64, verdict="NOT NEEDED")) is not None
    assert replace(RUN, run_id="18") != RUN
