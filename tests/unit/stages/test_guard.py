"""Signs of degeneration: what they see, and what they leave alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.stages import _guard

PROSE = (
    "The quick brown fox jumps over the lazy dog while nine other animals look on, each of "
    "them thinking of something else, and the evening comes slowly over the hills."
)


@pytest.mark.parametrize(
    "text",
    [
        PROSE + " and so" * 12,
        PROSE + "\n- item one\n- item two" * 4,
        PROSE + "a" * 48,
        PROSE + "ab" * 24 + " \n\n ",
        "x" * 10_000,
        "word " * 200,
        "0123456789" * 20,
        ("y" * 199 + "z") * 4,
    ],
)
def test_loops__repetition(text: str) -> None:
    """An end that repeats one piece four times over 48 characters is a loop."""
    assert _guard.loops(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " " * 500,
        PROSE,
        PROSE + "a" * 47,
        PROSE + " and so" * 3,
        "x" * 47,
        PROSE + "0123456789abcde." * 3,  # 48 characters, but three times only
        "a" * 500 + PROSE,  # the loop ended
        ("y" * 200 + "z") * 3,
    ],
)
def test_loops__none(text: str) -> None:
    """Short or ended repetition is none, and neither is white space."""
    assert not _guard.loops(text)


@given(st.text(max_size=300))
def test_loops__total(text: str) -> None:
    """Any text has an answer, and four more repetitions of 48 characters are always a loop."""
    assert _guard.loops(text) in (True, False)

    piece = "abcdefghijkl"
    assert _guard.loops(text + 4 * piece)


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("hello world", {"LATIN"}),
        ("привет мир", {"CYRILLIC"}),
        ("漢字かな", set()),
        ("漢字漢字かなかな", {"CJK", "HIRAGANA"}),
        ("123 + 456 = ?!", set()),
        ("", set()),
        ("hello world " * 20 + "да", {"LATIN"}),  # two letters of 200 are a quotation
        ("ab", set()),  # fewer than three letters show nothing
        ("h" * 5000 + "привет" * 1000, {"LATIN"}),  # the beginning decides
    ],
)
def test_scripts(text: str, scripts: set[str]) -> None:
    """The writing systems of at least a tenth of the letters."""
    assert _guard.scripts(text) == scripts


@pytest.mark.parametrize(
    ("n", "other", "shorter"),
    [
        (19, 40, True),
        (20, 40, False),
        (0, 40, True),
        (0, 39, False),
        (100, 40, False),
        (0, 0, False),
    ],
)
def test_much_shorter(n: int, other: int, shorter: bool) -> None:
    """Less than half as long counts where the other text is 40 characters or more."""
    assert _guard.much_shorter("x" * n, "y" * other) is shorter
