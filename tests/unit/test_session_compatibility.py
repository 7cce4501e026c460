"""A baseline that does not fit is found before a prompt is asked: by the plan, the machine, the
version, or what a server's tokenizer answers. Here with a server that only tokenizes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from integration.stand_in import Ask, Said, StandIn
from unit.action.evidence import Evidence
from world import World

from iqaction import connecting, session
from iqaction.calls import Arm, EngineInfo
from iqaction.circumstances import Circumstances
from iqaction.errors import EvidenceError
from iqaction.evidence.store import Folder
from iqaction.observed import Observed
from iqaction.progress import Quiet
from iqaction.session import Outcome, RunOptions
from iqaction.verdict import Verdict

SMALL = World(units=4, length=4)
PROPS = {"total_slots": 1, "default_generation_settings": {"n_ctx": 512}, "build_info": "b1"}
PATHS = {"/v1/models", "/props", "/tokenize", "/apply-template"}
Answers = Callable[[str, Any], object]


def tokenizing(path: str, body: Any) -> object:
    """llama.cpp's answers, of a tokenizer of bytes."""
    match path:
        case "/v1/models":
            return {"data": [{"id": "m", "owned_by": "llamacpp"}]}
        case "/props":
            return PROPS
        case "/tokenize":
            return {"tokens": list(body["content"].encode())}
        case "/apply-template":
            return {"prompt": "".join(f"<{m['role']}>{m['content']}" for m in body["messages"])}
    return None


def other_tokens(path: str, body: Any) -> object:
    return {"tokens": [*body["content"].encode(), 0]} if path == "/tokenize" else None


def other_template(path: str, body: Any) -> object:
    return {"prompt": str(body["messages"])} if path == "/apply-template" else None


def no_tokenizer(path: str, body: Any) -> object:
    return {"error": "no"} if path == "/tokenize" else None


@contextmanager
def served(odd: Answers = lambda path, body: None, port: int = 0) -> Iterator[StandIn]:
    """A server that answers as :func:`tokenizing`, or as ``odd`` where that says anything."""

    def hear(ask: Ask) -> Said:
        body = odd(ask.path, ask.body) or tokenizing(ask.path, ask.body)
        status = 200 if body is not None and "error" not in str(body) else 404
        return Said(status, json.dumps(body or {"error": "not here"}).encode(), "application/json")

    with StandIn(hear=hear, port=port) as server:
        yield server


def told(odd: Answers = lambda path, body: None) -> EngineInfo:
    with served(odd) as server, connecting.connected(server.url, "", "auto", "", 1) as connection:
        return connection.engine


class Reference:
    """A capture of the world on such a server, and how to compare something with it."""

    def __init__(self, home: Path, around: Circumstances, **engine: object) -> None:
        self.made = Evidence(home, SMALL)
        info = replace(told(), base_url="", **engine)  # type: ignore[arg-type]
        self.path = home / "ref"
        capture = SMALL.capture(launches=3)
        capture = replace(capture, engines=dict.fromkeys(capture.engines, info))
        session.judge(self.made._stored(self.path, capture, around=around))
        with Folder.open(self.made.reference) as folder:
            (home / "prompts.jsonl").write_bytes(folder.prompts_bytes())
        self.home = home

    def plan(self, more: str = "", tokens: int = 4) -> Path:
        path = self.home / "plan.yml"
        settings = f"{{prompts: prompts.jsonl, max_tokens: {tokens}, top_logprobs: 20}}"
        path.write_text(f"stages:\n  - trajectory: {settings}\n  - score\n{more}")
        return path

    def compare(
        self,
        odd: Answers = lambda path, body: None,
        plan: Path | None = None,
        around: Circumstances | None = None,
    ) -> tuple[Outcome, set[str], Observed]:
        """The outcome, what the server was asked, and the evidence."""
        path = self.home / "cand"
        with served(odd) as server:
            options = RunOptions(
                path, plan or self.plan(), server.url, baseline=str(self.path),
                **({"circumstances": around} if around else {}),
            )  # fmt: skip
            outcome = session.run(options, progress=Quiet())
            asked = {a.path for a in server.asked}
        with Folder.open(path) as folder:
            return outcome, asked, folder.load()


GPU = {"gpu 0": "NVIDIA L4, driver 1, 2 MiB"}
TODAY = Circumstances(machine=GPU, observed_on="2026-11-30")


