"""Acceptances: what is named is let through until its day, and nothing else ever is."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from report_factory import report, stage

from iqaction.acceptance import FIELDS, MAX_ENTRIES, apply, offer, read
from iqaction.errors import ConfigError
from iqaction.report import Acceptance, Check, Coverage, Difference, Report, Run, StageResult
from iqaction.verdict import Verdict, cap, combine

ROOT = Path(__file__).parents[2]
PASS, FAIL, UNPROVEN, NOT_RUN = Verdict.PASS, Verdict.FAIL, Verdict.UNPROVEN, Verdict.NOT_RUN
PLAN = "3f2a9c0d1e2b" + "0" * 52
DAY = "2026-11-30"
ENTRY = """\
accept:
  - suite: default
    check: score:reference.kl
    plan: 3f2a9c0d1e2b
    expires: 2027-01-31
    reason: we move to 8-bit weights on purpose
    author: jane
"""


def accept(name: str = "score:kl", **more: str) -> Acceptance:
    """An acceptance of a check ("score:kl") or, without a colon, of a field ("plan")."""
    kind = "check" if ":" in name else "field"
    base = Acceptance("default", "", "", PLAN[:12], "2027-01-31", "on purpose", "jane")
    return replace(base, **{kind: name, **more})


def judged(*stages: StageResult, **more: object) -> Report:
    """A report as the judge gives it: problems and differences have capped its verdict."""
    made = report("x", *stages, suite="default", settings_sha256=PLAN, **more)
    if made.problems or made.differences:
        made = replace(made, verdict=cap(made.verdict, UNPROVEN))
    return replace(made, gate=made.verdict)


def score(*verdicts: str, **more: object) -> StageResult:
    """A stage with checks named kl, nll, ... of these verdicts."""
    names = ("kl", "nll", "decisive", "broken")
    lines = [f"{v}|{n}|{n}|||| why" for n, v in zip(names, verdicts, strict=False)]
    return stage("score", "\n".join(lines), **more)


def applied(made: Report, *acceptances: Acceptance, day: str = DAY) -> Report:
    return apply(made, acceptances, day, PLAN)


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text, "accept.yml")
    return str(caught.value)


# --- the file -------------------------------------------------------------------------------


def test_read() -> None:
    """Every key of an entry is read, and a field in place of a check."""
    second = ENTRY.partition("\n")[2].replace("check: score:reference.kl", "field: plan")

    found = read(ENTRY + second, "accept.yml")

    assert found == (
        Acceptance(
            "default",
            "score:reference.kl",
            "",
            "3f2a9c0d1e2b",
            "2027-01-31",
            "we move to 8-bit weights on purpose",
            "jane",
        ),
        replace(found[0], check="", field="plan"),
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}\n", "accept:\n", "accept: []\n"])
def test_read__nothing(text: str) -> None:
    """A file without entries accepts nothing and is no mistake."""
    assert read(text, "accept.yml") == ()


@pytest.mark.parametrize("plan", ["123456789012", "12345678901e1", "3F2A9C0D1E2B", PLAN])
def test_read__plan_as_written(plan: str) -> None:
    """Digits that YAML would read as a number, and capitals, are hexadecimal digits here."""
    (found,) = read(ENTRY.replace("3f2a9c0d1e2b", plan), "accept.yml")

    assert found.plan == plan.lower()


REFUSED = [
    ("    plan:", "    plam:", "accept.yml:4: accept: unknown key 'plam'; did you mean 'plan'"),
    ("accept:", "accepts:", "accept.yml:1: unknown key 'accepts'; did you mean 'accept'"),
    ("2027-01-31", "2027-02-29", "accept.yml:5: accept.expires: found the text '2027-02-29'"),
    ("2027-01-31", "31.01.2027", "accept.yml:5: accept.expires"),
    ("2027-01-31", "2027-13-01", "accept.yml:5: accept.expires"),
    ("2027-01-31", "2027-00-01", "accept.yml:5: accept.expires"),
    ("2027-01-31", "2027-01-00", "accept.yml:5: accept.expires"),
    ("2027-01-31", "never", "accept.yml:5: accept.expires"),
    ("2027-01-31", "[2027-01-31]", "accept.yml:5: accept.expires: found a list"),
    ("3f2a9c0d1e2b", "3f2a9c0d1e2", "accept.yml:4: accept.plan"),
    ("3f2a9c0d1e2b", "3f2a9c0d1e2g", "accept.yml:4: accept.plan"),
    ("3f2a9c0d1e2b", "f" * 65, "accept.yml:4: accept.plan"),
    ("3f2a9c0d1e2b", "[a]", "accept.yml:4: accept.plan: found a list"),
    ("jane", "''", "accept.yml:7: accept.author"),
    ("author: jane", "author:", "accept.yml:7: accept.author: found nothing"),
    ("jane", "j" * 101, "in at most 100 characters"),
    ("we move to", '"a\\nb" #', "accept.yml:6: accept.reason"),
    ("we move to", "w" * 501, "in at most 500 characters"),
    (
        "    reason: we move to 8-bit weights on purpose\n",
        "",
        "accept.yml:2: accept: no reason",
    ),
    ("    author: jane\n", "", "accept.yml:2: accept: no author"),
    ("    plan: 3f2a9c0d1e2b\n", "", "accept.yml:2: accept: no plan"),
    ("    expires: 2027-01-31\n", "", "accept.yml:2: accept: no expires"),
    ("suite: default\n    ", "", "accept.yml:2: accept: no suite"),
    ("suite: default", "suite: ../x", "accept.yml:2: accept.suite"),
    ("suite: default", "suite: 27", "accept.yml:2: accept.suite: found the number 27"),
    ("check: score:reference.kl", "check: kl", "accept.yml:3: accept.check"),
    ("check: score:reference.kl", "check: score", "stage:metric"),
    ("check: score:reference.kl\n", "field: plans\n", "did you mean 'plan'"),
    ("check: score:reference.kl\n    ", "", "accept.yml:2: accept: neither check nor field"),
    ("    check:", "    field: plan\n    check:", "accept.yml:2: accept: both check and field"),
    ("  - suite: default\n    check", "  - kl\n  - check", "accept.yml:2: accept: found the"),
    ("accept:\n  - suite: default\n  ", "accept:\n  ", "accept.yml:1: accept: found a table"),
    ("accept:\n", "- accept:\n", "accept.yml:1: found a list"),
]


@pytest.mark.parametrize(("old", "new", "said"), REFUSED)
def test_read__refused(old: str, new: str, said: str) -> None:
    """One error for the first mistake: the file, the line, what was found, what was expected."""
    assert old in ENTRY
    message = refused(ENTRY.replace(old, new, 1))

    assert said in message
    assert "expected: " in message


def schema_says(text: str) -> bool:
    """Whether the file is right by the published schema. All scalars are texts, as we read them."""
    body = json.loads((ROOT / "schemas" / "accept.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(body).is_valid(yaml.load(text, yaml.BaseLoader))


@pytest.mark.parametrize(("old", "new", "said"), REFUSED)
def test_schema__refuses_the_same(old: str, new: str, said: str) -> None:
    """What an editor with the schema shows as wrong is what is refused here."""
    is_beyond_a_schema = re.fullmatch(r"2027-\d\d-\d\d", new) or new == "suite: 27"

    assert schema_says(ENTRY)
    assert schema_says(ENTRY.replace(old, new, 1)) is bool(is_beyond_a_schema)


def test_read__too_many() -> None:
    """The number of entries is limited, and the advice is to take out what has expired."""
    head, _, entry = ENTRY.partition("\n")

    assert len(read("\n".join([head, entry * MAX_ENTRIES]), "a.yml")) == MAX_ENTRIES
    assert "201 entries" in refused("\n".join([head, entry * (MAX_ENTRIES + 1)]))


@given(st.text(max_size=200))
def test_read__any_text(text: str) -> None:
    """Whatever the file says, it is read or refused with a reason, never more."""
    said = "accept.yml"
    try:
        read(text, "accept.yml")
    except ConfigError as error:
        said = str(error)

    assert said.startswith("accept.yml")


# --- what is accepted -----------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["FAIL", "UNPROVEN"])
def test_apply(verdict: str) -> None:
    """An accepted check keeps its verdict, says by whom, and the job is not held to it."""
    made = judged(score("PASS", verdict))

    after = applied(made, accept("score:nll"))

    assert after.gate is PASS
    assert after.verdict is Verdict(verdict)
    assert [c.accepted for c in after.stages[0].checks] == [
        "",
        "accepted by jane until 2027-01-31: on purpose",
    ]
    assert after.caveats == made.caveats


def test_apply__last_day() -> None:
    """The last day counts; the day after, the acceptance says nothing but that it expired."""
    made = judged(score("FAIL"))

    assert applied(made, accept(), day="2027-01-31").gate is PASS
    late = applied(made, accept(), day="2027-02-01")
    assert late.gate is FAIL
    assert late.stages == made.stages
    assert late.caveats == ("the acceptance of `score:kl` by jane expired on 2027-01-31",)


@pytest.mark.parametrize("day", ["", "today", "2026-02-30", "2026-11-30T10:00:00Z", "26-11-30"])
def test_apply__unknown_day(day: str) -> None:
    """Where the day of the run is not known, nothing is accepted."""
    after = applied(judged(score("FAIL")), accept(), day=day)

    assert after.gate is FAIL
    assert "the day of this run is not known" in after.caveats[0]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"plan": "f" * 12}, "is for the plan `ffffffffffff`; this run's is `3f2a9c0d1e2b`"),
        ({"plan": PLAN[:11]}, "is malformed"),
        ({"plan": ""}, "is malformed"),
        ({"expires": "never"}, "is malformed"),
        ({"field": "plan"}, "is malformed"),
        ({"check": ""}, "is malformed"),
        ({"check": "score:k"}, "names no check of this run"),
        ({"check": "trajectory:kl"}, "names no check of this run"),
    ],
)
def test_apply__does_not_match(changed: dict[str, str], said: str) -> None:
    """What does not match settles nothing, and the reader is told."""
    after = applied(judged(score("FAIL")), replace(accept(), **changed))

    assert after.gate is FAIL
    assert said in after.caveats[-1]


def test_apply__unknown_plan() -> None:
    """Without a plan hash nothing matches."""
    after = apply(judged(score("FAIL")), [accept()], DAY, "")

    assert after.gate is FAIL


def test_apply__other_suite() -> None:
    """Another suite's acceptance is neither applied nor mentioned."""
    after = applied(judged(score("FAIL")), accept(suite="other"))

    assert (after.gate, after.caveats) == (FAIL, ())


