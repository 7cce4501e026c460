"""Unit tests of what each surface says for each verdict; goldens hold the whole texts."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace

import pytest
from markup import of_html
from report_factory import (
    ACCEPTED,
    GOLDENS,
    accepted,
    changed_judge,
    failed_by_score,
    matrix,
    not_run,
    passed,
    report,
    republished,
    stage,
)

from iqaction import surfaces
from iqaction.report import NO_RUN, Difference, Report, Table
from iqaction.surfaces import check_run, comment
from iqaction.surfaces._base import AppendSummary, PutCheckRun, SetOutput, UpsertComment, WriteFile
from iqaction.surfaces._state import State, read_state
from iqaction.verdict import Verdict

ALL = pytest.mark.parametrize("case", GOLDENS)


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
    assert surfaces.render_all(GOLDENS[case]()) == surfaces.render_all(GOLDENS[case]())


@ALL
def test_check_run__green_for_pass_and_accepted_alone(case: str) -> None:
    """UNPROVEN and NOT RUN are failures: a neutral check would pass a required one."""
    of = GOLDENS[case]()
    check = check_of(of)
    green = case in ("pass", "accepted", "republished")
    word = "FAIL, accepted" if case == "accepted" else of.verdict.value

    assert check.name == f"inferquality / {of.suite}"
    assert check.conclusion == ("success" if green else "failure")
    assert check.title == f"{word}: {of.headline}"
    assert check.head_sha == of.run.head_sha


@ALL
def test_check_run__captured(case: str) -> None:
    """Only a reference with nothing to compare is called captured; conclusion and the rest stay."""
    of = GOLDENS[case]()
    alone = replace(of, verdict=Verdict.UNPROVEN, gate=Verdict.UNPROVEN, baseline_root="")
    effects, told = surfaces.render_all(of), surfaces.render_all(alone)
    (title,) = [e.title for e in check_run.captured(alone, told) if isinstance(e, PutCheckRun)]

    assert title == f"CAPTURED: {of.headline}"
    assert [e for e in check_run.captured(alone, told) if not isinstance(e, PutCheckRun)] == [
        e for e in told if not isinstance(e, PutCheckRun)
    ]
    if of.verdict is not Verdict.UNPROVEN or of.baseline_root:
        assert check_run.captured(of, effects) == effects


@ALL
def test_comment__verdict_first(case: str) -> None:
    """Marker, then verdict, suite and headline; the state is the last line and reads back."""
    of = GOLDENS[case]()
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
    of = GOLDENS[case]()
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
    page = page_of(GOLDENS[case]())
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
    page = page_of(GOLDENS[case]())
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


# --- what the action knows ------------------------------------------------------------------


def summary_of(of: Report) -> str:
    return next(e.markdown for e in surfaces.load("summary")(of) if isinstance(e, AppendSummary))


def test_surfaces__accepted_beside_its_true_verdict() -> None:
    """An accepted check keeps its word, and who accepted it, why and until when is told."""
    of = accepted()

    for text in (comment_of(of), summary_of(of), check_of(of).summary):
        assert "| **FAIL** (accepted) |" in text
        assert "**Accepted: the job is not held to it**\n- **reference leg: KL" in text
        assert "Accepted by jane until 2027-01-31: we move to 8-bit weights on purpose" in text
        assert "Why it is not a PASS" not in text
    assert "FAIL, ACCEPTED" in page_of(of)
    assert "(accepted)" in page_of(of)
    assert "Accepted by jane until 2027-01-31: we move to 8-bit weights" in page_of(of)


def test_surfaces__accepted_hides_no_other() -> None:
    """A FAIL with one accepted check says FAIL; what is open stands before what is accepted."""
    score = stage("score", "FAIL|a|first||||bad\nUNPROVEN|b|second||||open\nFAIL|c|third||||bad")
    checks = (replace(score.checks[0], accepted=ACCEPTED), *score.checks[1:])
    of = report("x", replace(score, checks=checks))
    text = comment_of(of)

    assert "### FAIL  inferquality" in text
    assert check_of(of).conclusion == "failure"
    assert (
        text.index("- **third**, FAIL")
        < text.index("- **second**, UNPROVEN")
        < text.index("**Accepted: the job is not held to it**")
        < text.index("- **first**, FAIL")
    )


def test_surfaces__differences_with_their_diff() -> None:
    """What the pull request changes about its judge stands above the checks, with its diff."""
    of = changed_judge()

    for text in (comment_of(of), summary_of(of), check_of(of).summary):
        at = text.index("**This pull request changes what it is judged by**")
        assert at < text.index("| check |")
        assert "plan: `.inferquality/plan.yml`\n\n```diff\n--- a/" in text
        assert "prompts: `prompts/dev.jsonl`. Accepted by jane until 2027-01-31" in text
        assert "```text\ntoo long to be shown (1,200 lines differ)\n```" in text
    assert "This pull request changes what it is judged by" in page_of(of)
    assert "+  - score: {margins: {kl: 0.2}}" in page_of(of)


def test_surfaces__long_diffs_keep_both_ends() -> None:
    """A diff that is too long loses its middle and says how much."""
    diff = "@@ -1 +1 @@\n" + "".join(f"+line {i}\n" for i in range(100_000)) + "+the end"
    of = replace(passed(), differences=(Difference("plan", "p", diff),))

    for text in (comment_of(of), summary_of(of), check_of(of).summary, page_of(of)):
        assert "+line 1\n" in text
        assert "characters left out …" in text
        assert "+the end" in text


def test_surfaces__run_line() -> None:
    """Run and evidence are links, a second attempt and another run's figures are told."""
    url = "https://github.example/org/repo/actions/runs"
    line = (
        f"[run]({url}/17) · attempt 2 · [evidence]({url}/17/artifacts/301) · "
        f"measured in [run 15]({url}/15); this run measured nothing anew"
    )
    of = republished()
    elsewhere = replace(of, run=replace(of.run, republished="https://evil.example/x"))

    for text in (comment_of(of), summary_of(of), check_of(of).summary):
        assert f"\n{line}\n" in text
    assert f'<a href="{url}/17/artifacts/301">evidence</a>' in page_of(of)
    assert f'measured in <a href="{url}/15">run 15</a>' in page_of(of)
    assert "measured in `https://evil.example/x`; this" in comment_of(elsewhere)
    assert '<a href="https://evil' not in page_of(elsewhere)
    assert "attempt" not in comment_of(passed()).split("<!-- {")[0]


