"""The stand-in itself: it refuses what GitHub refuses, and its own answers fit the contract."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from fake_github.fake import FakeGithub
from fake_github.state import BASE_SHA, SHA, Fault, blob_sha

HEADERS = {
    "Authorization": "Bearer ghs_rw",
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
}
ANNOTATION = {
    "path": "compose.yml",
    "start_line": 1,
    "end_line": 1,
    "annotation_level": "failure",
    "message": "m",
}


class Asking:
    """A client without any cleverness."""

    def __init__(self, fake: FakeGithub) -> None:
        self.fake = fake
        self.session = requests.Session()

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        url = f"{self.fake.url}/repos/acme/serve{path}"
        sent = {**HEADERS, **headers}
        return self.session.request(method, url, json=body, headers=sent, allow_redirects=False)


@pytest.fixture(params=["", "/api/v3"])
def ask(request: pytest.FixtureRequest) -> Iterator[Asking]:
    with FakeGithub(request.param) as fake:
        asking = Asking(fake)
        yield asking
        asking.session.close()


def own_faults(ask: Asking) -> list[dict[str, Any]]:
    return [v for v in ask.fake.state.violations if "own answer" in str(v)]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"status": "completed"}, "conclusion"),
        ({"conclusion": "unproven"}, "is not one of"),
        ({"conclusionn": "success"}, "not a property"),
        ({"output": {"summary": "s"}}, "title"),
        ({"output": {"title": "t", "summary": "x" * 65536}}, "longer than 65535"),
        ({"output": {"title": "t", "summary": "é" * 40000}}, "bytesize"),
        ({"output": {"title": "t", "summary": "s", "annotations": [ANNOTATION] * 51}}, "50"),
        ({"conclusion": "success", "completed_at": "2026-11-29 00:00:00"}, "date-time"),
    ],
)
def test_checks__unfit_requests_are_refused(ask: Asking, body: dict[str, Any], said: str) -> None:
    """What GitHub would refuse or silently ignore is refused and says why."""
    answer = ask("POST", "/check-runs", {"name": "iq", "head_sha": SHA, **body})

    assert answer.status_code == 422
    assert said in answer.text


def test_checks__life(ask: Asking) -> None:
    """A check run is created, changed, listed, and annotations are added up."""
    made = ask("POST", "/check-runs", {"name": "iq", "head_sha": SHA, "status": "in_progress"})
    number = made.json()["id"]
    output = {"title": "t", "summary": "s", "annotations": [ANNOTATION] * 50}
    ask("PATCH", f"/check-runs/{number}", {"output": output})
    output = {"title": "t", "summary": "s", "annotations": [ANNOTATION] * 10}
    done = ask("PATCH", f"/check-runs/{number}", {"conclusion": "success", "output": output})
    listed = ask("GET", f"/commits/{SHA}/check-runs?check_name=iq&filter=all")
    noted = ask("GET", f"/check-runs/{number}/annotations?per_page=100")

    assert [made.status_code, done.status_code, len(noted.json())] == [201, 200, 60]
    assert listed.json()["check_runs"][0]["status"] == "completed"
    assert ask.fake.state.violations == []


def test_comments__pages_follow_links(ask: Asking) -> None:
    """The second page is where the Link header of the first says."""
    for i in range(35):
        ask("POST", "/issues/7/comments", {"body": f"{i}"})
    first = ask("GET", "/issues/7/comments")
    second = ask.session.get(first.links["next"]["url"], headers=HEADERS)

    assert [len(first.json()), len(second.json())] == [30, 5]
    assert ask.fake.state.violations == []


def test_comments__length(ask: Asking) -> None:
    """65,536 characters are a comment, one more is refused without being a violation: callers
    may try."""
    fits = ask("POST", "/issues/7/comments", {"body": "x" * 65536})
    over = ask("POST", "/issues/7/comments", {"body": "x" * 65537})

    assert [fits.status_code, over.status_code] == [201, 422]
    assert ask.fake.state.violations == []


@pytest.mark.parametrize(
    ("token", "path", "said"),
    [
        ("ghs_ro", "/issues/7/comments", "not accessible by integration"),
        ("ghp_pat", "/check-runs", "GitHub App"),
        ("nobody", "/check-runs", "Bad credentials"),
    ],
)
def test_tokens(ask: Asking, token: str, path: str, said: str) -> None:
    """A token does what its kind may."""
    answer = ask("POST", path, {"body": "x"}, Authorization=f"Bearer {token}")

    assert said in answer.json()["message"]


def test_reading__own_answers_fit(ask: Asking) -> None:
    """Everything that is read comes in the shape that GitHub's description gives it."""
    state = ask.fake.state
    state.contents = {
        SHA: {"a/b.txt": "hello", "a/l": {"symlink": "b.txt"}, "m": {"submodule": "x"}}
    }
    state.compares = {f"{BASE_SHA}...{SHA}": {"files": [{"filename": "x"}]}}
    state.files = {7: [{"filename": "x", "patch": "@@ -1 +1 @@\n-a\n+b"}]}
    state.runs = {5: {"event": "push"}}
    state.artifacts = [{"id": 9, "name": "iq", "run_id": 5, "zip": base64.b64encode(b"z").decode()}]
    tree = ask("GET", f"/git/trees/{SHA}?recursive=1").json()["tree"]
    answers = [
        ask("GET", path)
        for path in (
            "/pulls/7",
            "/pulls?state=open",
            "/pulls/7/files",
            f"/commits/{SHA}/pulls",
            f"/compare/{BASE_SHA}...{SHA}?per_page=1",
            f"/contents/a/b.txt?ref={SHA}",
            f"/contents/a?ref={SHA}",
            f"/contents/a/l?ref={SHA}",
            f"/git/blobs/{blob_sha(b'hello')}",
            "/actions/runs/5",
            "/actions/runs?event=push",
            "/actions/runs/5/artifacts",
            "/actions/artifacts?name=iq",
            "/actions/artifacts/9",
        )
    ]

    assert {a.status_code for a in answers} == {200}
    assert [t["mode"] for t in tree] == ["040000", "100644", "120000", "160000"]
    assert own_faults(ask) == []


