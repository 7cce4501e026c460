"""Which baselines can be compared with: each field that differs is named with both values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from fake_engine import FakeEngine, captured, compared
from world import World, judged

from iqaction import compatibility
from iqaction.calls import Arm, EngineInfo
from iqaction.circumstances import Circumstances
from iqaction.compatibility import Mismatch
from iqaction.counts import counted
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.report import Report, Run
from iqaction.stages import sampling
from iqaction.verdict import Verdict

WORLD = World(units=64, length=4)
COMMAND = "`iqaction baseline capture --plan PLAN --out DIR`"
SAMPLER = {**{p.name: p.default for p in sampling.PARAMS}, "temperature": 0.6}
AROUND = Circumstances(
    machine={"gpu 0": "NVIDIA A100, driver 570.1, 40 GiB", "gpu 1": "NVIDIA A100, driver 570.1"},
    observed_on="2026-11-20",
    harness="0.4.2",
)
Change = Callable[[Observed], Observed]


def whole(observed: Observed, arm: Arm) -> Observed:
    """The same evidence with every field of the key known."""
    engines = {k: replace(v, tokenizer_sha256="a" * 64, template_sha256="b" * 64)
               for k, v in observed.engines.items()}  # fmt: skip
    sampling = StageSpec("sampling", SAMPLER, required=False)
    plan = observed.plan
    return replace(
        observed,
        plan=replace(plan, model_identity="org/m", stages=(*plan.stages, sampling)),
        engines=engines,
        concurrency={(arm, 0): (4, "plan")},
        circumstances=AROUND,
    )


@cache
def before() -> Observed:
    return whole(captured(WORLD, 3), Arm.BASELINE)


@cache
def after() -> Observed:
    plain = captured(WORLD, 3)
    found = whole(compared(WORLD, FakeEngine(WORLD), plain), Arm.CANDIDATE)
    return replace(found, baseline=before())


def known(report: Report) -> list[str]:
    """The caveats that are the key's to give."""
    return [c for c in report.caveats if "could not be compared" in c or "baseline" in c]


def planned(**changes: object) -> Change:
    return lambda o: replace(o, plan=replace(o.plan, **changes))  # type: ignore[arg-type]


def asked(stage: str, **params: object) -> Change:
    def change(o: Observed) -> Observed:
        specs = tuple(
            replace(s, params={**s.params, **params}) if s.stage == stage else s  # type: ignore[arg-type]
            for s in o.plan.stages
        )
        return replace(o, plan=replace(o.plan, stages=specs))

    return change


def served(**changes: object) -> Change:
    def change(o: Observed) -> Observed:
        changed: dict[tuple[Arm, int], EngineInfo] = {
            k: replace(v, **changes)  # type: ignore[arg-type]
            for k, v in o.engines.items()
        }
        return replace(o, engines=changed)

    return change


def around(**changes: object) -> Change:
    return lambda o: replace(o, circumstances=replace(o.circumstances, **changes))  # type: ignore[arg-type]


def loaded(n: int) -> Change:
    return lambda o: replace(o, concurrency=dict.fromkeys(o.concurrency, (n, "plan")))


GPU = {"gpu 0": "NVIDIA L4, driver 570.1, 24 GiB"}
FIELDS: dict[str, tuple[Change, str, str]] = {
    "model_identity": (planned(model_identity="org/n"), "org/n", "org/m"),
    "prompt file": (planned(prompts_sha256="c" * 64), "c" * 12, "0" * 12),
    "trajectory.top_logprobs": (asked("trajectory", top_logprobs=5), "5", "20"),
    "sampling.temperature": (asked("sampling", temperature=1.0), "1.0", "0.6"),
    "sampling.top_k": (asked("sampling", top_k=0), "0", "20"),
    "sampling.top_p": (asked("sampling", top_p=1.0), "1.0", "0.95"),
    "sampling.min_p": (asked("sampling", min_p=0.1), "0.1", "0.0"),
    "tokenizer": (served(tokenizer_sha256="c" * 64), "c" * 12, "a" * 12),
    "chat template": (served(template_sha256="c" * 64), "c" * 12, "b" * 12),
    "GPU": (around(machine=GPU), "NVIDIA L4", "NVIDIA A100"),
    "harness version": (around(harness="0.5.0"), "0.5", "0.4"),
    "concurrency": (loaded(2), "2", "4"),
}


def test_judge__the_same() -> None:
    """Where nothing differs a comparison PASSes, and the key has nothing to say."""
    report = judged(after())

    assert report.verdict is Verdict.PASS
    assert (report.problems, known(report)) == ((), [])


