"""``iqaction publish``: post a report on its commit and pull request, now or again."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping

from iqaction.commands import _folders
from iqaction.commands._console import Console
from iqaction.errors import ConfigError

ORDER = 5
SUMMARY = "post a report to GitHub: check run and comment"
DESCRIPTION = """\
Posts the check run and the pull request's comment of a judged folder, as the action's last step
does; for a run whose publishing failed, or that was made by hand. What is posted is rendered from
report.json by this version. A result of a newer run is not overwritten.

A folder says nothing about who wrote it: with --root, the evidence root that the run printed, only
that run's own report is posted.

Exits 0 where all was posted, 3 where anything was not."""
EXAMPLES = """\
  # the action's evidence, downloaded from the run; the token is in $GITHUB_TOKEN
  iqaction publish evidence --pull-request 17 --root SHA256
  # a run made by hand
  iqaction publish candidate --repository org/serve --pull-request 17 \\
      --sha 0123456789abcdef0123456789abcdef01234567"""
_NOT_POSTED = 3
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}\Z")
_ROOT = re.compile(r"[0-9a-f]{64}\Z")
_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?\Z")


def flags(parser: argparse.ArgumentParser) -> None:
    """DIR, and what the report does not say itself."""
    _folders.add(parser)
    add = parser.add_argument
    add("--repository", metavar="OWNER/NAME", default="", help="default: the report's own")
    add("--sha", metavar="SHA", default="", help="commit to post on; default: the report's own")
    add(
        "--pull-request",
        metavar="N",
        type=int,
        default=0,
        help="pull request to comment on; default: the open ones at that commit",
    )
    add("--root", metavar="SHA256", default="", help="the evidence root that it must have")
    add(
        "--token-env",
        metavar="NAME",
        default="GITHUB_TOKEN",
        help="environment variable that holds the token; default: GITHUB_TOKEN",
    )
    add("--no-comment", action="store_true", help="the check run alone")
    add("--no-check", action="store_true", help="the comment alone")


def run(args: argparse.Namespace, console: Console) -> int:
    """Post; 0 where all of it is there."""
    folder = _folders.existing(args.folder)
    from iqaction.action import manual  # noqa: PLC0415 - requests is not for `--help`

    wanted = manual.Wanted(
        repository=_checked(args.repository, _REPOSITORY, "--repository", "owner/name"),
        sha=_checked(args.sha, _SHA, "--sha", "a commit's name in full"),
        pull_request=args.pull_request,
        comment=not args.no_comment,
        check=not args.no_check,
    )
    root = _checked(args.root.lower(), _ROOT, "--root", "64 hexadecimal digits")
    token = _token(args.token_env, console.environ)
    report = manual.stored(folder, root)
    done = manual.publish(report, wanted, token, console.environ)
    for warning in (*_unvouched(report.evidence_root, root), *done.warnings):
        console.complain(warning)
    urls = {"check_url": done.check_url, "comment_url": done.comment_url}
    status = 0 if done.published else _NOT_POSTED
    if console.json:
        console.object(
            {**urls, "published": done.published, "warnings": list(done.warnings)}
            | {"exit_code": status}
        )
    else:
        console.page("".join(f"{k.replace('_url', '')}  {v}\n" for k, v in urls.items() if v))
    return status


def _unvouched(found: str, wanted: str) -> tuple[str, ...]:
    """What is to be said of a folder whose root nobody has given."""
    if wanted:
        return ()
    if not found:
        return ("no evidence is beside the report: what is posted is the file's own word",)
    return (f"the root {found} was not compared with the run's: see --root",)


def _checked(text: str, form: re.Pattern[str], flag: str, expected: str) -> str:
    if text and not form.match(text):
        raise ConfigError(f"{flag}: found {text[:60]!r}", expected=expected)
    return text


def _token(name: str, environ: Mapping[str, str]) -> str:
    token = environ.get(name, "")
    if not token:
        raise ConfigError(
            f"the environment variable {name[:60]!r} is empty or not set",
            expected="a token with `checks: write` and `pull-requests: write` in it",
            next_step="name another variable with --token-env; the token is never an argument",
        )
    return token
