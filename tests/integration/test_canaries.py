"""Secrets of every kind, planted: key, user and password, query; a server that repeats them in
every way it can. They are in no file, no line that is printed, no command line, no request body.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from iqaction import cli

ROOT = Path(__file__).parents[2]
KEY = "sk-canary/with+signs=0123"
USER, PASSWORD, TOKEN = "canaryuser", "canary/pass word", "canary-token"
QUERY = "canary/query+0123"
ADDRESSES = (
    f"http://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:9/v1?key={quote(QUERY, safe='')}&{TOKEN}",
    f"http://{TOKEN}@127.0.0.1:9",
    f"https://127.0.0.1:9/v1?{TOKEN}",
    f"http://127.0.0.1:9/#{TOKEN}",
    f"http://{USER}:{TOKEN}@[broken",
    f"ftp://{USER}:{TOKEN}@127.0.0.1",
    f"{USER}:{TOKEN}@127.0.0.1:9",
    f"http://127.0.0.1:{TOKEN}",
)
PLAN = """\
api_key_env: MY_KEY
stages:
  - trajectory: {prompts: prompts.jsonl, limit: 2, max_tokens: 4, concurrency: 1}
"""
PROMPTS = "".join(
    json.dumps({"id": f"p-{i}", "messages": [{"role": "user", "content": f"say {i}"}]}) + "\n"
    for i in range(2)
)

SHOWING = (
    *("judge candidate --json", "render candidate", "render candidate --json"),
    *("verify candidate", "inspect candidate", "inspect candidate --prompt p-0"),
    *("inspect candidate --failures --json", "baseline show reference"),
    *("diff reference candidate --html diff.html", "diff reference candidate --json"),
)
RENDERED = ("comment.md", "summary.md", "report.html", "effects.json")


def spellings(secret: str) -> set[str]:
    """How a server may write a secret, or we may."""
    return {secret, quote(secret), quote(secret, safe=""), json.dumps(secret)[1:-1]}


class Parrot(ThreadingHTTPServer):
    """Repeats whatever it is sent; ``how`` says in what."""

    daemon_threads = True

    def __init__(self, how: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.how = how
        self.bodies: list[bytes] = []
        self.heard: list[str] = []
        self.url = f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Parrot

    def do_GET(self) -> None:
        self._answer({"data": [{"id": f"model {self._all()}", "owned_by": self._all()}]})

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        said = {"role": "assistant", "content": f"I heard {self._all()}"}
        self._answer({
            "model": self._all(),
            "system_fingerprint": self._all(),
            "choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 3},
        })  # fmt: skip

    def _all(self) -> str:
        heard = [self.headers.get("Authorization", ""), self.path]
        self.server.heard += heard
        return " ".join([*heard, *sorted(spellings(KEY))])

    def _answer(self, body: object) -> None:
        how, status, kind = self.server.how, 200, "application/json"
        data = json.dumps(body).encode()
        is_listing = self.command == "GET"
        if how == "errors" and not is_listing:
            status, data = 401, json.dumps({"error": {"message": self._all()}}).encode()
        if how == "pages" and not is_listing:
            status, data, kind = 500, f"<html>{self._all()}</html>".encode(), "text/html"
        if how == "refuses":
            status, data = 403, json.dumps({"error": self._all(), "detail": self._all()}).encode()
        if how == "wide":
            data = json.dumps(body).encode("utf-16")
        if how == "escaped":
            data = data.replace(KEY.encode(), "".join(f"\\u{ord(c):04x}" for c in KEY).encode())
        if how == "broken" and not is_listing:
            data = data[:-40]
        self.send_response_only(status, self._all())
        for name in ("Server", "X-Request-Id", "Retry-After", "Date"):
            self.send_header(name, self._all())
        if how == "redirects":
            self.send_header("Location", f"http://x:{PASSWORD}@127.0.0.1/{self._all()}")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None: ...


HOWS = ("answers", "errors", "pages", "refuses", "redirects", "wide", "escaped", "broken")


@pytest.fixture(params=[HOWS[0], *(pytest.param(h, marks=pytest.mark.full) for h in HOWS[1:])])
def parrot(request: pytest.FixtureRequest) -> Iterator[Parrot]:
    server = Parrot(request.param)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def command_lines() -> Iterator[str]:
    """Of our own processes, as anyone on the machine may read them."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue


