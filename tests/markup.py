"""What a reader's browser would make of a surface's output, as flat lists that tests can check."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

import cmarkgfm
from cmarkgfm.cmark import Options

_VOID = {"meta", "br", "hr", "img", "input"}


@dataclass
class Seen(HTMLParser):
    """Tags with attributes, text within and outside of code, and comments, in order."""

    tags: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str | None]] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    unbalanced: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.attributes += attrs
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "code":
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if "code" in self.open:
            self.code[-1] += data
        elif "pre" not in self.open and "style" not in self.open:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_decl(self, decl: str) -> None:
        self.other.append(decl)

    def unknown_decl(self, data: str) -> None:
        self.other.append(data)

    def handle_pi(self, data: str) -> None:
        self.other.append(data)


def of_html(text: str) -> Seen:
    """An HTML page as parsed."""
    seen = Seen()
    seen.feed(text)
    seen.close()
    return seen


def of_markdown(text: str) -> Seen:
    """Markdown as GitHub's own parser renders it, with nothing filtered out afterwards."""
    return of_html(
        cmarkgfm.github_flavored_markdown_to_html(text, options=Options.CMARK_OPT_UNSAFE)
    )
