"""What a surface may ask for. A surface returns effects as data; another step performs them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UpsertComment:
    """Create or replace the sticky comment that starts with ``marker``.

    ``only_if_present``: replace one that is there, and create none.
    """

    marker: str
    body: str
    only_if_present: bool = False


@dataclass(frozen=True)
class PutCheckRun:
    name: str
    head_sha: str
    conclusion: str  # "success", "failure" or "neutral"
    title: str
    summary: str
    text: str = ""


@dataclass(frozen=True)
class AppendSummary:
    markdown: str


@dataclass(frozen=True)
class SetOutput:
    name: str
    value: str


@dataclass(frozen=True)
class WriteFile:
    """A file in the evidence folder, as ``report.html``. ``name`` is a plain file name."""

    name: str
    content: str


@dataclass(frozen=True)
class Annotate:
    path: str
    line: int
    level: str  # "notice", "warning" or "failure"
    message: str


Effect = UpsertComment | PutCheckRun | AppendSummary | SetOutput | WriteFile | Annotate
