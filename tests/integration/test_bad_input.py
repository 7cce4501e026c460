"""Bad input to the real command: one clear error, exit 4 or 3, and a later run is not harmed.

The engine behind the later run is a stand-in that repeats a real server's answers.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.captured import Small, demo_prompts
from integration.disks import remount
from integration.stand_in import CHAT, Ask, Said, StandIn

from iqaction import session

pytestmark = pytest.mark.timeout(1800)

ROOT = Path(__file__).parents[2]
PROMPT = '{"id": "%s", "messages": [{"role": "user", "content": "x"}]}\n'
Done = subprocess.CompletedProcess[str]
PLAN = "stages:\n  - trajectory: {prompts: prompts.jsonl, limit: 8, max_tokens: 4}\n"


def iqaction(*arguments: str | Path) -> Done:
    return subprocess.run(
        [sys.executable, "-m", "iqaction", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def is_one_error(done: Done, status: int, *said: str) -> None:
    """Asserts the exit status, and that standard error holds one error with these words."""
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stderr.count("iqaction: ") + done.stdout.count("iqaction: ") == 1, done.stderr
    for words in said:
        assert words in done.stderr
    for words in ("Traceback", "internal error", "Exception", "Errno"):
        assert words not in done.stderr


def is_not_run(done: Done, folder: Path, *said: str) -> None:
    """Asserts exit 3 through a written report, with one problem that says these words."""
    assert done.returncode == 3, done.stdout + done.stderr
    body = json.loads(done.stdout)

    assert body["verdict"] == "NOT RUN"
    assert json.loads((folder / "report.json").read_text())["verdict"] == "NOT RUN"
    for words in said:
        assert words in body["problem"]
    for words in ("Traceback", "internal error", "Errno", "<h1>", "<html"):
        assert words not in done.stdout + done.stderr
    assert done.stderr == ""
    assert 0 < len(body["problem"]) < 1_000


@pytest.fixture
def healthy(small: Small) -> Iterator[StandIn]:
    with StandIn(memory=small.memory) as between:
        yield between


def run(small: Small, url: str, folder: Path, *flags: str | Path) -> Done:
    arguments = ["run", "--quiet", "--plan", small.capture.plan(), "--endpoint", url]
    arguments += ["--baseline", small.capture.folder, "--evidence", folder, *flags]
    return iqaction(*arguments)


def goes_on(small: Small, url: str, folder: Path) -> None:
    """Asserts that the same command in the same folder now runs to a whole report."""
    done = run(small, url, folder)

    assert done.returncode == 2, done.stderr
    assert session.verify(folder).problems == ()
    report = json.loads((folder / "report.json").read_text())
    assert report["verdict"] == "UNPROVEN"
    assert report["problems"] == []


PLANS = {
    "broken YAML": ("stages: [trajectory\n", "plan.yml:2: not YAML"),
    "unknown stage": (
        "stages: [trajectory, skore]\n",
        "unknown stage 'skore'; did you mean 'score'?",
    ),
    "misspelt key": (
        "stages:\n  - trajectory:\n      max_tokes: 5\n",
        "plan.yml:3: trajectory: unknown parameter 'max_tokes'; did you mean 'max_tokens'?",
    ),
    "missing prompts": (
        "stages:\n  - trajectory: {prompts: promts.jsonl}\n",
        "promts.jsonl: no such file",
    ),
    "duplicate ids": (PLAN, "prompts.jsonl:2: the id 'a' is used twice (first on line 1)"),
}


@pytest.mark.parametrize(("text", "said"), PLANS.values(), ids=list(PLANS))
def test_plan(text: str, said: str, tmp_path: Path) -> None:
    """A mistake is told with its place and the nearest right name; there is no folder of it."""
    (tmp_path / "plan.yml").write_text(text)
    (tmp_path / "prompts.jsonl").write_text(PROMPT % "a" + PROMPT % "a")
    folder = tmp_path / "evidence"
    done = iqaction(
        "run", "--plan", tmp_path / "plan.yml", "--endpoint", "http://127.0.0.1:9", "--evidence",
        folder,
    )  # fmt: skip

    is_one_error(done, 4, said)
    assert not folder.exists()


def test_unreachable(small: Small, healthy: StandIn, tmp_path: Path) -> None:
    """Nobody listens: NOT RUN through a written report; with a server the run goes on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    folder = tmp_path / "evidence"
    done = run(small, url, folder, "--json")

    is_not_run(done, folder, "no connection (Connection refused)", url.removeprefix("http://"))
    goes_on(small, healthy.url, folder)


