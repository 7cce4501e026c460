"""Answers read from texts: a corpus of many styles, each rule alone, and hostile texts."""

from __future__ import annotations

import json
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iqaction.graders import numbers
from iqaction.graders.numbers import ANSWER_IS, BOXED, LAST, MARK, gold, read, shown

CORPUS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "gsm8k_answers.jsonl")
    .read_text()
    .splitlines()
]
EASY = [c for c in CORPUS if not c.get("hard")]
HARD = [c for c in CORPUS if c.get("hard")]
properties = settings(deadline=None, max_examples=300, derandomize=True)


def value(text: str, *, cut: bool = False) -> str | None:
    """The answer as a person writes it."""
    found = read(text, cut=cut)
    return None if found is None else shown(found.value)


@pytest.mark.parametrize("case", EASY, ids=lambda c: c["style"])
def test_corpus(case: dict[str, str]) -> None:
    """Every answer of the corpus is read as a person reads it."""
    assert value(case["text"], cut=bool(case.get("cut"))) == case["value"]


def test_corpus__size() -> None:
    """The corpus is large and of many styles; a real model's own answers are in it."""
    styles = Counter(c["style"] for c in CORPUS)

    assert len(EASY) >= 150
    assert len(styles) >= 40
    assert styles["SmolLM2-135M-Instruct"] >= 30
    assert sum(c["value"] is None for c in EASY) >= 20


@pytest.mark.parametrize("case", HARD, ids=lambda c: c["hard"])
def test_corpus__hard(case: dict[str, str]) -> None:
    """What the rules are known to read wrong is named; when one is mended, this says so."""
    assert value(case["text"], cut=bool(case.get("cut"))) != case["value"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("#### 18", MARK),
        ("\\boxed{18}", BOXED),
        ("The answer is 18.", ANSWER_IS),
        ("So 18.", LAST),
        ("The answer is 3, or \\boxed{4}.\n#### 18", MARK),
        ("The answer is 3, or \\boxed{18}. Or 5.", BOXED),
        ("The answer is 18 of 20.", ANSWER_IS),
    ],
)
def test_read__rule(text: str, rule: str) -> None:
    """The rule that found the answer is told; a stronger rule goes before a weaker one."""
    found = read(text)

    assert found is not None
    assert (found.value, found.rule) == (18, rule)


@pytest.mark.parametrize(
    "text", ["The answer is 18.", "So she has 18", "18", "#### 18", "\\boxed{18", "####\n18"]
)
def test_read__cut(text: str) -> None:
    """A text that was cut off gives no answer unless it marked one and went on."""
    assert value(text, cut=True) is None


@pytest.mark.parametrize("text", ["#### 18\n", "#### 18 dol", "\\boxed{18}", "####\n18\nQ"])
def test_read__cut_after_the_mark(text: str) -> None:
    """A marked answer that the text went on from is whole."""
    assert value(text, cut=True) == "18"


@pytest.mark.parametrize(
    "text",
    [
        "#" * 100_000,
        "#### " * 50_000,
        "\\boxed{" * 50_000,
        "\\text{" * 50_000 + "}" * 50_000,
        "9" * 100_000,
        "1," * 100_000,
        "1/" * 100_000,
        "answer is " * 20_000,
        "-" * 100_000 + "1",
        "\\frac{" * 30_000,
        "1 " * 100_000,
        "\n" * 100_000 + "Question:",
        "1e" * 100_000,
        "$" * 100_000,
        "\u0661" * 100_000,
    ],
    ids=lambda t: repr(t[:12]),
)
def test_read__hostile(text: str) -> None:
    """A text made to be slow, or to be a number of a thousand digits, is read in no time."""
    begun = time.perf_counter()

    read(text)

    assert time.perf_counter() - begun < 3


@properties
@given(st.text(), st.booleans())
def test_read__never_raises(text: str, cut: bool) -> None:
    """Whatever a model writes is read or is not; a cut text reads as no more than a whole one."""
    found = read(text, cut=cut)

    assert found is None or isinstance(found.value, Fraction)
    if cut and found is not None:
        assert found == read(text)


@properties
@given(
    st.integers(-(10**9), 10**9),
    st.sampled_from(["#### {}", "\\boxed{{{}}}", "The answer is {}.", "It is {}.", "#### **{}**"]),
    st.booleans(),
)
def test_read__round_trip(number: int, form: str, comma: bool) -> None:
    """Any whole number, with and without commas, is read back from any form."""
    assert value(form.format(f"{number:,}" if comma else number)) == str(number)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Fraction(18), "18"),
        (Fraction(-10), "-10"),
        (Fraction(3, 4), "0.75"),
        (Fraction(1, 3), "1/3"),
        (Fraction(10**25), "1" + "0" * 25),
    ],
)
def test_shown(number: Fraction, text: str) -> None:
    """Numbers are shown as people write them, and never rounded into another."""
    assert shown(number) == text


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("a\n#### 18", 18),
        ("#### 1,450,000", 1_450_000),
        ("#### -10", -10),
        ("#### 3\n#### 18", 18),
        ("18", None),
        ("#### ", None),
        ("#### 3 4", None),
        ("#### nan", None),
    ],
)
def test_gold(answer: str, found: int | None) -> None:
    """A dataset's answer is the one number after its last mark; anything else is a bad row."""
    assert gold(answer) == found


def test_names_of_rules() -> None:
    """The rules' names are in reports: they stay."""
    assert (MARK, BOXED, ANSWER_IS, LAST) == ("####", "boxed", "answer is", "last number")
    assert numbers.Reading(Fraction(1), MARK).rule == "####"


@pytest.mark.parametrize("before", ["so", "so the final answer is", "therefore,", "####", "the my"])
@pytest.mark.parametrize("after", ["", "x", "7", "\n"])
def test_read__blanks_without_end(before, after):
    """A text of blanks after a label is read in no time: it once took minutes."""
    text = f"#### {before}" + " " * 390 + after
    started = time.process_time()
    numbers.read(text * 20)

    assert time.process_time() - started < 0.5
