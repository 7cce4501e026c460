"""The surfaces' whole texts, one report for each verdict, against files on disk.

``python -m tests.golden.rewrite`` rewrites them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from golden.rewrite import files
from report_factory import GOLDENS

HERE = Path(__file__).parent


@pytest.mark.parametrize("case", GOLDENS)
def test_golden__as_on_disk(case: str) -> None:
    """Each surface renders exactly the file that was reviewed."""
    kept = {p.name: p.read_text(encoding="utf-8") for p in sorted((HERE / case).iterdir())}

    assert files(GOLDENS[case]()) == kept


def test_golden__no_stray_folders() -> None:
    """Every golden belongs to a case."""
    assert {p.name for p in HERE.iterdir() if p.is_dir() and p.name[0] not in "._"} == set(GOLDENS)