def test_apply__no_longer_needed() -> None:
    """The acceptance of a check that passes is not mentioned."""
    after = applied(judged(score("PASS")), accept())

    assert (after.gate, after.caveats) == (PASS, ())
    assert after.stages[0].checks[0].accepted == ""


def test_apply__many_caveats() -> None:
    """A file full of old acceptances does not fill the report."""
    old = [accept(f"score:m{i}", expires="2020-01-01") for i in range(60)]

    assert len(applied(judged(score("PASS")), *old).caveats) == 11


def test_apply__hides_nothing_else() -> None:
    """An accepted FAIL leaves another FAIL a FAIL, and another UNPROVEN an UNPROVEN."""
    assert applied(judged(score("FAIL", "FAIL")), accept()).gate is FAIL
    assert applied(judged(score("FAIL", "UNPROVEN")), accept()).gate is UNPROVEN


def test_apply__not_run() -> None:
    """A stage or check that did not run is never accepted."""
    alone = applied(judged(score("NOT RUN")), accept())
    beside = applied(judged(score("PASS", "NOT RUN")), accept("score:nll"))
    stopped = applied(judged(score("FAIL", verdict=NOT_RUN)), accept())

    assert [x.gate for x in (alone, beside, stopped)] == [NOT_RUN, UNPROVEN, NOT_RUN]
    assert [c.accepted for x in (alone, beside, stopped) for c in x.stages[0].checks] == [""] * 4
    assert "did not run" in alone.caveats[0]


