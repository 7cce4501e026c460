"""A baseline in one command: the reference, its relaunches, and one file of it. I/O.

Drives the session launch by launch and runs the user's own command between two launches. What a
launch asks, and when it has been asked in full, is the stages' to say; what is on the disk decides
where a capture goes on. Decides no verdict: one that the judge refuses is not packed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from iqaction import connecting, restarts, runner, session, stages
from iqaction.boot import readiness
from iqaction.boot._base import Say, World
from iqaction.boot.command import detached, how_ended
from iqaction.boot.logs import PREFIX, LogTail, tail_text
from iqaction.calls import Arm, Call, EngineInfo, Observation, Tag
from iqaction.errors import BootError, ConfigError
from iqaction.evidence import bundle
from iqaction.evidence.store import Folder
from iqaction.inputs import Request
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.progress import Progress, Quiet
from iqaction.runner import Connection, Job
from iqaction.session import Outcome, RunOptions
from iqaction.stages._levels import ENOUGH_LAUNCHES, FEWEST_LAUNCHES, is_floorless
from iqaction.verdict import Verdict
from iqaction.withheld import of_environment, secret_words

LAUNCHES = ENOUGH_LAUNCHES
WORK = ".evidence"  # added to the name of a packed baseline: the folder that it is made from
_GZIP = b"\x1f\x8b"
_LOOK_S = 0.1
_TAIL_LINES = 20
_BACKGROUND = "a server that it starts belongs in the background: `nohup ... >serve.log 2>&1 &`"


@dataclass(frozen=True)
class Options:
    """What to capture.

    Attributes
    ----------
    run
        As of a run; its ``evidence`` is where the result goes, a folder or a ``.tar.gz``.
    relaunch
        A shell command that restarts the server and returns; "" where there is none.
    timeout_s
        Of that command, and again until the server generates.
    """

    run: RunOptions
    launches: int = LAUNCHES
    relaunch: str = ""
    timeout_s: float = 1200.0

    @property
    def out(self) -> Path:
        return self.run.evidence

    @property
    def folder(self) -> Path:
        """Where the evidence lies while it is captured, and stays."""
        if bundle.is_bundle(self.out):
            return self.out.with_name(self.out.name + WORK)
        return self.out


@dataclass(frozen=True)
class Captured:
    """How a capture ended. ``packed`` is the bundle's sha256, "" where none was written;
    ``is_old``: it was complete before, and nobody was asked."""

    outcome: Outcome
    packed: str = ""
    size: int = 0
    refused: bool = False
    is_old: bool = False


class _Left(Exception):
    """Something is left to ask."""


def capture(options: Options, world: World, progress: Progress) -> Captured:
    """Capture the reference and its relaunches; goes on with a capture that was interrupted.

    Raises
    ------
    ConfigError
        The plan or a flag is wrong, or the capture was begun in another way.
    EvidenceError
        The folder is another run's, or cannot be written.
    BootError
        The server could not be restarted, or did not come up again.
    """
    request = _checked(options)
    _must_be_replaceable(options, progress)
    plan = session.planned(replace(options.run, capture=True))
    if not options.relaunch and options.launches:
        progress.note(
            "without --relaunch-command every launch is a repeat on the same one: `score` cannot "
            "PASS against that, unless the plan says `floor: single`"
        )
    outcome: Outcome | None = None
    for launch in range(options.launches + 1):
        kept = _kept(options.folder)
        if kept is not None and _is_complete(kept, plan, launch):
            continue
        if launch and kept is not None and _asks_nothing(kept, launch):
            progress.note(f"launch {launch} of {options.launches}: no stage asks anything there")
            continue
        if launch:
            _same_way(options, kept)
            _relaunched(options, request, launch, world, progress)
        said = f"launch {launch} of {options.launches}" if launch else "launch 0: the reference"
        progress.note(said)
        outcome = _observed(options, launch, progress)
        if not outcome.complete or _is_refused(outcome):
            return _ended(options, outcome)
    if outcome is None:
        return replace(_ended(options, session.judge(options.folder)), is_old=True)
    return _ended(options, outcome)


def _observed(options: Options, launch: int, progress: Progress) -> Outcome:
    one = replace(
        options.run,
        evidence=options.folder,
        launch=launch,
        not_restarted=bool(launch) and not options.relaunch,
        capture=True,
    )
    return session.observe(one, progress=progress)


def _is_refused(outcome: Outcome) -> bool:
    """True where a candidate could never be compared with it."""
    report = outcome.report
    return report.verdict in (Verdict.FAIL, Verdict.NOT_RUN) or bool(report.problems)


def _ended(options: Options, outcome: Outcome) -> Captured:
    if not outcome.complete:
        return Captured(outcome)
    if _is_refused(outcome):
        return Captured(outcome, refused=True)
    if not bundle.is_bundle(options.out):
        return Captured(outcome)
    digest = bundle.pack(options.folder, options.out)
    return Captured(outcome, digest, options.out.stat().st_size)


def _checked(options: Options) -> Request:
    """The request, where this many launches can be a floor, and the folder is of such a capture."""
    request = session.requested(replace(options.run, capture=True))
    if options.launches < FEWEST_LAUNCHES and needs_floor(request.stages):
        raise ConfigError(
            f"--launches {options.launches}: the noise between launches would not be known",
            expected=f"at least {FEWEST_LAUNCHES}, or `floor: single` at `score` in the plan",
        )
    if bundle.is_bundle(options.out) and options.out.is_dir():
        raise ConfigError(f"--out: {options.out} is a folder", expected="a file, new or replaced")
    return request


def _must_be_replaceable(options: Options, progress: Progress) -> None:
    """Say that a packed baseline will be replaced by another; refuse to replace anything else."""
    out = options.out
    if not bundle.is_bundle(out) or not out.exists():
        return
    if not (out.is_file() and _begins(out, _GZIP)):
        raise ConfigError(
            f"--out: {out} is there already, and is no packed baseline",
            expected="a new file, or a packed baseline, which is replaced",
        )
    if not (options.folder / "plan.json").is_file():
        progress.note(
            f"{out} is there already: a new baseline is captured, and replaces it when it is whole"
        )


def _begins(path: Path, with_: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(with_)) == with_


def needs_floor(specs: Iterable[StageSpec]) -> bool:
    """True where a stage is judged against the noise between launches: `score`, unless it says
    `floor: single`."""
    return any(s.stage == "score" and not is_floorless(s) for s in specs)


def _same_way(options: Options, kept: Observed | None) -> None:
    """Refuse to mix launches after a restart with launches without one."""
    if kept is None or not kept.launches or bool(kept.not_restarted) is not bool(options.relaunch):
        return
    how = "without restarting" if kept.not_restarted else "after restarts of"
    again = "no --relaunch-command" if kept.not_restarted else "--relaunch-command CMD"
    raise ConfigError(
        f"{options.folder}: its launches were observed {how} the server",
        expected=f"the same way again: {again}",
        next_step="capture into a new --out to change that",
    )


def _kept(folder: Path) -> Observed | None:
    """What was captured so far, None where nothing was."""
    if not (folder / "plan.json").is_file():
        return None
    with Folder.open(folder) as opened:
        return opened.load(alone=True)


def _is_complete(kept: Observed, plan: Plan, launch: int) -> bool:
    """True where a launch has an answer to everything that it asks: then nobody is asked, and the
    server need not run. Evidence of another plan never is: continuing it is refused elsewhere."""
    arm = Arm.REPEAT if launch else Arm.BASELINE
    engine = kept.engines.get((arm, launch))
    if engine is None or kept.plan.sha256 != plan.sha256:
        return False
    try:
        runner.observe(_replay(kept, arm, launch, engine), Quiet())
    except _Left:
        return False
    return True


def _asks_nothing(kept: Observed, launch: int) -> bool:
    """True where no stage asks anything of that launch: then the server need not be restarted."""
    engine = kept.engines.get((Arm.BASELINE, 0))
    if engine is None:
        return False
    nothing = replace(kept, seen={s: _of(tags, Arm.BASELINE) for s, tags in kept.seen.items()})
    try:
        runner.observe(_replay(nothing, Arm.REPEAT, launch, engine), Quiet())
    except _Left:
        return False
    return True


def _of(tags: Mapping[Tag, Observation], arm: Arm) -> Mapping[Tag, Observation]:
    return {tag: o for tag, o in tags.items() if tag.arm is arm}


def _replay(kept: Observed, arm: Arm, launch: int, engine: EngineInfo) -> Job:
    """The job of that launch with nobody to ask: it raises where something is left."""

    def ask(call: Call) -> Observation:
        raise _Left

    able = tuple(
        s
        for s in kept.plan.stages
        if s.required or not stages.load(s.stage).needs(s, arm) - engine.capabilities
    )
    return Job(
        replace(kept.plan, stages=able),
        kept.prompts,
        {stage: dict(tags) for stage, tags in kept.seen.items()},
        {arm: Connection(engine, ask)},
        keep=lambda stage, observation: None,
        traffic=lambda: 1,
        extend=lambda look: False,
        arm=arm,
        launch=launch,
        data=kept.data,
    )


# --- between two launches -------------------------------------------------------------------


def _relaunched(
    options: Options, request: Request, launch: int, world: World, progress: Progress
) -> None:
    """Leave the server started anew, and answering. A launch that was interrupted goes on with
    the server that it has, where that still answers."""
    if not options.relaunch:
        return
    ask = _probe(request)
    kept = _kept(options.folder)
    if kept is not None and (Arm.REPEAT, launch) in kept.engines and ask() == "":
        return
    progress.note(f"launch {launch} of {options.launches}: restarting the server")
    before = _identities(request.endpoint)
    with tempfile.TemporaryDirectory(prefix="iqaction-") as home:
        log = Path(home) / "relaunch.log"
        _run(options, log, world, _secrets(options, request, world), progress)
        tail = LogTail(log, _secrets(options, request, world))
        watched = readiness.Watched(ask, lambda: "", tail, "--relaunch-timeout")
        readiness.wait(watched, options.timeout_s, world, _without_log(progress))
    same = before & _identities(request.endpoint)
    if same:
        raise BootError(
            f"the relaunch command ended, and the server was not restarted: process "
            f"{min(same)[0]} has been listening at {request.endpoint} since before",
            expected="a new process that answers there",
            next_step="make the command stop the server first; where a proxy listens there, give "
            "--endpoint the server's own address",
        )


def _identities(endpoint: str) -> frozenset[tuple[int, int]]:
    """Of who listens there, what a process keeps while its parent may end."""
    return frozenset((p.pid, p.started) for p in restarts.listening(endpoint))


def _probe(request: Request) -> Callable[[], str]:
    key = connecting.api_key(request)
    model = "" if request.model == "auto" else request.model

    def ask() -> str:
        return readiness.probe(request.endpoint, model, request.dialect, key)

    return ask


def _secrets(options: Options, request: Request, world: World) -> tuple[str, ...]:
    """What the command and the server may print, and nobody may read."""
    key = world.environ.get(request.api_key_env, "") if request.api_key_env else ""
    return (key, *of_environment(world.environ), *secret_words(options.relaunch))


def _without_log(progress: Progress) -> Say:
    """Tells what is waited for; a server's own lines would bury that, and an error repeats them."""

    def say(line: str) -> None:
        if not line.startswith(PREFIX):
            progress.note(line)

    return say


