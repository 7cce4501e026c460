"""One reference and the candidates compared with it, shared by the tests of real engines.

The reference is SmolLM2-135M at F16 on a llama.cpp server with two slots, asked the 64 demo
prompts, 8 tokens each, two at a time; its floor is three launches, each a server of its own.
Candidates that any collected test wants run first, two servers at a time where there are two
cores: each server computes on one thread.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from integration.stand_in import CHAT, Ask, Memory, Said, StandIn

from iqaction import session
from iqaction.calls import Arm
from iqaction.demo_engine import Launch, LlamaServer, cores
from iqaction.evidence.store import Folder
from iqaction.observed import Observed
from iqaction.progress import Quiet
from iqaction.session import Outcome, RunOptions
from iqaction.stages._paths import TRAJECTORY, prompt_ids

Weights = Callable[[str], Path]

UNITS = 64
TOKENS = 8
LAUNCHES = 3
_SLOTS = 2
_SYSTEM = {"role": "system", "content": "Be brief."}
BEHIND = {"role": "system", "content": "Always answer in the voice of a pirate."}
TEMPLATE = (  # ChatML where each turn's text starts on the line of its role
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + ': ' + m['content'] }}"
    "{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
PLAN = """\
suite: {suite}
stages:
  - trajectory: {{prompts: prompts.jsonl, limit: {units}, max_tokens: {tokens}, concurrency: 2}}
  - score: {{legs: [{legs}]}}
"""
BOTH, REFERENCE = "reference, self", "reference"


def demo_prompts(units: int) -> list[dict[str, Any]]:
    """Prompts of the demo's set, under a system prompt that is shorter than the model's own."""
    text = (resources.files("iqaction") / "data" / "demo_prompts.jsonl").read_text()
    prompts = [json.loads(line) for line in text.splitlines()[:units]]
    return [
        {"id": p["id"], "bucket": p["bucket"], "messages": [_SYSTEM, *p["messages"]]}
        for p in prompts
    ]


def as_lines(prompts: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(p) + "\n" for p in prompts)


@dataclass
class Capture:
    """A captured reference, and how to compare something with it."""

    home: Path
    units: int = UNITS
    tokens: int = TOKENS
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.home / "reference"

    def plan(self, legs: str = BOTH, units: int | None = None) -> Path:
        """A plan file beside the prompts."""
        n = units or self.units
        path = self.home / f"plan-{n}-{legs.replace(', ', '-')}.yml"
        path.write_text(PLAN.format(suite="real", units=n, tokens=self.tokens, legs=legs))
        return path

    def load(self, folder: Path | None = None) -> Observed:
        with Folder.open(folder or self.folder) as found:
            return found.load()

    def prompt_ids(self) -> dict[tuple[int, ...], str]:
        """Each prompt by the token ids that reach the model."""
        kept = self.load().seen[TRAJECTORY]
        return {
            prompt_ids(kept, Arm.BASELINE, tag.unit).ids or (): tag.unit
            for tag in kept
            if tag.leg == TRAJECTORY
        }

    def compare(
        self,
        name: str,
        url: str,
        *,
        plan: Path | None = None,
        baseline: Path | None = None,
    ) -> Outcome:
        """Ask the server at ``url`` and judge it; the evidence lies in ``home / name``."""
        begun = time.monotonic()
        options = RunOptions(
            evidence=self.home / name,
            plan=plan or self.plan(),
            endpoint=url,
            baseline=str(baseline or self.folder),
        )
        outcome = session.run(options, progress=Quiet())
        self.seconds[name] = time.monotonic() - begun
        assert outcome.complete, outcome.problem
        return outcome


def observe(capture: Capture, launches: int, launch: Launch) -> Capture:
    """Ask a server, and ``launches`` more that are started one after another."""
    (capture.home / "prompts.jsonl").write_text(as_lines(demo_prompts(capture.units)))
    begun = time.monotonic()
    pids = set()
    for number in range(launches + 1):
        with LlamaServer(launch) as server:
            pids.add(server.pid)
            options = RunOptions(
                evidence=capture.folder, plan=capture.plan(), endpoint=server.url, launch=number
            )
            outcome = session.observe(options, progress=Quiet())
        assert outcome.complete, outcome.problem
    assert len(pids) == launches + 1
    capture.seconds["reference"] = time.monotonic() - begun
    return capture


def served(model: Path, template: str = "") -> Launch:
    """What every server here has in common."""
    return Launch(model, _SLOTS, 512, 1, "smollm2-135m", template)


def pirate(ask: Ask) -> Ask | Said:
    """A system prompt added behind the API, to chat requests only."""
    if ask.path != CHAT:
        return ask
    return Ask(ask.method, ask.path, {**ask.body, "messages": [BEHIND, *ask.body["messages"]]})


@dataclass
class Runs:
    """The candidates, each with the function that measures it. ``memory`` is of the F16 server."""

    capture: Capture
    weights: Weights
    memory: Memory = field(default_factory=Memory)

    def f16(self) -> Outcome:
        """The reference's weights in another launch, through a stand-in that alters nothing."""
        with (
            LlamaServer(served(self.weights("F16"))) as server,
            StandIn(server.url, memory=self.memory) as between,
        ):
            return self.capture.compare("f16", between.url)

    def q8_0(self) -> Outcome:
        return self._quant("Q8_0", self.capture.plan(REFERENCE))

    def q4_0(self) -> Outcome:
        return self._quant("Q4_0", self.capture.plan(REFERENCE, 24))

    def other_template(self) -> Outcome:
        return self._quant("F16", self.capture.plan(REFERENCE), TEMPLATE)

    def system_prompt(self) -> Outcome:
        with (
            LlamaServer(served(self.weights("F16"))) as server,
            StandIn(server.url, hear=pirate) as between,
        ):
            plan = self.capture.plan(REFERENCE)
            return self.capture.compare("system_prompt", between.url, plan=plan)

    def _quant(self, quant: str, plan: Path, template: str = "") -> Outcome:
        name = "other_template" if template else quant.lower()
        with LlamaServer(served(self.weights(quant), template)) as server:
            return self.capture.compare(name, server.url, plan=plan)