PAGES = {
    "gateway": Said(502, b"<html><h1>502 Bad Gateway</h1></html>", "text/html"),
    "login": Said(200, b"<!doctype html><title>Sign in</title>" + b" " * 99_999, "text/html"),
    "not found": Said(404, b"<html><h1>Not Found</h1></html>", "text/html"),
}
SAID_OF_PAGE = {"gateway": "502", "login": "no OpenAI-compatible server", "not found": "404"}


@pytest.mark.parametrize("page", PAGES)
def test_html_from_a_proxy(page: str, small: Small, healthy: StandIn, tmp_path: Path) -> None:
    """Something between us and the engine answers with a page: that is said, and no page shown."""
    folder = tmp_path / "evidence"
    with StandIn(hear=lambda ask: PAGES[page]) as proxy:
        done = run(small, proxy.url, folder, "--json")

    is_not_run(done, folder, SAID_OF_PAGE[page])
    goes_on(small, healthy.url, folder)


def test_html_from_a_proxy__midway(small: Small, healthy: StandIn, tmp_path: Path) -> None:
    """One text meets the proxy's limit: the rest is kept, and that one alone is asked again."""
    slow = demo_prompts(5)[-1]["messages"]

    def tired(ask: Ask) -> Ask | Said:
        late = ask.path == CHAT and ask.body["messages"] == slow
        return PAGES["gateway"] if late else ask

    folder = tmp_path / "evidence"
    with StandIn(memory=small.memory, hear=tired) as proxy:
        done = run(small, proxy.url, folder)

    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "<h1>" not in done.stdout + (folder / "comment.md").read_text()
    assert "Bad Gateway" not in done.stdout
    goes_on(small, healthy.url, folder)
    assert healthy.count(CHAT) == 1


def test_wrong_model_name__vllm(small: Small, tmp_path: Path) -> None:
    """The server lists its models: the error names them, and nothing is asked of a wrong one."""
    listing = {
        "object": "list",
        "data": [{"id": "qwen3-8b", "object": "model", "owned_by": "vllm"}],
    }

    def vllm(ask: Ask) -> Said:
        bodies = {"/v1/models": listing, "/version": {"version": "0.24.0"}}
        found = bodies.get(ask.path)
        return Said(200 if found else 404, json.dumps(found or {"detail": "Not Found"}).encode())

    with StandIn(hear=vllm) as server:
        folder = tmp_path / "evidence"
        done = run(small, server.url, folder, "--model", "qwen3-8", "--json")

        is_not_run(done, folder, "'qwen3-8'", "'qwen3-8b'")
        assert server.count(CHAT) == 0


def test_wrong_model_name__llamacpp(small: Small, healthy: StandIn, tmp_path: Path) -> None:
    """llama.cpp answers any name with what it has loaded; we do not take that for an answer."""
    folder = tmp_path / "evidence"
    done = run(small, healthy.url, folder, "--model", "smollm2-1.7b", "--json")

    is_not_run(done, folder, "smollm2-1.7b", "smollm2-135m")
    assert healthy.count(CHAT) == 0
    goes_on(small, healthy.url, folder)


