"""What a change of engine and settings consists of."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_factory import passed

from iqaction.report import Change, ChangedLine
from iqaction.surfaces import _changes

WORDS = st.lists(st.sampled_from(["--a", "--b", "--c=1", "-d", "x", "8", "m"]), max_size=12)


def test_said__four_forms() -> None:
    """A change, something new, something gone, and a change without values."""
    changes = (
        Change("image", "a`b", "c"),
        Change("flag", "", "--fp8"),
        Change("flag", "--fast", ""),
        Change("template", "", ""),
    )

    assert _changes.said(changes) == [
        "image `aˋb` → `c`",
        "flag `--fp8` added",
        "flag `--fast` removed",
        "template changed",
    ]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("serve m --a 1", "serve m --a 2", "`--a 1` → `--a 2`"),
        ("serve m --a 1", "serve m --a=1", "`--a 1` → `--a=1`"),
        ("serve m --a 1", "serve m --a 1 --kv fp8", "`--kv fp8` added"),
        ("serve m --a 1 --eager", "serve m --a 1", "`--eager` removed"),
        ("serve m --a", "serve n --a", "`m` removed, `n` added"),
        ("s --a 1 --b 2", "s --b 2 --a 3", "`--a 1` → `--a 3`"),
        ("s --x a --x b", "s --x a --x c", "`--x b` → `--x c`"),
        ("s --lora a b", "s --lora a b c", "`--lora a b` → `--lora a b c`"),
    ],
)
def test_said__of_a_command_the_words_that_differ(before: str, after: str, said: str) -> None:
    """A flag stands with its values; what is the same is not repeated."""
    assert _changes.said([Change("command", before, after)]) == [f"command: {said}"]


def test_said__flags_in_another_order() -> None:
    """A command of which only the order changed is told whole: it says nothing of what else."""
    (said,) = _changes.said([Change("command", "s --a 1 --b 2", "s --b 2 --a 1")])

    assert said == "command `s --a 1 --b 2` → `s --b 2 --a 1`"


@given(WORDS, WORDS)
def test_said__every_word_that_differs_is_there(a: list[str], b: list[str]) -> None:
    """A flag that one line lacks is named."""
    (said,) = _changes.said([Change("command", " ".join(a), " ".join(b))])

    assert all(w in said for w in {*a} ^ {*b})


def test_said__a_long_line_takes_no_time() -> None:
    """Hostile lengths are cut before they are compared."""
    lines = (" ".join(f"--flag-{i}-{x} {i}" for i in range(200_000)) for x in "ab")
    start = time.monotonic()
    (said,) = _changes.said([Change("command", *lines)])

    assert time.monotonic() - start < 2
    assert len(said) < 100_000


def test_same__only_where_both_are_known() -> None:
    """Nothing is said of an engine that told nothing, of changed lines, or without a baseline."""
    alike = replace(passed(), changes=())
    line = ChangedLine("compose.yml", 1, "x")
    silent = (
        passed(),
        replace(alike, engines=alike.engines[1:]),
        replace(alike, changed_lines=(line,)),
        replace(alike, baseline_root=""),
    )

    assert _changes.same(alike) == _changes.SAME
    assert [_changes.same(r) for r in silent] == [""] * 4
