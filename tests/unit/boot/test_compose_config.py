"""A resolved compose file: what is published, what is made ours, what is hidden."""

from __future__ import annotations

import json

import pytest

from iqaction.boot import _compose_config as configs
from iqaction.boot import _compose_ps as states
from iqaction.boot._compose_config import Port
from iqaction.errors import BootError

PROJECT = "iq-0123456789abcdef"


def config(**service):
    return {"name": PROJECT, "services": {"engine": {"image": "x", **service}}}


def published(target=8000, **more):
    return {"mode": "ingress", "target": target, "protocol": "tcp", **more}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"services": {}}', '{"services": []}'])
def test_parse__nothing_to_start(text):
    """Nothing that would be started is an error, and no green."""
    with pytest.raises(BootError, match="no service"):
        configs.parse(text)


def test_ports():
    """TCP ports in the order of services and of the file; what is odd is left out."""
    services = {
        "b": {"ports": [published(1, published="81"), published(2)]},
        "a": {"ports": [published(3, protocol="udp"), published(4, published=84), "5:5", None]},
        "c": {"ports": None},
        "d": None,
    }

    found = configs.ports({"services": services})

    assert found == [Port("a", 4, "84"), Port("b", 1, "81"), Port("b", 2, "")]


@pytest.mark.parametrize(
    ("port", "number", "expected"),
    [
        ("8000", 8000, True),
        ("8000", 8001, False),
        ("8000-8010", 8005, True),
        ("8000-8010", 8011, False),
        ("", 0, False),
        ("x-y", 1, False),
        ("8000-", 8000, True),
    ],
)
def test_covers(port, number, expected):
    """A published port may be a range."""
    assert Port("a", 1, port).covers(number) is expected


@pytest.mark.parametrize(
    ("keep", "port", "expected"),
    [
        (None, {"published": "8000"}, None),
        (8000, {"published": "8000"}, "8000"),
        (8001, {"published": "8000-8010"}, "8001"),
        (9000, {"published": "8000"}, None),
        (8000, {"published": "8000", "protocol": "udp"}, None),
        (8000, {}, None),
    ],
)
def test_localised__ports(keep, port, expected):
    """Every port is on loopback; only the one that the endpoint names keeps its number."""
    ours = configs.localised(config(ports=[published(**{"host_ip": "0.0.0.0", **port})]), keep)

    [found] = ours["services"]["engine"]["ports"]
    assert found["host_ip"] == "127.0.0.1"
    assert found.get("published") == expected


def test_localised__the_rest_stays():
    """Nothing else of the file is touched, and the given one is not changed."""
    given = config(container_name="mine", profiles=["gpu"], command=["serve"], network_mode="host")
    before = json.dumps(given)

    ours = configs.localised({**given, "x-more": 1}, None)

    engine = {"image": "x", "command": ["serve"], "network_mode": "host"}
    assert ours == {"name": PROJECT, "services": {"engine": engine}, "x-more": 1}
    assert json.dumps(given) == before


def test_for_down():
    """Taking down needs names. What has a name of its own is shared, and stays."""
    given = config(environment={"HF_TOKEN": "planted"}) | {
        "volumes": {
            "own": {"name": f"{PROJECT}_own", "driver": "local"},
            "shared": {"name": "hf-cache"},
            "external": {"name": "data", "external": True},
            "odd": None,
        },
        "networks": {"default": {"name": f"{PROJECT}_default"}, "lan": {"name": "lan"}},
        "secrets": {"s": {"environment": "HF_TOKEN"}},
    }

    assert configs.for_down(given, PROJECT) == {
        "name": PROJECT,
        "services": {"engine": {"image": "unused"}},
        "volumes": {
            "own": {"name": f"{PROJECT}_own"},
            "shared": {"name": "hf-cache", "external": True},
        },
        "networks": {"default": {"name": f"{PROJECT}_default"}},
    }


@pytest.mark.parametrize(
    "given",
    [
        {"environment": {"HF_TOKEN": "planted"}},
        {"environment": {"OPENAI_API_KEY": "planted", "db_password": "planted"}},
        {"environment": {"AWS_SECRET_ACCESS_KEY": "planted", "SENTRY_DSN": "planted"}},
        {"command": ["--api-key", "planted"]},
        {"command": ["--api-key=planted", "--x"]},
        {"command": ["HF_TOKEN=planted"]},
        {"command": ["sh", "-c", "serve --api-key planted"]},
        {"build": {"args": {"TOKEN": "planted"}}},
        {"build": {"context": "https://user:planted@example.com/x.git"}},
        {"labels": {"traefik.auth": "planted"}},
        {"configs": {"x": {"content": "planted"}}},
        {"environment": {"NOTE": "contains given-secret planted-no"}, "given": True},
        {"environment": {"HF_TOKEN": 87654321}, "number": True},
    ],
    ids=str,
)
def test_redacted__hides(given):
    """Secrets by name, by flag and by value are not in the copy."""
    given = dict(given)
    secrets = ["planted", "given-secret planted-no"] if given.pop("given", False) else []
    number = given.pop("number", False)

    text = json.dumps(configs.redacted(config(**given), secrets))

    assert "planted" not in text
    if number:
        assert "87654321" not in text


@pytest.mark.parametrize(
    "given",
    [
        {"environment": {"MAX_NUM_BATCHED_TOKENS": "8192", "TOKENIZERS_PARALLELISM": "false"}},
        {"environment": {"CUDA_VISIBLE_DEVICES": "0,1", "EMPTY_TOKEN": None}},
        {"command": ["--model", "Qwen/Qwen3-8B", "--max-num-seqs=4", "--kv-cache-dtype", "fp8"]},
        {"ports": [{"target": 8000}]},
    ],
    ids=str,
)
def test_redacted__keeps(given):
    """What the engine was started with stays readable."""
    assert configs.redacted(config(**given), []) == config(**given)


LINE = (
    '{"ID":"1","Name":"p-engine-1","Service":"engine","Image":"x","State":"running","ExitCode":0}'
)


@pytest.mark.parametrize("text", [LINE, f"[{LINE}]", f"{LINE}\n\n"])
def test_ps__both_formats(text):
    """An array of old, an object a line of late."""
    assert states.parse(text) == [states.Container("1", "p-engine-1", "engine", "x", "running", 0)]


@pytest.mark.parametrize("text", ["[", "no such service", "[1]", "null", "[" * 99_999])
def test_ps__unreadable(text):
    """What is no list is unknown, and not an empty one."""
    assert states.parse(text) is None


def test_ps__empty():
    """No container is a list, and dead."""
    assert states.parse("") == []
    assert states.dead([], "") == "no container was started"
    assert states.dead([], "engine") == "there is no container of service engine"


def test_commands__of_each_service():
    """One line each, as the shell would read it; without a command, or a long one, none."""
    services = {
        "list": {"command": ["serve", "a b", "--x=1"]},
        "text": {"command": "serve --x 1"},
        "none": {"command": None},
        "image": {},
        "long": {"command": ["x" * 51]},
        "odd": {"command": {"a": 1}},
        "empty": {"command": []},
    }

    found = configs.commands({"services": services}, 50)

    assert found == {"list": "serve 'a b' --x=1", "text": "serve --x 1"}
    assert configs.commands(None, 50) == {}
