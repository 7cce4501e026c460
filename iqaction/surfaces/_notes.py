"""What is said where nothing had to be measured: no report, and green. Pure.

A result of an earlier commit would stay on the pull request otherwise, so a comment that is
already there is replaced; none is made to say that there was nothing to do.
"""

from __future__ import annotations

from iqaction.report import Run
from iqaction.surfaces import _facts, _links, _state, check_run
from iqaction.surfaces._base import AppendSummary, Effect, PutCheckRun, SetOutput, UpsertComment
from iqaction.surfaces._escape import hex_or_nothing, line, prose
from iqaction.surfaces._markdown import join

WORD = _state.NOT_NEEDED
_REASON = 2000  # characters


def not_needed(suite: str, repository: str, reason: str, run: Run) -> list[Effect]:
    """Check, summary, output and comment for "nothing relevant changed".

    Parameters
    ----------
    reason
        Why there is nothing to check, in plain words; file names in it may be anything.
    """
    start = _state.marker(repository, suite)
    said = join(
        f"{prose(reason, _REASON) or 'Nothing was measured.'}",
        _links.markdown("run", _links.run_url(run)) if _links.run_url(run) else "",
    )
    heading = (
        f"### {WORD}  inferquality / {prose(line(suite, _facts.NAME))}: nothing relevant changed"
    )
    text = join(heading, said)
    end = _state.state_line(run, WORD, {"gate": WORD, "stages": {}, "legs": {}})
    return [
        PutCheckRun(
            name=check_run.name(suite),
            head_sha=hex_or_nothing(run.head_sha),
            conclusion="success",
            title=f"{WORD}: nothing relevant changed",
            summary=said,
        ),
        AppendSummary(f"{text}\n"),
        SetOutput("verdict", WORD),
        UpsertComment(start, f"{join(start, text, end)}\n", only_if_present=True),
    ]