@pytest.mark.parametrize("verdict", [UNPROVEN, FAIL])
def test_apply__coverage_decided(verdict: Verdict) -> None:
    """Where not a check but the stage as a whole decided, accepting the check changes nothing."""
    after = applied(judged(score("PASS", "UNPROVEN"), score("PASS", verdict=verdict)), accept())

    assert after.gate is verdict


def test_apply__missing_prompts() -> None:
    """As long as nothing is known of a prompt, nothing passes: a FAIL may hide that."""
    lost = Coverage(64, 63, missing=("code-001",))

    assert applied(judged(score("FAIL", coverage=lost)), accept()).gate is UNPROVEN
    assert applied(judged(score("FAIL", coverage=Coverage(64, 0))), accept()).gate is UNPROVEN


def test_apply__not_required() -> None:
    """A stage that is not required never matters, accepted or not."""
    other = stage("trajectory", "FAIL|kl|kl||||why", required=False)

    assert applied(judged(score("PASS"), other)).gate is PASS
    assert applied(judged(score("FAIL"), other), accept()).gate is PASS
    assert applied(judged(other), accept("trajectory:kl")).gate is UNPROVEN  # nothing is required


def test_apply__not_judged() -> None:
    """A figure that carries no verdict cannot be accepted."""
    after = applied(judged(score("FAIL", also="FAIL|tv|tv||||why")), accept("score:tv"))

    assert after.stages[0].checks[1].accepted == ""
    assert "names no check" in after.caveats[0]


