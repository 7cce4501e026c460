"""What the demo says at its end: both verdicts, why, and where the texts part. Pure text.

Knows reports and a width in columns; no server and no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iqaction.progress import duration
from iqaction.report import Divergence, Report
from iqaction.terminal import fit, fit_end, inline, paragraph, table
from iqaction.verdict import Verdict

_MOST = 8  # divergences shown; the page has them all
_SIDE = 24  # columns of text on each side of the token
_RANK = {"real": 0, "unknown": 1, "shift": 2, "tie": 3}


@dataclass(frozen=True)
class Judged:
    """One candidate of the demo.

    Attributes
    ----------
    what
        What was changed against the reference, in plain words.
    expected
        The right answer, known because the demo made the change itself.
    """

    name: str
    what: str
    expected: Verdict
    report: Report
    folder: str
    root: str
    seconds: float

    @property
    def is_right(self) -> bool:
        return self.report.verdict is self.expected


@dataclass(frozen=True)
class Result:
    """The whole demo. ``seconds`` by step, in order."""

    candidates: tuple[Judged, ...]
    seconds: Mapping[str, float]
    prompts: int
    relaunches: int

    @property
    def is_right(self) -> bool:
        """True where every candidate got the verdict that is known to be right."""
        return bool(self.candidates) and all(c.is_right for c in self.candidates)


def text(result: Result, columns: int) -> str:
    """All of it for people, lines of about ``columns``."""
    blocks = [_candidate(c, columns) for c in result.candidates]
    blocks += [_divergences(result, columns), _closing(result, columns), _next(columns)]
    return "\n\n".join(b for b in blocks if b) + "\n"


def _candidate(judged: Judged, columns: int) -> str:
    verdict = judged.report.verdict.value
    wrong = "" if judged.is_right else f"   (should be {judged.expected.value})"
    lines = [
        f"{judged.name}: {verdict}{wrong}   {judged.what}",
        f"  {paragraph(inline(judged.report.headline), columns, '  ')}",
    ]
    for word, reason in _reasons(judged.report):
        lines.append(f"  {word:8}  {paragraph(inline(reason), columns, ' ' * 12)}")
    return "\n".join(lines)


def _reasons(report: Report) -> Iterator[tuple[str, str]]:
    for problem in report.problems:
        yield "problem", problem
    for stage in report.stages:
        for check in stage.checks:
            if check.judged:
                yield check.verdict.value, f"{stage.stage}, {check.title}: {check.reason}"


def _divergences(result: Result, columns: int) -> str:
    lines = []
    for judged in result.candidates:
        found = [d for stage in judged.report.stages for d in stage.divergences]
        if not found:
            lines.append(f"Where the texts part, {judged.name}: nowhere")
            continue
        count = f"{len(found)} of {result.prompts} prompts"
        lines.append(f"Where the texts part, {judged.name}: {count}")
        found.sort(key=lambda d: (_RANK.get(d.kind, 1), -(d.gap or 0.0), d.unit))
        head = ("prompt", "token", "kind", "gap", "reference wrote", "candidate wrote")
        rows = [head, *(_row(d) for d in found[:_MOST])]
        right = (False, True, False, True, False, False)
        lines += [f"  {x}" for x in table(rows, right, columns - 2)]
    return "\n".join(lines)


def _row(found: Divergence) -> Sequence[str]:
    before = fit_end(inline(found.before), _SIDE // 2)
    gap = "?" if found.gap is None else f"{found.gap:.2f}"

    def side(token: str, after: str) -> str:
        # `after` starts with the token where the texts are known that far
        return before + fit(f"[{inline(token)}]{inline(after.removeprefix(token))}", _SIDE)

    return (
        inline(found.unit),
        str(found.position) if found.position >= 0 else "?",
        inline(found.kind),
        gap,
        side(found.baseline_token, found.baseline_after),
        side(found.candidate_token, found.candidate_after),
    )


def _closing(result: Result, columns: int) -> str:
    right = "Both verdicts are right." if result.is_right else "NOT what this demo must show."
    total = sum(result.seconds.values())
    times = ", ".join(f"{name} {duration(s)}" for name, s in result.seconds.items())
    lines = [right, f"Pages:  {'  '.join(f'{c.folder}/report.html' for c in result.candidates)}"]
    lines.append(f"Took:   {paragraph(f'{duration(total)}: {times}', columns, ' ' * 8)}")
    small = (
        f"A demo decides less than a default run: {result.prompts} prompts of a few tokens, "
        f"{result.relaunches} relaunches of the reference (so the noise floor is small and rough), "
        "and the decode path under load is not covered."
    )
    return "\n".join([*lines, paragraph(small, columns)])


def _next(columns: int) -> str:
    lines = (
        "With your own server:",
        "  iqaction run --endpoint URL --evidence ref          capture the reference",
        "  iqaction observe --endpoint URL --evidence ref --launch 1",
        "                                                      after a restart; 5 of them",
        "  iqaction run --endpoint URL2 --baseline ref --evidence cand",
        "                                                      judge the changed server",
    )
    return "\n".join(fit(line, columns) for line in lines)