@pytest.mark.parametrize(
    ("field", "odd"), [("tokenizer", other_tokens), ("chat template", other_template)]
)
def test_run__another_tokenizer(tmp_path: Path, field: str, odd: Answers) -> None:
    """What the server's tokenizer gives away ends the run before a prompt is asked, and the report
    names it first."""
    outcome, asked, observed = Reference(tmp_path, TODAY).compare(odd)
    names = [p.split(":")[0] for p in outcome.report.problems]

    assert outcome.complete
    assert outcome.report.verdict is Verdict.UNPROVEN
    # Another tokenizer gives other ids for chats too.
    assert names == ["tokenizer", "chat template"][field != "tokenizer" :]
    assert f"not proven either way: {field}: " in outcome.report.headline
    assert asked <= PATHS
    assert not any(observed.seen.values())
    assert observed.engines[Arm.CANDIDATE, 0].tokenizer_sha256


@pytest.mark.parametrize(
    ("field", "more", "tokens"),
    [
        ("trajectory.max_tokens", "", 3),
        ("model_identity", "model_identity: org/n\n", 4),
    ],
)
def test_run__another_plan(tmp_path: Path, field: str, more: str, tokens: int) -> None:
    """What the plan gives away ends it before anybody is connected to."""
    reference = Reference(tmp_path, TODAY)
    theirs = replace(told(), base_url="")
    assert theirs.model == "m"
    if more:
        capture = replace(SMALL.capture(launches=3), engines={})
        capture = replace(capture, plan=replace(capture.plan, model_identity="org/m"))
        reference.path = tmp_path / "named"
        session.judge(reference.made._stored(reference.path, capture, around=TODAY))
    outcome, asked, _ = reference.compare(plan=reference.plan(more, tokens))
    named = [p for p in outcome.report.problems if p.startswith(f"{field}: ")]

    assert outcome.report.verdict is Verdict.UNPROVEN
    assert len(named) == 1
    assert asked == set()


@pytest.mark.parametrize(
    ("field", "around", "more"),
    [
        ("GPU", Circumstances(machine={"gpu 0": "NVIDIA H200, driver 1, 2 MiB"}), ""),
        ("harness version", Circumstances(machine=GPU, harness="99.1.0"), ""),
        ("the baseline is", Circumstances(machine=GPU, observed_on="2027-12-01"), "strict: true\n"),
    ],
)
def test_run__another_machine(tmp_path: Path, field: str, around: Circumstances, more: str) -> None:
    """So does another GPU, another version that asks, and with ``strict`` a baseline too old."""
    reference = Reference(tmp_path, replace(TODAY, harness="99.0.3"))
    around = replace(
        around, harness=around.harness or "99.0.0", observed_on=around.observed_on or "2026-12-01"
    )
    outcome, asked, _ = reference.compare(plan=reference.plan(more), around=around)
    (said,) = outcome.report.problems

    assert outcome.report.verdict is Verdict.UNPROVEN
    assert said.startswith(field)
    assert asked == set()


def test_run__nothing_differs(tmp_path: Path) -> None:
    """A server that tokenizes alike is asked."""
    outcome, asked, observed = Reference(tmp_path, TODAY).compare()

    assert outcome.report.problems == ()
    assert "/v1/chat/completions" in asked
    assert any(observed.seen.values())


def test_run__no_tokenizer(tmp_path: Path) -> None:
    """A server whose tokenizer cannot be asked is judged, and that is said."""
    outcome, asked, _ = Reference(tmp_path, TODAY).compare(no_tokenizer)
    caveats = outcome.report.caveats

    assert outcome.report.problems == ()
    assert "/v1/chat/completions" in asked
    assert any(c.startswith("the tokenizer could not be fingerprinted") for c in caveats)
    assert any(c.startswith("could not be compared: tokenizer, chat template") for c in caveats)


def test_run__day_and_version_are_kept(tmp_path: Path) -> None:
    """A folder says when it was begun; asked again another day, and judged, it says the same."""
    reference = Reference(tmp_path, TODAY)
    first = reference.compare()[2].circumstances
    again = reference.compare()[2].circumstances

    assert again == first
    assert len(first.observed_on) == 10
    assert first.harness
    with Folder.open(reference.path) as folder:
        assert folder.load().circumstances == TODAY


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tokenizer_sha256": "c" * 64}, "tokenizer was"),
        ({"template_sha256": "c" * 64}, "chat template was"),
    ],
)
def test_same_engine__fingerprints(change: dict[str, Any], said: str) -> None:
    """A relaunch that tokenizes otherwise is another engine; one that could not be asked is not."""
    known = told()
    kept = Observed(SMALL.plan(), {}, {}, {(Arm.BASELINE, 0): known})

    with pytest.raises(EvidenceError, match="the reference came from another engine") as caught:
        connecting.same_engine(kept, Arm.REPEAT, 1, replace(known, **change))

    assert said in str(caught.value)
    connecting.same_engine(kept, Arm.REPEAT, 1, replace(known, **dict.fromkeys(change, "")))
