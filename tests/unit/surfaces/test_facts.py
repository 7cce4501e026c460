"""Unit tests of what is told, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_factory import divergence, report, stage

from iqaction.report import Coverage, Engine, UnitFault
from iqaction.surfaces import _facts
from iqaction.verdict import Verdict

OK = "PASS|kl|KL|.1 -> .2 nats|.1 [.0, .2]|<= 1|fine"


def test_lines__two_stages_with_one_title() -> None:
    """A title that two stages use is told apart by the stage's name."""
    both = report("x", stage("a", OK), stage("b", OK))

    assert [x.title for x in _facts.lines(both)] == ["a: KL", "b: KL"]
    assert [x.title for x in _facts.lines(report("x", stage("a", OK)))] == ["KL"]


def test_lines__stage_without_checks() -> None:
    """A stage that judged nothing has a line of its own: nothing is not a pass."""
    (line,) = _facts.lines(report("x", stage("score")))

    assert (line.title, line.verdict, line.check) == ("score", Verdict.NOT_RUN, None)
    assert _facts.why(line) == "no check was made; 64 of 64 prompts were observed"


def test_lines__stage_worse_than_its_checks() -> None:
    """Where coverage took the stage's PASS away, that is a line of its own."""
    capped = stage("score", OK, verdict=Verdict.UNPROVEN)
    lines = _facts.lines(report("x", capped))

    assert [(x.title, x.verdict) for x in lines] == [
        ("score as a whole", Verdict.UNPROVEN),
        ("KL", Verdict.PASS),
    ]
    assert _facts.why(lines[0]) == "64 of 64 prompts were observed"


def test_place__unknown() -> None:
    """Texts whose tokens are not known part at no token."""
    found = replace(divergence("real|code-001|1234||x|a|b"), position=-1)

    assert _facts.place(found) == "–"
    assert _facts.place(replace(found, position=1234)) == "1,234"


def test_open_lines__worst_first() -> None:
    """FAIL comes before UNPROVEN, PASS not at all."""
    checks = f"{OK}\nUNPROVEN|a|A||||why\nFAIL|b|B||||why"

    assert [x.title for x in _facts.open_lines(report("x", stage("s", checks)))] == ["B", "A"]


@pytest.mark.parametrize(
    ("reason", "power", "said"),
    [
        ("why", "", "why"),
        ("why", "70 more", "why. 70 more"),
        ("why.", "70 more", "why. 70 more"),
        ("why: 70 more would do", "70 more", "why: 70 more would do"),
        ("", "70 more", "70 more"),
    ],
)
def test_why__power_note_once(reason: str, power: str, said: str) -> None:
    """The power note follows the reason, unless the reason holds it."""
    line = _facts.lines(report("x", stage("s", f"UNPROVEN|a|A||||{reason}|{power}")))[0]

    assert _facts.why(line) == said


def test_engines__what_both_share_is_said_once() -> None:
    """One arm, the same engine, another version, another model."""
    a = Engine("baseline", "vllm", "0.24", "m")
    b = Engine("candidate", "vllm", "0.27", "m")

    def said(*who: Engine) -> str:
        return _facts.engines(report("x", engines=who))

    assert said() == ""
    assert said(a) == "baseline vllm 0.24, `m`"
    assert said(b) == "candidate vllm 0.27, `m`"
    assert said(a, b) == "vllm 0.24 → 0.27, `m`"
    assert said(a, replace(b, version="")) == "vllm 0.24 → unknown, `m`"
    assert said(a, replace(b, version="0.24")) == "vllm 0.24, `m`"
    assert said(a, replace(b, model="n")) == "vllm 0.24, `m` → vllm 0.27, `n`"
    assert said(replace(a, dialect="", version="", model="")) == "baseline unknown engine"