@pytest.mark.parametrize("size", [16, 96, 128, 160, 176, 192])
def test_full_disk(size: int, small: Small, healthy: StandIn, disk: Path) -> None:
    """The disk is full at some moment: said as that, exit 3; with room the same run goes on."""
    remount(disk, f"size={size}k")
    done = run(small, healthy.url, disk / "evidence")

    is_one_error(done, 3, "No space left")
    asked = healthy.count(CHAT)
    remount(disk, "size=8m")
    goes_on(small, healthy.url, disk / "evidence")
    assert healthy.count(CHAT) <= asked + 8


def test_read_only__file_system(small: Small, healthy: StandIn, disk: Path) -> None:
    """A read-only file system is told as that; when it can be written the run goes on."""
    remount(disk, "size=8m,ro")
    done = run(small, healthy.url, disk / "evidence")

    is_one_error(done, 3, str(disk))
    remount(disk, "rw")
    goes_on(small, healthy.url, disk / "evidence")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write in any folder")
def test_read_only__folder(small: Small, healthy: StandIn, tmp_path: Path) -> None:
    """A folder without the right to write is told as that."""
    folder = tmp_path / "evidence"
    folder.mkdir(mode=0o555)
    done = run(small, healthy.url, folder)

    is_one_error(done, 3, str(folder))
    folder.chmod(0o755)
    goes_on(small, healthy.url, folder)


# --- while it runs --------------------------------------------------------------------------


def midway(text: int, happens: Callable[[], object]) -> Callable[[Ask], Ask | Said]:
    """What a stand-in hears with: when so many texts were asked for, something happens first."""
    count = itertools.count(1)

    def hear(ask: Ask) -> Ask | Said:
        if ask.path == CHAT and next(count) == text:
            happens()
        return ask

    return hear


@pytest.mark.parametrize("text", [1, 8])
def test_folder_vanishes(text: int, small: Small, healthy: StandIn, tmp_path: Path) -> None:
    """An evidence folder that is removed under a run is told as that; a later run is whole."""
    folder = tmp_path / "evidence"
    with StandIn(memory=small.memory, hear=midway(text, lambda: shutil.rmtree(folder))) as between:
        done = run(small, between.url, folder)

    is_one_error(done, 3, str(folder))
    assert not folder.exists()
    goes_on(small, healthy.url, folder)


def test_folder_is_moved_away(small: Small, healthy: StandIn, tmp_path: Path) -> None:
    """What was kept until a folder was moved is in it, and from there the run goes on."""
    folder, moved = tmp_path / "evidence", tmp_path / "moved"
    with StandIn(memory=small.memory, hear=midway(5, lambda: folder.rename(moved))) as between:
        done = run(small, between.url, folder)

    is_one_error(done, 3, str(folder))
    assert not folder.exists()
    goes_on(small, healthy.url, moved)
    assert healthy.count(CHAT) <= 4 + 2  # of eight; two are in flight


def test_baseline_vanishes(small: Small, tmp_path: Path) -> None:
    """A run holds a copy of its baseline: removed while it asks, the original is not missed."""
    folder, reference = tmp_path / "evidence", tmp_path / "reference"
    shutil.copytree(small.capture.folder, reference)
    with StandIn(memory=small.memory, hear=midway(5, lambda: shutil.rmtree(reference))) as between:
        done = run(small, between.url, folder, "--baseline", reference)

    assert not reference.exists()
    assert done.returncode == 2, done.stderr
    assert session.verify(folder).problems == ()


@pytest.mark.parametrize("second", ["run", "judge"])
def test_two_at_once(second: str, small: Small, healthy: StandIn, tmp_path: Path) -> None:
    """A second process on a folder in use is refused and asks nothing; the first is not harmed."""
    folder, others = tmp_path / "evidence", []

    def other() -> None:
        if second == "run":
            others.append(run(small, healthy.url, folder))
        else:
            others.append(iqaction("judge", folder))

    with StandIn(memory=small.memory, hear=midway(5, other)) as between:
        done = run(small, between.url, folder)
        asked = between.count(CHAT)

    is_one_error(others[0], 3, "is in use", str(folder))
    assert healthy.asked == []
    assert (done.returncode, asked) == (2, 8), done.stderr
    assert session.verify(folder).problems == ()