def _run(
    options: Options, log: Path, world: World, secrets: tuple[str, ...], progress: Progress
) -> None:
    """Run the user's command to its end. In a session of its own: the server that it starts is to
    outlive us, and Ctrl-C here."""
    process = detached(["sh", "-c", options.relaunch], world.environ, Path.cwd(), log)
    start = world.clock()
    remind_at = start + readiness.REMIND_S
    try:
        while (code := process.poll()) is None:
            now = world.clock()
            if now - start >= options.timeout_s:
                why = f"did not end within {options.timeout_s:g} s (--relaunch-timeout)"
                raise _not_relaunched(why, log, secrets)
            if now >= remind_at:
                remind_at = now + readiness.REMIND_S
                progress.note(_still_runs(now - start, options.timeout_s))
            world.sleep(_LOOK_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()
    if code:
        raise _not_relaunched(how_ended(code), log, secrets)


def _still_runs(elapsed: float, limit: float) -> str:
    said = f"waiting for the relaunch command to return, {elapsed:.0f} s of at most {limit:g} s"
    if elapsed < 2 * readiness.REMIND_S:
        return said
    return (
        f"{said} (--relaunch-timeout): if it runs the server in the foreground it never returns; "
        f"{_BACKGROUND}"
    )


def _not_relaunched(why: str, log: Path, secrets: tuple[str, ...]) -> BootError:
    printed = tail_text(log, secrets).splitlines()[-_TAIL_LINES:]
    said = "\n".join(["it printed last:", *(f"    {line}" for line in printed)])
    return BootError(
        f"the relaunch command {why}; {said if printed else 'it printed nothing'}",
        expected="a command that restarts the server and returns, as `docker restart NAME`; "
        f"{_BACKGROUND}",
        next_step="run it by hand; then the same capture again: it continues where it stopped",
    )
