"""Unit tests of fitting texts into sizes."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import pytest
from markup import of_html, of_markdown
from report_factory import report, stage, with_history

from iqaction.report import (
    Change,
    ChangedLine,
    Coverage,
    Difference,
    Divergence,
    Engine,
    Mover,
    Past,
    Report,
    Run,
    Series,
    Table,
    UnitFault,
)
from iqaction.surfaces import _budget, _markdown, load, render_all
from iqaction.surfaces._base import AppendSummary, PutCheckRun, UpsertComment, WriteFile
from iqaction.surfaces._budget import Limits
from iqaction.verdict import Verdict

START = Limits(100, 20, 200, 2000, 40, 200, 40, 200, 9000)


def huge(many: int, text: str) -> Report:
    """A report with ``many`` of everything, each of them a megabyte of ``text``."""
    text = text * (1_000_000 // len(text))
    lines = "\n".join(f"UNPROVEN|m{i}|t{i}|.1 -> .2 nats|.1 [.0, .2]|<= .1|why" for i in range(60))
    score = stage("score", lines, coverage=Coverage(many, many, (text,) * many, (text,) * many))
    kinds = ("real", "shift", "tie", text)
    found = tuple(
        Divergence(f"p{i}", text, i, kinds[i % 4], float(i), text, text, text, text, text)
        for i in range(many)
    )
    faults = tuple(UnitFault(f"p{i}", text, "broken", text) for i in range(many))
    tables = tuple(Table(text, (text,) * 9, ((text,) * 9,) * 40) for _ in range(6))
    points = tuple(map(float, range(5000)))
    series = Series(text, text, text, points, points, (text,) * 2000, limit=10.0)
    trajectory = stage(
        "trajectory",
        f"FAIL|m|t||||{text[:900_000]}".replace("\n", " "),
        divergences="",
        faults=faults,
        tables=tables,
        series=(series,) * 2,
        caveats=(text,) * 20,
        meaning=(text,) * 20,
        next_steps=(text,) * 20,
    )
    object.__setattr__(trajectory, "divergences", found)
    movers = tuple(Mover(f"p{i}", text, text, 0.1, 0.2, i, text, text, text) for i in range(many))
    score = replace(
        score,
        checks=tuple(replace(c, accepted=text) for c in score.checks),
        movers=movers,
    )
    figures = {f"score:m{i}": 0.1 * i for i in range(60)}
    return report(
        text,
        score,
        trajectory,
        suite=text,
        engines=(Engine(text, text, text, text, text, {text: text}),) * 20,
        changes=(Change(text, text, text),) * 100,
        problems=(text, f"first line\n{text}\nlast line") * 20,
        differences=(Difference(text, text, text, text),) * 20,
        changed_lines=(ChangedLine(text, 1, text),) * 1000,
        machine={f"{i}{text}": text for i in range(50)},
        run=Run(text, text, text, text, text, 2, text, text, text, text),
        baseline_run=Run(text, text, text, text, text, 1, text, text, text, text),
        history=(Past(text, text, Verdict.PASS, text, figures),) * 8,
    )


def test_surfaces__ten_thousand_divergences() -> None:
    """10,000 divergences and megabyte texts are rendered in seconds, also on a busy machine."""
    started = time.process_time()
    fits_everywhere(huge(10_000, "lorem ipsum "), "10,000")

    assert time.process_time() - started < 20


@pytest.mark.parametrize("text", ["😀<&`|", "\x00\u202e\n\n```\n"])
def test_surfaces__stay_within_their_limits(text: str) -> None:
    """Texts that grow when they are escaped fit as well."""
    fits_everywhere(huge(60, text), "60")


def test_surfaces__eight_runs_and_512_prompts_are_not_cut() -> None:
    """A usual report of 512 prompts with eight earlier runs fits whole into the comment."""
    past = with_history()
    movers = tuple(replace(past.stages[0].movers[0], unit=f"p-{i:03}") for i in range(20))
    score = replace(past.stages[0], coverage=Coverage(512, 512), movers=movers)
    whole = replace(past, stages=(score, past.stages[1]), history=past.history * 3)
    (comment, _) = load("comment")(replace(whole, history=whole.history[:8]))

    assert "Shortened" not in comment.body
    assert comment.body.count("| `p-0") == 4  # five in all, and the other stage has its turn
    assert len(comment.body.encode("utf-16-le")) // 2 < _budget.COMMENT_UNITS // 4


def test_html__says_what_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page over its limit is rendered with less, says so, and is whole in form."""
    monkeypatch.setattr(_budget, "PAGE_BYTES", 150_000)
    (page,) = load("html")(huge(60, "lorem ipsum "))
    seen = of_html(page.content)

    assert "Shortened to fit (fewer divergences" in page.content
    assert "The whole is in report.json." in page.content
    assert len(page.content.encode()) <= 150_000
    assert not seen.open + seen.unbalanced


