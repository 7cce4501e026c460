"""The session's parts on a folder that is already there: judged again, verified elsewhere."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from world import World, noisy

from iqaction import __version__, judgement, session
from iqaction.evidence import report_json
from iqaction.evidence.store import Folder, load_baseline
from iqaction.observed import Observed

WORLD = World(units=64, length=16)
VERIFY = """
import json, sys
from pathlib import Path
from iqaction import __version__, judgement, session
from iqaction.evidence import report_json
from iqaction.evidence.store import Folder
path = Path(sys.argv[1])
found = session.verify(path, sys.argv[2])
with Folder.open(path) as folder:
    again = judgement.judge(folder.load(), __version__)
print(json.dumps([found.ok, found.problems, report_json.to_bytes(again).decode()]))
"""


def prompts() -> bytes:
    lines = (
        {"id": p.id, "bucket": p.bucket, "messages": [{"role": "user", "content": f"say {p.id}"}]}
        for p in WORLD.prompts().values()
    )
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def stored(path: Path, observed: Observed, root: str = "", baseline: Path | None = None) -> Path:
    """The world's evidence as a folder, unsealed."""
    plan = replace(
        observed.plan, prompts_sha256=hashlib.sha256(prompts()).hexdigest(), baseline_root=root
    )
    with Folder.create_or_continue(path, plan, prompts(), baseline) as folder:
        for (arm, launch), engine in observed.engines.items():
            folder.keep_engine(arm, launch, engine)
        for stage, kept in observed.seen.items():
            for observation in kept.values():
                folder.keep(stage, observation)
    return path


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A judged comparison with some noise in it, and its root."""
    path = tmp_path_factory.mktemp("session")
    capture = WORLD.capture(launches=3)
    session.judge(stored(path / "reference", capture))
    root = load_baseline(path / "reference").root
    observed = WORLD.compare(capture, noisy(0.3))
    folder = stored(path / "candidate", observed, root, path / "reference")
    return folder, session.judge(folder).root


def test_judge__again_changes_nothing(sealed: tuple[Path, str]) -> None:
    """Judging the same evidence on the same machine gives the same bytes, and so the same root."""
    folder, root = sealed

    assert session.judge(folder).root == root
    assert session.verify(folder, root).authenticated


def dispatched() -> str:
    """The processor features that NumPy uses here and can do without."""
    core = importlib.import_module(f"numpy.{'_core' if hasattr(np, '_core') else 'core'}")
    module = core._multiarray_umath
    return " ".join(n for n in module.__cpu_dispatch__ if module.__cpu_features__.get(n))


def test_verify__on_another_processor(sealed: tuple[Path, str]) -> None:
    """A machine whose NumPy sums in another order gives other last bits, and verifies all the
    same."""
    folder, root = sealed
    lacking = dispatched()
    if not lacking:
        pytest.skip("this processor has nothing that NumPy could do without")
    env = {**os.environ, "NPY_DISABLE_CPU_FEATURES": lacking}
    done = subprocess.run(
        [sys.executable, "-c", VERIFY, str(folder), root],
        env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    ok, problems, report = json.loads(done.stdout)
    with Folder.open(folder) as opened:
        here = report_json.to_bytes(judgement.judge(opened.load(), __version__)).decode()

    assert (ok, problems) == (True, [])
    if report == here:
        pytest.skip("NumPy gives the same bits here with and without what it can do without")