def test_artifacts__lie_on_another_host(ask: Asking) -> None:
    """The download is a redirect, and whoever takes the token along is told on."""
    ask.fake.state.artifacts = [{"id": 9, "name": "iq", "zip": base64.b64encode(b"z").decode()}]
    place = ask("GET", "/actions/artifacts/9/zip").headers["Location"]

    assert requests.get(place, timeout=5).content == b"z"
    assert ask.fake.state.violations == []

    requests.get(place, headers=HEADERS, timeout=5)

    assert len(ask.fake.state.violations) == 1


def test_faults__answer_lost_after_obeying(ask: Asking) -> None:
    """A request can be obeyed and its answer be lost."""
    ask.fake.state.faults = [Fault("POST", "comments", after=True, drop=True)]
    with pytest.raises(requests.ConnectionError):
        ask("POST", "/issues/7/comments", {"body": "x"})

    assert len(ask.fake.state.comments) == 1


def test_serve__is_a_process_of_its_own() -> None:
    """It prints its URL, can be controlled with JSON, and tells what it saw."""
    script = Path(__file__).with_name("serve.py")
    with subprocess.Popen(
        [sys.executable, str(script), "--base", "/api/v3"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        root = url.removesuffix("/api/v3")
        files = {"7": [{"filename": "compose.yml"}]}
        done = requests.post(f"{root}/_fake/files", json=files, timeout=5)
        bad = requests.post(f"{root}/_fake/nothing", json=[], timeout=5)
        found = requests.get(f"{url}/repos/acme/serve/pulls/7/files", headers=HEADERS, timeout=5)
        state = requests.get(f"{root}/_fake/state", timeout=5).json()
        process.terminate()

    assert [done.status_code, bad.status_code] == [200, 400]
    assert found.json()[0]["filename"] == "compose.yml"
    assert [len(state["log"]), state["violations"]] == [1, []]
