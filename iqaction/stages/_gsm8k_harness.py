"""`gsm8k` with `backend: lm-eval`: what lm-evaluation-harness says of its own task. Pure.

One item is a whole run of it: "gsm8k, version 3, 5-shot, 1,319 documents: strict-match .7854 (SE
.0113), flexible-extract .7900 (SE .0112)". It has a prompt, an extraction and a way with failed
requests of its own. So its figures stand beside each other and decide nothing: they are not paired
with the built-in's answers, nor item by item with the baseline's, and two shares with their errors
tell a loss of two points only where it is twice as large.
"""

from __future__ import annotations

from collections.abc import Sequence

from iqaction.calls import Answer, Arm, Evaluate, Evaluated, Failure, Score, Tag
from iqaction.plan import StageSpec
from iqaction.report import Check, Coverage, StageResult, Table, UnitFault
from iqaction.stages._base import Asking, Context, Param, Round
from iqaction.stages._lost import NEVER
from iqaction.stages._paths import Kept
from iqaction.stages._wording import percent, share_of
from iqaction.verdict import Verdict

GSM8K = "gsm8k"
BUILTIN, LM_EVAL = "builtin", "lm-eval"
BACKENDS = (BUILTIN, LM_EVAL)
_LEG = "lm-eval"
_TITLE = "GSM8K by lm-evaluation-harness"
_USUAL = 8  # requests at a time where neither the plan nor the engine tells
_MOST = 32
_LONGEST_S = 6 * 3600
_ITS_OWN = ("data", "wording", "chat_template_kwargs")


def is_meant(spec: StageSpec) -> bool:
    """True where the plan wants it; plans of versions without the parameter do not."""
    return spec.params.get("backend", BUILTIN) == LM_EVAL


def check(spec: StageSpec, params: Sequence[Param]) -> str:
    """What of the plan the harness cannot be told; "" where nothing."""
    usual = {p.name: p.default for p in params}
    given = [name for name in _ITS_OWN if spec.params.get(name) != usual[name]]
    if not given:
        return ""
    return (
        f"`backend: lm-eval` brings its own data, prompt and template: {', '.join(given)} cannot "
        "be given with it"
    )


def out_of_reach(spec: StageSpec) -> str:
    """Said before the first request where it would hold up the whole."""
    if not spec.required:
        return ""
    return (
        "cannot PASS: the figures of lm-evaluation-harness are recorded and not judged; with "
        "`required: false` they do not hold up the rest"
    )


def ask(context: Context) -> Asking:
    """One run of the harness, by the first part of a matrix; relaunches are not asked."""
    if context.launch or context.part[0] > 1:
        return
    spec = context.spec
    planned = spec.params["concurrency"]
    engine = context.engines.get((context.arm, 0))
    told = min((engine.slots if engine else None) or _USUAL, _MOST)
    budget = spec.params.get("time_budget")
    call = Evaluate(
        _tag(context.arm),
        GSM8K,
        spec.integer("limit"),
        spec.integer("max_tokens"),
        planned if isinstance(planned, int) else told,
        int(budget) if isinstance(budget, (int, float)) else _LONGEST_S,
    )
    yield Round((call,), 1, "gsm8k: lm-evaluation-harness")


def _tag(arm: Arm) -> Tag:
    return Tag(arm, _LEG, GSM8K)


def judge(context: Context) -> StageResult:
    """The figures of both arms, as they are; never a PASS and never a FAIL."""
    ours = _answer(context.observed(GSM8K), Arm.BASELINE if _alone(context) else Arm.CANDIDATE)
    theirs = None
    if context.baseline is not None:
        theirs = _answer(context.baseline.seen.get(GSM8K, {}), Arm.BASELINE)
    said, before = _usable(ours), _usable(theirs)
    why = "" if said else _why_not(ours)
    reason = why or (
        f"{_figures(said)}; recorded and not judged: its prompt and extraction are its own, and "
        "nothing is paired"
    )
    checks = [Check("gsm8k.lm_eval", _TITLE, Verdict.UNPROVEN, reason)]
    if said is not None:
        checks += [_shown(said, score, before) for score in said.scores if _is_share(score)]
    return StageResult(
        GSM8K,
        Verdict.NOT_RUN if said is None else Verdict.UNPROVEN,
        tuple(checks),
        Coverage(1, int(said is not None), (GSM8K,) if why else ()),
        required=context.spec.required,
        faults=(UnitFault(GSM8K, GSM8K, "failed", why),) if why else (),
        caveats=_caveats(said, theirs, before),
        next_steps=_next_steps(context, said),
        tables=() if said is None else (_table(said, before),),
        look=context.look,
    )


