"""An endpoint started by docker compose, as a project of its own that only this host reaches.

Knows the ``docker compose`` command line. The file is resolved once, made ours, written down and
started from there, so that what is recorded is what ran.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from iqaction.boot import _compose_config as configs
from iqaction.boot import _compose_ps as states
from iqaction.boot import machine, programs
from iqaction.boot._base import MARK, Spec, World
from iqaction.boot._compose_config import Port
from iqaction.boot._compose_ps import Container
from iqaction.boot.command import detached, how_ended, release
from iqaction.boot.environment import scrubbed
from iqaction.boot.files import append_private, write_private
from iqaction.errors import BootError, ConfigError
from iqaction.json_value import JSON
from iqaction.terminal import inline
from iqaction.withheld import secret_values, secret_words

RESOLVED = "compose.resolved.json"  # holds secrets: mode 0600, and removed once it was read
REDACTED = "compose.redacted.json"
_QUICK_S = 30.0  # what docker answers without doing anything
_LOOK_S = 1.0  # asking docker takes a tenth of a second of CPU
_UNANSWERED = 5  # times in a row that `ps` may fail: a daemon can be busy
_LOOPBACKS = ("localhost", "0.0.0.0")  # noqa: S104 - compared with, not bound to
_MOST_SERVICES = 32


@dataclass(frozen=True)
class Project:
    """A resolved project that is not started yet.

    Attributes
    ----------
    serving
        The port that will be asked; None on the host's network.
    outline, outline_data
        A file of names alone, by which it is asked after and taken down, and its content. It
        stays with the lease; the resolved file with its secrets goes once `up` has read it.
    """

    spec: Spec
    name: str
    env: Mapping[str, str] = field(repr=False)
    serving: Port | None
    outline: Path
    outline_data: bytes
    facts: Mapping[str, str]
    images: Mapping[str, str]

    def argv(self, *rest: str, file: Path | None = None) -> list[str]:
        return ["docker", "compose", "-p", self.name, "-f", str(file or self.outline), *rest]

    def ask(self, *rest: str, timeout_s: float = _QUICK_S) -> programs.Done:
        return programs.run(self.argv(*rest), env=self.env, cwd=self.spec.work, timeout_s=timeout_s)


def resolve(spec: Spec, mark: str, outline: Path, world: World) -> Project:
    """Read the compose file, make it ours and write it down. Starts nothing.

    ``outline`` is where the caller will write the project's outline, before the start.

    Raises
    ------
    ConfigError
        When docker is to be found elsewhere than by the job's environment.
    BootError
        When there is no docker compose, the file is wrong, or it does not publish the endpoint.
    """
    if any(name.upper().startswith("DOCKER_") for name in spec.compose_env):
        raise ConfigError(
            "compose_env names another docker",
            expected="variables of the compose file",
            next_step="set DOCKER_* for the whole job, so that stopping finds it too",
        )
    env = {**scrubbed(world.environ), **spec.compose_env, MARK: mark}
    owner = "\n".join((spec.owner.repository, spec.owner.run_id, spec.owner.job))
    name = "iq-" + hashlib.sha256(f"{owner}\n{secrets.token_hex(16)}".encode()).hexdigest()[:16]
    version = _version(spec, env)
    config = _config(spec, name, env)
    keep = _port_of(spec.endpoint) if spec.endpoint else None
    serving = _serving(spec, config, keep)
    ours = configs.localised(config, keep)
    write_private(spec.work / RESOLVED, json.dumps(ours).encode())
    clean = configs.redacted(ours, hidden(spec))
    shown = json.dumps(clean, indent=1, sort_keys=True)
    # The name is another one each time; without it, equal files have equal sums.
    data = shown.replace(name, "PROJECT").encode()
    write_private(spec.work / REDACTED, data)
    facts = {
        "started by": f"docker compose {version}",
        "compose file": str(spec.compose_file),
        "compose config sha256": hashlib.sha256(data).hexdigest(),
        **configs.caveats(ours, name),
        **{f"command {n}": c for n, c in _commands(clean)},
    }
    data = json.dumps(configs.for_down(ours, name)).encode()
    return Project(spec, name, env, serving, outline, data, facts, configs.images(ours))


def _commands(clean: JSON) -> Iterable[tuple[str, str]]:
    return islice(configs.commands(clean, machine.LONGEST).items(), _MOST_SERVICES)


def hidden(spec: Spec) -> tuple[str, ...]:
    """What is never shown: the secrets given, those among the compose file's variables, and what
    the two commands hold."""
    commands = f"{spec.command}\n{spec.stop_command}"
    values = secret_values(spec.compose_env)
    return (*spec.secrets, *values, *secret_words(commands))


def forget_resolved(work: Path) -> None:
    """Remove the resolved file, which holds secrets; nobody reads it after `up`."""
    (work / RESOLVED).unlink(missing_ok=True)


class Composed:
    """A project on its way up. See :class:`iqaction.boot._base.Started`."""

    def __init__(self, project: Project, world: World) -> None:
        self._project, self._world = project, world
        spec = project.spec
        up = project.argv("up", "-d", "--pull", "missing", file=spec.work / RESOLVED)
        self._up = detached(up, project.env, spec.work, spec.log)
        self._logs: subprocess.Popen[bytes] | None = None
        self._looked = float("-inf")
        self._unanswered = 0
        self._endpoint = ""
        self._containers: Sequence[Container] = ()

    def alive(self) -> str:
        code = self._up.poll()
        if code is None:
            return ""
        if code != 0:
            self._copy_logs()
            return f"`docker compose up` {how_ended(code)}"
        if self._logs is None:
            follow = self._project.argv(
                "logs", "--no-color", "--timestamps", "--follow", "--tail", "all"
            )
            spec = self._project.spec
            self._logs = detached(follow, self._project.env, spec.work, spec.log)
        now = self._world.clock()
        if now - self._looked < _LOOK_S:
            return ""
        self._looked = now
        return self._dead()

    def endpoint(self) -> str:
        """The given one, once everything is up; else where docker has published the port."""
        if self._up.poll() != 0:
            return ""
        if not self._endpoint:
            self._endpoint = self._project.spec.endpoint or self._published()
        return self._endpoint

    def remark(self) -> str:
        return ""

    def facts(self) -> Mapping[str, str]:
        found = dict(self._project.facts)
        for container in self._containers[:_MOST_SERVICES]:
            name = container.service
            found[f"image {name}"] = self._project.images.get(name, container.image)
            found[f"digest {name}"] = self._digest(container)
        return found

    def release(self) -> None:
        release(self._up)
        if self._logs is not None:
            release(self._logs)

    def _dead(self) -> str:
        done = self._project.ask("ps", "-a", "--format", "json")
        found = states.parse(done.out) if done.is_good else None
        if found is None:
            self._unanswered += 1
            lost = self._unanswered >= _UNANSWERED
            return f"`docker compose ps` does not answer ({done.why()})" if lost else ""
        self._unanswered, self._containers = 0, found
        serving = self._project.serving
        return states.dead(found, serving.service if serving is not None else "")

    def _published(self) -> str:
        serving = self._project.serving
        assert serving is not None  # resolve(): without an endpoint given there is one
        done = self._project.ask("port", serving.service, str(serving.target))
        number = done.out.strip().split("\n")[0].rpartition(":")[2] if done.is_good else ""
        return f"http://{configs.LOOPBACK}:{number}" if number.isdecimal() else ""

    def _digest(self, container: Container) -> str:
        """The digest by which anybody can pull the image that runs; else its local id."""
        spec, env = self._project.spec, self._project.env
        ask = ["docker", "inspect", "--type", "container", "--format", "{{.Image}}", container.id]
        done = programs.run(ask, env=env, cwd=spec.work, timeout_s=_QUICK_S)
        image = done.out.strip()
        if not done.is_good or not image:
            return "unknown"
        ask = ["docker", "image", "inspect", "--format", "{{json .RepoDigests}}", image]
        done = programs.run(ask, env=env, cwd=spec.work, timeout_s=_QUICK_S)
        try:
            digests = json.loads(done.out) if done.is_good else None
        except (ValueError, RecursionError):
            digests = None
        named = [d for d in digests if isinstance(d, str)] if isinstance(digests, list) else []
        return named[0] if named else image

    def _copy_logs(self) -> None:
        """What the containers of a failed `up` have said; nobody followed them yet."""
        done = self._project.ask("logs", "--no-color", "--timestamps", "--tail", "100")
        with open(append_private(self._project.spec.log), "ab") as stream:
            stream.write(done.out.encode())


def _version(spec: Spec, env: Mapping[str, str]) -> str:
    ask = ["docker", "compose", "version", "--short"]
    done = programs.run(ask, env=env, cwd=spec.cwd, timeout_s=_QUICK_S)
    if not done.is_good:
        raise BootError(
            f"docker compose does not work here: {inline(done.why())}",
            expected="docker with its compose plugin (version 2), for the runner's user",
            next_step="install it on the runner, or use `boot: command`",
        )
    return done.out.strip()[:40]


def _config(spec: Spec, name: str, env: Mapping[str, str]) -> configs.Body:
    ask = ["docker", "compose", "-p", name, "-f", str(spec.compose_file)]
    ask += ["config", "--format", "json"]
    done = programs.run(ask, env=env, cwd=spec.cwd, timeout_s=2 * _QUICK_S)
    if not done.is_good:
        why = configs.redacted(done.why(), hidden(spec))
        raise BootError(
            f"{inline(str(spec.compose_file))}: docker compose cannot use it: {inline(str(why))}",
            expected="a compose file that `docker compose config` accepts",
        )
    return configs.parse(done.out)


def _serving(spec: Spec, config: configs.Body, keep: int | None) -> Port | None:
    found = configs.ports(config)
    listed = ", ".join(f"{p.service} {p.published or 'any'}->{p.target}" for p in found) or "none"
    if keep is None:
        if found:
            return found[0]
        raise BootError(
            "no service of the compose file publishes a port, and no endpoint is given",
            expected="`ports:` on the service that answers, or `endpoint`",
        )
    for port in found:
        if port.covers(keep):
            return port
    if configs.on_host_network(config):
        return None
    raise BootError(
        f"no service of the compose file publishes port {keep}, which the endpoint names",
        expected=f"one of the published ports: {inline(listed)}",
        next_step="correct `endpoint`, or leave it out to have it found",
    )


def _port_of(endpoint: str) -> int:
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if host not in _LOOPBACKS and not host.startswith("127."):
        raise ConfigError(
            "compose publishes on 127.0.0.1, and the endpoint names another address",
            expected="an endpoint like http://127.0.0.1:8000, or none to have it found",
        )
    return port or (443 if parts.scheme == "https" else 80)