def test_surfaces__run_line_without_an_artifact() -> None:
    """Where nothing was uploaded the folder is named; at a desk there is no run to speak of."""
    desk = replace(passed(), run=NO_RUN)

    assert f"[run]({passed().run.url}) · evidence: folder `evidence` of this run" in comment_of(
        passed()
    )
    assert "of this run" not in comment_of(desk) + page_of(desk) + summary_of(desk)


def test_surfaces__not_run_in_full() -> None:
    """What did not run shows no empty table, and its problem with the log's last lines."""
    log = "it did not answer in 600 s\n  expected: an answer\n  | ``` <b>@you\n  | out of memory"
    of = replace(not_run(), problems=(log, "and this"))

    for text in (comment_of(of), summary_of(of)):
        assert "| check |" not in text
        assert "| stage |" not in text
        assert "**Why nothing was judged**\n- it did not answer in 600 s\n\n````text\n" in text
        assert "  | ``` <b>@you\n  | out of memory\n````\n\n- and this" in text
    assert "<table" not in page_of(of)
    assert "<pre>  expected: an answer\n  | ``` &lt;b&gt;@you\n  | out of memory</pre>" in page_of(
        of
    )


def test_surfaces__legs_by_name() -> None:
    """Where several legs are shown as one, each stage is named with its leg everywhere."""
    of = matrix()
    text = comment_of(of)

    assert "| rtx3090: score: reference leg: KL (≥) |" in text
    assert "**h200 fp8: score**, NOT RUN" in text
    assert "**Where the texts part** in rtx3090: score (" in text
    assert "`rtx3090: code-017` (timeout)" in text
    assert "| rtx3090: score | 64 | 64 |" in text
    assert "| h200 fp8: score | 64 | 0 |" in text
    for name in ("rtx3090: score", "h200 fp8: score"):
        assert name in page_of(of)
        assert name in summary_of(of)


def test_surfaces__faults_of_two_legs_are_two() -> None:
    """The same prompt in two legs is named twice."""
    (fine, _) = matrix().stages
    of = report("x", fine, replace(fine, leg="other"))

    assert "(2): `rtx3090: code-017` (timeout); `other: code-017` (timeout)" in comment_of(of)


def test_surfaces__machine_and_settings() -> None:
    """The fold names the machine and the hash that an acceptance names."""
    for text in (comment_of(failed_by_score()), summary_of(failed_by_score())):
        assert f"- plan settings `{'e' * 64}`" in text
        assert "- gpu 0 `NVIDIA GeForce RTX 3090, driver 560.35, 24576 MiB`" in text
        assert "- image `vllm/vllm-openai@sha256:ff" in text
    assert "On which machine" in page_of(failed_by_score())


def test_surfaces__many_facts_are_counted() -> None:
    """More facts of a machine than are shown are counted."""
    of = replace(passed(), machine={f"gpu {i}": "x" for i in range(40)})

    assert "- 32 more facts of the machine" in comment_of(of)
