"""Plan and prompt files: found where they are meant, refused where they are no files."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from iqaction import sources
from iqaction.errors import ConfigError
from iqaction.inputs import Request

PROMPT = b'{"id": "a", "messages": [{"role": "user", "content": "x"}]}\n'


def refused(path: Path | None, request: Request | None = None) -> str:
    """The error for this plan file, or for this request's prompts."""
    with pytest.raises(ConfigError) as caught:
        sources.prompt_file(request or sources.plan_file(path), path)
    return str(caught.value)


def test_plan_file__default() -> None:
    """The plan that ships is a good one: both stages, 96 prompts of the built-in set."""
    request = sources.plan_file(None)

    assert [s.stage for s in request.stages] == ["trajectory", "score"]
    assert (request.prompts, request.limit) == ("default", 96)
    assert {m.metric: m.limit for m in request.stages[1].margins} == {
        "kl": 0.02,
        "decisive": 0.005,
        "nll": 0.05,
    }


def test_plan_file__default_is_what_stages_default_to(tmp_path: Path) -> None:
    """The shipped plan spells out the defaults: a plan that names both stages is the same."""
    path = tmp_path / "plan.yml"
    path.write_text("stages: [trajectory, score]\n")

    assert sources.plan_file(path) == sources.plan_file(None)


def test_plan_file__names_the_path(tmp_path: Path) -> None:
    """An error names the file as the user did, and the line."""
    path = tmp_path / "my plan.yml"
    path.write_text("stages:\n  - scorre\n")

    assert refused(path).startswith(f"{path}:2: unknown stage 'scorre'")


def test_plan_file__missing(tmp_path: Path) -> None:
    """A missing file is told with its nearest neighbour."""
    (tmp_path / "plan.yaml").write_text("")

    assert f"{tmp_path}/plan.yml: no such file; did you mean 'plan.yaml'?" in refused(
        tmp_path / "plan.yml"
    )


def test_plan_file__not_utf8(tmp_path: Path) -> None:
    """A file that is no text is told with its line."""
    path = tmp_path / "plan.yml"
    path.write_bytes(b"stages:\n  - \xff\xfe\n")

    assert refused(path).startswith(f"{path}:2: not UTF-8")


@pytest.mark.parametrize("name", [".", "/dev/zero", "pipe", "plan\0.yml", "plan.yml/x", "x" * 300])
def test_plan_file__no_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders, devices, pipes and impossible names are refused; nothing is waited for."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("plan.yml").write_text("stages: [score]\n")

    assert "cannot read a plan" in refused(Path(name))


def test_plan_file__large(tmp_path: Path) -> None:
    """A file of any size is read up to a limit only."""
    path = tmp_path / "plan.yml"
    with path.open("wb") as stream:
        stream.truncate(10**10)  # sparse: takes no room

    assert "larger than" in refused(path)


@pytest.mark.parametrize(("name", "least"), [("default", 192), ("demo", 64)])
def test_prompt_file__built_in(name: str, least: int) -> None:
    """The built-in sets are there, and large enough for what they are for."""
    assert len(sources.prompt_file(Request((), name), None).prompts) >= least


def test_prompt_file__beside_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path starts at the plan's folder; without a plan file where the user stands."""
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "p.jsonl").write_bytes(PROMPT)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    request = Request((), "p.jsonl")

    assert [p.id for p in sources.prompt_file(request, folder / "plan.yml").prompts] == ["a"]
    assert "no such file" in refused(None, request)
    monkeypatch.chdir(folder)
    assert [p.id for p in sources.prompt_file(request, None).prompts] == ["a"]


def test_prompt_file__absolute_and_packed(tmp_path: Path) -> None:
    """An absolute path is taken as it is; .gz is unpacked and hashed as its content."""
    (tmp_path / "p.jsonl").write_bytes(PROMPT)
    (tmp_path / "p.jsonl.gz").write_bytes(gzip.compress(PROMPT))
    both = [
        sources.prompt_file(Request((), str(tmp_path / name)), Path("x/plan.yml"))
        for name in ("p.jsonl", "p.jsonl.gz")
    ]

    assert both[0].sha256 == both[1].sha256


def test_prompt_file__mistake(tmp_path: Path) -> None:
    """A mistake in the prompts names that file and line, not the plan's."""
    path = tmp_path / "p.jsonl"
    path.write_bytes(PROMPT + PROMPT)

    assert refused(None, Request((), str(path))).startswith(f"{path}:2: the id 'a' is used twice")
