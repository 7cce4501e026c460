"""Faults of one path only, put between client and real engine: never PASS, and the path is said.

The rate is 1 token in 200. A default run decodes 96 texts of up to 256 tokens, so that this
touches about 7 texts in 10; here texts have 8 tokens, and it touches 2 or 3 of 64: the few that
any judgement of means would let pass. The full set also has the fault in as many texts as a
default run would see it in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from integration.captured import UNITS, Capture
from integration.stand_in import CHAT, FORCE, Ask, Memory, Said, StandIn, swapped

from iqaction.calls import Arm
from iqaction.report import Check, Report
from iqaction.session import Outcome
from iqaction.stages._paths import SCORE, TRAJECTORY, own
from iqaction.verdict import Verdict

pytestmark = pytest.mark.timeout(3600)

RATE = 200
_RANK = 4  # the token that a fault prefers is the engine's fifth choice, or a later one
_SPECIAL = 17  # ids below are the template's, never a word


def check(report: Report, metric: str) -> Check:
    return next(c for s in report.stages for c in s.checks if c.metric == metric)


def meaning(report: Report) -> str:
    return " ".join(m for s in report.stages for m in s.meaning)


@dataclass(frozen=True)
class Text:
    """What the reference's model writes to one prompt."""

    unit: str
    prompt_ids: tuple[int, ...]
    path: tuple[int, ...]


@pytest.fixture(scope="module")
def texts(capture: Capture) -> tuple[Text, ...]:
    """All texts, in the plan's order."""
    baseline = capture.load()
    found = []
    for unit in baseline.plan.prompt_ids:
        text = own(baseline.seen[TRAJECTORY], Arm.BASELINE, unit)
        assert not isinstance(text, str), text
        found.append(Text(unit, text.prompt_ids, text.path))
    return tuple(found)


