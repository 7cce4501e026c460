"""One answer, and one request, for a person at a terminal. Pure.

Knows observations and how wide the terminal is; no report and no prompt. What models and servers
wrote is foreign, and escaped here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from iqaction.calls import (
    Answer,
    Drawn,
    Evaluated,
    Failure,
    FailureKind,
    Generation,
    Observation,
    Scored,
    Tag,
    TokenIds,
)
from iqaction.counts import counted
from iqaction.observed import Observed
from iqaction.stages._paths import FRESH
from iqaction.stages._sampling_ask import OTHER, RAW
from iqaction.terminal import escape, inline, table, wrap

_LONGEST = 200_000  # characters of one text; more is no text to read


def written(
    name: str,
    answer: Generation | Failure | None,
    columns: int,
    marked: Callable[[str], str] = lambda whole: whole,
) -> str:
    """What one arm wrote; ``marked`` is given the whole text, reasoning first."""
    if answer is None:
        return f"{name} was not asked"
    if isinstance(answer, Failure):
        return f"{name} failed: {answer.kind.value}, {inline(answer.message)}"
    tokens = answer.completion_tokens
    count = "? tokens" if tokens is None else counted(tokens, "token")
    head = f"{name} wrote ({count}, ended by {inline(answer.finish_reason)})"
    whole = answer.reasoning + answer.text
    if not whole:
        return f"{head}\n  | (nothing)"
    if answer.reasoning:
        head += f", the first {len(answer.reasoning)} characters are reasoning"
    return f"{head}\n{quoted(marked(whole), columns)}"


def observations(observed: Observed, unit: str, columns: int) -> str:
    """All that was observed of one prompt or item, request by request."""
    rows = [("observation", "answer", "tries")]
    for whose, stage, observation in every(observed):
        if observation.tag.unit == unit:
            name = tag_name(whose, stage, observation.tag, unit=False)
            rows.append((name, _said(observation.answer), tries(observation)))
    if len(rows) == 1:
        return "Nothing was observed of it."
    return "\n".join(["All that was observed of it", *table(rows, (False,) * 3, columns)])


def _said(answer: Answer) -> str:
    match answer:
        case Generation():
            tokens = len(answer.rows) if answer.rows is not None else "no"
            return f"text, {len(answer.text)} characters, {tokens} rows"
        case Scored():
            return f"{len(answer.rows)} forced rows ({inline(answer.method)})"
        case Drawn():
            return f"{len(answer.lengths)} draws, {len(answer.rows)} rows"
        case TokenIds():
            return f"{len(answer.ids)} token ids"
        case Evaluated():
            return f"{len(answer.scores)} figures of {answer.documents} documents"
        case Failure():
            return (
                "not sent" if answer.kind is FailureKind.BUDGET else f"failed: {answer.kind.value}"
            )


def tries(observation: Observation) -> str:
    """How often it was tried, and how long it took."""
    said = counted(observation.attempts, "try", "tries")
    return f"{said}, {observation.elapsed_s:.1f} s"


def tag_name(whose: str, stage: str, tag: Tag, *, unit: bool = True) -> str:
    """Which request it was, in words."""
    launch = f", relaunch {tag.launch}" if tag.launch else ""
    again = f", asked again ({tag.attempt})" if tag.attempt else ""
    of = f" {inline(tag.unit)}" if unit else ""
    return f"{whose}{inline(stage)}: {tag.arm.value} {inline(tag.leg)}{of}{launch}{again}"


def every(observed: Observed) -> Iterator[tuple[str, str, Observation]]:
    """Every observation in a fixed order, the baseline's own first."""
    parts = [("", observed)]
    if observed.baseline is not None:
        parts.insert(0, ("capture, ", observed.baseline))
    for whose, part in parts:
        for stage in sorted(part.seen):
            for tag in sorted(part.seen[stage], key=_order):
                yield whose, stage, part.seen[stage][tag]


def draws(observed: Observed, unit: str) -> list[str]:
    """How much was drawn of one prompt, a line for each arm; what the stage `sampling` asks
    besides (is the list raw?) is none of its draws."""
    counts: dict[tuple[str, str, str], list[int]] = {}
    for whose, stage, observation in every(observed):
        tag, answer = observation.tag, observation.answer
        if tag.unit == unit and isinstance(answer, Drawn) and tag.leg not in (RAW, OTHER):
            fresh = "fresh " if tag.attempt >= FRESH else ""
            count = counts.setdefault((whose, stage, f"{tag.arm.value}, {fresh}draws"), [0, 0])
            count[0] += len(answer.lengths)
            count[1] += len(answer.rows)
    return [
        f"{whose}{inline(stage)}: {arm}: {n} sequences, {rows} positions"
        for (whose, stage, arm), (n, rows) in counts.items()
    ]


def _order(tag: Tag) -> tuple[str, str, int, str, int]:
    return (tag.arm.value, tag.leg, tag.launch, tag.unit, tag.attempt)


def quoted(text: str, columns: int) -> str:
    """A text behind a gutter, so that no line of it can pass for one of ours."""
    over = len(text) - _LONGEST
    lines = wrap(escape(text[:_LONGEST]), columns - 4)
    if over > 0:
        lines.append(f"... and {over} characters more")
    return "\n".join(f"  | {x}".rstrip() for x in lines)
