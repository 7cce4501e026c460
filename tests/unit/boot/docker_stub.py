"""A docker that runs nothing: the few commands that boot uses, in the shapes that Docker Compose v2
prints, with its state in the folder that STUB_DOCKER names.

``behaviour.json`` in that folder says what goes wrong. With ``serve``, a "container" is a real
process on the published port, started without our environment as docker's daemon would.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

HOME = Path(os.environ["STUB_DOCKER"])
NOT_OURS = ("IQ_LEASE",)


def behaviour():
    path = HOME / "behaviour.json"
    return json.loads(path.read_text()) if path.exists() else {}


@contextmanager
def state():
    with open(HOME / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = HOME / "state.json"
        now = {"projects": {}, "volumes": [], "calls": []}
        if path.exists():
            now = json.loads(path.read_text())
        yield now
        fresh = HOME / "state.new"
        fresh.write_text(json.dumps(now))
        fresh.replace(path)


def fail(said, code=1):
    print(said, file=sys.stderr)
    sys.exit(code)


def load(path, project):
    """The file, interpolated, every port in long form, and the names that compose gives."""
    text = Path(path).read_text().replace("$$", "\0")
    text = re.sub(r"\$\{(\w+)\}", lambda m: os.environ.get(m[1], ""), text).replace("\0", "$")
    config = json.loads(text)
    profiles = os.environ.get("COMPOSE_PROFILES", "").split(",")
    services = {
        n: s
        for n, s in config["services"].items()
        if not s.get("profiles") or set(s["profiles"]) & set(profiles)
    }
    for service in services.values():
        service["ports"] = [long_form(p) for p in service.get("ports", [])]
        service.setdefault("networks", {"default": None})
    volumes = {
        k: {"name": f"{project}_{k}", **(v or {})} for k, v in config.get("volumes", {}).items()
    }
    networks = {"default": {"name": f"{project}_default", "ipam": {}}}
    return {"name": project, "services": services, "volumes": volumes, "networks": networks}


def long_form(port):
    if isinstance(port, dict):
        return {"mode": "ingress", "protocol": "tcp", **port}
    published, _, target = str(port).rpartition(":")
    form = {"mode": "ingress", "target": int(target), "protocol": "tcp"}
    return {**form, "published": published} if published else form


def config(project, file):
    said = behaviour().get("config_fails")
    if said:
        fail(said, 15)
    print(json.dumps(load(file, project), indent=2).replace("$", "$$"))


def up(project, file):
    does = behaviour()
    print(f" Network {project}_default  Creating", file=sys.stderr, flush=True)
    time.sleep(does.get("up_delay", 0))
    config = load(file, project)
    containers = []
    for number, (name, service) in enumerate(config["services"].items()):
        ports = []
        for port in service["ports"]:
            host = int(port.get("published") or does["ports"][f"{name}:{port['target']}"])
            shown = {"URL": port.get("host_ip", "0.0.0.0"), "TargetPort": port["target"]}
            ports.append({**shown, "PublishedPort": host, "Protocol": port["protocol"]})
        containers.append(
            {
                "ID": f"{number:012x}",
                "Name": service.get("container_name", f"{project}-{name}-1"),
                "Image": service.get("image", ""),
                "Service": name,
                "Project": project,
                "State": "running",
                "ExitCode": 0,
                "Health": "",
                "Publishers": ports,
                "pid": serve(ports) if does.get("serve") and ports else 0,
            }
        )
    with state() as now:
        now["projects"][project] = {"config": config, "containers": containers}
        now["volumes"] += [v["name"] for v in config["volumes"].values()]
    if does.get("up_fails"):
        fail(does["up_fails"])


def serve(ports):
    """A process that answers on the published port, as a daemon of the host's."""
    env = {k: v for k, v in os.environ.items() if k not in NOT_OURS}
    command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("server.py"))]
    command += [str(ports[0]["PublishedPort"])]
    null = subprocess.DEVNULL
    return subprocess.Popen(
        command, env=env, stdin=null, stdout=null, stderr=null, start_new_session=True
    ).pid


def ps(project):
    does = behaviour()
    with state() as now:
        rows = [dict(c) for c in now["projects"].get(project, {}).get("containers", [])]
    for row in rows:
        del row["pid"]
        row.update(does.get("states", {}).get(row["Service"], {}))
    if does.get("ps_array"):
        print(json.dumps(rows))
    else:
        for row in rows:
            print(json.dumps(row))


def port(project, service, target):
    with state() as now:
        containers = now["projects"][project]["containers"]
    for c in containers:
        for p in c["Publishers"]:
            if c["Service"] == service and p["TargetPort"] == int(target):
                print(f"{p['URL']}:{p['PublishedPort']}")
                return
    fail(f"no port {target}/tcp for container {project}-{service}-1")


def logs(project, follow):
    print(behaviour().get("logs", "engine-1  | 2026-01-01T00:00:00Z loading"), flush=True)
    while follow:
        with state() as now:
            if project not in now["projects"]:
                return
        time.sleep(0.1)


def down(project, file, volumes):
    if behaviour().get("down_fails"):
        fail("Cannot connect to the Docker daemon")
    known = load(file, project) if file else {"volumes": {}}
    with state() as now:
        found = now["projects"].pop(project, {"containers": []})
        if volumes:
            gone = [v["name"] for v in known["volumes"].values() if not v.get("external")]
            now["volumes"] = [v for v in now["volumes"] if v not in gone]
    for c in found["containers"]:
        if c["pid"]:
            with suppress(ProcessLookupError):
                os.kill(c["pid"], signal.SIGKILL)


def compose(argv):
    project = file = ""
    while argv and argv[0].startswith("-"):
        if argv[0] == "-p":
            project = argv[1]
        if argv[0] == "-f":
            file = argv[1]
        argv = argv[2:]
    command, rest = argv[0], argv[1:]
    with state() as now:
        now["calls"].append([command, *rest, *[f"env {k}" for k in os.environ if "TOKEN" in k]])
    if command == "version":
        print("2.29.7")
    elif command == "config":
        config(project, file)
    elif command == "up":
        up(project, file)
    elif command == "ps":
        ps(project)
    elif command == "port":
        port(project, *rest)
    elif command == "logs":
        logs(project, "--follow" in rest)
    elif command == "down":
        down(project, file, "--volumes" in rest)
    else:
        fail(f"unknown docker command: compose {command}")


def main(argv):
    if argv[0] == "compose":
        compose(argv[1:])
    elif argv[:2] == ["inspect", "--type"]:
        print("sha256:" + argv[-1].rjust(64, "a"))
    elif argv[:2] == ["image", "inspect"]:
        local = behaviour().get("built")
        print("[]" if local else json.dumps(["vllm/vllm-openai@sha256:" + "c" * 64]))
    else:
        fail(f"unknown docker command: {argv}")


main(sys.argv[1:])
