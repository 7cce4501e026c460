"""Booting by docker compose, against a stub that prints what Docker Compose v2 prints."""

from __future__ import annotations

import hashlib
import json
import signal
import time

import pytest
from unit.boot.factory import Host, asks, free_port, owner, until

from iqaction.boot import lease, stopping
from iqaction.boot.compose import REDACTED, RESOLVED
from iqaction.errors import BootError, ConfigError

ENGINE = {"image": "vllm/vllm-openai:v0.9", "ports": ["8000:8000"]}
FAST_S = 10.0


def composed(host: Host, services=None, port=0, volumes=None, **more):
    """A spec, with its compose file written."""
    file = host.folder / "compose.yaml"
    file.write_text(
        json.dumps({"services": services or {"engine": ENGINE}, "volumes": volumes or {}})
    )
    return host.spec(port=port, mode="compose", compose_file=file, **more)


@pytest.fixture
def serves(docker):
    """The engine's container answers, on a port of docker's choice; returns that port."""
    port = free_port()
    docker.does(serve=True, ports={"engine:8000": port})
    return port


def test_compose__answers_and_stops(compose_host, docker, serves):
    """The endpoint is found, asked, and taken down with all that was made."""
    host = compose_host

    booted = host.boot(composed(host))

    assert booted.endpoint == f"http://127.0.0.1:{serves}"
    assert asks(booted.endpoint) == ""
    [held] = host.held()
    assert list(docker.state["projects"]) == [held.project]
    assert held.project.startswith("iq-")

    said = stopping.stop(booted.lease, host.world)

    assert said == f"1 process ended; docker compose down of {held.project}"  # who follows the log
    assert docker.state["projects"] == {}
    assert asks(booted.endpoint) != ""
    assert list(host.leases.iterdir()) == []


def test_compose__loopback_only(compose_host, docker, serves):
    """Whatever the file says, ports are bound to loopback, and nothing has a name of its own."""
    host = compose_host
    services = {"engine": {**ENGINE, "ports": ["0.0.0.0:8000"], "container_name": "mine"}}
    services["engine"]["ports"] = [{"target": 8000, "published": "8000", "host_ip": "0.0.0.0"}]

    host.boot(composed(host, services))

    [project] = docker.state["projects"].values()
    [container] = project["containers"]
    assert container["Publishers"][0]["URL"] == "127.0.0.1"
    assert container["Publishers"][0]["PublishedPort"] == serves
    assert container["Name"] != "mine"


def test_compose__given_endpoint_keeps_its_port(compose_host, docker):
    """The port that the endpoint names stays; others are docker's choice."""
    host, port = compose_host, free_port()
    docker.does(serve=True, ports={"metrics:9090": 49_200})
    services = {"engine": {**ENGINE, "ports": [f"{port}:8000"]}}
    services["metrics"] = {"image": "prom", "ports": ["9090:9090"]}

    booted = host.boot(composed(host, services, port))

    assert booted.endpoint == f"http://127.0.0.1:{port}"
    [project] = docker.state["projects"].values()
    published = [c["Publishers"][0]["PublishedPort"] for c in project["containers"]]
    assert published == [port, 49_200]


def test_compose__facts(compose_host, docker, serves):
    """The evidence holds what was started: file, sum, images and digests."""
    host = compose_host
    spec = composed(host)

    facts = host.boot(spec).machine

    redacted = (spec.work / REDACTED).read_bytes()
    assert facts["compose config sha256"] == hashlib.sha256(redacted).hexdigest()
    assert facts["started by"] == "docker compose 2.29.7"
    assert facts["image engine"] == "vllm/vllm-openai:v0.9"
    assert facts["digest engine"] == "vllm/vllm-openai@sha256:" + "c" * 64
    assert not (spec.work / RESOLVED).exists()


def test_compose__equal_files_have_equal_sums(compose_host, docker, serves):
    """The project's random name is not in the sum."""
    host = compose_host
    sums = []
    for _ in range(2):
        booted = host.boot(composed(host))
        sums.append(booted.machine["compose config sha256"])
        stopping.stop(booted.lease, host.world)

    assert sums[0] == sums[1]


def test_compose__built_image(compose_host, docker, serves):
    """An image that nobody can pull is named by its local id."""
    docker.does(**{**json.loads((docker.home / "behaviour.json").read_text()), "built": True})

    facts = compose_host.boot(composed(compose_host)).machine

    assert facts["digest engine"].startswith("sha256:")


