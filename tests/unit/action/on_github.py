"""Runs with artifacts, as the stand-in for GitHub is told of them.

    ran(github, 12, sha, zipped(folder), "inferquality-baseline-default")

The higher a run's number, the newer it is.
"""

from __future__ import annotations

import base64
import io
import zipfile
from pathlib import Path
from typing import Any

from fake_github.fake import FakeGithub


def zipped(folder: Path) -> bytes:
    """A folder as upload-artifact packs it."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".lock"):
            archive.write(path, str(path.relative_to(folder)))
    return data.getvalue()


def ran(
    github: FakeGithub, number: int, sha: str, data: bytes, name: str, **run: Any
) -> dict[str, Any]:
    """A run on main with an artifact; ``run`` is laid over what GitHub says of the run."""
    branch = run.get("head_branch", "main")
    github.state.runs[number] = {
        **{"event": "push", "head_sha": sha, "head_branch": branch},
        **{"run_started_at": f"2026-11-{number:02}T10:00:00Z"},
        **run,
    }
    made_by = {"repository_id": 1, "head_repository_id": 1, "head_sha": sha, "head_branch": branch}
    artifact = {
        "id": number,
        "name": name,
        "run_id": number,
        "expired": False,
        "created_at": f"2026-11-{number:02}T10:00:00Z",
        "zip": base64.b64encode(data).decode(),
        "workflow_run": made_by,
    }
    github.state.artifacts.append(artifact)
    return artifact


def compared(github: FakeGithub, old: str, new: str, *files: str, status: str = "ahead") -> None:
    """What GitHub says of two commits."""
    github.state.compares[f"{old}...{new}"] = {
        "status": status,
        "merge_base": old if status == "ahead" else new,
        "files": [{"filename": name} for name in files],
    }
