"""`gsm8k` by the real lm-evaluation-harness, asking a real llama.cpp server.

Needs the extra ``lm-eval``; without it these tests are skipped. The harness would fetch its data
set: here a ``sitecustomize`` puts it into a folder where the tests' own problems go by that name.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from integration.conftest import Llama
from integration.stand_in import CHAT, Ask, Said, StandIn

pytest.importorskip("lm_eval", reason="the extra lm-eval is not installed")
pytestmark = [pytest.mark.timeout(600), pytest.mark.full]

ROOT = Path(__file__).parents[2]
PROBLEMS = ROOT / "tests" / "data" / "gsm8k_problems.jsonl"
PLAN = "stages:\n  - gsm8k: {backend: lm-eval, limit: 6, max_tokens: 24, required: false}\n"
KEY = "sk-a-secret-of-the-test"
CARD = """\
---
configs:
- config_name: main
  data_files:
  - {split: train, path: test.jsonl}
  - {split: test, path: test.jsonl}
---
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan, and the problems where the harness finds them."""
    home = tmp_path_factory.mktemp("harness")
    (home / "plan.yml").write_text(PLAN)
    data = home / "data" / "openai" / "gsm8k"
    data.mkdir(parents=True)
    shutil.copy(PROBLEMS, data / "test.jsonl")
    (data / "README.md").write_text(CARD)
    (home / "site").mkdir()
    there = home / "data"
    # Of the harness alone: its working directory is made for it, and named so.
    (home / "site" / "sitecustomize.py").write_text(
        f"import os\nif 'iqaction-lm-eval-' in os.getcwd():\n    os.chdir({str(there)!r})\n"
    )
    return home


def begin(home: Path, url: str, folder: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "iqaction", "run", "--quiet", "--plan", "plan.yml"]
    command += ["--endpoint", url, "--evidence", folder, "--api-key-env", "THE_KEY", *more]
    path = os.pathsep.join([str(home / "site"), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": path, "HF_HOME": str(home / "hf"), "THE_KEY": KEY}
    return subprocess.Popen(
        command, cwd=home, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def stage(folder: Path) -> dict[str, object]:
    (found,) = json.loads((folder / "report.json").read_text())["stages"]
    assert isinstance(found, dict)
    return found


def test_figures(home: Path, llama: Callable[..., Llama]) -> None:
    """The harness runs against both arms; its figures and what it asked are in the evidence, and
    the report shows them side by side without a verdict."""
    with StandIn(llama("F16", slots=2, ctx=4096).url) as between:
        for folder, more in (("reference", ()), ("candidate", ("--baseline", "reference"))):
            done = begin(home, between.url, folder, *more)
            said, _ = done.communicate(timeout=280)
            assert done.returncode == 2, said
        asked = between.count(CHAT)
    found = stage(home / "candidate")
    figures = [c for c in found["checks"] if not c["judged"]]  # type: ignore[attr-defined]
    told = " ".join(map(str, found["caveats"]))  # type: ignore[call-overload]
    every = b"".join(p.read_bytes() for p in home.rglob("*") if p.is_file() and "hf" not in p.parts)

    assert asked == 12
    assert found["verdict"] == "UNPROVEN"
    assert [c["metric"].rpartition(".")[2] for c in figures] == ["flexible-extract", "strict-match"]
    assert all(c["baseline"] == c["candidate"] for c in figures)  # the same server, one by one
    assert "5-shot, 6 documents, hash" in told
    assert "do not compare" not in told
    assert KEY.encode() not in every


def test_interrupted(home: Path, llama: Callable[..., Llama]) -> None:
    """Ctrl-C ends the harness too: nothing is asked after it; and the run can be continued."""
    seen: list[float] = []

    def hear(ask: Ask) -> Ask | Said:
        if ask.path == CHAT:
            seen.append(time.monotonic())
        return ask

    with StandIn(llama("F16", slots=2, ctx=4096).url, hear=hear) as between:
        process = begin(home, between.url, "interrupted")
        until = time.monotonic() + 200
        while not seen and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=30)
        ended = len(seen)
        time.sleep(3)
        assert process.returncode == 130, said
        assert 0 < len(seen) == ended < 6
        done = begin(home, between.url, "interrupted")
        said, _ = done.communicate(timeout=280)

    assert done.returncode == 2, said
    assert stage(home / "interrupted")["verdict"] == "UNPROVEN"


def test_broken_server(home: Path, llama: Callable[..., Llama]) -> None:
    """A server that refuses every request leaves no figure: the reason is in the report."""

    def refuse(ask: Ask) -> Ask | Said:
        return Said(500, b'{"error": "out of memory"}') if ask.path == CHAT else ask

    with StandIn(llama("F16", slots=2, ctx=4096).url, hear=refuse) as between:
        done = begin(home, between.url, "broken")
        said, _ = done.communicate(timeout=280)

    found = stage(home / "broken")
    assert done.returncode == 2, said
    assert found["verdict"] == "NOT RUN"
    assert "lm-evaluation-harness ended with status 1: API request" in json.dumps(found["checks"])
    assert "out of memory" in json.dumps(found["checks"])