def test_compose__secrets(compose_host, docker, serves):
    """A secret reaches the container and nothing that is kept: files, facts, log, lease."""
    host = compose_host
    engine = {**ENGINE, "environment": {"HF_TOKEN": "${HF_TOKEN}", "MAX_TOKENS": "4096"}}
    engine["command"] = ["serve", "--api-key", "${API}", "--note=${HF_TOKEN}"]
    spec = composed(
        host,
        {"engine": engine},
        compose_env={"HF_TOKEN": "hf_planted", "API": "api-planted"},
        secrets=("api-planted",),
    )
    docker.does(serve=True, ports={"engine:8000": serves}, logs="using hf_planted and api-planted")

    booted = host.boot(spec)

    [project] = docker.state["projects"].values()
    assert project["config"]["services"]["engine"]["environment"]["HF_TOKEN"] == "hf_planted"
    kept = (spec.work / REDACTED).read_text() + str(booted.machine) + host.said.text
    kept += "".join(p.read_text() for p in host.leases.iterdir())
    assert "planted" not in kept
    assert booted.machine["command engine"].startswith("serve --api-key ")
    assert '"MAX_TOKENS": "4096"' in kept
    assert until(lambda: "hf_planted" in booted.log.read_text())  # ours alone, mode 0600
    assert booted.log.stat().st_mode & 0o777 == 0o600


def test_compose__no_token_in_the_environment(new_host, docker):
    """Docker itself never sees the job's token."""
    path = f"{docker.home.parent / 'bin'}:/usr/bin:/bin"
    host = new_host(PATH=path, GITHUB_TOKEN="t", GH_TOKEN="t")
    docker.does(serve=True, ports={"engine:8000": free_port()})

    stopping.stop(host.boot(composed(host)).lease, host.world)

    assert not [c for c in docker.state["calls"] if any("TOKEN" in word for word in c)]


def test_compose__profiles(compose_host, docker, serves):
    """A service that a profile selects is started, though the profile is known to `config` only."""
    host = compose_host
    engine = {"engine": {**ENGINE, "profiles": ["gpu"]}}

    booted = host.boot(composed(host, engine, compose_env={"COMPOSE_PROFILES": "gpu"}))

    assert "image engine" in booted.machine


def test_compose__dollars(compose_host, docker, serves):
    """A dollar sign in the file means itself after the file was resolved and read again."""
    engine = {**ENGINE, "command": ["sh", "-c", "echo $${HOME}"]}

    compose_host.boot(composed(compose_host, {"engine": engine}))

    [project] = docker.state["projects"].values()
    assert project["config"]["services"]["engine"]["command"][2] == "echo ${HOME}"


def test_compose__volumes(compose_host, docker, serves):
    """Volumes of the project are removed; one with a name of its own is a cache, and stays."""
    host = compose_host
    volumes = {"scratch": None, "weights": {"name": "hf-cache"}}
    booted = host.boot(composed(host, volumes=volumes))
    assert len(docker.state["volumes"]) == 2
    assert "scratch" in booted.machine["caveat new volumes"]
    assert "weights" not in booted.machine["caveat new volumes"]

    stopping.stop(booted.lease, host.world)

    assert docker.state["volumes"] == ["hf-cache"]


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"engine": {"State": "exited", "ExitCode": 1}}, "exited with code 1"),
        ({"engine": {"State": "exited", "ExitCode": 0}}, "exited with code 0"),
        ({"engine": {"State": "exited", "ExitCode": 137}}, "out of memory"),
        ({"engine": {"State": "restarting", "ExitCode": 1}}, "is restarting"),
        ({"other": {"State": "dead"}}, "is dead"),
        ({"other": {"State": "exited", "ExitCode": 2}}, "exited with code 2"),
    ],
)
def test_compose__fails_fast(compose_host, docker, array, states, said):
    """A container that is gone is told at once with its log, in both formats of `ps`."""
    host = compose_host
    docker.does(
        states=states, ps_array=array, ports={"engine:8000": 1}, logs="engine-1 | no GPU found"
    )
    begun = time.monotonic()

    with pytest.raises(BootError) as told:
        host.boot(composed(host, {"engine": ENGINE, "other": {"image": "x"}}))

    assert said in str(told.value)
    assert "  | engine-1 | no GPU found" in str(told.value)
    assert time.monotonic() - begun < FAST_S
    assert docker.state["projects"] == {}


def test_compose__a_step_that_ended_well(compose_host, docker, serves):
    """A container that prepared something and exited with 0 is no failure."""
    docker.does(
        serve=True,
        ports={"engine:8000": serves},
        states={"fetch": {"State": "exited", "ExitCode": 0}},
    )
    services = {"engine": ENGINE, "fetch": {"image": "x"}}

    booted = compose_host.boot(composed(compose_host, services))

    assert asks(booted.endpoint) == ""


def test_compose__up_fails(compose_host, docker):
    """What docker said when it could not start is in the error, and so are the containers' logs."""
    docker.does(
        ports={"engine:8000": 1},
        up_fails='could not select device driver "nvidia" with capabilities: [[gpu]]',
        logs="engine-1 | half started",
    )

    with pytest.raises(BootError, match=r"`docker compose up` ended with exit code 1") as told:
        compose_host.boot(composed(compose_host))

    assert "could not select device driver" in str(told.value)
    assert "half started" in str(told.value)


