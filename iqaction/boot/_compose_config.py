"""A resolved compose file: what it publishes, and how it is made ours. Pure.

The shapes are those of ``docker compose config --format json``: every port is an object whose
``published`` is a text (a range at times), paths are absolute, ``$`` is doubled so that the text
can be read by compose again.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iqaction.errors import BootError
from iqaction.json_value import JSON
from iqaction.withheld import FLAG, SECRET, USERINFO, hides, mask, spelled

LOOPBACK = "127.0.0.1"
HIDDEN = "(hidden)"

Body = dict[str, JSON]


@dataclass(frozen=True, order=True)
class Port:
    """A TCP port that a service publishes. ``published`` is "" where docker picks it."""

    service: str
    target: int
    published: str

    def covers(self, number: int) -> bool:
        """Whether ``number`` is the published port, or in its range."""
        first, _, last = self.published.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            return False
        return int(first) <= number <= int(last or first)


def parse(text: str) -> Body:
    """The configuration that compose printed.

    Raises
    ------
    BootError
        When it is no configuration with at least one service.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    services = found.get("services") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(services, dict) or not services:
        raise BootError(
            "the compose file defines no service that would be started",
            expected="at least one service, with its profile enabled",
            next_step="run `docker compose config` on it; profiles go into COMPOSE_PROFILES",
        )
    return found


def ports(config: Mapping[str, JSON]) -> list[Port]:
    """The published TCP ports, by service and then as the file lists them."""
    found = []
    for name, service in sorted(_services(config)):
        for port in _list(service.get("ports")):
            target = port.get("target") if isinstance(port, dict) else None
            if isinstance(port, dict) and isinstance(target, int) and _is_tcp(port):
                found.append(Port(name, target, _published(port)))
    return found


def localised(config: Mapping[str, JSON], keep: int | None) -> Body:
    """The configuration, so that two of it can run on one host and nobody else reaches it.

    Ports are published on the loopback address; the number ``keep`` stays, every other one is
    docker's choice. Names of containers go (they are one per host), and so do profiles: what
    compose printed is what they had selected already.
    """
    services: Body = {}
    for name, service in _services(config):
        ours = {k: v for k, v in service.items() if k not in ("container_name", "profiles")}
        if "ports" in ours:
            ours["ports"] = [_local(p, keep) for p in _list(ours["ports"])]
        services[name] = ours
    return {**config, "services": services}


def for_down(config: Mapping[str, JSON], project: str) -> Body:
    """What ``docker compose down`` needs to know: names, and no secret.

    A volume that the file gives a name of its own is shared with other projects (a cache of
    weights, mostly), though it is not ``external``: it is made so here, and outlives us.
    """
    volumes: Body = {}
    for key, volume in _mapping(config.get("volumes")).items():
        name = _mapping(volume).get("name")
        if isinstance(name, str) and not _mapping(volume).get("external"):
            ours = name == f"{project}_{key}"
            volumes[key] = {"name": name} if ours else {"name": name, "external": True}
    networks: Body = {}
    for key, network in _mapping(config.get("networks")).items():
        name = _mapping(network).get("name")
        if isinstance(name, str) and name == f"{project}_{key}":
            networks[key] = {"name": name}
    services: Body = {name: {"image": "unused"} for name, _ in _services(config)}
    return {"name": project, "services": services, "volumes": volumes, "networks": networks}


def caveats(config: Mapping[str, JSON], project: str) -> dict[str, str]:
    """What a reader of the evidence should know of this file, by name."""
    found = {}
    hosts = sorted(n for n, s in _services(config) if s.get("network_mode") == "host")
    if hosts:
        found["caveat host network"] = (
            f"{', '.join(hosts)}: on the host's network, so its ports are not bound to loopback "
            "and two legs on one host may disturb each other"
        )
    fresh = sorted(
        key
        for key, volume in _mapping(config.get("volumes")).items()
        if _mapping(volume).get("name") == f"{project}_{key}"
    )
    if fresh:
        found["caveat new volumes"] = (
            f"{', '.join(fresh)}: empty at each boot and removed after it; give a cache a `name:` "
            "of its own to keep it"
        )
    return found


def redacted(value: JSON, secrets: Sequence[str]) -> JSON:
    """A copy for the evidence: values whose name or flag speaks of a secret are hidden, and so
    is every given secret, wherever it stands."""
    return _redacted(value, spelled(secrets))


def _redacted(value: JSON, secrets: Sequence[str]) -> JSON:
    if isinstance(value, str):
        return USERINFO.sub("***@", mask(value, secrets))
    if isinstance(value, list):
        return list(_listed(value, secrets))
    if isinstance(value, dict):
        return {
            mask(key, secrets): HIDDEN if hides(key, inner) else _redacted(inner, secrets)
            for key, inner in value.items()
        }
    return value


def _listed(values: Sequence[JSON], secrets: Sequence[str]) -> Iterator[JSON]:
    """Arguments: ``--api-key X`` in two elements, ``--api-key=X`` and ``KEY=X`` in one."""
    hide_next = False
    for value in values:
        if not isinstance(value, str):
            hide_next = False
            yield _redacted(value, secrets)
            continue
        flag = FLAG.fullmatch(value) is not None
        name, equals, inner = value.partition("=")
        if hide_next and not flag:
            yield HIDDEN
        elif equals and " " not in name and hides(name, inner):
            yield f"{name}={HIDDEN}"
        elif " " in value and SECRET.search(value):  # `sh -c "... --api-key X"`
            yield HIDDEN
        else:
            yield _redacted(value, secrets)
        hide_next = flag and SECRET.search(value) is not None


def _services(config: Mapping[str, JSON]) -> list[tuple[str, Body]]:
    return [(n, s) for n, s in _mapping(config.get("services")).items() if isinstance(s, dict)]


def images(config: Mapping[str, JSON]) -> dict[str, str]:
    """The image that each service names; one that is built has none."""
    return {n: str(s["image"]) for n, s in _services(config) if isinstance(s.get("image"), str)}


def commands(config: JSON, longest: int) -> dict[str, str]:
    """The command that each service names, of an already redacted config. One that is longer than
    can be kept is left out: of a cut one, the end would read as removed."""
    found = {}
    for name, service in _services(_mapping(config)):
        command = service.get("command")
        words = [str(w) for w in command] if isinstance(command, list) else command
        line = shlex.join(words) if isinstance(words, list) else words
        if isinstance(line, str) and 0 < len(line) <= longest:
            found[name] = line
    return found


def on_host_network(config: Mapping[str, JSON]) -> bool:
    return any(s.get("network_mode") == "host" for _, s in _services(config))


def _local(port: JSON, keep: int | None) -> JSON:
    if not isinstance(port, dict):
        return port
    ours = {k: v for k, v in port.items() if k != "published"} | {"host_ip": LOOPBACK}
    if keep is not None and _is_tcp(port) and Port("", 0, _published(port)).covers(keep):
        ours["published"] = str(keep)
    return ours


def _published(port: Mapping[str, JSON]) -> str:
    value = port.get("published")
    return str(value) if isinstance(value, (str, int)) and value not in (0, "0") else ""


def _is_tcp(port: Mapping[str, JSON]) -> bool:
    return port.get("protocol", "tcp") in ("tcp", "")


def _mapping(value: JSON) -> Body:
    return value if isinstance(value, dict) else {}


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
