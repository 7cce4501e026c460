"""Unit tests of what each surface says for each verdict; goldens hold the whole texts."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace

import pytest
from markup import of_html
from report_factory import CASES, failed_by_score, passed, report, stage

from iqaction import surfaces
from iqaction.report import Report, Table
from iqaction.surfaces import comment
from iqaction.surfaces._base import AppendSummary, PutCheckRun, SetOutput, UpsertComment, WriteFile
from iqaction.surfaces._state import State, read_state
from iqaction.verdict import Verdict

ALL = pytest.mark.parametrize("case", CASES)


def comment_of(of: Report) -> str:
    return next(e.body for e in surfaces.load("comment")(of) if isinstance(e, UpsertComment))


def page_of(of: Report) -> str:
    (page,) = surfaces.load("html")(of)
    assert isinstance(page, WriteFile)
    return page.content


def check_of(of: Report) -> PutCheckRun:
    (check,) = surfaces.load("check_run")(of)
    assert isinstance(check, PutCheckRun)
    return check


def test_surfaces__found_by_name() -> None:
    """Each file is a surface, and a wrong name is told the right ones."""
    assert surfaces.names() == ["annotations", "check_run", "comment", "html", "outputs", "summary"]
    with pytest.raises(LookupError, match="annotations, check_run, comment"):
        surfaces.load("_svg")


def test_render_all__files() -> None:
    """The files that an evidence folder gets."""
    files = [e.name for e in surfaces.render_all(passed()) if isinstance(e, WriteFile)]

    assert files == ["comment.md", "report.html", "summary.md"]


@ALL
def test_render_all__is_deterministic(case: str) -> None:
    """The same report gives the same effects."""
    assert surfaces.render_all(CASES[case]()) == surfaces.render_all(CASES[case]())


@ALL
def test_check_run__green_for_pass_and_accepted_alone(case: str) -> None:
    """UNPROVEN and NOT RUN are failures: a neutral check would pass a required one."""
    of = CASES[case]()
    check = check_of(of)
    green = case in ("pass", "accepted", "republished")
    word = "FAIL, accepted" if case == "accepted" else of.verdict.value

    assert check.name == f"inferquality / {of.suite}"
    assert check.conclusion == ("success" if green else "failure")
    assert check.title == f"{word}: {of.headline}"
    assert check.head_sha == of.run.head_sha


@ALL
def test_comment__verdict_first(case: str) -> None:
    """Marker, then verdict, suite and headline; the state is the last line and reads back."""
    of = CASES[case]()
    lines = comment_of(of).splitlines()
    state = json.loads(lines[-1].removeprefix("<!-- ").removesuffix(" -->"))
    word = "FAIL, ACCEPTED" if case == "accepted" else of.verdict.value

    assert lines[0] == comment.marker(of)
    assert lines[2] == f"### {word}  inferquality / {of.suite}: {of.headline}"
    assert {
        "verdict": of.verdict.value,
        "gate": of.gate.value,
        "run_id": "17",
        "attempt": of.run.attempt,
        "head_sha": of.run.head_sha,
        "tested_sha": of.run.tested_sha,
        "started_at": "2026-11-30T12:00:00Z",
        "stages": {s.stage: s.verdict.value for s in of.stages}
        if case != "matrix"
        else {"score": "UNPROVEN"},
        "legs": {"rtx3090": "PASS", "h200 fp8": "NOT RUN"} if case == "matrix" else {},
        "plan_sha256": of.plan_sha256,
        "evidence_root": of.evidence_root,
    } == state
    assert read_state(comment_of(of)) == State(
        "17", of.run.attempt, of.run.head_sha, "2026-11-30T12:00:00Z", of.verdict.value
    )


@ALL
def test_comment__names_every_open_check(case: str) -> None:
    """Each check that is no PASS has its reason in words; a PASS has no such list."""
    of = CASES[case]()
    text = comment_of(of)
    open_ = [c for s in of.stages for c in s.checks if c.verdict is not Verdict.PASS]

    for check in open_:
        assert f", {check.verdict.value}: " in text
    reasons = "**Why it is not a PASS**" in text
    said = reasons or "**Accepted: " in text or "**This pull request changes what " in text
    assert said == (of.verdict is not Verdict.PASS)
    assert reasons == any(not c.accepted for c in open_) or case in ("not-run", "matrix")


def test_comment__marker_belongs_to_the_suite() -> None:
    """Two suites keep two comments, one suite keeps one, and another repository its own."""
    a, b = passed(), replace(passed(), suite="other")
    elsewhere = replace(a, run=replace(a.run, repository="org/other"))

    assert comment.marker(a) == comment.marker(replace(a, headline="x"))
    assert len({comment.marker(x) for x in (a, b, elsewhere)}) == 3
    assert re.fullmatch(r"<!-- inferquality:v1 key=[0-9a-f]{16} -->", comment.marker(a))


def test_comment__a_pass_is_short() -> None:
    """Above the fold a PASS is a heading, a table and one line about the texts."""
    above = comment_of(passed()).split("<details>")[0]

    assert len(above.strip().splitlines()) <= 15
    assert "What this means" not in above


def test_comment__a_pass_names_its_faults() -> None:
    """Also a PASS says which prompts failed."""
    of = replace(failed_by_score(), verdict=Verdict.PASS, gate=Verdict.PASS)

    assert "**Prompts that failed** (1): `long-002`" in comment_of(of)


def test_surfaces__not_computed_is_a_dash() -> None:
    """What was not computed is a dash with its reason, never a zero."""
    of = report("x", stage("s", "UNPROVEN|nll|NLL|||<= .05|not computed: no rows"))
    row = next(x for x in comment_of(of).splitlines() if x.startswith("| NLL"))

    assert row == "| NLL | – | – | – | 0.05 | **UNPROVEN** |"
    assert "**NLL**, UNPROVEN: not computed: no rows" in comment_of(of)
    assert "not computed: no rows" in page_of(of)


def test_surfaces__a_stage_that_is_not_required_says_so() -> None:
    """A verdict that does not count is marked."""
    of = report("x", stage("s", "FAIL|a|A||||why", required=False))

    assert "**FAIL** (not required)" in comment_of(of)
    assert "(not required)" in page_of(of)


def test_surfaces__no_stage_at_all() -> None:
    """An empty report says that nothing was judged."""
    of = report("nothing was asked")

    assert of.verdict is Verdict.UNPROVEN
    assert "No stage was judged." in comment_of(of)
    assert "No stage has a check." in page_of(of)


def test_surfaces__problems_come_before_the_checks() -> None:
    """A problem with the evidence stands above what was measured on it."""
    of = replace(passed(), verdict=Verdict.UNPROVEN, problems=("3 prompts are missing",))

    for text in (comment_of(of), check_of(of).summary, page_of(of)):
        assert 0 < text.index("3 prompts are missing") < text.index("real divergences")


def test_outputs__names_and_values() -> None:
    """The values that later steps may use."""
    values = {
        e.name: e.value
        for e in surfaces.load("outputs")(failed_by_score())
        if isinstance(e, SetOutput)
    }

    assert values == {
        "verdict": "FAIL",
        "headline": "this change alters the model_s output",
        "suite": "qwen27b-dual",
        "evidence_root": "d" * 64,
        "plan_sha256": "a" * 64,
        "settings_sha256": "e" * 64,
        "baseline_root": "b" * 64,
        "real_divergences": "1",
        "named_prompts": "3",
    }
    assert all(name.isidentifier() for name in values)


def test_summary__holds_the_tables() -> None:
    """The step summary is one text, as effect and as file, with all figures."""
    effect, file = surfaces.load("summary")(passed())

    assert isinstance(effect, AppendSummary)
    assert isinstance(file, WriteFile)
    assert (file.name, file.content) == ("summary.md", effect.markdown)
    assert "Noise floor" in effect.markdown


@ALL
def test_html__no_network_no_script(case: str) -> None:
    """The page needs nothing from outside and forbids it as well."""
    page = page_of(CASES[case]())
    seen = of_html(page)

    assert (
        "default-src 'none'; style-src 'unsafe-inline'" in dict(seen.attributes).values()
        or (
            "content",
            "default-src 'none'; style-src 'unsafe-inline'",
        )
        in seen.attributes
    )
    assert not {"script", "link", "img", "iframe", "form", "base"} & {t for t, _ in seen.tags}
    assert not re.search(r"url\(|@import|\son\w+=", page)
    assert not {"src", "srcset", "style", "xlink:href"} & {n for n, _ in seen.attributes}


@ALL
def test_html__accessible(case: str) -> None:
    """Language, title, headings without a gap, heads on tables, names on pictures."""
    page = page_of(CASES[case]())
    seen = of_html(page)
    levels = [int(t[1]) for t, _ in seen.tags if re.fullmatch("h[1-6]", t)]

    assert ("lang", "en") in seen.attributes
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert page.count("<svg") == len(re.findall(r"<svg[^>]*role=\"img\"[^>]*><title", page))
    assert page.count("<th ") == len(re.findall(r"<th scope=\"(?:col|row)\"", page))
    assert "prefers-color-scheme:dark" in page
    assert "width=device-width" in page


def test_html__texts_side_by_side() -> None:
    """Each divergence shows the shared text twice and marks the first differing token."""
    page = page_of(failed_by_score())

    assert (
        '<pre><span class="shared">def top(rows):\n    return</span>'
        "<mark> sorted</mark>(rows, key=len)</pre>"
    ) in page
    assert "<mark> sort</mark>(rows, key=len)</pre>" in page


def test_html__what_is_cut_is_counted() -> None:
    """More checks and tables than a page holds are counted, and a table without columns is none."""
    many = "\n".join(f"UNPROVEN|m{i}|t{i}||||why" for i in range(400))
    tables = (Table("columnless", (), ()), *(Table(f"t{i}", ("a",), ((1.0,),)) for i in range(50)))
    page = page_of(report("x", stage("s", many, tables=tables)))

    assert "100 more: report.json" in page
    assert "11 more tables: report.json" in page
    assert "columnless" not in page
    assert "**columnless**" in comment_of(report("x", stage("s", many, tables=tables)))
