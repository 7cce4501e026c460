"""The only links that a surface holds: to the run and its evidence, on the server of the run.

Everything else that looks like an address is shown as code. A link is made only of an address
that is character for character what GitHub's own is for this repository and run.
"""

from __future__ import annotations

import re

from iqaction.report import Run

_ORIGIN = r"https?://[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?(?::[0-9]{1,5})?"
_NAME = r"[A-Za-z0-9._-]{1,100}"
_RUN = re.compile(rf"({_ORIGIN})/({_NAME}/{_NAME})/actions/runs/([1-9][0-9]{{0,19}})\Z")
_ATTEMPT = re.compile(r"/attempts/[1-9][0-9]{0,5}\Z")
_ARTIFACT = re.compile(r"/artifacts/[1-9][0-9]{0,19}\Z")


def run_url(run: Run) -> str:
    """The run's own page; "" where ``url`` is anything else."""
    found = _RUN.match(_ATTEMPT.sub("", run.url))
    if found is None or (found[2], found[3]) != (run.repository, run.run_id):
        return ""
    return run.url


def artifact_url(run: Run) -> str:
    """The run's uploaded evidence; "" where it is of another run, or not known."""
    page = _ATTEMPT.sub("", run_url(run))
    if not page or not run.artifact_url.startswith(page):
        return ""
    return run.artifact_url if _ARTIFACT.match(run.artifact_url[len(page) :]) else ""


def measured(run: Run) -> tuple[str, str]:
    """Id and page of the earlier run that measured; empty where it is none of this repository."""
    here = _RUN.match(_ATTEMPT.sub("", run_url(run)))
    there = _RUN.match(_ATTEMPT.sub("", run.republished))
    if here is None or there is None or here.group(1, 2) != there.group(1, 2):
        return "", ""
    return there[3], run.republished


def markdown(text: str, url: str) -> str:
    """A link: ``text`` is ours, ``url`` is from this module."""
    return f"[{text}]({url})" if url else text


def html(text: str, url: str) -> str:
    """The same in HTML."""
    return f'<a href="{url}">{text}</a>' if url else text
