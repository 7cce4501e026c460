"""How the questions of `niah` reached the model: as the same tokens, and as long as planned? Pure.

Judges no answer. A prompt that a server cuts short without a word, or puts behind a system prompt
of its own, is another question than the baseline's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iqaction.calls import Observation, Tag
from iqaction.plan import StageSpec
from iqaction.report import Check, UnitFault
from iqaction.stages._niah_items import Item, lengths, wanted_tokens
from iqaction.stages._niah_tables import Row, by
from iqaction.stages._paired_items import Graded
from iqaction.stages._paths import first_difference
from iqaction.verdict import Verdict

_TITLE = "needle in a haystack: prompts reach the model as before"
_A_LITTLE = 4  # tokens: a BOS, the day's date in a template
_OFF, _OFF_TOKENS = 0.1, 40  # from the planned length, beyond which it is said


def reached(judged: Sequence[Row]) -> Check:
    """The verdict over the questions that both arms answered."""
    pairs = _answered(judged)
    found = {r.item.unit: _difference(r.both.baseline, r.both.candidate) for r in pairs}
    named = {u: said for u, said in found.items() if said}
    unknown = [u for u, said in found.items() if said is None]
    if named:
        unit, said = next(iter(named.items()))
        reason = (
            f"{len(named)} of {len(pairs)} questions reach the model as other tokens than in the "
            f"baseline ({unit}: {said}): another chat template, system prompt or tokenizer, or a "
            "server that cuts prompts"
        )
    elif unknown or not pairs:
        reason = (
            f"{len(unknown)} of {len(pairs)} questions: prompt tokens are not known of both arms, "
            "so that a cut prompt or another template would not be seen"
        )
    else:
        changed = sum(_counts(r.both.baseline) != _counts(r.both.candidate) for r in pairs)
        little = (
            f", {changed} of them with up to {_A_LITTLE} tokens more or less" if changed else ""
        )
        return Check("niah.prompts", _TITLE, Verdict.PASS, f"all {len(pairs)} questions do{little}")
    return Check("niah.prompts", _TITLE, Verdict.UNPROVEN, reason)


def differing(judged: Sequence[Row]) -> list[UnitFault]:
    """Each question that reached the two models in different forms."""
    return [
        UnitFault(r.item.unit, "niah", "template", said)
        for r in _answered(judged)
        if (said := _difference(r.both.baseline, r.both.candidate))
    ]


def _answered(judged: Sequence[Row]) -> list[Row]:
    return [r for r in judged if r.both.is_paired]


def _counts(side: Graded) -> int | None:
    return side.prompt_tokens if side.prompt_ids is None else len(side.prompt_ids)


def _difference(before: Graded, now: Graded) -> str | None:
    """What differs by more than a little; "" where nothing does; None where it cannot be told."""
    a, b = _counts(before), _counts(now)
    if a is None or b is None:
        return None
    if abs(a - b) > _A_LITTLE:
        return f"{a} prompt tokens before, {b} now"
    ours, theirs = now.prompt_ids, before.prompt_ids
    if ours is None or theirs is None or ours == theirs:
        return ""
    at = first_difference(theirs, ours) or 0
    end = first_difference(theirs[:at:-1], ours[:at:-1])
    if max(a, b) - at - (max(a, b) if end is None else end) <= 2 * _A_LITTLE:
        return ""
    return f"prompt token {at} differs, and others after it"


def measured(
    spec: StageSpec, kept: Mapping[Tag, Observation], asked: Sequence[tuple[Item, Graded]]
) -> list[str]:
    """What to know of the lengths: how they were measured, and where they were missed."""
    said = []
    sources = {m.source for m in lengths(spec, kept).measures.values()} or {"estimate"}
    if "estimate" in sources:
        said.append(
            "lengths are estimated: the baseline's engine neither tokenizes nor counts prompt "
            "tokens"
        )
    elif "usage" in sources:
        said.append(
            "the baseline's engine has no tokenizer: lengths are estimated from the prompt tokens "
            "that it counted in two short questions"
        )
    for (size,), found in by(asked, lambda a: (a[0].length,)).items():
        counts = [s.prompt_tokens for _, s in found if s.prompt_tokens is not None]
        if not counts:
            continue
        mean, want = sum(counts) / len(counts), wanted_tokens(spec, int(size))
        if abs(mean - want) > max(_OFF * want, _OFF_TOKENS):
            said.append(
                f"questions of {size:g} tokens reached the baseline as {mean:.0f}: its server cuts "
                "or adds to prompts, or lengths could not be measured"
            )
    return said
