"""Finding answers in what was observed: texts, token paths, prompt ids. Judges nothing.

The stages `trajectory` and `score` both start from greedy generations kept under the stage name
``trajectory``; this module is the one place that knows how those are tagged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from iqaction.calls import (
    Answer,
    Arm,
    Failure,
    Generation,
    Observation,
    Scored,
    Tag,
    TokenIds,
)
from iqaction.rows import PAD, Match, Rows

TRAJECTORY = "trajectory"
SCORE = "score"
NO_TEXT = "there is no text for it"
FRESH = 2  # attempt number of a second, fresh set of texts: point-null checks FAIL only twice

Kept = Mapping[Tag, Observation]


def best(kept: Kept, tag: Tag, attempts: tuple[int, ...] = (0, 1)) -> Answer | None:
    """The first usable answer of these attempts, else the last failure, else None."""
    found: Answer | None = None
    for attempt in attempts:
        observation = kept.get(Tag(tag.arm, tag.leg, tag.unit, tag.launch, attempt))
        if observation is None:
            continue
        if not isinstance(observation.answer, Failure):
            return observation.answer
        found = observation.answer
    return found


def generation(kept: Kept, arm: Arm, unit: str, launch: int = 0) -> Generation | Failure | None:
    """The greedy text of one arm for one prompt; None where it was never asked.

    An answer that came without the lists of the others was asked once more; the one with lists
    counts.
    """
    tag = Tag(arm, TRAJECTORY, unit, launch)
    answer = best(kept, tag)
    if isinstance(answer, Generation) and not answer.top_logprobs:
        again = best(kept, tag, (1,))
        answer = again if isinstance(again, Generation) and again.top_logprobs else answer
    return answer if isinstance(answer, (Generation, Failure)) else None


def scored(
    kept: Kept, arm: Arm, leg: str, unit: str, launch: int = 0, attempt: int = 0
) -> Scored | Failure | None:
    """Forced rows of one arm and leg. Attempt 0 falls back to 1 only where it failed."""
    attempts = (0, 1) if attempt == 0 else (attempt,)
    answer = best(kept, Tag(arm, leg, unit, launch), attempts)
    return answer if isinstance(answer, (Scored, Failure)) else None


@dataclass(frozen=True)
class PromptIds:
    """Token ids of a chat prompt and the engine's own count, as far as either is known."""

    ids: tuple[int, ...] | None
    count: int | None

    @property
    def disagree(self) -> bool:
        """True where the ids are not as many as the engine counted: they are of another prompt
        (a second BOS, a system prompt added behind the API)."""
        return self.ids is not None and self.count is not None and self.count != len(self.ids)


def prompt_ids(kept: Kept, arm: Arm, unit: str, launch: int = 0) -> PromptIds:
    """Ids from the chat answer, else from the engine's tokenizer; the count from its usage.

    Both are looked at: a system prompt added behind the API changes the count that the engine
    reports, and not what its tokenizer says of the chat we sent.
    """
    answer = generation(kept, arm, unit, launch)
    ids = answer.prompt_ids if isinstance(answer, Generation) else None
    count = answer.prompt_tokens if isinstance(answer, Generation) else None
    if ids is None:
        tokenized = best(kept, Tag(arm, "template", unit, launch))
        ids = tokenized.ids if isinstance(tokenized, TokenIds) else None
    return PromptIds(ids or None, count)


def continuation(answer: Generation) -> tuple[int, ...] | None:
    """The generated token ids, the end token of a stopped text included where it is known.

    None where the ids are unknown or incomplete: such a text is never forced.
    """
    rows = answer.rows
    if rows is None or _why_no_path(answer):
        return None
    ids = tuple(rows.chosen.tolist())
    if answer.finish_reason == "stop" and answer.eos_id is not None and ids[-1] != answer.eos_id:
        return (*ids, answer.eos_id)
    return ids


def _why_no_path(answer: Generation) -> str:
    """Why the tokens of a text cannot be forced; "" where they can."""
    if answer.rows is None or not len(answer.rows):
        return "no log-probabilities"
    if answer.rows.match is not Match.ID:
        return "no token ids"
    return "" if answer.rows_complete else "fewer rows than generated tokens"


@dataclass(frozen=True)
class Own:
    """A text that can be forced: through the arm that wrote it, or through another one.

    ``rows`` are those it was decoded with; the end token's may be missing (see `with_end`).
    """

    answer: Generation
    prompt_ids: tuple[int, ...]
    path: tuple[int, ...]
    rows: Rows


def own(kept: Kept, arm: Arm, unit: str, launch: int = 0) -> Own | str:
    """One arm's own text with what forcing it takes, or why it cannot be forced."""
    answer = generation(kept, arm, unit, launch)
    if not isinstance(answer, Generation):
        return NO_TEXT
    prompt = prompt_ids(kept, arm, unit, launch)
    ids = prompt.ids
    if ids is None:
        return "its prompt token ids are not known"
    if prompt.disagree:
        # Forced after them, every token would be scored in another context than it was written in.
        return f"its prompt has {prompt.count} tokens, and its token ids are {len(ids)}"
    path = continuation(answer)
    if path is None or answer.rows is None:
        return f"its tokens cannot be forced ({_why_no_path(answer)})"
    return Own(answer, ids, path, answer.rows)


def first_difference(a: tuple[int, ...], b: tuple[int, ...]) -> int | None:
    """Index of the first differing token; the shorter length where one is a prefix; None: equal."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return None if len(a) == len(b) else min(len(a), len(b))


def with_end(text: Own, forced: Iterable[Scored | Failure | None]) -> Rows:
    """The text's rows along its whole path.

    Where the chat answer left out the end token (llama.cpp does), its row is taken from the
    first of ``forced`` that scored the whole path; without one the rows stay as they are.
    """
    n = len(text.path)
    if len(text.rows) == n:
        return text.rows
    for other in forced:
        if not isinstance(other, Scored) or len(other.rows) != n:
            continue
        end = cut(other.rows, n - 1, n)
        if end.match is text.rows.match and int(end.chosen[0]) == text.path[-1]:
            return join(text.rows, end)
    return text.rows


def cut(rows: Rows, start: int, stop: int) -> Rows:
    """Rows ``start`` to ``stop`` (exclusive)."""
    part = slice(start, stop)
    return Rows(
        rows.chosen[part],
        rows.logprob[part],
        rows.top[part],
        rows.top_logprob[part],
        rows.usable[part],
        rows.match,
        rows.pieces,
        rows.faults,
    )


def join(a: Rows, b: Rows) -> Rows:
    """Two runs of rows as one; both must match tokens in the same way."""
    assert a.match is b.match
    k = max(a.k, b.k)
    room = [((0, 0), (0, k - rows.k)) for rows in (a, b)]
    return Rows(
        np.concatenate([a.chosen, b.chosen]),
        np.concatenate([a.logprob, b.logprob]),
        np.concatenate(
            [np.pad(r.top, w, constant_values=PAD) for r, w in zip((a, b), room, strict=True)]
        ),
        np.concatenate(
            [
                np.pad(r.top_logprob, w, constant_values=-np.inf)
                for r, w in zip((a, b), room, strict=True)
            ]
        ),
        np.concatenate([a.usable, b.usable]),
        a.match,
        {**b.pieces, **a.pieces},
        a.faults,
    )
