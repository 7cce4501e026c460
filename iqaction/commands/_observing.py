"""What `run` and `observe` share: their flags, and how these become a session's options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from iqaction.commands import _folders
from iqaction.commands._console import Console
from iqaction.errors import ConfigError

_MOST_IN_FLIGHT = 1024


def flags(parser: argparse.ArgumentParser) -> None:
    """Whom to ask, what, and where to keep the answers."""
    parser.add_argument(
        "--evidence",
        metavar="DIR",
        type=Path,
        required=True,
        help="folder for everything that is observed; one that was begun is continued",
    )
    whom(parser)
    parser.add_argument(
        "--baseline",
        metavar="PATH",
        default="",
        help="the reference's evidence, a folder or .tar.gz, or the URL of a server that is up: it "
        "is then asked in the same run; without it, this run captures one",
    )
    parser.add_argument(
        "--baseline-model",
        metavar="NAME",
        default="",
        help="model name at a baseline's URL; default: the one that is served",
    )
    parser.add_argument(
        "--baseline-sha256",
        metavar="SHA256",
        default="",
        help="the evidence root that the baseline must have, or the sha256 of its .tar.gz",
    )


def whom(parser: argparse.ArgumentParser) -> None:
    """The plan, the engine, and how it is asked."""
    parser.add_argument(
        "--plan", metavar="FILE", type=Path, help="the plan (YAML); default: the built-in plan"
    )
    parser.add_argument(
        "--endpoint", metavar="URL", default="", help="the engine, as http://127.0.0.1:8000/v1"
    )
    parser.add_argument(
        "--model", metavar="NAME", default="", help="model name; default: the one that is served"
    )
    parser.add_argument(
        "--dialect", metavar="NAME", default="", help="what the engine speaks; default: it is asked"
    )
    parser.add_argument(
        "--suite", metavar="NAME", default="", help="name of this comparison in reports"
    )
    parser.add_argument(
        "--api-key-env",
        metavar="NAME",
        default="",
        help="environment variable that holds the API key; the key itself is never stored",
    )
    parser.add_argument(
        "--concurrency",
        metavar="N",
        type=count(_MOST_IN_FLIGHT),
        help="requests in flight; default: the plan's, which is as many as traffic sees",
    )


def launch_flag(parser: argparse.ArgumentParser) -> None:
    """The relaunch of a capture that is observed."""
    parser.add_argument(
        "--launch",
        metavar="N",
        type=count(1000),
        default=0,
        help="this is relaunch N of the reference that DIR captured: it measures the noise floor",
    )
    parser.add_argument(
        "--not-restarted",
        action="store_true",
        help="launch N is a repeat on the same server: `score` does not PASS against such a "
        "baseline, unless the plan says `floor: single`",
    )


def perform(args: argparse.Namespace, console: Console, *, judged: bool) -> int:
    """Ask; where ``judged``, also judge and render. The exit status."""
    evidence = _folders.to_write(args.evidence, "--evidence")
    from iqaction import live_baseline, restarts, session  # noqa: PLC0415 - numpy is not for `--help`
    from iqaction.commands import _outcome  # noqa: PLC0415

    options = session.RunOptions(
        evidence=evidence,
        plan=args.plan,
        endpoint=args.endpoint,
        model=args.model,
        dialect=args.dialect,
        baseline=args.baseline,
        baseline_sha256=args.baseline_sha256,
        baseline_model=args.baseline_model,
        suite=args.suite,
        api_key_env=args.api_key_env,
        concurrency=args.concurrency,
        launch=0 if judged else args.launch,
        not_restarted=not judged and args.not_restarted,
    )
    if options.not_restarted and not options.launch:
        raise ConfigError("--not-restarted says how a relaunch was made", expected="--launch N")
    if options.launch and not options.not_restarted:
        endpoint = session.requested(options).endpoint
        restarts.must_be_new(endpoint, evidence, options.launch)
        if not restarts.listening(endpoint):
            console.progress().note("whether the server was restarted cannot be seen from here")
    if judged:
        return _outcome.judged(live_baseline.run(options, progress=console.progress()), console)
    return _outcome.observed(live_baseline.run(options, progress=console.progress()), console)


def count(most: int, least: int = 1) -> Callable[[str], int]:
    """Reads a whole number from ``least`` to ``most``."""

    def read(text: str) -> int:
        whole = text.isascii() and text.isdigit() and len(text) < 10
        if not (whole and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(
                f"found {text[:60]!r}, expected a whole number from {least} to {most}"
            )
        return int(text)

    return read
