"""Folders in memory where there is such a disk: what is tested syncs after every line."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """As pytest's own, and removed afterwards."""
    there = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="iq-", dir=there))
    yield path
    shutil.rmtree(path, ignore_errors=True)
