"""Unit tests of the escaping module, against GitHub's own Markdown parser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markup import of_html, of_markdown

from iqaction.surfaces._escape import (
    NOTHING,
    code,
    excerpt,
    fence,
    head,
    hex_or_nothing,
    hidden_json,
    html,
    line,
    output,
    prose,
    prose_html,
    tail,
    visible,
)

HOSTILE = json.loads((Path(__file__).parent / "hostile.json").read_text())
CORPUS = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
# Texts made of what breaks Markdown, and of anything at all.
TEXTS = st.one_of(
    st.text(alphabet="`|\\ \n<>@#a1[]()*_~-=.:$&!", max_size=40),
    st.text(max_size=30),
)
LINKED = re.compile(r"@|(?<!\w)#\d|\w#\d|://|www\.|GH-\d", re.IGNORECASE)


def as_shown(text: str) -> str:
    """What a code span must display for ``text``."""
    shown = visible(text)
    if not shown:
        return ""
    if not shown.strip(" "):
        shown = "␣" * len(shown)
    return re.sub(r"`{9,}", lambda m: f"\\x60*{len(m[0])}", shown)


def check_code(text: str) -> None:
    for markdown in (f"x {code(text)} y", f"| a | b |\n|---|---|\n| {code(text, cell=True)} | z |"):
        seen = of_markdown(markdown)

        assert [as_shown(text)] == (seen.code or [""])
        assert {"p", "code", "table", "thead", "tbody", "tr", "th", "td"} >= {
            t for t, _ in seen.tags
        }
        assert seen.text[-1].strip() in ("y", "z", "") or text == ""


@CORPUS
def test_code__shows_exactly_the_text(text: str) -> None:
    """GitHub shows the whole text, as code, in a paragraph and in a table cell."""
    check_code(text)


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_code__any_text(text: str) -> None:
    """No text at all gets out of its code span."""
    check_code(text)


@CORPUS
def test_fence__holds_the_text(text: str) -> None:
    """A fenced block holds the text and nothing follows from it."""
    seen = of_markdown(f"{fence(text)}\n\nafter")

    expected = re.sub(r"`{9,}", lambda m: f"\\x60*{len(m[0])}", visible(text, keep="\n\t"))
    assert [f"{expected}\n"] == seen.code
    assert [t for t, _ in seen.tags] == ["pre", "code", "p"]
    assert "".join(seen.text).strip() == "after"


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_fence__any_text(text: str) -> None:
    """No text at all closes its fence."""
    seen = of_markdown(f"{fence(text)}\n\nafter")

    assert [t for t, _ in seen.tags] == ["pre", "code", "p"]


def check_prose(text: str) -> None:
    for markdown in (
        prose(text),
        f"- {prose(text)}",
        f"### x {prose(text)}",
        f"**{prose(text) or 'x'}**",
        f"| a | b |\n|---|---|\n| {prose(text, cell=True)} | z |",
    ):
        seen = of_markdown(markdown)

        allowed = {"p", "code", "ul", "li", "h3", "strong", "table", "thead", "tbody", "tr"}
        assert allowed | {"th", "td"} >= {t for t, _ in seen.tags}
        assert not seen.comments
        assert not [t for t in seen.text if LINKED.search(t)]
        assert "\n" not in prose(text)


@CORPUS
def test_prose__neither_links_nor_pings(text: str) -> None:
    """A sentence becomes text and code spans, whatever stands in it."""
    check_prose(text)


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_prose__any_text(text: str) -> None:
    """No sentence at all becomes other markup."""
    check_prose(text)


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("KL is 0.0021 (CI -0.001 to 0.004), n >= 59", "KL is 0.0021 (CI -0.001 to 0.004), n ≥ 59"),
        ("run without `--kv-cache-dtype fp8`.", "run without `--kv-cache-dtype fp8`."),
        ("ask @octocat, now", "ask `@octocat`, now"),
        ("max_tokens is 3 * 4", "max_tokens is 3 \\* 4"),
        ("1. first", "1\\. first"),
        ("- item", "\\- item"),
        ("0.5 nats", "0.5 nats"),
        ("a\n\n b", "a b"),
        ("`a``b`", "`ab`"),
        ("p < .05", "p &lt; .05"),
    ],
)
def test_prose__reads_like_the_sentence(text: str, markdown: str) -> None:
    """What needs no escape stays as it was written."""
    assert markdown == prose(text)


@CORPUS
def test_html__is_text(text: str) -> None:
    """In HTML the text is text: no tag, and an attribute that ends where it should."""
    seen = of_html(f'<p title="{html(text)}">{html(text)}</p>')

    assert seen.tags == [("p", ("title",))]
    assert [("title", visible(text))] == seen.attributes
    assert visible(text) == "".join(seen.text)
    assert not seen.comments + seen.other + seen.open + seen.unbalanced
    assert {"code"} >= {t for t, _ in of_html(prose_html(text)).tags}
    html(text).encode()


@CORPUS
def test_visible__nothing_hides(text: str) -> None:
    """After escaping every character prints, and no runner reads a command."""
    shown = visible(text)

    assert all(c.isprintable() or c == "\u3000" for c in shown)
    assert "##[" not in shown
    assert not re.search(r"^\s*::", shown, re.MULTILINE)
    assert not re.search(r"^\s*::", visible(text, keep="\n\t"), re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc\r", "a⏎b⇥c\\r"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202e", "\\u202e"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("é 東京 😀 ❤️", "é 東京 😀 ❤️"),
        ("x ##[group]", "x #\\x23[group]"),
        ("  ::set-output::", "  \\x3a:set-output::"),
        ("std::vector", "std::vector"),
        ("Z" + "\u0301" * 9, "Z" + "\u0301" * 6 + "\\u0301" * 3),
    ],
)
def test_visible__escapes(text: str, shown: str) -> None:
    """Characters without a picture are shown by their code, all others as they are."""
    assert shown == visible(text)


def test_code__degenerate() -> None:
    """An empty text is told in words, a blank one in signs."""
    assert code("") == NOTHING
    assert code("  ") == "`␣␣`"


def test_head_and_tail() -> None:
    """A cut is told by an ellipsis at the cut, and a text that fits is not touched."""
    assert (head("abcd", 2), tail("abcd", 2)) == ("ab…", "…cd")
    assert (head("abcd", 4), tail("abcd", 4)) == ("abcd", "abcd")


@CORPUS
def test_line__is_one_line(text: str) -> None:
    """Titles are one printable line that mentions nobody, and end where they are told to."""
    shown = line(text, 50)

    assert shown.isprintable() or "\u3000" in shown
    assert "@" not in shown
    assert len(shown) <= 51


@CORPUS
def test_output__no_shell_reads_it(text: str) -> None:
    """An output pasted into a script is no command and no workflow expression."""
    assert not set("`$\"'\\;&|<>{}\n\r@") & set(output(text))


@CORPUS
def test_hidden_json__cannot_end_its_comment(text: str) -> None:
    """JSON in a comment stays in it, and reads back."""
    body = hidden_json({"a": text})

    assert not re.search(r"--|[<>]", body)
    assert {"a": text} == json.loads(body)


def test_hex_or_nothing() -> None:
    """Only a hash passes for a hash."""
    assert hex_or_nothing("4f1c2aa") == "4f1c2aa"
    assert [hex_or_nothing(x) for x in ("", "4f1c2aa\n", "4F1C2AA`x`")] == ["", "", ""]


def test_excerpt__both_ends() -> None:
    """A long text keeps its beginning and its end, in whole lines where it has any."""
    lines = "".join(f"line {i}\n" for i in range(100))

    assert excerpt("short", 5) == "short"
    assert excerpt(lines, 30) == "line 0\nline 1\n… 769 characters left out …\nline 99\n"
    assert excerpt("x" * 100, 10) == "xxxxx\n… 90 characters left out …\nxxxxx"
