"""What the surfaces make of one report for each verdict, kept as files.

``python -m tests.golden.rewrite`` writes them anew; look at ``git diff`` before committing.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]

from report_factory import GOLDENS  # noqa: E402 - found beside this folder

from iqaction.report import Report  # noqa: E402
from iqaction.surfaces import render_all  # noqa: E402
from iqaction.surfaces._base import PutCheckRun, SetOutput, WriteFile  # noqa: E402


def files(report: Report) -> dict[str, str]:
    """By name: every file that a surface writes, the check run and the outputs."""
    out: dict[str, str] = {}
    outputs = []
    for effect in render_all(report):
        match effect:
            case WriteFile(name, content):
                out[name] = content
            case PutCheckRun() as check:
                head = f"{check.name}\n{check.head_sha}\n{check.conclusion}\n{check.title}"
                out["check_run.md"] = "\n\n---\n\n".join((head, check.summary, check.text)) + "\n"
            case SetOutput(name, value):
                outputs.append(f"{name}={value}\n")
    return {**out, "outputs.txt": "".join(outputs)}


def main() -> None:
    for case, make in GOLDENS.items():
        folder = HERE / case
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, content in files(make()).items():
            (folder / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
