"""Foreign text on a terminal: nothing obeyed, nothing lost, widths right."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.terminal import escape, fit, fit_end, inline, pad, paragraph, table, width, wrap


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with ümläuts and 漢字 🙂", "plain, with ümläuts and 漢字 🙂"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\rb", "a\\x0db"),
        ("a\r\nb", "a\nb"),
        ("\x00\x07\x7f\x9b", "\\x00\\x07\\x7f\\x9b"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\ud83d", "\\ud83d"),
        ("\U000e0041", "\\U000e0041"),
        ("\ue000", "\\ue000"),
        ("::error::no", "\\x3a:error::no"),
        ("ok\n  ::set-output name=a::b", "ok\n  \\x3a:set-output name=a::b"),
        ("std::vector", "std::vector"),
        ("a ##[group]b", "a ##\\x5bgroup]b"),
        ("a\tb", "a   b"),
        ("a" + "\u0301" * 9, "a" + "\u0301" * 4 + "\\u0301" * 5),
    ],
)
def test_escape(text: str, shown: str) -> None:
    """Control, format and command characters are shown, text is left alone."""
    assert shown == escape(text)


@given(st.text(max_size=40))
def test_escape__any_text(text: str) -> None:
    """No control or format character survives, and escaping twice changes nothing."""
    shown = escape(text)

    bad = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not [c for c in shown if c != "\n" and unicodedata.category(c) in bad]
    assert not any(part.lstrip().startswith("::") for part in shown.split("\n"))
    assert "##[" not in shown
    assert escape(shown) == shown


@given(st.text(max_size=40))
def test_inline__one_line(text: str) -> None:
    """Inline text never starts a new line."""
    assert "\n" not in inline(text)


def test_inline__newline() -> None:
    """A newline in a token is seen."""
    assert inline("a\n\tb") == "a\\n\\tb"


@pytest.mark.parametrize(
    ("text", "columns"), [("", 0), ("abc", 3), ("漢字", 4), ("e\u0301", 1), ("a漢", 3)]
)
def test_width(text: str, columns: int) -> None:
    """Wide characters take two columns, marks none."""
    assert columns == width(text)


@given(st.text(max_size=30).map(escape), st.integers(0, 20))
def test_fit__never_wider(text: str, columns: int) -> None:
    """A cut text fits, whichever end is kept."""
    assert width(fit(text, columns)) <= columns
    assert width(fit_end(text, columns)) <= columns


def test_fit__cut_is_shown() -> None:
    """A cut is visible, and what fits is whole."""
    assert fit("abcdef", 4) == "abc…"
    assert fit_end("abcdef", 4) == "…def"
    assert fit("abcd", 4) == "abcd"
    assert fit("漢字漢", 4) == "漢…"


@given(st.text(max_size=60).map(escape), st.integers(2, 20))
def test_wrap__keeps_all(text: str, columns: int) -> None:
    """Wrapped lines fit and together are the text."""
    lines = wrap(text, columns)

    assert all(width(part) <= columns for part in lines)
    assert "".join(lines) == text.replace("\n", "")


def test_wrap__at_blanks() -> None:
    """Lines break at blanks where there are any."""
    assert wrap("the quick brown fox", 10) == ["the quick ", "brown fox"]
    assert wrap("abcdefghijkl", 5) == ["abcde", "fghij", "kl"]


def test_paragraph() -> None:
    """Continuation lines are indented."""
    assert paragraph("the quick brown fox", 12, "  ") == "the quick\n  brown fox"


def test_pad() -> None:
    """Cells have one width, in columns."""
    assert pad("漢", 4) == "漢  "
    assert pad("7", 3, right=True) == "  7"
    assert pad("abcdef", 3) == "ab…"


def test_table() -> None:
    """Columns align; the first gives way where there is no room."""
    rows = [("check", "value"), ("a very long name of a check", "1.5"), ("b", "10.25")]

    assert table(rows, (False, True), 80) == [
        "check                        value",
        "a very long name of a check    1.5",
        "b                            10.25",
    ]
    assert table(rows, (False, True), 24)[1] == "a very long name…    1.5"
    assert table([], (), 80) == []
