"""Unit tests of where a judgement comes from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_factory import SHA, failed_by_score, report

from iqaction.report import NO_RUN, Change, ChangedLine, Report, Run
from iqaction.surfaces import _origin

LINES = (
    ChangedLine("compose.yml", 7, "    image: vllm/vllm-openai:v0.27.1"),
    ChangedLine("compose.yml", 31, '    command: ["--kv-cache-dtype", "fp8"]'),
)


def of(*lines: ChangedLine, changes: tuple[Change, ...] = ()) -> Report:
    return report("x", changed_lines=lines, changes=changes, engines=(), baseline_root="")


def test_compared__whole() -> None:
    """Changes with their places, what else changed, who answered on what, which baseline."""
    assert _origin.compared(failed_by_score(), 8) == [
        "image `v0.24.0` → `v0.27.1` (compose.yml:7)",
        "flag `--kv-cache-dtype fp8` added (compose.yml:31)",
        "compose.yml:32 `--max-num-seqs 8`",
        "llamacpp b6500 → b6712, `SmolLM2-135M`",
        "2 x RTX 3090",
        "baseline of 26 Nov (`4f1c2aa`)",
    ]


@pytest.mark.parametrize(
    ("after", "where"),
    [
        ("v0.27.1", "(compose.yml:7)"),
        ("vllm/vllm-openai:v0.27.1", "(compose.yml:7)"),
        ("--kv-cache-dtype fp8", "(compose.yml:31)"),
        ("--kv-cache-dtype=fp8", "(compose.yml:31)"),
        ("0.27.1", "(compose.yml:7)"),
        ("27.1", "(compose.yml:7)"),
        ("7.1", ""),
        ("openai:v0.27", "(compose.yml:7)"),
        ("enai:v0.27.1", ""),
        (".*", ""),
        ("(((", ""),
        ("v0.2", ""),
        ("v0.27", "(compose.yml:7)"),
        ("fp", ""),
        ("", ""),
    ],
)
def test_compared__a_line_that_says_it(after: str, where: str) -> None:
    """A value is found as a word of its own, whatever separates flag and value."""
    (first, *_) = _origin.compared(of(*LINES, changes=(Change("what", "old", after),)), 8)

    assert first.endswith(where or "`" if after else "removed")
    assert ("compose.yml" in first) is bool(where)


def test_compared__lines_that_no_change_names() -> None:
    """Three of them are shown in short, the others counted."""
    many = tuple(ChangedLine("a b.sh", i, f"  --flag-{i}  \t {'x' * 200}") for i in range(1, 6))

    assert _origin.compared(of(*many), 8) == [
        *(f"`a b.sh:{i}` `--flag-{i} {'x' * 71}…`" for i in (1, 2, 3)),
        "and 2 more changed lines",
    ]
    assert len(_origin.compared(of(*many), 2)) == 3


def test_compared__more_changes_than_shown() -> None:
    """What is left out is counted."""
    changes = tuple(Change(f"c{i}", "", "") for i in range(5))

    assert _origin.compared(of(changes=changes), 2) == [
        "c0 changed",
        "c1 changed",
        "and 3 more changes",
    ]


def test_hardware__gpus_by_name() -> None:
    """Equal GPUs are counted, other facts are none, and nothing known is nothing said."""
    machine = {
        "gpu 0": "NVIDIA H200, driver 560, 143771 MiB",
        "gpu 1": "NVIDIA GeForce RTX 3090, driver 560, 24576 MiB",
        "GPU": "NVIDIA H200",
        "gpu driver": "560",
        "cpu": "x",
        "gpu 2": "",
    }

    assert _origin.hardware(report("x", machine=machine)) == "2 x H200, RTX 3090"
    assert _origin.hardware(report("x")) == ""
    assert _origin.machine(report("x", machine={"b": "2", "a": "1", "c": ""})) == [
        ("a", "1"),
        ("b", "2"),
    ]


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (NO_RUN, f"against baseline `{'b' * 12}`"),
        (Run(started_at="2026-11-26T06:00:00Z"), "baseline of 26 Nov"),
        (Run(started_at="2025-01-02T06:00:00Z"), "baseline of 2 Jan 2025"),
        (Run(head_sha=SHA["a"][:40]), "baseline of `aaaaaaa`"),
        (Run(started_at="2026-13-26T06:00:00Z"), f"against baseline `{'b' * 12}`"),
        (Run(started_at="yesterday", head_sha="`x`"), f"against baseline `{'b' * 12}`"),
    ],
)
def test_baseline__day_and_commit_else_root(run: Run, said: str) -> None:
    """The day in words, the commit in short; the root where neither is known."""
    assert _origin.baseline(report("x", baseline_run=run)) == said


def test_baseline__none() -> None:
    """A capture has no baseline, whatever else is told of one."""
    of = replace(failed_by_score(), baseline_root="")

    assert _origin.baseline(of) == ""
