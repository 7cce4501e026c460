"""A small disk for tests: one that can be full, or read-only."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own that can be made smaller, larger and read-only."""
    place = tmp_path / "disk"
    place.mkdir()
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", place],
            capture_output=True,
            text=True,
            check=False,
        )
        failed = done.stderr.strip() if done.returncode else ""
    except FileNotFoundError:
        failed = "there is no mount"
    if failed:
        pytest.skip(f"needs the right to mount a small file system: {failed}")
    yield place
    subprocess.run(["umount", place], check=True)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)
