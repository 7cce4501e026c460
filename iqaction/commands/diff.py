"""``iqaction diff``: two evidence folders beside each other. Gives no verdict of its own."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from iqaction.commands import _folders
from iqaction.commands._console import Console
from iqaction.errors import ConfigError

ORDER = 8
_PAGE = b"<!doctype html"
SUMMARY = "show what differs between two evidence folders"
DESCRIPTION = """\
A and B are any two evidence folders, candidates or captured references (these may be packed, as
.tar.gz); A is what was before.
Says whether both were asked the same, how the engines differ, each figure of A and of B, and the
prompts that changed most, with both texts. "worse" and "better" are said where the interval over
the prompts of both lies wholly on one side; what is not paired is shown without an interval.
This is no verdict: the exit status is 0 for every two folders that can be read."""
EXAMPLES = """\
  iqaction diff before after
  iqaction diff reference candidate --html diff.html
  iqaction diff before after --json | jq '.stages[].figures[] | {metric, direction}'"""


def flags(parser: argparse.ArgumentParser) -> None:
    """A, B, and where the page goes."""
    for name, what in (("a", "what was before"), ("b", "what is held beside it")):
        parser.add_argument(
            name, metavar=name.upper(), type=Path, help=f"an evidence folder: {what}"
        )
    parser.add_argument("--html", metavar="FILE", type=Path, help="write it as a page too")


def run(args: argparse.Namespace, console: Console) -> int:
    """Show it; 0 whatever differs."""
    paths = [_given(args.a, "A"), _given(args.b, "B")]
    if args.html is not None:
        _must_be_apart(args.html, paths)
    from iqaction import __version__, comparing, comparing_view  # noqa: PLC0415 - numpy is not for `--help`
    from iqaction.evidence import bundle  # noqa: PLC0415
    from iqaction.evidence.store import Folder  # noqa: PLC0415

    parties = []
    for path in paths:
        with tempfile.TemporaryDirectory(prefix="iqaction-") as scratch:
            folder = bundle.opened(path, Path(scratch) / "baseline")
            with Folder.open(folder) as opened:
                parties.append(comparing.party(str(path), opened.load(), __version__))
    comparison = comparing.compare(*parties)
    if args.html is not None:
        from iqaction import comparing_html  # noqa: PLC0415

        args.html.write_text(comparing_html.page(comparison), encoding="utf-8")
    if console.json:
        console.object(comparing_view.as_json(comparison))
    else:
        console.page(comparing_view.page(comparison, console.columns))
    return 0


def _given(path: Path, name: str) -> Path:
    return path if path.is_file() else _folders.existing(path, name)


def _must_be_apart(page: Path, folders: list[Path]) -> None:
    """A page among sealed evidence would be a foreign file there; another file is not ours to
    replace."""
    if page.is_dir():
        raise ConfigError(f"--html: {page} is a folder", expected="a file to write")
    if page.exists() and not _is_page(page):
        raise ConfigError(
            f"--html: {page} is there already, and is no page",
            expected="a new file, or an earlier page, which is replaced",
        )
    whole = page.resolve()
    for folder in folders:
        if folder.resolve() in whole.parents:
            raise ConfigError(
                f"--html: {page} is in the evidence folder {folder}",
                expected="a file beside it",
            )


def _is_page(path: Path) -> bool:
    """True for a plain file that begins as a page does; a pipe is not waited for."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_PAGE)).lower() == _PAGE
