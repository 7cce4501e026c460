"""The pinned baseline: written and read alike, and small steps are added up."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from iqaction.anchor import ARTIFACT, MAX_PINS, Anchor, Pin, beyond, pinned, read, to_text
from iqaction.errors import ConfigError, EvidenceError
from iqaction.evidence import schema

A, B, C = "a" * 64, "b" * 64, "0" * 64
FIRST = Pin(A, "2026-09-01", "the first anchor")
SECOND = Pin(
    B, "2026-10-01", 'said: "8 bits", at last', {"kl": 0.012, "decisive": 0.0, "nll": -1e-05}
)
THIRD = Pin(C, "2026-12-01", "déjà vu # no comment", {"kl": 0.011})
MARGINS = {"kl": 0.02, "nll": 0.05}


def text(*pins: Pin, bundle: str = "../b.tar.gz") -> str:
    return to_text(Anchor(pins, bundle))


@pytest.mark.parametrize("pins", [(FIRST,), (FIRST, SECOND), (FIRST, SECOND, THIRD)])
@pytest.mark.parametrize("bundle", ["../b.tar.gz", ARTIFACT])
def test_read__what_was_written(pins: tuple[Pin, ...], bundle: str) -> None:
    """A pin reads as it was written, and is what the schema says."""
    written = text(*pins, bundle=bundle)
    body = yaml.safe_load(written)
    found = {k: str(v) if k == "pinned_on" else v for k, v in body.items()}
    found["earlier"] = [{**e, "pinned_on": str(e["pinned_on"])} for e in body.get("earlier", ())]

    assert read(written, "b.yml") == Anchor(pins, bundle)
    schema.validate("anchor", {k: v for k, v in found.items() if v != []})


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=300))
def test_read__any_reason(reason: str) -> None:
    """No reason breaks out of its line."""
    if not reason.strip() or not reason.isprintable():
        with pytest.raises(ConfigError, match="--reason"):
            pinned(None, Pin(A, "2026-12-01", reason), "b")
        return
    made = pinned(None, Pin(A, "2026-12-01", reason), "b")

    assert read(to_text(made), "b.yml") == made


def test_since_first__adds_up() -> None:
    """What was measured step by step is added up; a step that was not makes the sum unknown."""
    known = Anchor((FIRST, SECOND, THIRD), "b")
    unknown = Anchor((FIRST, Pin(B, "2026-10-01", "x"), THIRD), "b")

    assert known.since_first("kl") == pytest.approx(0.023)
    assert known.since_first("nll") is None  # the third step has no figure for it
    assert unknown.since_first("kl") is None
    assert Anchor((FIRST,), "b").since_first("kl") == 0


def test_beyond__small_steps() -> None:
    """Two steps that are each within the margin are beyond it together; so is what is not known."""
    steps = (FIRST, SECOND, THIRD)

    assert beyond(Anchor(steps[:2], "b"), MARGINS) == ()
    assert beyond(Anchor(steps, "b"), MARGINS) == ("kl", "nll")
    nan = Pin(B, "2026-10-01", "x", {"kl": float("nan"), "nll": 0.0})
    assert beyond(Anchor((FIRST, nan), "b"), MARGINS) == ("kl",)


def test_pinned__one_more() -> None:
    """A pin goes behind the others, and is in force."""
    made = pinned(Anchor((FIRST,), "old"), SECOND, "new")

    assert (made.root, made.pins, made.bundle) == (B, (FIRST, SECOND), "new")


@pytest.mark.parametrize("reason", ["", "  ", "two\nlines", "x\x1b[2J", "x" * 501])
def test_pinned__reason(reason: str) -> None:
    """A reason is one line that people can read."""
    with pytest.raises(ConfigError, match="--reason"):
        pinned(None, Pin(A, "2026-12-01", reason), "b")


def test_pinned__again() -> None:
    """The pinned baseline is not pinned twice, and the list has an end."""
    with pytest.raises(ConfigError, match="is pinned already, since 2026-09-01"):
        pinned(Anchor((FIRST,), "b"), Pin(A, "2026-12-01", "x"), "b")
    with pytest.raises(ConfigError, match="are listed already"):
        pinned(Anchor((FIRST,) * MAX_PINS, "b"), SECOND, "b")


GOOD = text(FIRST, SECOND)
DRIFT = "drift: {kl: 0.012, decisive: 0.0, nll: -0.00001}"
MISTAKES = [
    ("", "b.yml: found nothing"),
    ("- a\n", "b.yml: found a list"),
    (GOOD.replace("reason:", "reasn:", 1), "b.yml:6: unknown key 'reasn'; did you mean 'reason'"),
    (GOOD.replace(B, B[:63]), "b.yml:3: root: found the text"),
    (GOOD.replace(f'"{B}"', "7"), "b.yml:3: root: found the number 7"),
    (GOOD.replace('bundle: "../b.tar.gz"\n', ""), "b.yml:3: no bundle"),
    (GOOD.replace("2026-10-01", "2026-13-01"), "pinned_on: found the text '2026-13-01'"),
    (GOOD.replace("2026-10-01", "2026-02-31"), "pinned_on: found the text '2026-02-31'"),
    (GOOD.replace("kl: 0.012", "kl: 1e308"), "drift.kl: found the number"),
    (GOOD.replace("kl: 0.012", "kl: -1e7"), "drift.kl: found the number"),
    (GOOD.replace("2026-10-01", "soon"), "pinned_on: found the text 'soon'"),
    (GOOD.replace("drift: {", "drifts: {"), "unknown key 'drifts'"),
    (GOOD.replace("kl: 0.012", "kl: .nan"), "drift.kl"),
    (GOOD.replace("kl: 0.012", "kul: 0.012"), "unknown key 'kul'; did you mean 'kl'"),
    (
        GOOD.replace(DRIFT, "drift: soon"),
        "found the text",
    ),
    (GOOD.replace(f"{DRIFT}\n", ""), "no drift"),
    (GOOD + "    drift: unknown\n", "the first anchor has moved from nothing"),
    (text(FIRST) + "drift: unknown\n", "the first anchor has moved from nothing"),
    (text(FIRST) + "earlier: []\n", "earlier: found a list"),
    (text(FIRST) + "earlier: [x]\n", "earlier: no pin"),
    (text(FIRST) + "earlier: {}\n", "earlier: found a table"),
    (text(FIRST) + "root: x\n", "the key is there twice"),
]


@pytest.mark.parametrize(("wrong", "said"), MISTAKES, ids=range(len(MISTAKES)))
def test_read__mistakes(wrong: str, said: str) -> None:
    """Each mistake is told with its place and what was expected."""
    assert wrong != GOOD
    with pytest.raises(ConfigError) as caught:
        read(wrong, "b.yml")

    assert said in caught.value.happened
    assert caught.value.expected


@pytest.mark.parametrize(
    "change",
    [
        {"root": "x"},
        {"bundle": ""},
        {"pinned_on": "2026-13-01"},
        {"reason": "two\nlines"},
        {"drift": "soon"},
        {"drift": {"kul": 1}},
        {"more": 1},
        {"earlier": []},
        {"earlier": [{"root": A}]},
    ],
    ids=json.dumps,
)
def test_schema__mistakes(change: dict[str, object]) -> None:
    """The schema refuses what the reader refuses."""
    good = {"root": A, "bundle": "b", "pinned_on": "2026-12-01", "reason": "x", "drift": "unknown"}
    earlier = [{"root": B, "pinned_on": "2026-11-01", "reason": "x"}]

    schema.validate("anchor", {**good, "earlier": earlier})
    with pytest.raises(EvidenceError):
        schema.validate("anchor", {**good, "earlier": earlier, **change})