def test_partings__order_and_count() -> None:
    """Real divergences first, the larger gap first; kinds are counted, prompts once."""
    lines = """
tie|p1|1|.1|x|a|b
shift|p2|1|.6|x|a|b
real|p3|1|2|x|a|b
real|p4|1|5|x|a|b
odd|p5|1|-|x|a|b
tie|p1|9|.2|x|a|b
"""
    (parting,) = _facts.partings(report("x", stage("s", OK, lines)))

    assert [d.unit for d in parting.found] == ["p4", "p3", "p2", "p5", "p1", "p1"]
    assert parting.summary == "5 of 64 prompts differ: 2 ties, 1 shift, 1 unknown, 2 real"
    assert [d.unit for d in _facts.chosen(parting, 5, 1)] == ["p4", "p3", "p2", "p5", "p1"]
    assert [d.unit for d in _facts.chosen(parting, 9, 0)] == ["p4", "p3", "p2", "p5"]
    assert _facts.gap(parting.found[3]) == "–"


def test_wrote__token_in_the_text_or_before_it() -> None:
    """The text after a divergence may or may not repeat its first token."""
    d = divergence("real|p|1|2|the shared|·sorted(rows|·sort(rows")

    assert _facts.wrote(d, " sorted", " sorted(rows", 72) == "the shared sorted(rows"
    assert _facts.wrote(d, " sorted", "(rows", 72) == "the shared sorted(rows"
    assert _facts.wrote(d, " sorted", "(rows", 9) == "…red sorte…"
    assert _facts.ends("", "")
    assert not _facts.ends("", "x")


def test_faults__by_kind_once() -> None:
    """Kinds in order of gravity, an unknown kind last, a fault of two stages once."""
    failed = UnitFault("a", "", "failed", "timeout")
    broken = UnitFault("b", "", "broken", "KL")
    odd = UnitFault("c", "", "odd", "")
    found = _facts.faults(
        report("x", stage("s", OK, faults=(odd, failed, broken)), stage("t", OK, faults=(failed,)))
    )

    assert [(title, [f.unit for f in faults]) for title, faults in found] == [
        ("Broken prompts", ["b"]),
        ("Prompts that failed", ["a"]),
        ("Prompts: odd", ["c"]),
    ]


def test_sentences__once_and_closed() -> None:
    """A sentence of report and stage stands once and ends; caveats name their stage."""
    both = report(
        "x",
        stage("s", OK, meaning=("it is so", ""), next_steps=("do it",), caveats=("few",)),
        next_steps=("do it", "then this!"),
        caveats=("old",),
    )

    assert _facts.meaning(both) == ["it is so."]
    assert _facts.next_steps(both) == ["do it.", "then this!"]
    assert _facts.caveats(both) == ["old", "s: few"]


def test_commands__root_only_where_known() -> None:
    """Without an evidence root there is none to authenticate with, and none is invented."""
    sealed, open_ = report("x"), report("x", evidence_root="`; rm -rf /")

    assert f"verify DIR --root {'d' * 64}\n" in _facts.commands(sealed)
    assert _facts.commands(open_).startswith("iqaction verify DIR\n")
    assert ("evidence root", "d" * 64) in _facts.identities(sealed)
    assert "evidence root" not in dict(_facts.identities(open_))


def test_named__with_its_leg() -> None:
    """A stage of a matrix is named with its leg, also where its title is the only one."""
    of = report("x", stage("s", OK, leg="a"), stage("t", leg="b"))

    assert [x.title for x in _facts.lines(of)] == ["a: s: KL", "b: t"]
    assert _facts.has_legs(of)
    assert not _facts.has_legs(report("x", stage("s", OK)))


def test_notes__beside_the_verdict() -> None:
    """Accepted, not required, or both."""
    (line,) = _facts.lines(report("x", stage("s", "FAIL|a|A||||why", required=False)))
    accepted = replace(line, check=replace(line.check, accepted="accepted by jane: wanted"))

    assert _facts.notes(line) == ["not required"]
    assert _facts.notes(accepted) == ["accepted", "not required"]
    assert _facts.why_accepted(accepted) == ["why.", "Accepted by jane: wanted"]


def test_nothing_observed__not_where_anything_was() -> None:
    """One observed prompt or one figure, and the tables are shown."""
    none = stage("s", coverage=Coverage(64, 0))
    seen = stage("s", coverage=Coverage(64, 1))

    assert _facts.nothing_observed(report("x", none))
    assert not _facts.nothing_observed(report("x", none, seen))
    assert not _facts.nothing_observed(report("x", none, verdict=Verdict.UNPROVEN))