def test_apply__capture() -> None:
    """Where nothing was compared, no check can be accepted."""
    after = applied(judged(score("UNPROVEN"), baseline_root=""), accept())

    assert after.gate is UNPROVEN
    assert "nothing was compared" in after.caveats[0]


def test_apply__problems() -> None:
    """What is wrong with the evidence caps the gate as it caps the verdict."""
    after = applied(judged(score("FAIL"), problems=("the baseline is altered",)), accept())

    assert after.gate is UNPROVEN


def test_apply__verdict_of_its_own() -> None:
    """A verdict that does not follow from the stages is not settled by accepting checks."""
    made = replace(judged(score("PASS", "UNPROVEN")), verdict=FAIL)

    assert applied(made, accept("score:nll")).gate is FAIL
    assert applied(replace(judged(score("FAIL")), verdict=PASS), accept()).gate is UNPROVEN


def test_apply__differences() -> None:
    """What the pull request changes about its judge holds it at UNPROVEN until accepted."""
    plan, prompts = Difference("plan", "p.yml", "-a"), Difference("prompts", "p.jsonl", "-b")
    made = judged(score("PASS"), differences=(plan, prompts))

    assert applied(made).gate is UNPROVEN
    assert applied(replace(made, verdict=PASS)).gate is UNPROVEN
    assert applied(made, accept("plan")).gate is UNPROVEN
    both = applied(made, accept("plan"), accept("prompts"))
    assert both.gate is PASS
    assert both.verdict is UNPROVEN
    assert [d.accepted[:16] for d in both.differences] == ["accepted by jane"] * 2
    assert applied(made, accept("plan", expires="2020-01-01"), accept("prompts")).gate is UNPROVEN


def test_apply__difference_settles_no_check() -> None:
    """Accepting the plan accepts no check, and the reverse."""
    made = judged(score("FAIL"), differences=(Difference("plan", "p.yml", "-a"),))

    assert applied(made, accept("plan")).gate is FAIL
    assert applied(made, accept()).gate is UNPROVEN
    assert applied(made, accept(), accept("plan")).gate is PASS


def test_apply__first_entry_that_holds() -> None:
    """An expired entry does not stand in the way of a later one for the same check."""
    after = applied(judged(score("FAIL")), accept(expires="2020-01-01"), accept(author="joe"))

    assert after.gate is PASS
    assert after.stages[0].checks[0].accepted.startswith("accepted by joe")


# --- for all reports ------------------------------------------------------------------------

