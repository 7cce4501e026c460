"""The server of the demo: it answers, it ends when told, and it never outlives its parent."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from iqaction import demo_engine
from iqaction.demo_engine import Launch, LlamaServer, log_tail
from iqaction.errors import ConfigError, EngineError

ROOT = Path(__file__).parents[2]


def complete(url: str, **body: object) -> requests.Response:
    body = {"prompt": "The capital of France is", "n_predict": 4, "temperature": 0, **body}
    with requests.Session() as session:
        session.trust_env = False
        return session.post(f"{url}/completion", json=body, timeout=60)


def wait_until_gone(pid: int) -> bool:
    """True once no process has this id; False after 20 s."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with open(descriptor, "rb", closefd=True):
        return bool(select.select([descriptor], [], [], 20)[0])


def test_llama_server__answers_and_stops(weights, tmp_path):
    """A started server generates; a stopped one is gone, and stopping twice is harmless."""
    log = tmp_path / "engine.log"
    launch = Launch(weights("Q4_1"), threads=1, alias="a model")
    with LlamaServer(launch, log=log) as server:
        answer = complete(server.url).json()

        assert "Paris" in answer["content"]
        assert answer["tokens_predicted"] == 4
        models = requests.get(f"{server.url}/v1/models", timeout=10).json()
        assert models["data"][0]["id"] == "a model"
    server.stop()

    assert wait_until_gone(server.pid)
    assert not server.is_running
    assert "model loaded" in log.read_text()


def test_llama_server__each_slot_has_the_context(llama):
    """``ctx`` is what one request may use, however many slots there are."""
    server = llama("Q4_1", slots=2, ctx=512)

    properties = requests.get(f"{server.url}/props", timeout=10).json()

    assert properties["total_slots"] == 2
    assert properties["default_generation_settings"]["n_ctx"] == 512


def test_llama__reused_and_restarted(llama):
    """The same parameters give the same server; a restart is another process."""
    first = llama("Q4_1", ctx=256)
    pid = first.pid

    assert llama("Q4_1", ctx=256).pid == pid
    first.restart()
    assert first.pid != pid
    assert complete(first.url).status_code == 200
    first.stop()
    assert complete(llama("Q4_1", ctx=256).url).status_code == 200


def test_llama_server__ends_with_a_killed_parent(weights):
    """kill -9 of the process that started it ends the server too."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from iqaction.demo_engine import LlamaServer, Launch\n"
        "server = LlamaServer(Launch(Path(sys.argv[1]), threads=1))\n"
        "print(server.pid, server.url, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(weights("Q4_1")), str(ROOT)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        pid, url = parent.stdout.readline().split()
        assert complete(url).status_code == 200

        parent.kill()

        assert parent.wait() == -signal.SIGKILL
        assert wait_until_gone(int(pid))


def test_llama_server__hostile_working_directory(weights, tmp_path, monkeypatch):
    """Modules that lie in the working directory are not run."""
    for name in ("xllamacpp.py", "json.py", "sitecustomize.py"):
        (tmp_path / name).write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with LlamaServer(Launch(weights("Q4_1"), threads=1)) as server:
        assert complete(server.url).status_code == 200

    assert not (tmp_path / "ran").exists()


def test_llama_server__ignores_a_proxy(weights, monkeypatch):
    """A proxy of the environment is not asked for the loopback address."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    with LlamaServer(Launch(weights("Q4_1"), threads=1)) as server:
        assert server.is_running


def test_llama_server__not_a_model(tmp_path):
    """A file that is no model gives one error with the engine's own words."""
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(100))

    with pytest.raises(EngineError, match="ended while starting") as caught:
        LlamaServer(Launch(path, threads=1))

    assert "failed to load model" in str(caught.value)
    assert caught.value.next_step


def test_llama_server__no_such_model(tmp_path):
    """A path without a file is a configuration error, and nothing is started."""
    with pytest.raises(ConfigError, match="no such file"):
        LlamaServer(Launch(tmp_path / "nowhere.gguf"))


def test_llama_server__deadline(weights, tmp_path):
    """A server that is not ready in time is ended, and its log is kept where it was named."""
    log = tmp_path / "engine.log"

    with pytest.raises(EngineError, match="did not listen in time"):
        LlamaServer(Launch(weights("Q4_1"), threads=1), log=log, deadline_s=0.0)

    assert log.exists()


def test_package_folder__without_the_extra(monkeypatch):
    """Without xllamacpp the extra is named."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ConfigError) as caught:
        demo_engine.package_folder()

    assert "demo" in caught.value.expected


def test_log_tail__escapes(tmp_path):
    """Only the last lines are shown, and none of them can steer a terminal."""
    log = tmp_path / "log"
    log.write_bytes(b"early\n" * 5000 + b"\x1b[2Jred\x07 \xff\n")

    tail = log_tail(log)

    assert tail.endswith("\\x1b[2Jred\\x07 \ufffd")
    assert len(tail.split("\n")) == 15
    assert log_tail(tmp_path / "none") == ""


def test_cores__positive():
    """At least one, at most what the machine has."""
    assert 1 <= demo_engine.cores() <= os.cpu_count()


@pytest.mark.parametrize("most", [1, 2, 3])
def test_best_threads__is_one_that_was_asked_for(weights, most):
    """A number from one to the limit; no server stays."""
    assert 1 <= demo_engine.best_threads(weights("Q4_0"), most) <= most


def test_seconds_for__counts_tokens(llama):
    """More tokens take longer."""
    server = llama("Q4_1").server

    assert 0 < server.seconds_for(1) < server.seconds_for(60)