class Desk:
    """A folder in which commands are run; everything that they say is kept."""

    def __init__(self, place: Path, env: dict[str, str]) -> None:
        self.place, self.said, self.argv = place, "", set[str]()
        self.env = {**os.environ, **env, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        (place / "plan.yml").write_text(PLAN)
        (place / "prompts.jsonl").write_text(PROMPTS)

    def run(self, *argv: str, watch: bool = False) -> int:
        process = subprocess.Popen(
            [sys.executable, "-m", "iqaction", *argv], cwd=self.place, env=self.env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        while watch and process.poll() is None:
            self.argv |= set(command_lines())
            time.sleep(0.02)
        said, _ = process.communicate(timeout=120)
        self.said += said
        return process.returncode

    def holds(self, secret: str) -> list[str]:
        """Where a secret is to be found, in any spelling."""
        found = [f"printed: {x}" for x in self.said.splitlines() if _has(x.encode(), secret)]
        for path in self.place.rglob("*"):
            if path.is_file() and path.name != "plan.yml":
                data = path.read_bytes()
                if path.suffix == ".gz":
                    import gzip  # noqa: PLC0415 - one place

                    data = gzip.decompress(data)
                found += (
                    [str(path)] if _has(data, secret) or _has(path.name.encode(), secret) else []
                )
        return found


def _has(data: bytes, secret: str) -> bool:
    return any(s.encode() in data for s in spellings(secret))


def test_key(parrot: Parrot, tmp_path: Path) -> None:
    """The key of an endpoint, through all commands."""
    desk = Desk(tmp_path, {"MY_KEY": KEY})
    asked = ["--plan", "plan.yml", "--endpoint", f"http://{parrot.url}", "--dialect", "openai"]
    desk.run("run", *asked, "--evidence", "reference", watch=True)
    if (tmp_path / "reference" / "manifest.json").exists():
        to = ("--evidence", "candidate", "--baseline", "reference", "--json")
        desk.run("run", *asked, *to, watch=True)
        for command in SHOWING:
            desk.run(*command.split())
        written = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*")}

        assert written >= {"candidate/report.json", "diff.html"}
        if (tmp_path / "candidate" / "manifest.json").exists():
            assert written >= {f"candidate/{n}" for n in RENDERED}

    assert any(KEY in x for x in parrot.heard)
    assert any("--endpoint" in line for line in desk.argv)
    assert "internal error" not in desk.said, desk.said
    assert desk.holds(KEY) == []
    assert [x for x in desk.argv if _has(x.encode(), KEY)] == []
    assert [x for x in parrot.bodies if _has(x, KEY)] == []


@pytest.mark.parametrize("where", ["flag", "plan", "reference", "baseline"])
def test_url(
    tmp_path: Path,
    where: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """An address with a user, a password or a query is refused before anything is asked or
    written, and is not repeated."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts.jsonl").write_text(PROMPTS)
    flag = {"flag": "--endpoint", "baseline": "--baseline"}.get(where)
    for address in ADDRESSES if where != "baseline" else ADDRESSES[:3]:
        top = f"endpoint: '{address}'" if where == "plan" else ""
        score = f"{{reference: '{address}'}}" if where == "reference" else "{}"
        plan = PLAN.replace("api_key_env: MY_KEY", top) + f"  - score: {score}\n"
        (tmp_path / "plan.yml").write_text(plan)
        asked = ["--plan", "plan.yml", *([flag, address] if flag else [])]
        if where not in ("plan", "flag"):
            asked += ["--endpoint", "http://127.0.0.1:9"]

        assert cli.main(["run", *asked, "--evidence", "evidence"]) == 4
        assert not (tmp_path / "evidence").exists()
    said = "".join(capfd.readouterr())

    assert said.count("expected:") >= 3
    for secret in (PASSWORD, QUERY, TOKEN):
        assert not _has(said.encode(), secret)