VERDICTS = st.sampled_from(list(Verdict))
METRICS = ("a", "b", "c")
STAGES = ("score", "trajectory")
CHECKS = st.lists(
    st.builds(
        lambda m, v, j: Check(m, m, v, "why", judged=j), st.sampled_from(METRICS), VERDICTS,
        st.sampled_from([True, True, True, False]),
    ),
    max_size=4,
).map(tuple)  # fmt: skip
COVERAGES = st.sampled_from([Coverage(9, 9), Coverage(9, 8, missing=("x",)), Coverage(9, 0)])
DIFFERENCES = st.lists(
    st.sampled_from(FIELDS).map(lambda f: Difference(f, "p", "d")), max_size=2
).map(tuple)
ACCEPTANCES = st.lists(
    st.builds(
        accept,
        st.sampled_from([*(f"{s}:{m}" for s in STAGES for m in METRICS), *FIELDS]),
        suite=st.sampled_from(["default", "default", "other"]),
        expires=st.sampled_from(["2027-01-31", "2027-01-31", "2020-01-01"]),
        plan=st.sampled_from([PLAN[:12], PLAN[:12], "f" * 12]),
    ),
    max_size=8,
)


@st.composite
def stage_results(draw: st.DrawFn, consistent: bool = False) -> StageResult:
    checks = draw(CHECKS)
    own = combine(c.verdict for c in checks if c.judged)
    verdict = own if consistent or draw(st.booleans()) else draw(VERDICTS)
    return StageResult(
        draw(st.sampled_from(STAGES)),
        verdict,
        checks,
        draw(COVERAGES),
        required=draw(st.sampled_from([True, True, False])),
    )


@st.composite
def reports(draw: st.DrawFn, consistent: bool = False) -> Report:
    made = judged(
        *draw(st.lists(stage_results(consistent), max_size=3)),
        problems=draw(st.sampled_from([(), ("broken",)])),
        differences=draw(DIFFERENCES),
    )
    if not consistent and draw(st.booleans()):
        made = replace(made, verdict=draw(VERDICTS))
    return made


def open_checks(made: Report) -> list[Check]:
    """The unaccepted checks of required stages that are no PASS."""
    return [
        c
        for s in made.stages
        for c in s.checks
        if s.required and c.judged and c.verdict is not PASS and not c.accepted
    ]


@given(reports(), ACCEPTANCES)
def test_apply__green_means_all_is_settled(made: Report, acceptances: list[Acceptance]) -> None:
    """A PASS of the gate leaves no problem, no difference, no stage that did not run and no
    check of a required stage that neither passed nor was accepted."""
    after = apply(made, acceptances, DAY, PLAN)
    required = [s for s in after.stages if s.required]

    if after.gate is PASS:
        assert required
        assert open_checks(after) == []
        assert not after.problems
        assert all(d.accepted for d in after.differences)
        assert all(s.verdict is not NOT_RUN for s in required)
        assert all(any(c.judged for c in s.checks) for s in required)


@given(reports(), ACCEPTANCES)
def test_apply__changes_nothing_else(made: Report, acceptances: list[Acceptance]) -> None:
    """Verdicts, reasons and everything else stay; doing it twice is doing it once."""
    after = apply(made, acceptances, DAY, PLAN)
    stripped = replace(
        after,
        gate=made.gate,
        caveats=made.caveats,
        differences=tuple(replace(d, accepted="") for d in after.differences),
        stages=tuple(
            replace(s, checks=tuple(replace(c, accepted="") for c in s.checks))
            for s in after.stages
        ),
    )

    assert stripped == made
    assert apply(after, acceptances, DAY, PLAN) == after


@given(reports(consistent=True))
def test_apply__nothing_accepted(made: Report) -> None:
    """Without an acceptance the gate is the verdict."""
    assert apply(made, [], DAY, PLAN).gate is made.verdict


@given(reports(), ACCEPTANCES, ACCEPTANCES)
def test_apply__monotonic(made: Report, some: list[Acceptance], more: list[Acceptance]) -> None:
    """Fewer acceptances never let through what more of them hold back."""
    if apply(made, some, DAY, PLAN).gate is PASS:
        assert apply(made, [*some, *more], DAY, PLAN).gate is PASS