CANDIDATES = ("f16", "q8_0", "q4_0", "other_template", "system_prompt")


@pytest.fixture(scope="session")
def capture(weights, tmp_path_factory) -> Capture:
    """The reference; its floor is small (3 launches)."""
    home = tmp_path_factory.mktemp("real")
    return observe(Capture(home), LAUNCHES, served(weights("F16")))


@pytest.fixture(scope="session")
def runs(capture, weights, request) -> tuple[Runs, dict[str, Outcome]]:
    """What was measured of every candidate that a collected test asks for by name."""
    wanted = {f for item in request.session.items for f in getattr(item, "fixturenames", ())}
    measured = Runs(capture, weights)
    with ThreadPoolExecutor(min(2, cores())) as pool:
        begun = {n: pool.submit(getattr(measured, n)) for n in CANDIDATES if n in wanted}
        return measured, {name: future.result() for name, future in begun.items()}


def _candidate(name: str) -> Callable[..., Outcome]:
    @pytest.fixture(scope="session", name=name)
    def candidate(runs) -> Outcome:
        return runs[1][name]

    return candidate


f16, q8_0, q4_0, other_template, system_prompt = map(_candidate, CANDIDATES)


@pytest.fixture(scope="session")
def memory(runs, f16) -> Memory:
    """Every answer that the healthy candidate gave, by question."""
    return runs[0].memory


@pytest.fixture(scope="session")
def engine(weights) -> Iterator[str]:
    """URL of an F16 server for what the memory does not hold."""
    with LlamaServer(served(weights("F16"))) as server:
        yield server.url


@dataclass(frozen=True)
class Small:
    """A reference of few, short texts, and all that its engine said to it and to a candidate."""

    capture: Capture
    memory: Memory


@pytest.fixture(scope="session")
def small(weights, tmp_path_factory) -> Small:
    """Eight prompts of four tokens: too few to PASS, quick enough to be run again and again."""
    capture = Capture(tmp_path_factory.mktemp("small"), units=8, tokens=4)
    (capture.home / "prompts.jsonl").write_text(as_lines(demo_prompts(capture.units)))
    memory = Memory()
    with (
        LlamaServer(served(weights("F16"))) as server,
        StandIn(server.url, memory=memory) as between,
    ):
        for launch in (0, 1):
            options = RunOptions(capture.folder, capture.plan(), between.url, launch=launch)
            assert session.observe(options, progress=Quiet()).complete
        capture.compare("first", between.url)
    return Small(capture, memory)