def every(rate: int, texts: tuple[Text, ...]) -> dict[str, int]:
    """One token in ``rate`` of the texts laid end to end: by prompt, its position."""
    found: dict[str, int] = {}
    at = 0
    for text in texts:
        first = -(at - rate // 2) % rate
        if first < len(text.path):
            found[text.unit] = first
        at += len(text.path)
    return found


def test_every__one_in_200(texts: tuple[Text, ...]) -> None:
    """The rate is what it is said to be."""
    tokens = sum(len(t.path) for t in texts)
    hit = every(RATE, texts)

    assert abs(len(hit) - tokens / RATE) < 1
    assert len(hit) in (2, 3)


class DecodeFault:
    """Writes another token at the given positions, and goes on from it as the engine would.

    The token takes the value of the engine's first choice, as a decoder would report it whose
    logits are wrong there. What follows is the engine's own continuation. Forced requests pass.
    """

    def __init__(self, texts: tuple[Text, ...], at: Mapping[str, int], engine: StandIn) -> None:
        by_prompt = {t.prompt_ids: t for t in texts}
        self._at = {ids: at[t.unit] for ids, t in by_prompt.items() if t.unit in at}
        self._engine = engine
        self.altered = 0

    def __call__(self, ask: Ask, said: Said) -> Said:
        if ask.path != CHAT:
            return said
        body = said.body
        ids = self._prompt_ids(body["__verbose"]["prompt"])
        if ids not in self._at:
            return said
        rows, tokens = body["choices"][0]["logprobs"]["content"], body["__verbose"]["tokens"]
        at = min(self._at[ids], len(rows) - 1)
        assert len(rows) == len(tokens)
        row = wrong_choice(rows[at])
        before = [*tokens[:at], row["id"]]
        after = self._continued([*ids, *before], ask.body["max_tokens"] - len(before))
        rows = [*rows[:at], row, *after.get("completion_probabilities", [])]
        self.altered += 1
        return said.with_body(rewritten(body, rows, [*before, *after.get("tokens", [])], after))

    def _prompt_ids(self, prompt: str) -> tuple[int, ...]:
        body = {"content": prompt, "add_special": True, "parse_special": True}
        return tuple(self._engine.of_engine(Ask("POST", "/tokenize", body)).body["tokens"])

    def _continued(self, ids: list[int], n: int) -> dict[str, Any]:
        if n < 1:
            return {}
        body = {"prompt": ids, "n_predict": n, "n_probs": 20, "temperature": 0}
        body |= {"cache_prompt": False, "return_tokens": True}
        answer: dict[str, Any] = self._engine.of_engine(Ask("POST", FORCE, body)).body
        return answer


def wrong_choice(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as if a word far down the list had been the first choice."""
    listed = row["top_logprobs"]
    place = next(i for i, t in enumerate(listed) if i >= _RANK and t["id"] >= _SPECIAL)
    first = {k: v for k, v in listed[place].items() if k != "top_logprobs"}
    return swapped({**row, **first}, place)


def rewritten(
    body: Mapping[str, Any], rows: list[Any], tokens: list[int], after: Mapping[str, Any]
) -> dict[str, Any]:
    """A chat answer with these rows and tokens, whole in itself."""
    ended = after.get("stop_type") == "eos"
    text = "".join(r["token"] for r in (rows[:-1] if ended else rows))
    choice = {
        **body["choices"][0],
        "finish_reason": "stop" if ended else "length",
        "message": {**body["choices"][0]["message"], "content": text},
        "logprobs": {"content": rows},
    }
    usage = {**body["usage"], "completion_tokens": len(tokens)}
    verbose = {**body["__verbose"], "tokens": tokens, "content": text}
    return {**body, "choices": [choice], "usage": usage, "__verbose": verbose}


def decoded_wrongly(
    name: str, at: Mapping[str, int], texts: tuple[Text, ...], world: tuple[Capture, Memory, str]
) -> Report:
    """The report on an engine whose decoding alone is wrong at these positions."""
    capture, memory, engine = world
    with StandIn(engine, memory=memory) as honest:
        fault = DecodeFault(texts, at, honest)
        with StandIn(engine, memory=memory, tell=fault) as between:
            report = capture.compare(name, between.url).report
    assert fault.altered >= len(at)
    return report


@pytest.fixture
def world(capture: Capture, memory: Memory, engine: str) -> tuple[Capture, Memory, str]:
    return capture, memory, engine


def says_decode_path(report: Report, hit: set[str]) -> None:
    """Asserts that the prompts are named and the path is said, and that forcing was clean."""
    found = {f.unit for s in report.stages for f in s.faults if f.kind == "decode fault"}

    assert report.verdict is not Verdict.PASS
    assert found == hit
    assert "the fault is in the decode path" in meaning(report)
    for metric in ("kl", "decisive", "nll", "broken"):
        assert check(report, f"reference.{metric}").verdict is Verdict.PASS
    assert check(report, "trajectory.template").verdict is Verdict.PASS


def test_decode_fault__one_token_in_200(
    texts: tuple[Text, ...], world: tuple[Capture, Memory, str]
) -> None:
    """Decoding alone goes wrong at 1 token in 200: not PASS, and the decode path is named."""
    hit = every(RATE, texts)
    report = decoded_wrongly("decode_fault", hit, texts, world)
    print(f"decode fault in {len(hit)} texts: {check(report, 'self.faults').reason}")

    says_decode_path(report, set(hit))
    assert check(report, "self.faults").verdict is Verdict.UNPROVEN
    assert f"({len(hit)} again when asked once more)" in check(report, "self.faults").reason


@pytest.mark.full
def test_decode_fault__as_often_as_in_a_default_run(
    texts: tuple[Text, ...], world: tuple[Capture, Memory, str]
) -> None:
    """One wrong token in 46 of 64 texts, as 1 in 200 makes of texts of 256 tokens: FAIL."""
    share = 1 - (1 - 1 / RATE) ** 256
    chosen = texts[: round(share * UNITS)]
    hit = {t.unit: i % len(t.path) for i, t in enumerate(chosen)}
    report = decoded_wrongly("decode_faults", hit, texts, world)
    print(f"decode fault in {len(hit)} texts: {check(report, 'self.faults').reason}")

    assert report.verdict is Verdict.FAIL
    says_decode_path(report, set(hit))


def test_forcing_fault__one_token_in_200(
    texts: tuple[Text, ...], world: tuple[Capture, Memory, str]
) -> None:
    """Forced scoring alone goes wrong at 1 token in 200, decoding is clean: not PASS, by name."""
    capture, memory, engine = world
    hit = every(RATE, texts)
    at = {t.prompt_ids: hit[t.unit] for t in texts if t.unit in hit}

    def tell(ask: Ask, said: Said) -> Said:
        where = at.get(tuple(ask.body["prompt"])) if ask.path == FORCE else None
        if where is None:
            return said
        body = said.body
        rows = list(body["completion_probabilities"])
        rows[where] = swapped(rows[where], _RANK)
        return said.with_body({**body, "completion_probabilities": rows})

    with StandIn(engine, memory=memory, tell=tell) as between:
        report = capture.compare("forcing_fault", between.url).report
    print(f"forcing fault in {len(hit)} texts: {check(report, 'reference.broken').reason}")

    assert report.verdict is not Verdict.PASS
    assert check(report, "trajectory.real").verdict is Verdict.PASS
    assert check(report, "self.faults").verdict is not Verdict.PASS
    found = {f.unit for s in report.stages for f in s.faults}
    assert found == set(hit)
    assert "the fault is in forced scoring" in meaning(report)
    assert "decode path" not in meaning(report)


def test_system_prompt_behind_the_api(system_prompt: Outcome, capture: Capture) -> None:
    """A system prompt that something adds to chats: forced rows are clean, and it is named."""
    report = system_prompt.report
    named = {f.unit for s in report.stages for f in s.faults if f.kind == "template"}

    assert report.verdict is not Verdict.PASS
    assert check(report, "trajectory.template").verdict is Verdict.UNPROVEN
    assert "system prompt" in check(report, "trajectory.template").reason
    assert named == set(capture.load().plan.prompt_ids)
    for metric in ("kl", "decisive", "nll", "broken"):
        forced = check(report, f"reference.{metric}")
        assert forced.estimate is not None
        assert forced.estimate.value == pytest.approx(0, abs=1e-9)
        assert forced.verdict is Verdict.UNPROVEN
        assert "system prompt" in forced.reason


def test_score__both_paths_were_asked(f16: Outcome, capture: Capture) -> None:
    """The healthy run that the faults are put into has both legs over all prompts."""
    seen = capture.load(f16.folder).seen[SCORE]
    legs = {leg: sum(t.leg == leg for t in seen) for leg in ("reference", "self")}

    assert legs == {"reference": UNITS, "self": UNITS}
