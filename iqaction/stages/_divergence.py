"""Finding where two greedy texts part, and by how much the reference preferred its own token.

Pure: two generations and the reference's rows in, a :class:`Divergence` out. Judges no stage.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from iqaction.calls import Generation, Scored
from iqaction.prompts import Prompt
from iqaction.report import Divergence
from iqaction.rows import PAD, Keys, Rows, concat_pieces
from iqaction.stages._paths import continuation, first_difference

REAL_NATS = 1.0
TIE_NATS = 0.25
END = "<end of text>"
_AROUND = 80  # characters of text shown on each side
_WEIGHT = {"real": 0, "unknown": 1, "shift": 2, "tie": 3}


def find(
    prompt: Prompt, ours: Generation, theirs: Generation, rows: Rows | None, tie_limit: float
) -> Divergence | None:
    """The first divergence of ``theirs`` (candidate) from ``ours`` (reference); None: same text.

    Parameters
    ----------
    rows
        The reference's rows along its own path, its end token's row included where known.
    tie_limit
        Nats up to which a gap is a tie.
    """
    a, b = ours.rows, theirs.rows
    if rows is None or a is None or b is None or a.match is not b.match or not len(a) or not len(b):
        return _by_text(prompt, ours, theirs)
    if not (ours.rows_complete and theirs.rows_complete):
        # Engines lose the rows of byte fragments: every later position would be compared with
        # another one, and read as a real divergence.
        return _by_text(prompt, ours, theirs)
    path, other = token_path(ours), token_path(theirs)
    at = first_difference(path, other)
    if at is None:
        return _by_text(prompt, ours, theirs)
    gap = _gap(rows, at, other[at] if at < len(other) else None)
    kind = classify(gap, tie_limit)
    if not _whole(ours) or not _whole(theirs):
        kind = "real"
    elif kind != "real" and ours.text and _swallowed(theirs):
        kind = "unknown"
    return Divergence(
        prompt.id,
        prompt.bucket,
        at,
        kind,
        gap,
        _piece(a, path, at),
        _piece(b, other, at),
        concat_pieces(a, path[max(0, at - 40) : at])[-_AROUND:],
        _after(a, path, at),
        _after(b, other, at),
    )


def token_path(answer: Generation) -> tuple[int, ...]:
    """Token keys as generated, the end token's id included where it is known."""
    ids = continuation(answer)
    if ids is not None:
        return ids
    return () if answer.rows is None else tuple(answer.rows.chosen.tolist())


def classify(gap: float | None, tie_limit: float) -> str:
    """ "tie", "shift" or "real" by the gap in nats; "unknown" where there is none."""
    if gap is None or math.isnan(gap):
        return "unknown"
    if gap > REAL_NATS:
        return "real"
    return "tie" if gap <= tie_limit else "shift"


def by_weight(divergence: Divergence) -> tuple[int, float, str]:
    """Sort key: what matters most first."""
    gap = divergence.gap if divergence.gap is not None else math.inf
    return (_WEIGHT[divergence.kind], -gap, divergence.unit)


def _whole(answer: Generation) -> str:
    return answer.reasoning + answer.text


def _gap(rows: Rows, at: int, other: int | None) -> float | None:
    """The reference's log-probability of its own token minus the other's; unlisted: the smallest
    listed value, so that the gap is then at least this large. A list of one tells nothing of
    another token: its smallest value is the reference's own, and every gap would read 0."""
    if at >= len(rows) or not rows.usable[at] or other is None:
        return None
    listed = rows.top[at] != PAD
    hit = np.flatnonzero(rows.top[at] == other)
    if not hit.size and listed.sum() < 2:
        return None
    values = rows.top_logprob[at]
    value = values[hit[0]] if hit.size else values[listed].min()
    return float(rows.logprob[at] - value)


def _piece(rows: Rows, path: tuple[int, ...], at: int) -> str:
    if at >= len(path):
        return END
    if at >= len(rows) and path[at] not in rows.pieces:
        return END
    return rows.piece(path[at])


def _after(rows: Rows, path: tuple[int, ...], at: int) -> str:
    pieces = [_piece(rows, path, i) for i in range(at, min(at + 40, len(path)))] or [END]
    return "".join(pieces)[:_AROUND]


def _swallowed(answer: Generation) -> bool:
    """True for a text that ended and is all reasoning: a parser took the answer away."""
    return answer.finish_reason == "stop" and bool(answer.reasoning) and not answer.text


def _as_answer(prompt: Prompt, ours: Generation, theirs: Generation) -> Divergence | None:
    """The same text that reaches the client as another answer: split otherwise into reasoning
    and answer, or called a tool call. A parser did that, so its weight is not told by tokens."""
    before, now = _shape(ours), _shape(theirs)
    if before == now:
        return None
    return Divergence(
        prompt.id,
        prompt.bucket,
        -1,
        "unknown",
        None,
        before,
        now,
        "",
        ours.text[:_AROUND],
        theirs.text[:_AROUND],
    )


def _shape(answer: Generation) -> str:
    """What the client sees of a text, as "answer of 120 characters after reasoning of 0"."""
    kind = "tool call" if answer.finish_reason == "tool_calls" else "answer"
    return f"{kind} of {len(answer.text)} characters after reasoning of {len(answer.reasoning)}"


def _by_text(prompt: Prompt, ours: Generation, theirs: Generation) -> Divergence | None:
    """Without comparable tokens only equality can be told: a difference is of unknown weight."""
    a, b = _whole(ours), _whole(theirs)
    if a == b and a:
        return _as_answer(prompt, ours, theirs)
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    cut = min(len(a), len(b)) if at is None else at
    return Divergence(
        prompt.id,
        prompt.bucket,
        -1,
        "unknown" if a and b else "real",
        None,
        a[cut : cut + 1] or END,
        b[cut : cut + 1] or END,
        a[max(0, cut - _AROUND) : cut],
        a[cut : cut + _AROUND] or END,
        b[cut : cut + _AROUND] or END,
    )


def top_two_change(rows: Rows, forced: Iterable[Scored]) -> float | None:
    """The largest change, in nats, of the reference's top-two difference when it is scored again.

    Over all positions where both of its two most likely tokens are listed again: a noise floor
    for ties that exists without any divergence. None where nothing can be compared.
    """
    largest: float | None = None
    for again in forced:
        n = min(len(rows), len(again.rows))
        if n == 0 or rows.k < 2 or again.rows.k < 1 or rows.match is not again.rows.match:
            continue
        first, second = rows.top[:n, 0], rows.top[:n, 1]
        change = np.abs(
            (rows.top_logprob[:n, 0] - rows.top_logprob[:n, 1])
            - (_value(again.rows, first, n) - _value(again.rows, second, n))
        )
        ok = rows.usable[:n] & again.rows.usable[:n] & (second != PAD) & np.isfinite(change)
        if ok.any():
            largest = max(largest or 0.0, float(change[ok].max()))
    return largest


def _value(rows: Rows, keys: Keys, n: int) -> NDArray[np.float64]:
    """Log-probability of ``keys[i]`` in row i; NaN where it is not listed."""
    hit = rows.top[:n] == keys[:, None]
    each, at = np.arange(n), hit.argmax(axis=1)
    return np.where(hit[each, at], rows.top_logprob[each, at].astype(np.float64), np.nan)