def fits_everywhere(large: Report, count: str) -> None:
    """Each surface is within its limit and whole in form, and the evidence root is kept."""
    for effect in render_all(large):
        match effect:
            case UpsertComment(_, body):
                assert _budget.utf16_units(body) <= 65_536
                assert f"({count})" in body
                assert f"--root {large.evidence_root}" in body
                assert body.rstrip().endswith(" -->")
                assert "report.html" in body
                whole(body)
            case PutCheckRun() as check:
                assert len(check.title) <= 255
                assert len(check.summary.encode()) <= 65_535
                assert len(check.text.encode()) <= 65_535
                assert f"--root {large.evidence_root}" in check.text
                assert "report.html" in check.text
                whole(check.summary)
                whole(check.text)
            case AppendSummary(markdown):
                assert len(markdown.encode()) <= 1024 * 1024
                assert f"--root {large.evidence_root}" in markdown
                whole(markdown)
            case WriteFile("report.html", content):
                seen = of_html(content)
                assert len(content.encode()) <= 8 * 1024 * 1024
                assert not seen.open + seen.unbalanced


def whole(markdown: str) -> None:
    """All fences and folds are closed, and what is not shown is counted."""
    seen = of_markdown(markdown)

    assert not seen.open + seen.unbalanced
    assert "more" in markdown


def test_steps__shrink_and_say_so() -> None:
    """Each step shows no more than the one before and tells what is gone."""
    found = list(_budget.steps(START))

    assert found[0] == (START, "")
    for (before, _), (after, said) in itertools.pairwise(found):
        fields = vars(before).keys()
        assert all(getattr(after, f) <= getattr(before, f) for f in fields)
        assert after != before
        assert "divergences" in said
    assert found[-1][0].divergences == 0
    assert found[-1][0].block == 0


def test_fit__first_that_fits() -> None:
    """The fullest version within the budget is taken."""

    def render(limits: Limits, cut: str) -> str:
        return "x" * limits.divergences + cut[:5]

    assert _budget.fit(render, START, len, 100, str) == "x" * 100
    assert _budget.fit(render, START, len, 60, str) == "x" * 40 + "fewer"
    assert _budget.fit(render, START, len, 6, str) == "fewer"


def test_fit__last_resort_cuts_lines_and_closes() -> None:
    """What cannot shrink is cut after a line, and fences and folds are closed."""
    text = "<details><summary>x</summary>\n\n````text\n" + "a\n" * 500

    def render(limits: Limits, cut: str) -> str:
        return text

    fitted = _budget.fit(render, START, len, 300, _markdown.closers)

    assert len(fitted) <= 300
    assert fitted.startswith(text[:100])
    assert "\n````\n" in fitted[60:]
    assert "</details>" in fitted
    assert "report.html" in fitted
    assert of_markdown(fitted).open == []


def test_closers__closed_fences_stay_closed() -> None:
    """A fence that is closed is not closed again, and a shorter one within it closes nothing."""
    assert "`" not in _markdown.closers("````\n```\n````\nx").replace("`report.html`", "")
    assert "\n````" in "\n" + _markdown.closers("````\n```\nx")


def test_sizes__count_as_the_receiver_does() -> None:
    """An emoji is two units to a database and four bytes to an API."""
    assert (_budget.utf16_units("😀é"), _budget.utf8_bytes("😀é")) == (3, 6)