@pytest.mark.parametrize("field", FIELDS)
def test_judge__one_field_differs(field: str) -> None:
    """Each field changed alone takes the PASS away: named, with both values and the command that
    refreshes the baseline."""
    change, now, then = FIELDS[field]
    report = judged(change(after()))
    (said,) = report.problems

    assert report.verdict is report.gate is Verdict.UNPROVEN
    assert said.startswith(f"{field}: {now} now, {then} in the baseline")
    assert said in report.headline
    assert any(COMMAND in step for step in report.next_steps)


def test_judge__a_stage_that_was_not_captured() -> None:
    """A stage that the baseline has not is named; one that stands alone needs none."""
    fewer = replace(before().plan, stages=before().plan.stages[:1])
    found = compatibility.differing(after(), replace(before(), plan=fewer))

    assert found == (Mismatch("stage score", "absent", "asked"),)


@pytest.mark.parametrize(
    "change",
    [
        served(dialect="sglang", version="9", model="other", fingerprint="x", base_url="http://b"),
        served(details={"quantization": "fp8", "kv_cache_dtype": "fp8"}, slots=2),
        around(harness="0.4.9"),
        around(machine={"gpu 0": "NVIDIA A100, driver 999, 80 GiB", "image": "x@sha256:1"}),
        asked("sampling", draws=512),
    ],
)
def test_judge__what_a_change_may_change(change: Change) -> None:
    """Engine, version, name, flags, quantization, driver, image and a patch release are no
    mismatch."""
    report = judged(change(after()))

    assert report.verdict is Verdict.PASS
    assert report.problems == ()


UNKNOWN: dict[str, Change] = {
    "model_identity": planned(model_identity=""),
    "tokenizer": served(tokenizer_sha256=""),
    "chat template": served(template_sha256=""),
    "GPU": around(machine={}),
    "harness version": around(harness=""),
}


@pytest.mark.parametrize("field", UNKNOWN)
@pytest.mark.parametrize("whose", ["candidate", "baseline"])
def test_judge__one_field_is_not_known(field: str, whose: str) -> None:
    """What one arm alone tells is a caveat that names the field, and no mismatch."""
    if whose == "candidate":
        observed = UNKNOWN[field](after())
    else:
        observed = replace(after(), baseline=UNKNOWN[field](before()))
    report = judged(observed)
    (said,) = [c for c in report.caveats if "could not be compared" in c]

    assert report.verdict is Verdict.PASS
    place = "now" if whose == "candidate" else "in the baseline"
    assert said == f"could not be compared: {field} (not known {place})"


def older(observed: Observed) -> Observed:
    """As a version left it that knew none of the new fields."""
    return replace(
        served(tokenizer_sha256="", template_sha256="")(observed),
        plan=replace(observed.plan, model_identity=""),
        circumstances=Circumstances(),
    )


def test_judge__older_evidence() -> None:
    """Evidence without any of the new fields judges as it did, with its age as the one caveat."""
    report = judged(replace(older(after()), baseline=older(before())))

    assert report.verdict is Verdict.PASS
    assert known(report) == [
        "the baseline's age is not known: the evidence of the baseline names no day"
    ]


def test_judge__an_older_baseline() -> None:
    """So does a new candidate against such a baseline; what was not compared is told at once."""
    report = judged(replace(after(), baseline=older(before())))

    assert report.verdict is Verdict.PASS
    (said,) = [c for c in report.caveats if "could not be compared" in c]
    assert said.endswith("(not known in the baseline)")
    assert [f for f in UNKNOWN if f not in said] == []


def dated(candidate: str, baseline: str, **plan: object) -> Observed:
    observed = around(observed_on=candidate)(planned(**plan)(after()))
    return replace(observed, baseline=around(observed_on=baseline)(before()))


def served_by(template: str) -> Change:
    """With another fingerprint of the chat template."""
    return lambda o: replace(
        o, engines={k: replace(e, template_sha256=template) for k, e in o.engines.items()}
    )


@pytest.mark.parametrize(
    ("then", "now", "hinted"),
    [
        ("2026-11-30", "2026-12-01", True),
        ("", "2026-12-01", True),
        ("2026-12-01", "2026-12-01", False),
    ],
)
def test_differing__a_template_with_the_date(then: str, now: str, hinted: bool) -> None:
    """Another chat template on another day may be one that writes the date: what to do is said.
    On the same day it is not."""
    observed = served_by("d" * 64)(dated(now, then))
    assert observed.baseline is not None
    (found,) = compatibility.differing(observed, observed.baseline)

    assert found.field == "chat template"
    assert ("today's date" in str(found)) is hinted
    assert ("--chat-template" in told(observed)[0][0]) is hinted


