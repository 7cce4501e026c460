"""The HTML pages in a real browser: hostile text in every field starts nothing and hides nothing.

Skipped where no browser is found; IQACTION_BROWSER names one and makes its absence an error.
"""

from __future__ import annotations

import re
from pathlib import Path

import browser
import comparisons
import pytest
from hostile_reports import HOSTILE, reports
from report_factory import failed_by_trajectory

from iqaction import comparing_html
from iqaction.surfaces import _page, html

MARKUP = re.compile(r"""[<>"'&]|script:|data:""")
HARMFUL = {
    "script": "<script>alert(1)</script>",
    "attribute": '<b onmouseover="alert(1)">x</b>',
    "click": '<a href="javascript:alert(1)">x</a>',
    "image": "<img src=http://evil.example/image>",
    "tls": "<img src=https://evil.example/tls>",
    "relative": "<img src=relative.png onerror=alert(1)>",
    "refresh": "<meta http-equiv=refresh content=0;url=//evil.example/refresh>",
    "hidden": "</main><style>*{display:none}</style>",
}


@pytest.fixture
def program() -> str:
    path = browser.found()
    if path is None:
        pytest.skip(
            "no browser found: that report.html and the page of `iqaction diff` run no script and "
            f"make no request was not checked in one (looked for: {', '.join(browser.NAMES)})"
        )
    return path


def hostile_pages(*, thorough: bool = False) -> dict[str, str]:
    """Every text of the corpus through every field of both pages, which have lost their policy,
    so that escaping alone protects them; texts with markup also in otherwise sound reports, and
    in pages that kept it. ``thorough``: all of that for all texts."""
    pages = {}
    for name, text in HOSTILE.items():
        all_of_it = thorough or MARKUP.search(text)
        made = {"diff": comparing_html.page(comparisons.poisoned(text))}
        for i, report in enumerate(reports(text) if all_of_it else reports(text)[:1]):
            (effect,) = html.render(report)
            made[f"report-{i}"] = effect.content
        pages |= {f"{name}-{kind}": browser.bared(page) for kind, page in made.items()}
        if all_of_it:
            kept = made if thorough else {"report-0": made["report-0"]}
            pages |= {f"{name}-{kind}-kept": page for kind, page in kept.items()}
    return pages


@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.full)])
def test_pages__hostile(program: str, tmp_path: Path, thorough: bool) -> None:
    """No script, request, dialog or navigation, with the page's policy and without it, and the
    page is read to its end."""
    pages = hostile_pages(thorough=thorough)
    links = (failed_by_trajectory().run.url,)

    opened = browser.opened(program, pages, tmp_path, links=links)

    assert opened.requests == []
    assert set(opened.pages) == set(pages)
    assert {n: p.did for n, p in opened.pages.items() if p.did} == {}
    for name, page in opened.pages.items():
        last = "B less A" if "-diff" in name else "Evidence"
        assert last in page.text, name
        assert page.height > 500, name
    for text in ("html-script", "image-html", "html-attr", "html-meta", "url-data", "link-js"):
        for kind in ("report-0", "diff"):
            assert HOSTILE[text] in opened.pages[f"{text}-{kind}"].text


@pytest.fixture
def harmed(program: str, tmp_path: Path) -> browser.Opened:
    """Pages into which markup was let, with their policy and without it."""
    pages = {n: _page.page("x", text + "<p>x</p>" * 20) for n, text in HARMFUL.items()}
    bared = {f"{n}-bared": browser.bared(p) for n, p in pages.items()}
    return browser.opened(program, {**pages, **bared}, tmp_path, pause_ms=2000)


def test_pages__what_is_seen(harmed: browser.Opened) -> None:
    """Scripts that run, requests, dialogs, navigation and hidden text are seen where they are,
    and where the page's policy forbids them it is seen that they were tried."""
    did = {n: p.did for n, p in harmed.pages.items()}
    asked = "\n".join(harmed.requests)

    for name in ("script", "attribute", "click", "relative"):
        assert "dialog alert" in did[f"{name}-bared"], name
        assert "dialog alert" not in did[name], name
    assert "navigation" in did["refresh-bared"]
    assert harmed.pages["hidden"].height == 0
    for path in ("evil.example/image", "evil.example/refresh", "/page/relative.png"):
        assert re.search(rf"^GET \S*{path}", asked, re.MULTILINE), path
    assert "no HTTP request" in asked
    for name in ("script", "attribute", "image", "tls", "relative"):
        assert re.search(rf'violate .*"document-uri":"[^"]*/page/{name}"', asked), name


def test_found__named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser that is named and is not there is an error, not a skip."""
    monkeypatch.setenv(browser.NAMED_BY, "no-such-browser")

    with pytest.raises(FileNotFoundError, match="IQACTION_BROWSER names 'no-such-browser'"):
        browser.found()
