"""Annotations beside the lines that the pull request adds to what starts the endpoint.

Says at the changed flag what it did, where the job is red; a green job annotates nothing. Path
and message are plain ASCII without markup, whatever a file is called and a model wrote.
"""

from __future__ import annotations

import re

from iqaction.report import ChangedLine, Report
from iqaction.surfaces import _facts, _standing
from iqaction.surfaces._base import Annotate, Effect
from iqaction.surfaces._escape import line
from iqaction.verdict import Verdict

MOST = 50
_MESSAGE = 1000  # characters; a step's annotation may have 4,096
_LAST_LINE = 10_000_000
_SEGMENT = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._+@=~-](?:[A-Za-z0-9._+@=~ -]*[A-Za-z0-9._+@=~-])?"
_PATH = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*\Z")
_LONGEST_PATH = 300
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])|://|\]\(|!\[")  # a tag, an address, a link, a picture


def render(report: Report) -> list[Effect]:
    """One annotation for each changed line, 50 at most; none where the job is green."""
    if _standing.passes(report):
        return []
    level = "failure" if _standing.verdict(report) is Verdict.FAIL else "warning"
    message = _message(report)
    places = dict.fromkeys((x.path, x.line) for x in report.changed_lines if _is_clean(x))
    return [Annotate(path, at, level, message) for path, at in list(places)[:MOST]]


def _is_clean(changed: ChangedLine) -> bool:
    """True for a line of a file within the repository, named without tricks."""
    return (
        len(changed.path) <= _LONGEST_PATH
        and _PATH.match(changed.path) is not None
        and 1 <= changed.line <= _LAST_LINE
    )


def _message(report: Report) -> str:
    said = f"{_standing.word(report)}: {_worst(report)}"
    plain = line(said.replace("`", "'"), _MESSAGE).encode("ascii", "backslashreplace").decode()
    return _MARKUP.sub(lambda found: found[0][0] + " " + found[0][1:], plain)[: 2 * _MESSAGE]


def _worst(report: Report) -> str:
    """The worst check and its reason; the problem where no check was made."""
    open_ = [x for x in _facts.open_lines(report) if not x.accepted]
    problem = next(iter(_facts.unique(report.problems)), "").strip().partition("\n")[0]
    if open_ and (open_[0].check or not problem):
        return f"{open_[0].title}: {_facts.why(open_[0])}"
    return problem or report.headline