def told(observed: Observed) -> tuple[list[str], list[str]]:
    """Problems and caveats."""
    assert observed.baseline is not None
    found = compatibility.problems, compatibility.caveats
    return tuple(list(f(observed, observed.baseline)) for f in found)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("then", "now", "most", "age"),
    [
        ("2026-11-01", "2026-12-01", 30, 0),
        ("2026-12-02", "2026-12-01", 30, 0),
        ("2026-10-31", "2026-12-01", 30, 31),
        ("2028-02-28", "2028-03-01", 1, 2),
        ("2026-12-02", "2026-12-01", 1, 0),
    ],
)
def test_problems__age(then: str, now: str, most: int, age: int) -> None:
    """A baseline older than ``max_age`` is a caveat, and with ``strict`` a problem."""
    said = [
        f"the baseline is {age} days old, over the {counted(most, 'day')} of max_age: "
        f"capture it again: {COMMAND}"
    ] * bool(age)

    assert told(dated(now, then, max_age_days=most)) == ([], said)
    assert told(dated(now, then, max_age_days=most, strict=True)) == (said, [])


@pytest.mark.parametrize("day", ["", "yesterday", "2026-13-01", "2026-02-30", "٢٠٢٦-١١-٠١"])
@pytest.mark.parametrize("whose", ["the baseline", "this run"])
def test_problems__age_is_not_known(day: str, whose: str) -> None:
    """Where a day is not told, or is none, age is not known: that is said in the same way."""
    days = (day, "2026-11-20") if whose == "this run" else ("2026-11-20", day)
    said = [f"the baseline's age is not known: the evidence of {whose} names no day"]

    assert told(dated(*days)) == ([], said)
    assert told(dated(*days, strict=True)) == (said, [])


def test_problems__age_from_the_future() -> None:
    """A baseline that is younger than its candidate by more than clocks differ has no known age."""
    said = ["the baseline's age is not known: its day is 30 days after this run's"]

    assert told(dated("2026-12-01", "2026-12-31")) == ([], said)
    assert told(dated("2026-12-01", "2026-12-31", strict=True)) == (said, [])


@pytest.mark.parametrize("then", ["2026-01-01", ""])
def test_judge__age(then: str) -> None:
    """An old baseline, or one of no known day, leaves a PASS, and with ``strict`` takes it."""
    lax, strict = (judged(dated("2026-12-01", then, strict=s)) for s in (False, True))

    assert (lax.verdict, strict.verdict) == (Verdict.PASS, Verdict.UNPROVEN)
    assert list(strict.problems) == known(lax)
    assert any(COMMAND in s for s in strict.next_steps)


def test_judge__age_by_the_run() -> None:
    """Where a workflow run says when it began, that counts and not the day of the folder."""
    run = Run("org/repo", "push", "c" * 40, started_at="2026-01-01T00:00:00Z")
    (said,) = told(replace(after(), baseline=around(run=run)(before())))[1]

    assert said.startswith("the baseline is 323 days old")


def test_key__in_the_order_to_show_it() -> None:
    """The key is one text a field, the same for both arms, with the settings of every stage."""
    found = compatibility.key(before())

    assert list(found.items()) == [
        ("model_identity", "org/m"),
        ("tokenizer", "a" * 64),
        ("chat template", "b" * 64),
        ("prompt file", "0" * 64),
        ("stages", "trajectory, score, sampling"),
        ("trajectory.max_tokens", "4"),
        ("trajectory.top_logprobs", "20"),
        ("trajectory.chat_template_kwargs", "none"),
        ("sampling.temperature", "0.6"),
        ("sampling.top_k", "20"),
        ("sampling.top_p", "0.95"),
        ("sampling.min_p", "0.0"),
        ("concurrency", "4"),
        ("GPU", "NVIDIA A100"),
        ("harness version", "0.4"),
    ]
    assert compatibility.key(after()) == found


def test_key__of_a_plan_alone() -> None:
    """Before anybody was asked the key has what the plan says, and is compared as far."""
    plan: Plan = replace(after().plan, prompts_sha256="c" * 64)
    bare = Observed(plan, {}, {})

    assert compatibility.key(bare)["tokenizer"] == ""
    assert [m.field for m in compatibility.differing(bare, before())] == ["prompt file"]


def test_mismatch__long_values() -> None:
    """A value from evidence cannot flood the report."""
    machine = {f"gpu {i}": f"{i}{'x' * 900}" for i in range(100)}
    found = compatibility.key(around(machine=machine)(before()))
    said = str(Mismatch("GPU", "x" * 5000, "y"))

    assert len(found["GPU"]) <= 500

    assert len(said) < 250
    assert said.startswith("GPU: y now, xxx")