def _alone(context: Context) -> bool:
    return context.baseline is None


def _answer(kept: Kept, arm: Arm) -> Answer | None:
    observation = kept.get(_tag(arm))
    return None if observation is None else observation.answer


def _usable(answer: Answer | None) -> Evaluated | None:
    """The figures, where there is one that can be what it says."""
    if not isinstance(answer, Evaluated) or answer.documents < 1:
        return None
    return answer if any(_is_share(s) for s in answer.scores) else None


def _is_share(score: Score) -> bool:
    return 0 <= score.value <= 1


def _why_not(answer: Answer | None) -> str:
    if isinstance(answer, Failure):
        return f"no figures: {answer.message}"
    return f"no figures: {NEVER if answer is None else 'none of them is a share of documents'}"


def _figures(said: Evaluated | None) -> str:
    assert said is not None  # else there is a reason why not
    each = (f"{s.filter} {percent(s.value)}" for s in said.scores if _is_share(s))
    return f"{', '.join(each)} of {said.documents:,} documents"


def _shown(said: Evaluated, score: Score, before: Evaluated | None) -> Check:
    """One figure, for display. It has no estimate: reports read one as a loss."""
    theirs, n = _same(before, score), said.documents
    return Check(
        f"gsm8k.lm_eval.{score.filter}",
        f"{_TITLE}, {score.filter}",
        Verdict.UNPROVEN,
        f"{share_of(round(score.value * n), n)}, as the harness reads answers; for display",
        baseline=None if theirs is None else theirs.value,
        candidate=score.value,
        judged=False,
    )


def _same(before: Evaluated | None, score: Score) -> Score | None:
    every = before.scores if before is not None else ()
    return next(
        (s for s in every if (s.metric, s.filter) == (score.metric, score.filter) and _is_share(s)),
        None,
    )


def _table(said: Evaluated, before: Evaluated | None) -> Table:
    rows = []
    for score in said.scores:
        theirs = _same(before, score)
        rows.append(
            (
                f"{score.metric}, {score.filter}",
                None if theirs is None else theirs.value,
                None if theirs is None else theirs.stderr,
                score.value,
                score.stderr,
            )
        )
    head = ("figure", "baseline", "its standard error", "here", "its standard error")
    return Table("figures of lm-evaluation-harness", head, tuple(rows))


def _caveats(
    said: Evaluated | None, theirs: Answer | None, before: Evaluated | None
) -> tuple[str, ...]:
    if said is None:
        return ()
    shots = "" if said.shots is None else f", {said.shots}-shot"
    task = f" {said.task_version}" if said.task_version else ""
    found = [
        f"lm-evaluation-harness {said.version or 'of unknown version'}, its task "
        f"{said.task}{task}{shots}, {said.documents:,} documents, hash "
        f"{said.task_sha256[:12] or 'unknown'}"
    ]
    if isinstance(theirs, Failure):
        found.append(f"the baseline has no figures: {theirs.message}")
    elif before is not None and _asked(before) != _asked(said):
        found.append(
            "the baseline's figures are of another harness, task or documents "
            f"(hash {before.task_sha256[:12] or 'unknown'}): the two do not compare"
        )
    return tuple(found)


def _asked(said: Evaluated) -> tuple[object, ...]:
    return said.version, said.task_version, said.task_sha256, said.documents, said.shots


def _next_steps(context: Context, said: Evaluated | None) -> tuple[str, ...]:
    if said is None or not context.spec.required:
        return ()
    return (
        "for a verdict on GSM8K take `backend: builtin`; with `required: false` these figures do "
        "not hold up the other stages",
    )
