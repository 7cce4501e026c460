"""One boot: stop what was left behind, write a lease, start, wait until it generates.

Wires and cleans up. Whatever goes wrong on the way, what was started is stopped again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from iqaction.boot import (
    command,
    compose,
    environment,
    lease,
    machine,
    processes,
    readiness,
    stopping,
)
from iqaction.boot._base import COMMAND, COMPOSE, Booted, Owner, Say, Spec, Started, World
from iqaction.boot.compose import Project
from iqaction.boot.files import write_private
from iqaction.boot.lease import Lease
from iqaction.boot.logs import LogTail
from iqaction.boot.readiness import Watched
from iqaction.errors import BootError, ConfigError
from iqaction.interrupts import deferred
from iqaction.terminal import inline

Probe = Callable[[str], str]  # an endpoint in; "" when it has generated, else why not

_CONNECT_S = 2.0
# They listen for a container, whoever started that: whose it is cannot be told from them.
_FORWARDERS = ("", "docker-proxy", "rootlessport", "slirp4netns", "pasta", "conmon")


def boot(spec: Spec, probe: Probe, *, say: Say, world: World) -> Booted:
    """Start the endpoint and return when it has generated.

    What runs then survives this process; :func:`iqaction.boot.stopping.stop` ends it.

    Raises
    ------
    ConfigError
        When the options do not fit together. Nothing was started.
    BootError
        When it does not come up. It was stopped; its log is kept.
    KeyboardInterrupt
        It was stopped, as far as there was time; the lease stays where there was not.
    """
    _check(spec)
    owner = _owner(spec.owner, world)
    bare = dataclasses.replace(world, environ=environment.bare(world.environ))
    lease.reap(spec.leases, owner, world.now(), lambda path: stopping.stop(path, bare), say)
    if spec.endpoint:
        _must_be_free(spec.endpoint)
    _new_log(spec)
    held = _lease(spec, owner, world)
    path = lease.path_of(spec.leases, held.mark)
    try:
        return _booted(spec, held, probe, say, world)
    except KeyboardInterrupt:
        _clean_up(path, world, stopping.HURRY, say)
        raise
    except OSError as exc:
        _clean_up(path, world, stopping.Patience(), say)
        raise BootError(f"the boot failed: {exc}", expected="a working disk and docker") from exc
    except BaseException:
        _clean_up(path, world, stopping.Patience(), say)
        raise
    finally:
        compose.forget_resolved(spec.work)


def _booted(spec: Spec, held: Lease, probe: Probe, say: Say, world: World) -> Booted:
    begun = world.clock()
    path = lease.path_of(spec.leases, held.mark)
    project = None
    if spec.mode == COMPOSE:
        project = compose.resolve(spec, held.mark, lease.outline_of(path), world)
    started: Started | None = None
    try:
        # Signals wait until the lease says what was started: an exception may rise between any
        # two instructions, also between the start and the name of what it gave.
        with deferred():
            started = _start(spec, held, project, world)
        left = spec.ready_timeout_s - (world.clock() - begun)
        log = LogTail(spec.log, compose.hidden(spec))
        asking = _asking(started, probe)
        readiness.wait(Watched(asking, started.alive, log), left, world, say)
        endpoint = started.endpoint()
        _must_be_ours(endpoint, spec.mode, held.mark, path)
        took = {"ready after": f"{world.clock() - begun:.1f} s"}
        facts = {**started.facts(), **machine.facts(world.environ), **took}
    finally:
        if started is not None:
            started.release()
    return Booted(endpoint, path, machine.bounded(facts), spec.log)


def _new_log(spec: Spec) -> None:
    try:
        spec.work.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(spec.log, b"")
    except OSError as exc:
        raise BootError(
            f"cannot write {spec.log}: {exc.strerror or exc}",
            expected="a private folder of the job, with space in it",
        ) from exc


def _owner(given: Owner, world: World) -> Owner:
    tracking = given.tracking or world.environ.get("RUNNER_TRACKING_ID", "")
    place = given.place or world.environ.get("RUNNER_TEMP", "")
    return dataclasses.replace(given, tracking=tracking, place=place)


def _lease(spec: Spec, owner: Owner, world: World) -> Lease:
    now = world.now()
    return Lease(
        mark=lease.new_mark(),
        owner=owner,
        work=str(spec.work),
        created=now,
        expires=now + lease.LIFETIME_S,
        machine_boot=processes.boot_id(),
        stop_command=spec.stop_command,
        cwd=str(spec.cwd),
    )


def _start(spec: Spec, held: Lease, project: Project | None, world: World) -> Started:
    if project is not None:
        outline = str(project.outline)
        held = dataclasses.replace(held, project=project.name, compose_file=outline)
        lease.write(spec.leases, held)
        write_private(project.outline, project.outline_data)
        return compose.Composed(project, world)
    lease.write(spec.leases, held)
    started = command.start(spec, held.mark, world)
    lease.write(spec.leases, dataclasses.replace(held, leader=started.leader))
    return started


def _asking(started: Started, probe: Probe) -> readiness.Probe:
    def ask() -> str:
        endpoint = started.endpoint()
        if not endpoint:
            return "its containers are not up yet"
        said = probe(endpoint)
        remark = started.remark() if said else ""
        return f"{said} ({remark})" if remark else said

    return ask


def _clean_up(path: Path, world: World, patience: stopping.Patience, say: Say) -> None:
    with deferred():  # a second signal must not leave a server behind
        try:
            said = stopping.stop(path, world, patience)
        except BootError as exc:
            said = exc.happened
        if said != stopping.NOTHING:
            say(f"stopped: {inline(said)}")


def _check(spec: Spec) -> None:
    if spec.mode not in (COMMAND, COMPOSE):
        raise ConfigError(f"boot: {spec.mode!r}", expected=f"{COMMAND} or {COMPOSE}")
    if spec.mode == COMMAND and not spec.command.strip():
        raise ConfigError("boot: command without boot_command", expected="the command that serves")
    if spec.mode == COMMAND and not spec.endpoint:
        raise ConfigError(
            "boot: command without endpoint",
            expected="the URL at which what boot_command starts will answer",
        )
    if spec.mode == COMPOSE and (spec.compose_file is None or not spec.compose_file.is_file()):
        raise ConfigError(
            f"compose_file {spec.compose_file}: no such file", expected="a docker compose file"
        )
    if "\0" in "".join((spec.command, spec.stop_command, *spec.compose_env.values())):
        raise ConfigError("boot_command, stop_command or compose_env holds a NUL character")
    for name in spec.compose_env:
        if not name or "=" in name or "\0" in name:
            raise ConfigError(f"compose_env: {name!r}", expected="the name of a variable")
    if not processes.boot_id():
        raise ConfigError("boot works on Linux only", expected="/proc", next_step="use boot: none")
    if not 0 < spec.ready_timeout_s < 7 * 24 * 3600:
        raise ConfigError(
            f"ready_timeout: {spec.ready_timeout_s:g}", expected="seconds, more than 0"
        )


def _address(endpoint: str) -> tuple[str, int]:
    try:
        parts = urlsplit(endpoint)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return "", 0


def _must_be_free(endpoint: str) -> None:
    """Whoever answers before the start is not what is to be judged, and would be judged."""
    host, port = _address(endpoint)
    with contextlib.suppress(OSError, UnicodeError):
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
        raise BootError(
            f"something answers at {inline(host)}:{port} already, before anything was started",
            expected="a free port: it would be judged in place of what is booted",
            next_step="stop it, or use another port; to judge what runs there, use `boot: none`",
        )


def _must_be_ours(endpoint: str, mode: str, mark: str, path: Path) -> None:
    """Who answers while ours still loads would be judged in its place: another boot that was
    given the same port, or a server that has nothing to do with us."""
    _, port = _address(endpoint)
    listening = processes.listeners(port)
    marks = {processes.mark_of(pid) for pid in listening} - {""}
    # A server that renames itself overwrites what carries its mark: its session tells, too.
    if listening & {p.pid for p in processes.family(mark, lease.read(path).leader)}:
        return
    # Whose a container is cannot be told from its processes: compose knows its own.
    strangers = [
        f"{name} (process {pid})"
        for pid in sorted(listening if mode == COMMAND else ())
        if (name := processes.name_of(pid)) not in _FORWARDERS and not processes.is_contained(pid)
    ]
    if not marks and strangers:
        raise BootError(
            f"port {port} is answered by {inline(', '.join(strangers[:3]))}, which was not started "
            "here: it would be judged in place of what is booted",
            expected="a server that is a child of boot_command, or runs in a container",
            next_step="start it in boot_command; to judge what runs there anyway, use `boot: none`",
        )
    if marks and mark not in marks:
        raise BootError(
            f"port {port} was taken by another boot on this host, which answered in its place",
            expected="a port for each leg that may run at the same time",
            next_step="give each leg an endpoint of its own, or use compose without endpoint",
        )
