"""Filler: the same for one salt, unlike for any two, and without a number of seven digits."""

from __future__ import annotations

import hashlib
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.stages import _haystack as haystack
from iqaction.stages._niah_answer import named

NEEDLE = "Remember this: the secret code is 4831927."


def written(salt: str, characters: float) -> str:
    return haystack.text(haystack.filler(salt, characters))


def common(a: str, b: str) -> int:
    """How many characters both begin with."""
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    return sum(1 for _ in same)


def runs(text: str, n: int = 8) -> set[tuple[str, ...]]:
    """Every ``n`` words in a row."""
    words = text.split()
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


@pytest.fixture(scope="module")
def many() -> list[str]:
    """The filler of as many questions as a plan has by default, about 2,000 tokens each."""
    return [written(f"niah/0/{i}", 9000) for i in range(45)]


@pytest.mark.parametrize(
    ("salt", "characters", "length", "sha256"),
    [
        ("a", 600, 526, "0cc44ab0f98f80b3d242d836a7cf88ad9d900e8acf8aa9887705ce4ca5e24b13"),
        (
            *("niah/0/8192-0.5-3", 30_000, 29_907),
            "118b9fc228341fd7245f540dab72d606c95b34d9f6d3283998662c7f6ad3525a",
        ),
        ("naïve", 2000, 1954, "2d5651de34e1b6c7d4a3da21dd1c36929343c62fdd19ff624025795e0d2b12d5"),
    ],
)
def test_filler__for_ever(salt: str, characters: int, length: int, sha256: str) -> None:
    """A salt gives this text today and in years: evidence is judged by writing it again."""
    text = written(salt, characters)

    assert (length, sha256) == (len(text), hashlib.sha256(text.encode()).hexdigest())


def test_filler__no_common_beginning(many: list[str]) -> None:
    """No two begin alike for as much as a block of a prefix cache, which is 16 tokens."""
    longest = max(common(a, b) for a, b in itertools.combinations(many, 2))

    assert longest < 56


def test_filler__little_in_common(many: list[str]) -> None:
    """Two texts share few runs of eight words, and one text repeats few of its own."""
    found = [runs(text) for text in many]
    shared = max(len(a & b) / len(a) for a, b in itertools.combinations(found, 2))
    repeated = max(1 - len(f) / (len(t.split()) - 7) for f, t in zip(found, many, strict=True))

    assert shared < 0.06
    assert repeated < 0.04


def test_filler__long() -> None:
    """100,000 tokens of it do not go round in circles."""
    found = haystack.filler("long", 400_000)

    assert len(set(found)) / len(found) > 0.98


def test_filler__no_code(many: list[str]) -> None:
    """Nothing in it reads as a code, whatever its numbers stand beside."""
    assert [named(text) for text in many] == [None] * len(many)
    assert all(len(digits) <= 3 for text in many for digits in re.findall(r"\d+", text))


def test_filler__plain(many: list[str]) -> None:
    """Whole sentences of ASCII, each with a capital, a full stop and no gap left open."""
    for sentence in haystack.filler("plain", 60_000):
        assert re.fullmatch(r"[A-Z][A-Za-z0-9 ,:;']+\.", sentence), sentence
        assert "  " not in sentence


@given(st.text(max_size=20), st.floats(0, 5000))
def test_filler__as_long_as_wanted(salt: str, characters: float) -> None:
    """Never longer than wanted, and shorter by less than one more sentence."""
    found = haystack.filler(salt, characters)
    text = haystack.text(found)
    following = next(itertools.islice(haystack.sentences(salt), len(found), None))

    assert len(text) <= characters
    assert len(text) + len(following) + 4 > characters


@pytest.mark.parametrize("characters", [0, 20, -5.0, float("nan")])
def test_filler__no_room(characters: float) -> None:
    """Where not even one sentence fits there is none."""
    assert haystack.filler("a", characters) == ()
    assert haystack.text(()) == ""


@given(st.text(max_size=20), st.floats(0, 1), st.integers(0, 8000))
def test_hide(salt: str, depth: float, characters: int) -> None:
    """The needle stands in the text exactly once, between two whole sentences, at its depth."""
    parts = haystack.filler(salt, characters)
    hidden = haystack.hide(NEEDLE, depth, parts)
    text = haystack.text(hidden)
    at = hidden.index(NEEDLE)

    assert text.count(NEEDLE) == 1
    assert (*hidden[:at], *hidden[at + 1 :]) == parts
    if parts:
        total = sum(map(len, parts))
        assert abs(sum(map(len, parts[:at])) / total - depth) * total <= max(map(len, parts)) / 2


def test_hide__ends() -> None:
    """At 0 it comes first, at 1 last."""
    parts = haystack.filler("ends", 3000)

    assert haystack.hide(NEEDLE, 0, parts)[0] == NEEDLE
    assert haystack.hide(NEEDLE, 1, parts)[-1] == NEEDLE
