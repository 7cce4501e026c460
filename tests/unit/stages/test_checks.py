"""What checks conclude together, and prompts that could not be judged."""

from __future__ import annotations

import pytest
from world import World

from iqaction.report import Check, UnitFault
from iqaction.stages._checks import lacks_only_prompts, unproven, verdict_of
from iqaction.stages._lost import NEVER, Lost
from iqaction.verdict import Verdict

P, F, U = Verdict.PASS, Verdict.FAIL, Verdict.UNPROVEN


def check(verdict: Verdict, *, more: bool = False, judged: bool = True) -> Check:
    return Check("m", "t", verdict, "because", power="a note", judged=judged, more_would_help=more)


def test_verdict_of__judged_only() -> None:
    """Checks that are only shown carry no verdict, for or against."""
    assert verdict_of([check(P), check(U, judged=False)]) is P
    assert verdict_of([check(U), check(F, judged=False)]) is U
    assert verdict_of([check(P, judged=False)]) is U
    assert verdict_of([]) is U


@pytest.mark.parametrize(
    ("checks", "lacks"),
    [
        ([], False),
        ([check(P)], False),
        ([check(U, more=True)], True),
        ([check(P), check(U, more=True)], True),
        ([check(U, more=True), check(U)], False),
        ([check(F), check(U, more=True)], False),
        ([check(U, more=True), check(U, judged=False)], True),
        ([check(U, more=True, judged=False)], False),
    ],
)
def test_lacks_only_prompts(checks: list[Check], lacks: bool) -> None:
    """More prompts help where every open check lacks nothing else, and none FAILed."""
    assert lacks_only_prompts(checks) is lacks


@pytest.mark.parametrize("verdict", [P, F, U])
def test_unproven(verdict: Verdict) -> None:
    """The verdict goes, the figures and the former reason stay, and no power note."""
    found = unproven(check(verdict, more=True), "the ground is not sound")

    assert found.verdict is U
    assert found.reason == "the ground is not sound; because"
    assert found.power == ""
    assert not found.more_would_help


def test_unproven__shown() -> None:
    """A figure that is only shown stays as it is."""
    shown = check(U, judged=False)

    assert unproven(shown, "x") is shown


def test_lost() -> None:
    """Every prompt that could not be judged is counted once and named with its reason."""
    world = World(units=5)
    lost = Lost(
        failed={"p-000": "HTTP 500"},
        missing={"p-001": NEVER, "p-002": "unusable rows"},
        gaps={"p-003": f"baseline: {NEVER}"},
    )

    assert lost.unknown == ("p-001", "p-002", "p-003")
    cover = lost.coverage(1)
    assert (cover.required, cover.observed) == (5, 1)
    assert (cover.failed, cover.missing, cover.left_out) == (
        ("p-000",), ("p-001", "p-002"), ("p-003",)
    )  # fmt: skip
    assert lost.faults(world.prompts()) == (
        UnitFault("p-000", "code", "failed", "HTTP 500"),
        UnitFault("p-001", "short", "missing", NEVER),
        UnitFault("p-002", "code", "unusable", "unusable rows"),
        UnitFault("p-003", "short", "missing", "baseline: never answered"),
    )


def test_lost__nothing() -> None:
    """Nothing lost is full coverage."""
    assert Lost().unknown == ()
    assert Lost().faults({}) == ()
    assert Lost().coverage(3).observed == 3
