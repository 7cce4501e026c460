"""Hostile text in every field of a report, through every surface.

Markdown is read with GitHub's own parser and HTML with Python's; what a surface may contain is
listed here, and everything else is an escape.
"""

from __future__ import annotations

import json
import re

import pytest
from hostile_reports import HOSTILE, poisoned, reports
from markup import Seen, of_html, of_markdown
from report_factory import failed_by_trajectory

from iqaction.surfaces import _effects_json, render_all
from iqaction.surfaces._base import (
    Annotate,
    AppendSummary,
    PutCheckRun,
    SetOutput,
    UpsertComment,
    WriteFile,
)
from iqaction.surfaces._notes import not_needed

CORPUS = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())

MARKDOWN_TAGS = {
    *("h3", "p", "strong", "em", "ul", "li", "code", "pre", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td", "a"),
}
OUR_RUN = failed_by_trajectory().run.url
HTML_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "nav", "section"),
    *("h1", "h2", "h3", "p", "ul", "li", "a", "strong", "em", "code", "pre", "mark", "span"),
    *("div", "details", "summary", "article", "figure", "figcaption"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "desc", "path", "circle", "rect", "text"),
}
HTML_ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "role"),
    *("scope", "tabindex", "data-label", "aria-label", "aria-labelledby"),
    *("viewbox", "d", "x", "y", "cx", "cy", "r", "width", "height", "text-anchor", "transform"),
}
LINKED = re.compile(r"@|(?<!&)#\d|://|www\.|\bGH-\d|\b[0-9a-f]{7,}\b", re.IGNORECASE)


def check_markdown(text: str) -> Seen:
    seen = of_markdown(text)

    assert {t for t, _ in seen.tags} <= MARKDOWN_TAGS
    assert {name for name, _ in seen.attributes} <= {"align", "lang", "class", "href"}
    assert {value for name, value in seen.attributes if name == "href"} <= {OUR_RUN}
    assert not seen.open + seen.unbalanced + seen.other
    assert not [t for t in seen.text if LINKED.search(t)]
    check_plain(text)
    return seen


def check_plain(text: str) -> None:
    """No character is invisible, no line is a runner's command, and the text is Unicode."""
    assert all(c.isprintable() or c in "\n\t\u3000" for c in text)
    assert "##[" not in text
    assert not re.search(r"^\s*::", text, re.MULTILINE)
    text.encode()


@CORPUS
def test_comment__nothing_escapes(text: str) -> None:
    """The comment holds our own tags, its two own comments, and hostile text only as code."""
    for report in reports(text):
        (comment, file) = (e for e in render_all(report) if has_comment(e))
        seen = check_markdown(comment.body)

        assert comment.body == file.content
        assert comment.body.startswith(comment.marker + "\n")
        assert len(seen.comments) == 2
        assert comment.marker == f"<!--{seen.comments[0]}-->"
        assert re.fullmatch(r"<!-- inferquality:v1 key=[0-9a-f]{16} -->", comment.marker)
        assert set(json.loads(seen.comments[1])) == {
            *("verdict", "gate", "stages", "legs", "plan_sha256", "evidence_root"),
            *("run_id", "attempt", "started_at", "head_sha", "tested_sha"),
        }


def has_comment(effect: object) -> bool:
    return isinstance(effect, UpsertComment) or (
        isinstance(effect, WriteFile) and effect.name == "comment.md"
    )


@CORPUS
def test_summary_and_check__nothing_escapes(text: str) -> None:
    """Step summary and check run hold our own tags, and hostile text only as code."""
    for report in reports(text):
        for effect in render_all(report):
            if isinstance(effect, AppendSummary):
                assert not check_markdown(effect.markdown).comments
            if isinstance(effect, PutCheckRun):
                assert not check_markdown(effect.summary).comments
                assert not check_markdown(effect.text).comments
                assert effect.conclusion == "failure"
                assert re.fullmatch("[0-9a-f]*", effect.head_sha)
                for plain in (effect.name, effect.title):
                    check_plain(plain)
                    assert "\n" not in plain
                    assert "@" not in plain


@CORPUS
def test_outputs__one_harmless_line(text: str) -> None:
    """Outputs are single lines with nothing in them that a shell reads."""
    for report in reports(text):
        for effect in render_all(report):
            if isinstance(effect, SetOutput):
                check_plain(effect.value)

                assert not set("`$\"'\\;&|<>{}\n\r") & set(effect.value)


@CORPUS
def test_annotations__plain_ascii(text: str) -> None:
    """Annotations are one line of ASCII without markup, on a path within the repository."""
    for report in reports(text):
        for effect in render_all(report):
            if isinstance(effect, Annotate):
                check_plain(effect.message)

                assert effect.message.isascii()
                assert len(effect.message) <= 4096
                assert not re.search(r"[@`\n\r]|://|\]\(|<[a-z/!?]", effect.message, re.IGNORECASE)
                assert re.fullmatch(r"[A-Za-z0-9._+@=~ /-]+", effect.path)
                assert ".." not in effect.path.split("/")
                assert not effect.path.startswith("/")


@CORPUS
def test_not_needed__nothing_escapes(text: str) -> None:
    """Also the results that are no report hold hostile text only as code."""
    run = poisoned(failed_by_trajectory().run, text)
    for effect in not_needed(text, text, text, run):
        if isinstance(effect, AppendSummary):
            assert not check_markdown(effect.markdown).comments
        if isinstance(effect, PutCheckRun):
            assert not check_markdown(effect.summary).comments
            check_plain(effect.name + effect.title)
        if isinstance(effect, UpsertComment):
            assert len(check_markdown(effect.body).comments) == 2


@CORPUS
def test_html__nothing_escapes(text: str) -> None:
    """The page holds our own tags and attributes, links within itself, and no script."""
    for report in reports(text):
        page = next(
            e.content
            for e in render_all(report)
            if isinstance(e, WriteFile) and e.name == "report.html"
        )
        seen = of_html(page)

        assert {t for t, _ in seen.tags} <= HTML_TAGS
        assert {name for name, _ in seen.attributes} <= HTML_ATTRIBUTES
        assert not seen.open + seen.unbalanced + seen.comments
        assert seen.other == ["doctype html"]
        links = [value for name, value in seen.attributes if name == "href"]
        assert all(value.startswith("#") or value == OUR_RUN for value in links)
        assert len([v for name, v in seen.attributes if name == "id"]) == len(
            {v for name, v in seen.attributes if name == "id"}
        )
        check_plain(page)


@CORPUS
def test_effects__survive_as_bytes(text: str) -> None:
    """Whatever a report holds, its effects can be written and read back."""
    for report in reports(text):
        effects = tuple(render_all(report))

        assert _effects_json.from_bytes(_effects_json.to_bytes(effects)) == effects


def test_corpus__is_large_and_distinct() -> None:
    """At least 80 hostile texts, each once."""
    assert len(set(HOSTILE.values())) == len(HOSTILE) >= 80
