"""Facts about the machine are taken where they are, and never needed."""

from __future__ import annotations

import pytest
from unit.boot.factory import environ

from iqaction.boot import machine, programs


@pytest.fixture
def nvidia(tmp_path):
    """Factory: a PATH with an nvidia-smi that runs this script."""

    def make(script: str) -> dict[str, str]:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return environ(PATH=f"{tmp_path}:/usr/bin:/bin")

    return make


def test_facts__gpus(nvidia):
    """Each GPU with driver and memory."""
    rows = "NVIDIA H200, 570.86.15, 143771 MiB\\nNVIDIA L4, 570.86.15, 23034 MiB"

    found = machine.facts(nvidia(f"printf '{rows}\\n'"))

    assert found["gpu 0"] == "NVIDIA H200, driver 570.86.15, 143771 MiB"
    assert found["gpu 1"] == "NVIDIA L4, driver 570.86.15, 23034 MiB"
    assert {"system", "cpu"} <= set(found)


def test_gpus__alone(nvidia):
    """The GPUs without the rest, as short and printable as all facts."""
    found = machine.gpus(nvidia("printf 'NVIDIA \\033[1mH200, 1, 2 MiB\\n'"))

    assert found == {"gpu 0": "NVIDIA \ufffd[1mH200, driver 1, 2 MiB"}


@pytest.mark.parametrize("script", ["exit 9", "echo 'No devices were found'", "printf '\\0,,\\n'"])
def test_facts__no_gpu(nvidia, script):
    """A machine without GPUs, or with a broken driver, is described without them."""
    found = machine.facts(nvidia(script))

    assert [name for name in found if name.startswith("gpu") and "H200" in found[name]] == []
    assert found["cpu"]


def test_facts__no_nvidia_smi():
    """Nor is the program needed."""
    assert "gpu 0" not in machine.facts(environ(PATH="/nowhere"))


def test_bounded():
    """A fact is short and printable, whoever wrote it."""
    found = machine.bounded({"image": "x\x1b[2J\n" + "y" * 10_000})

    assert len(found["image"]) == machine.LONGEST
    assert found["image"].isprintable()


def test_run__takes_too_long(tmp_path):
    """A program has its time; its children too."""
    done = programs.run(
        ["sh", "-c", "sleep 94 & echo begun; wait"], env=environ(), cwd=tmp_path, timeout_s=0.3
    )

    assert (done.late, done.is_good, done.out) == (True, False, "begun\n")
    assert done.why() == "took too long: begun"


def test_run__not_there(tmp_path):
    """A program that is not there is a result, not an exception."""
    done = programs.run(["no-such-program"], env=environ(), cwd=tmp_path, timeout_s=1)

    assert done.code == programs.NOT_FOUND
    assert "no-such-program" in done.why()
