"""Ready is a generation: nothing less, no sooner, and not for ever."""

from __future__ import annotations

import http.server
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from unit.boot.factory import Said, free_port

from iqaction.boot import readiness
from iqaction.boot._base import World
from iqaction.boot.logs import LogTail
from iqaction.boot.readiness import Watched
from iqaction.errors import BootError, ConfigError


class Clock:
    """Time that passes by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def world(self) -> World:
        return World({}, clock=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)


def at_once(probe):
    answer = probe()
    return lambda: answer


def never(probe):
    return lambda: None


def waited(tmp_path, answers, deaths=(), deadline=60.0, begin=at_once, log=b""):
    """Wait with the answers of a probe in turn (the last one again and again)."""
    clock, said, asked = Clock(), Said(), []
    path = tmp_path / "log"
    path.write_bytes(log)

    def probe():
        asked.append(clock.now)
        return answers[min(len(asked), len(answers)) - 1]

    def alive():
        return next((why for at, why in deaths if clock.now >= at), "")

    watched = Watched(probe, alive, LogTail(path))
    readiness.wait(watched, deadline, clock.world(), said, begin)
    return asked, said, clock


def test_wait__ready(tmp_path):
    """The first good answer ends the waiting."""
    asked, _, _ = waited(tmp_path, ["no", "no", ""])

    assert len(asked) == 3


def test_wait__pauses_grow(tmp_path):
    """A server that loads for minutes is not asked all the time."""
    asked, said, _ = waited(tmp_path, ["loading"] * 40 + [""], deadline=600)

    pauses = [b - a for a, b in itertools.pairwise(asked)]
    assert pauses[0] < 0.5
    assert 1.9 < pauses[-1] < 2.5
    assert "waiting for the endpoint, 30 s: loading" in said.text


@pytest.mark.parametrize("limit", ["ready_timeout", "--relaunch-timeout"])
def test_wait__says_what_to_raise(tmp_path, limit):
    """Who only needs longer is told the setting that is there."""
    clock = Clock()
    watched = Watched(lambda: "no", lambda: "", LogTail(tmp_path / "log"), limit)
    with pytest.raises(BootError) as told:
        readiness.wait(watched, 5, clock.world(), Said(), at_once)

    assert told.value.next_step.endswith(f"raise {limit}")


def test_wait__dead(tmp_path):
    """Dead is told at once, with the last answer and the end of the log."""
    log = b"".join(b"line %d\n" % n for n in range(100)) + b"::error::x"

    with pytest.raises(BootError) as told:
        waited(tmp_path, ["HTTP 503 ::error::"], [(3, "exit code 1")], log=log)

    text = str(told.value)
    assert "did not come up: exit code 1" in text
    assert "last answer: HTTP 503 ::error::" in text
    assert "  | line 99\n  | \\x3a:error::x\n" in text
    assert text.count("  | ") == 40


def test_wait__dead_though_it_answers(tmp_path):
    """An answer counts only while what was started is alive: else another one gave it."""
    clock = Clock()

    def probe():
        clock.sleep(5)  # alive when it was asked, dead when it answered
        return ""

    def alive():
        return "it has ended" if clock.now > 4 else ""

    watched = Watched(probe, alive, LogTail(tmp_path / "log"))
    with pytest.raises(BootError, match="it has ended"):
        readiness.wait(watched, 60, clock.world(), Said(), at_once)


def test_wait__deadline(tmp_path):
    """The deadline holds, with the last reason."""
    with pytest.raises(BootError, match=r"nothing within 7 s\n.*last answer: HTTP 500"):
        waited(tmp_path, ["HTTP 500"], deadline=7)


def test_wait__a_probe_that_hangs(tmp_path):
    """The deadline holds for a probe that never comes back."""
    with pytest.raises(BootError, match=r"nothing within 7 s\n.*it was not asked yet"):
        waited(tmp_path, [""], deadline=7, begin=never)


@pytest.mark.parametrize("deadline", [0.0, -5.0])
def test_wait__no_time_left(tmp_path, deadline):
    """Where the start has used up the time, one look is all there is."""
    with pytest.raises(BootError):
        waited(tmp_path, ["no"], deadline=deadline)


def test_in_background__raises():
    """A mistake of the user is raised where it is waited for."""

    def probe():
        raise ConfigError("the endpoint is not the URL of an HTTP server")

    answer = readiness.in_background(probe)

    def soon():
        while answer() is None:
            pass

    with pytest.raises(ConfigError):
        soon()


@contextmanager
def engine(chat_status=200, chat=None) -> Iterator[str]:
    """A server that is healthy, lists a model, and answers a chat like that."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/v1/models":
                self.answer(200, {"object": "list", "data": [{"id": "m", "object": "model"}]})
            else:
                self.answer(200 if self.path == "/health" else 404, {})

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            chats = self.path.endswith("/chat/completions")
            self.answer(chat_status if chats else 404, chat if chats else {})

        def answer(self, status, body):
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def completion(text, tokens=1):
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "length"}
    usage = {"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": 3 + tokens}
    kind = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    return {**kind, "choices": [choice], "usage": usage}


def test_probe__generates():
    """A generated token is ready."""
    with engine(chat=completion("Yes")) as url:
        assert readiness.probe(url, "", "", "") == ""


@pytest.mark.parametrize(
    ("status", "chat"),
    [
        (500, {"error": {"message": "worker died"}}),
        (503, {"error": {"message": "Loading model"}}),
        (404, {}),
        (200, {}),
        (200, {"choices": []}),
        (200, completion("", 0)),
    ],
)
def test_probe__healthy_is_not_ready(status, chat):
    """/health and a list of models say nothing about a generation."""
    with engine(status, chat) as url:
        assert readiness.probe(url, "", "", "") != ""


def test_probe__says_why():
    """The engine's own words are the reason."""
    with engine(500, {"error": {"message": "worker died"}}) as url:
        assert "worker died" in readiness.probe(url, "", "", "")


def test_probe__nobody():
    """Nobody there is a reason, not an error."""
    said = readiness.probe(f"http://127.0.0.1:{free_port()}", "", "", "")

    assert "nobody answers" in said


def test_probe__another_model():
    """A server that serves another model is not ready for this one."""
    with engine(chat=completion("Yes")) as url:
        assert readiness.probe(url, "other", "", "") != ""


def test_probe__no_url():
    """What can never be right is the user's mistake."""
    with pytest.raises(ConfigError):
        readiness.probe("ftp://x", "", "", "")
