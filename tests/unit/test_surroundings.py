"""The day, the version and the GPU are written when a folder is begun, and stay."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from iqaction import __version__, surroundings
from iqaction.circumstances import NONE, Circumstances
from iqaction.report import Run

GPU = {"gpu 0": "NVIDIA L4, driver 1, 24 GiB"}
OTHER = {"gpu 0": "NVIDIA H200, driver 1, 141 GiB"}
GIVEN = Circumstances(Run("org/repo", "push", "c" * 40), {"system": "Linux"}, problem="x")
HERE = "http://127.0.0.1:8000/v1"


def found(given: Circumstances, kept: Circumstances, endpoint: str = HERE) -> Circumstances:
    return surroundings.found(given, kept, endpoint, lambda: "2026-12-01", lambda: GPU)


def test_found__at_a_desk() -> None:
    """A run that nobody describes is described by what is here."""
    assert found(NONE, NONE) == Circumstances(
        machine=GPU, observed_on="2026-12-01", harness=__version__
    )


def test_found__continued() -> None:
    """Continued on another day, by another version, on another machine: the first ones count."""
    kept = Circumstances(machine=OTHER, observed_on="2026-11-01", harness="0.0.1")

    assert found(NONE, kept) == kept
    assert found(GIVEN, kept) == replace(
        GIVEN, machine={**GIVEN.machine, **OTHER}, observed_on="2026-11-01", harness="0.0.1"
    )
    assert found(found(GIVEN, NONE), found(GIVEN, NONE)) == found(GIVEN, NONE)


def test_found__older_folder() -> None:
    """A folder of a version that kept no day is not given today's."""
    assert found(NONE, GIVEN) == GIVEN


def test_found__the_machine_is_described_already() -> None:
    """Who has started the endpoint knows its GPU better."""
    given = replace(GIVEN, machine=OTHER)

    assert found(given, NONE).machine == OTHER


@pytest.mark.parametrize(
    "endpoint", ["https://gpu.example/v1", "http://10.0.0.8:8000", "http://host:80", "", "http://["]
)
def test_found__elsewhere(endpoint: str) -> None:
    """The GPU here says nothing of a server that is not."""
    assert found(NONE, NONE, endpoint).machine == {}


@pytest.mark.parametrize(
    "endpoint", ["http://localhost:1/v1", "http://[::1]:80", "http://127.8.0.1"]
)
def test_is_here(endpoint: str) -> None:
    """Every address of this machine is one."""
    assert surroundings.is_here(endpoint)


def test_today() -> None:
    """A day as the schema wants it."""
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", surroundings.today())
