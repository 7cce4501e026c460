"""What all ways of teacher forcing share: which call can be forced, and when rows are right."""

from __future__ import annotations

from collections.abc import Sequence

from iqaction.calls import EngineInfo, Failure, FailureKind, Force, Scored
from iqaction.engines._logprobs import shortened
from iqaction.rows import Position, pack


def refusal(call: Force, engine: EngineInfo) -> Failure | None:
    """Why this call cannot be forced anywhere, or not by this engine; None where it can."""
    if not call.prompt_ids or not call.continuation_ids:
        missing = "prompt" if not call.prompt_ids else "continuation"
        return Failure(FailureKind.UNSUPPORTED, f"force: an empty {missing} cannot be scored")
    if min(*call.prompt_ids, *call.continuation_ids) < 0:
        return Failure(FailureKind.UNSUPPORTED, "force: a negative token id")
    length = len(call.prompt_ids) + len(call.continuation_ids)
    if engine.max_model_len is not None and length >= engine.max_model_len:
        return Failure(
            FailureKind.UNSUPPORTED,
            f"force: {length} tokens do not fit into this engine's context of "
            f"{engine.max_model_len} (one is kept for the token it must generate)",
        )
    return None


def scored(
    positions: Sequence[Position],
    call: Force,
    k: int,
    method: str,
    flags: tuple[str, ...] = (),
) -> Scored | Failure:
    """The answer, if there is exactly one row per continuation token, of that very token.

    The list of a row keeps its ``k`` most likely tokens: engines that put the forced token into
    the list as well make it one longer.
    """
    wanted = call.continuation_ids
    for i, token_id in enumerate(wanted):
        if i >= len(positions):
            return _malformed(i, f"no row ({len(positions)} rows for {len(wanted)} tokens)")
        position = positions[i]
        if position.chosen.id != token_id:
            return _malformed(i, f"a row of token {position.chosen.id}, forced was {token_id}")
        if any(t.id is None for t in position.top):
            return _malformed(i, "a listed token without an id")
    if len(positions) > len(wanted):
        return _malformed(len(wanted), f"{len(positions)} rows for {len(wanted)} tokens")
    return Scored(pack([shortened(p, k) for p in positions]), method, flags)


def _malformed(position: int, said: str) -> Failure:
    return Failure(FailureKind.MALFORMED, f"force: position {position} of the continuation: {said}")
