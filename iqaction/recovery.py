"""Which calls of a round are asked again before its stage sees the answers. Pure.

What was lost on the way says nothing of the model, and what a proxy damaged looks like an engine's
fault: both are asked again while the round lasts, so that a stage's own second question, which
counts against the model, is put to an endpoint that answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from iqaction.calls import TRANSPORT, Call, Failure, FailureKind, Observation

_TURNS = 3
_FEW = 8
_FEW_ALONE = 16  # one at a time they take about as long as a round under load
_SHARE = 0.5
_LOST = TRANSPORT - {FailureKind.TIMEOUT}  # that one may take as long again
# May be the way's doing: a cut or foreign body, a proxy's page, a request that was given up.
_DAMAGED = frozenset({FailureKind.MALFORMED, FailureKind.ABORTED, FailureKind.TOO_LARGE})


def asked_again(answered: Sequence[tuple[Call, Observation]], turn: int) -> tuple[Call, ...]:
    """Those to ask once more in this turn (0, 1, ...).

    A request that timed out is not among them. Nor are damaged answers and server errors of which
    there are many: then it is the engine that fails.
    """
    if turn >= _TURNS:
        return ()
    failed = [(call, o.answer) for call, o in answered if isinstance(o.answer, Failure)]
    lost = [call for call, f in failed if f.kind in _LOST]
    damaged = [call for call, f in failed if _is_damaged(f)]
    if len(damaged) > max(_FEW, _SHARE * len(answered)):
        damaged = []
    return (*lost, *damaged)


def goes_alone(left: Sequence[Call], turn: int) -> bool:
    """True where this turn's calls are asked one at a time: one that kills its engine takes with it
    whatever else is in flight, each time."""
    return turn > 0 and len(left) <= _FEW_ALONE


def _is_damaged(failure: Failure) -> bool:
    if failure.kind is FailureKind.STATUS:
        return failure.status is not None and failure.status >= 500
    return failure.kind in _DAMAGED