@given(reports(), ACCEPTANCES, st.data())
def test_apply__monotonic_in_evidence(
    made: Report, acceptances: list[Acceptance], data: st.DataObject
) -> None:
    """Another problem, difference, or check that fails never turns the gate green."""
    if not made.stages or apply(made, acceptances, DAY, PLAN).gate is PASS:
        return
    worse = data.draw(st.sampled_from(["problem", "difference", "check", "missing"]))
    first, *others = made.stages
    if worse == "problem":
        made = replace(made, problems=(*made.problems, "one more"))
    elif worse == "difference":
        made = replace(made, differences=(*made.differences, Difference("plan", "q", "d")))
    elif worse == "check":
        checks = (*first.checks, Check("other", "other", FAIL, "why"))
        made = replace(made, stages=(replace(first, checks=checks), *others))
    else:
        lost = Coverage(9, 0, missing=tuple("abcdefghi"))
        made = replace(made, stages=(replace(first, coverage=lost), *others))

    assert apply(made, acceptances, DAY, PLAN).gate is not PASS


@given(reports(consistent=True), ACCEPTANCES)
def test_apply__fail_needs_its_own_acceptance(made: Report, given_: list[Acceptance]) -> None:
    """A required check that FAILs and is not accepted leaves the gate at FAIL."""
    after = apply(made, given_, DAY, PLAN)

    if any(c.verdict is FAIL for c in open_checks(after)):
        assert after.gate is FAIL


# --- the offer ------------------------------------------------------------------------------


def filled(text: str) -> str:
    return text.replace("reason: #", "reason: ok #").replace("author: #", "author: joe #")


def test_offer() -> None:
    """What is offered, filled in and read back, lets exactly this report through for 30 days."""
    made = judged(
        score("FAIL", "UNPROVEN", "PASS"),
        stage("trajectory", "FAIL|a|a||||why", required=False),
        differences=(Difference("plan", "p.yml", "-a"),),
        run=Run(started_at="2026-12-15T10:00:00Z"),
    )
    text = offer(made)
    found = read(filled(text), "accept.yml")

    assert [(a.check, a.field) for a in found] == [
        ("score:kl", ""),
        ("score:nll", ""),
        ("", "plan"),
    ]
    assert {a.expires for a in found} == {"2027-01-14"}
    assert apply(made, found, "2027-01-14", PLAN).gate is PASS
    assert apply(made, found, "2027-01-15", PLAN).gate is not PASS


def test_offer__is_not_accepted_as_it_is() -> None:
    """Pasting alone accepts nothing: the reason and the author are still to be written."""
    text = offer(judged(score("FAIL"), run=Run()))

    assert "accept.expires: found nothing" in refused(text)
    text = text.replace("expires: #", "expires: 2027-01-01 #")
    assert "accept.reason: found nothing" in refused(text)
    text = text.replace("reason: #", "reason: wanted #")
    assert "accept.author: found nothing" in refused(text)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2027-01-30", "2027-03-01"),
        ("2028-01-30", "2028-02-29"),
        ("2026-12-31", "2027-01-30"),
        ("2026-04-01", "2026-05-01"),
    ],
)
def test_offer__thirty_days(start: str, end: str) -> None:
    """The calendar is right over months, leap years and the new year."""
    text = offer(judged(score("FAIL"), run=Run(started_at=start + "T00:00:00Z")))

    assert f"expires: {end}\n" in text


@pytest.mark.parametrize(
    "made",
    [
        judged(score("PASS")),
        judged(score("NOT RUN")),
        judged(score("FAIL"), problems=("altered",)),
        judged(score("FAIL", coverage=Coverage(9, 8, missing=("x",)))),
        judged(score("FAIL"), baseline_root=""),
        replace(judged(score("FAIL")), settings_sha256=""),
        replace(judged(score("FAIL")), suite="a\nb: c"),
        judged(stage("score", "FAIL|k l|x||||why")),
        judged(),
    ],
    ids=[
        *("pass", "not-run", "problem", "missing", "capture", "no-plan", "bad-suite", "bad-metric"),
        "empty",
    ],
)
def test_offer__nothing(made: Report) -> None:
    """Where accepting would not let it through, or nothing is open, nothing is offered."""
    assert offer(made) == ""


def test_offer__only_what_is_left() -> None:
    """What is accepted already is not offered again."""
    made = applied(judged(score("FAIL", "FAIL")), accept())

    assert [a.check for a in read(filled(offer_on(made)), "a.yml")] == ["score:nll"]
    assert offer(applied(judged(score("FAIL")), accept())) == ""


def offer_on(made: Report) -> str:
    return offer(replace(made, run=Run(started_at="2026-12-15T10:00:00Z")))
