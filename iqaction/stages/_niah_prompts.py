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
from iqaction.stages._same_prompts import Same, difference, same_prompts

_SAME = Same("niah.prompts", "needle in a haystack: prompts reach the model as before", 4)
_OFF, _OFF_TOKENS = 0.1, 40  # from the planned length, beyond which it is said


def reached(judged: Sequence[Row]) -> Check:
    """The verdict over the questions that both arms answered."""
    return same_prompts([r.both for r in judged], _SAME)


def differing(judged: Sequence[Row]) -> list[UnitFault]:
    """Each question that reached the two models in different forms."""
    return [
        UnitFault(r.item.unit, "niah", "template", said)
        for r in judged
        if r.both.is_paired and (said := difference(r.both.baseline, r.both.candidate, _SAME))
    ]


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