def test_compose__a_bad_file(compose_host, docker):
    """What compose says of a file is told, without a secret in it."""
    docker.does(config_fails="service engine: invalid value hunter22 for ports")

    with pytest.raises(BootError, match="cannot use it: exit code 15") as told:
        compose_host.boot(composed(compose_host, secrets=("hunter22",)))

    assert "invalid value *** for ports" in str(told.value)
    assert compose_host.held() == []


def test_compose__no_docker(new_host):
    """A runner without docker compose is told what is missing."""
    host = new_host(PATH="/nowhere")

    with pytest.raises(BootError, match="docker compose does not work here"):
        host.boot(composed(host))


@pytest.mark.parametrize(
    ("services", "port", "said"),
    [
        ({"engine": {"image": "x"}}, 0, "no service of the compose file publishes a port"),
        ({"engine": ENGINE}, 8001, "publishes port 8001"),
        ({"engine": {**ENGINE, "profiles": ["gpu"]}}, 0, "no service that would be started"),
    ],
)
def test_compose__no_endpoint_there(compose_host, docker, services, port, said):
    """An endpoint that nobody would answer at is told before the start."""
    with pytest.raises(BootError) as told:
        compose_host.boot(composed(compose_host, services, port))

    assert said in str(told.value)
    assert "up" not in [c[0] for c in docker.state["calls"]]


def test_compose__host_network(compose_host, docker):
    """A service on the host's network cannot be bound to loopback: done, and said."""
    host, port = compose_host, free_port()
    docker.does()

    def probe(endpoint: str) -> str:
        return ""

    services = {"engine": {"image": "x", "network_mode": "host"}}
    booted = host.boot(composed(host, services, port), probe)

    assert booted.endpoint == f"http://127.0.0.1:{port}"
    assert "engine" in booted.machine["caveat host network"]


def test_compose__endpoint_elsewhere(compose_host, docker):
    """An endpoint that loopback cannot serve is refused."""
    with pytest.raises(ConfigError, match="another address"):
        compose_host.boot(composed(compose_host, endpoint="http://gpu-box:8000"))


def test_compose__another_docker(compose_host, docker):
    """Stopping must find the docker that started."""
    with pytest.raises(ConfigError, match="another docker"):
        compose_host.boot(composed(compose_host, compose_env={"DOCKER_HOST": "tcp://x"}))


def test_compose__two_at_once(compose_host, docker):
    """Two legs of one file on one host: two projects, two ports, and one stop stops one."""
    host = compose_host
    booted = []
    for runner in ("gpu-1", "gpu-2"):
        docker.does(serve=True, ports={"engine:8000": free_port()})
        booted.append(host.boot(composed(host, owner=owner(runner))))

    stopping.stop(booted[0].lease, host.world)

    assert [asks(b.endpoint) == "" for b in booted] == [False, True]
    assert len(docker.state["projects"]) == 1


def test_compose__killed_job_is_reaped(compose_host, docker):
    """Containers of a job that was killed are taken down by the runner's next boot, also when the
    job's folder is gone."""
    host, port = compose_host, free_port()
    docker.does(ports={"engine:8000": port})  # up, and never answering
    spec = composed(host, ready_timeout_s=60)
    with host.job(spec) as job:
        assert until(lambda: docker.state["projects"])
        job.kill()
        job.communicate()
    [held] = host.held()
    for left in spec.work.iterdir():
        left.unlink()
    docker.does(serve=True, ports={"engine:8000": port})

    booted = host.boot(composed(host, owner=owner(run_id="8")))

    assert list(docker.state["projects"]) == [lease.read(booted.lease).project]
    assert held.project not in docker.state["projects"]
    assert "stopped what an earlier job left behind" in host.said.text


@pytest.mark.parametrize("moment", ["pulling", "loading"])
def test_compose__signal(compose_host, docker, moment):
    """A cancelled job takes its containers down, also while they are pulled."""
    host = compose_host
    docker.does(ports={"engine:8000": 1}, up_delay=30 if moment == "pulling" else 0)
    seen = {
        "pulling": lambda: "up" in [c[0] for c in docker.state["calls"]],
        "loading": lambda: docker.state["projects"],
    }
    with host.job(composed(host, ready_timeout_s=60)) as job:
        assert until(seen[moment])
        begun = time.monotonic()
        job.send_signal(signal.SIGINT)
        said, _ = job.communicate(timeout=20)

    assert job.returncode == 130, said
    assert time.monotonic() - begun < 7.5
    assert docker.state["projects"] == {}
    assert host.held() == []


def test_compose__down_fails(compose_host, docker, serves):
    """What could not be taken down is said, and the lease stays for the next try."""
    host = compose_host
    booted = host.boot(composed(host))
    docker.does(down_fails=True)

    with pytest.raises(BootError, match="Cannot connect to the Docker daemon"):
        stopping.stop(booted.lease, host.world)

    docker.does()
    assert "down" in stopping.stop(booted.lease, host.world)
    assert host.held() == []
