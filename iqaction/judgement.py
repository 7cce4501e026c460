"""Evidence in, report out: a pure function, so that old evidence can be judged again years later.

Knows no stage by name and no file. What is wrong with the evidence itself caps the verdict here;
what is wrong with the model is each stage's to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from iqaction import acceptance, attribution, changes, compatibility, soundness, stages
from iqaction.calls import Arm, EngineInfo
from iqaction.counts import counted
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.report import NO_RUN, Change, Engine, Report, StageResult
from iqaction.stages._base import Context
from iqaction.stages._levels import ENOUGH_LAUNCHES, FEWEST_LAUNCHES
from iqaction.verdict import Verdict, cap, combine

HEADLINES = {
    Verdict.PASS: "this change keeps the model's output",
    Verdict.FAIL: "this change alters the model's output",
    Verdict.UNPROVEN: "not proven either way",
    Verdict.NOT_RUN: "nothing could be observed",
}

_SENT_AGAIN = 0.01  # share of questions: idle connections that a server closes are fewer


def judge(observed: Observed, tool_version: str) -> Report:
    """The whole report. Problems of the evidence take a PASS away and give none.

    Raises
    ------
    EvidenceError
        Its plan, or the baseline's, is none that a stage could be judged by.
    """
    stored, theirs = observed.plan, observed.baseline
    observed = replace(
        observed,
        plan=soundness.completed(stored),
        baseline=theirs and replace(theirs, plan=soundness.completed(theirs.plan)),
    )
    results = tuple(_decided(observed, spec) for spec in observed.plan.stages)
    around = observed.circumstances
    faults = _problems(observed)
    problems = (around.problem, *faults) if around.problem else faults
    verdict = combine(r.verdict for r in results if r.required)
    if problems or around.differences:
        verdict = cap(verdict, Verdict.UNPROVEN)
    if verdict is Verdict.NOT_RUN and _was_refused(observed):
        verdict = Verdict.UNPROVEN  # somebody was there to ask, and the baseline does not fit
    report = Report(
        verdict,
        results,
        _headline(observed, verdict, problems),
        observed.plan.suite,
        verdict,
        _engines(observed),
        _changes(observed),
        problems,
        around.differences,
        tuple(dict.fromkeys(_caveats(observed))),
        _next_steps(observed, verdict, results, faults),
        stored.sha256,
        stored.settings_sha256(),
        observed.plan.baseline_root,
        around.run,
        observed.baseline.circumstances.run if observed.baseline else NO_RUN,
        around.changed_lines,
        around.machine,
        tool_version=tool_version,
        searched=around.searched,
        history=around.history,
    )
    day = around.run.started_at[:10]
    report = acceptance.apply(report, around.acceptances, day, report.settings_sha256)
    # At a desk there is nothing that would read an acceptance.
    return replace(report, offer=acceptance.offer(report) if around.run.repository else "")


def _was_refused(observed: Observed) -> bool:
    """True where nothing was asked because the baseline cannot be compared with."""
    baseline = observed.baseline
    if baseline is None or observed.circumstances.problem or any(observed.seen.values()):
        return False
    return bool(compatibility.problems(observed, baseline))


def undecided(observed: Observed, look: int) -> bool:
    """True where a required stage lacks only prompts at this look: then it is extended."""
    return any(
        spec.required and _at(observed, spec, look).more_would_help for spec in observed.plan.stages
    )


def left_out(specs: Iterable[StageSpec], baseline: Observed) -> dict[str, str]:
    """The captured prompts that the baseline itself could not be judged on, with the reason.

    Required stages only: what another one lacks must not take prompts from those.
    """
    found: dict[str, str] = {}
    for spec in specs:
        if spec.required and baseline.plan.stage(spec.stage) is not None:
            found = {**stages.load(spec.stage).left_out(spec, baseline), **found}
    return found


def incompatible(plan: Plan, baseline: Observed) -> tuple[str, ...]:
    """Why this plan's questions are not the baseline's, as far as the plan alone tells."""
    asked = replace(plan, strict=False)  # no day is known yet
    return compatibility.problems(Observed(asked, {}, {}), baseline)


def context(observed: Observed, spec: StageSpec, look: int) -> Context:
    """What a stage may look at; a look below 0 is all prompts."""
    return Context(
        spec,
        observed.plan,
        observed.prompts,
        observed.seen,
        look,
        Arm.BASELINE if observed.plan.is_capture else Arm.CANDIDATE,
        0,
        observed.baseline,
        observed.engines,
        observed.data.get(spec.stage, b""),
    )


def _at(observed: Observed, spec: StageSpec, look: int) -> StageResult:
    return stages.load(spec.stage).judge(context(observed, spec, look))


def _decided(observed: Observed, spec: StageSpec) -> StageResult:
    """The result of the first look that decides, else of the last look that was observed."""
    if observed.plan.is_capture:
        return _at(observed, spec, -1)
    result = _at(observed, spec, 0)
    for look in range(1, len(observed.plan.looks)):
        if not result.more_would_help or not _was_observed(observed, spec, look):
            break
        result = _at(observed, spec, look)
    return result


def _was_observed(observed: Observed, spec: StageSpec, look: int) -> bool:
    looks = observed.plan.looks
    more = set(observed.plan.prompt_ids[looks[look - 1] : looks[look]])
    return any(tag.unit in more for tag in observed.seen.get(spec.stage, {}))


def _problems(observed: Observed) -> tuple[str, ...]:
    found = [*observed.problems, *attribution.unattributed(observed)]
    missing = [i for i in observed.plan.prompt_ids if i not in observed.prompts]
    if missing:
        found.append(
            f"the evidence's prompt file lacks {counted(len(missing), 'prompt')} of the plan"
        )
    baseline = observed.baseline
    if observed.plan.is_capture:
        return (*found, *_mixed(observed))
    if baseline is None:
        return (*found, "the baseline's evidence is missing from this folder")
    theirs = (*baseline.problems, *attribution.unattributed(baseline), *_mixed(baseline))
    found += [f"baseline: {p}" for p in theirs]
    found += attribution.load_unknown(observed, baseline)
    if baseline.root != observed.plan.baseline_root:
        found.append("the baseline in this folder is not the one that the plan names")
    return (*found, *compatibility.problems(observed, baseline))


def _headline(observed: Observed, verdict: Verdict, problems: tuple[str, ...]) -> str:
    if observed.plan.is_capture and verdict is Verdict.UNPROVEN:
        launches = len(observed.launches)
        return (
            f"a reference was captured with {counted(launches, 'relaunch')}; there is "
            "nothing to compare"
        )
    if observed.plan.is_capture and verdict is Verdict.FAIL:
        return "this reference disagrees with itself and is refused"
    around = observed.circumstances
    why = problems[:1]
    if not why and any(not d.accepted for d in around.differences):
        why = ("the pull request changes what it is judged by",)
    if why and (verdict is Verdict.UNPROVEN or (verdict is Verdict.NOT_RUN and around.problem)):
        return f"{HEADLINES[verdict]}: {why[0].splitlines()[0]}"
    return HEADLINES[verdict]


def _engines(observed: Observed) -> tuple[Engine, ...]:
    named = dict(observed.engines)
    if observed.baseline is not None:
        named |= {k: v for k, v in observed.baseline.engines.items() if k[0] is Arm.BASELINE}
    return tuple(
        Engine(
            arm.value if not launch else f"{arm.value} {launch}",
            info.dialect,
            info.version,
            info.model,
            info.fingerprint,
            dict(info.details),
        )
        for (arm, launch), info in sorted(named.items(), key=lambda x: (x[0][0].value, x[0][1]))
    )


def identity_change(before: EngineInfo, now: EngineInfo) -> Change | None:
    """The first thing that tells two engines apart; None: they call themselves the same."""
    return next(iter(changes.engines(before, now)), None)


def _changes(observed: Observed) -> tuple[Change, ...]:
    now, baseline = observed.engines.get((Arm.CANDIDATE, 0)), observed.baseline
    if now is None or baseline is None:
        return ()
    before = baseline.engines.get((Arm.BASELINE, 0))
    started = changes.starts(baseline.circumstances.machine, observed.circumstances.machine)
    return () if before is None else (*changes.engines(before, now), *started)


def _mixed(capture: Observed) -> list[str]:
    """Relaunches that are of another engine than the reference: their noise is not its noise."""
    first = capture.engines.get((Arm.BASELINE, 0))
    found = []
    for (arm, launch), info in sorted(capture.engines.items(), key=lambda x: x[0][1]):
        if arm is Arm.REPEAT and first is not None:
            change = identity_change(first, info)
            if change is not None:
                found.append(
                    f"relaunch {launch} is another engine than the reference: {change.what} "
                    f"was {change.before!r}, then {change.after!r}"
                )
    return found


def _caveats(observed: Observed) -> list[str]:
    found = []
    for info in observed.engines.values():
        found += list(info.limitations)
    if (observed.baseline or observed).not_restarted:
        found.append(
            "the baseline's server was not restarted between launches: what a restart changes is "
            "not in the noise floor"
        )
    if not observed.plan.is_capture:
        found.append("streaming, tool calls and requests without log-probabilities are not covered")
        if observed.baseline is not None:
            found += compatibility.caveats(observed, observed.baseline)
        found += _left_out_said(observed)
    return [*found, *_sent_again(observed)]


def _sent_again(observed: Observed) -> list[str]:
    """How many questions took more than one request: an endpoint, or a way to it, that loses some
    is no fault of the model, and yet worth to know of."""
    tries = [o.attempts for tags in observed.seen.values() for o in tags.values()]
    again = sum(n > 1 for n in tries)
    if again <= _SENT_AGAIN * len(tries):
        return []
    return [
        f"{again} of {len(tries)} questions were sent more than once: the endpoint, or what stands "
        "before it, lost requests or answers; its log says why"
    ]


def _left_out_said(observed: Observed) -> list[str]:
    baseline, ours = observed.baseline, set(observed.plan.prompt_ids)
    if baseline is None or all(i in ours for i in baseline.plan.prompt_ids):
        return []
    gaps = left_out(observed.plan.stages, baseline)
    absent = [i for i in baseline.plan.prompt_ids if i not in ours and i in gaps]
    if not absent:
        return []
    shown = "; ".join(f"{i} ({gaps[i]})" for i in absent[:5])
    return [
        f"{len(absent)} prompts are left out because the baseline itself could not be judged "
        f"on them: {shown}{' ...' if len(absent) > 5 else ''}"
    ]


def _next_steps(
    observed: Observed,
    verdict: Verdict,
    results: tuple[StageResult, ...],
    problems: tuple[str, ...],
) -> tuple[str, ...]:
    steps = [step for r in results for step in r.next_steps]
    around = observed.circumstances
    steps += [
        f"merge the change of {d.path} in a pull request of its own, or accept it on the base "
        f"branch (`field: {d.field}`)"
        for d in around.differences
    ]
    if around.problem:
        steps.append("read what the endpoint wrote last, and start it by hand the same way")
    elif problems and not observed.plan.is_capture:
        steps += compatibility.next_steps(observed, observed.baseline)
    elif verdict is Verdict.NOT_RUN:
        steps.append("see that the endpoint answers, and run the same command again")
    elif observed.plan.is_capture:
        steps += _after_capture(len(observed.launches))
    elif verdict is Verdict.UNPROVEN:
        steps += _what_decides(results)
    return tuple(dict.fromkeys(steps))


def _after_capture(done: int) -> list[str]:
    compare = "compare a candidate with it: `iqaction run --baseline DIR ...`"
    if done >= ENOUGH_LAUNCHES:
        return [compare]
    relaunch = (
        f"restart the server and run `iqaction observe --evidence DIR --endpoint URL "
        f"--launch {done + 1}`, until there are {ENOUGH_LAUNCHES} relaunches "
        f"(at least {FEWEST_LAUNCHES})"
    )
    return [relaunch, f"then {compare}"]


def _what_decides(results: tuple[StageResult, ...]) -> list[str]:
    """The power notes of open checks. Where one says that more prompts do not help, none asks
    for more prompts."""
    open_ = [
        c
        for r in results
        for c in r.checks
        if c.judged and c.verdict is Verdict.UNPROVEN and c.power
    ]
    closed = [c.power for c in open_ if not c.more_would_help]
    return closed or [c.power for c in open_]


def describe(info: EngineInfo) -> str:
    """One line on who answers, as "llamacpp b11549, model smollm2"."""
    version = f" {info.version}" if info.version else ""
    return f"{info.dialect}{version}, model {info.model or 'unnamed'}"
