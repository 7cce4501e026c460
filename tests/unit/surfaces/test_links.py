"""Unit tests of the only links there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iqaction.report import NO_RUN, Run
from iqaction.surfaces import _links

PAGE = "https://github.example/org/repo/actions/runs"
RUN = Run(
    repository="org/repo",
    run_id="17",
    url=f"{PAGE}/17",
    artifact_url=f"{PAGE}/17/artifacts/301",
    republished=f"{PAGE}/15/attempts/2",
)
HOSTILE = (
    "",
    "javascript:alert(1)",
    "https://github.example/org/repo",
    f"{PAGE}/17?x=1",
    f"{PAGE}/17#x",
    f"{PAGE}/17/",
    f"{PAGE}/17\n",
    f"{PAGE}/17)[x](https://evil.example",
    f"{PAGE}/17 'title'",
    f"{PAGE}/017",
    f"{PAGE}/１７",
    f" {PAGE}/17",
    f"https://evil.example\\@{PAGE[8:]}/17",
    f"https://user:pass@{PAGE[8:]}/17",
    "https://github.example:999999/org/repo/actions/runs/17",
    "ftp://github.example/org/repo/actions/runs/17",
    "//github.example/org/repo/actions/runs/17",
    "https://github.example/org/repo/../evil/actions/runs/17",
    "https://github.example/org/other/actions/runs/17",
    "https://githüb.example/org/repo/actions/runs/17",
    "https://-github.example/org/repo/actions/runs/17",
    f"{PAGE}/18",
)


def test_links__as_github_makes_them() -> None:
    """Run, attempt, artifact and the run that measured, on any server."""
    again = replace(RUN, url=f"{PAGE}/17/attempts/2")
    local = replace(RUN, url="http://127.0.0.1:8080/org/repo/actions/runs/17")

    assert _links.run_url(RUN) == f"{PAGE}/17"
    assert _links.artifact_url(RUN) == f"{PAGE}/17/artifacts/301"
    assert _links.measured(RUN) == ("15", f"{PAGE}/15/attempts/2")
    assert _links.run_url(again) == again.url
    assert _links.artifact_url(again) == RUN.artifact_url
    assert _links.run_url(local) == local.url
    assert _links.artifact_url(local) == ""
    assert _links.measured(local) == ("", "")


def test_links__nothing_known() -> None:
    """Without a run there is no link."""
    assert _links.run_url(NO_RUN) == _links.artifact_url(NO_RUN) == ""
    assert _links.measured(NO_RUN) == ("", "")


@pytest.mark.parametrize("url", HOSTILE)
def test_links__anything_else_is_none(url: str) -> None:
    """An address that GitHub would not give this run is not linked, nor is what hangs on it."""
    of = replace(RUN, url=url)

    assert _links.run_url(of) == ""
    assert _links.artifact_url(of) == ""
    assert _links.measured(of) == ("", "")


@pytest.mark.parametrize("tail", ["", "/", "/artifacts/", "/artifacts/0", "/artifacts/1/", "/../9"])
def test_links__artifact_of_this_run_only(tail: str) -> None:
    """The evidence is the run's own."""
    assert _links.artifact_url(replace(RUN, artifact_url=f"{PAGE}/17{tail}")) == ""
    assert _links.artifact_url(replace(RUN, artifact_url=f"{PAGE}/170/artifacts/1")) == ""


@pytest.mark.parametrize("url", [u for u in HOSTILE if not u.endswith("/18")])
def test_links__measured_elsewhere(url: str) -> None:
    """The run that measured is one of this repository, on this server."""
    assert _links.measured(replace(RUN, republished=url)) == ("", "")


def test_links__without_an_address_the_text_alone() -> None:
    """No address, no link."""
    assert _links.markdown("run", "") == _links.html("run", "") == "run"
    assert _links.markdown("run", "u") == "[run](u)"
    assert _links.html("run", "u") == '<a href="u">run</a>'
