"""A small language for right and wrong answers: evidence of `gsm8k` without an engine.

    exam = Exam(problems=300)
    baseline = exam.capture("R*280 W*20", again="R*100")
    observed = exam.compare(baseline, "R*270 W*30")

One letter an item, in the plan's order: Right, Wrong, Cut off, Empty, Unreadable, Long (right, and
run on to the limit), Parser fault, Failed twice, Server error twice, Timeout twice; t and s are a
timeout and a server error that were answered the second time, B the time budget's mark, and . is
nothing at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from world import ENGINE, ROOT

from iqaction import stages
from iqaction.calls import (
    Answer,
    Arm,
    Failure,
    FailureKind,
    Generation,
    Observation,
    Tag,
    digest,
)
from iqaction.observed import Observed
from iqaction.plan import DATA, Plan, StageSpec
from iqaction.report import StageResult
from iqaction.stages._base import Context
from iqaction.stages._gsm8k_judge import questions

GSM8K = "gsm8k"
STAGE = stages.load(GSM8K)
_FAILURES = {
    "F": FailureKind.ABORTED,
    "S": FailureKind.STATUS,
    "K": FailureKind.STATUS,  # a key that ended
    "T": FailureKind.TIMEOUT,
}


def spread(text: str) -> str:
    """`R*3 W` as RRRW."""
    words = (word.partition("*") for word in text.split())
    return "".join(letters * int(times or 1) for letters, _, times in words)


def answers(letter: str, gold: int) -> Iterator[Answer]:
    """What came of one item: of the first request, and of the second where there was one."""
    tokens = {"prompt_tokens": 40, "completion_tokens": 9}
    match letter:
        case "R":
            yield Generation(f"It is {gold}.\n#### {gold}", "stop", **tokens)
        case "W":
            yield Generation(f"It is {gold + 1}.\n#### {gold + 1}", "stop", **tokens)
        case "L":
            yield Generation(f"#### {gold}\nQuestion: 1", "length", **tokens)
        case "C":
            yield Generation("First, 2 and", "length", **tokens)
        case "E":
            yield Generation("", "stop", **tokens)
        case "U":
            yield Generation("I cannot tell.", "stop", **tokens)
        case "P":
            yield Generation("", "stop", reasoning=f"so {gold}", **tokens)
        case "B":
            yield Failure(FailureKind.BUDGET, "the time budget of 60 s is spent")
        case "F" | "S" | "T" | "K" | "s" | "t":
            status = {"S": 500, "K": 401}.get(letter.upper())
            failure = Failure(_FAILURES[letter.upper()], "no answer", status)
            yield failure
            if letter.islower():
                yield from answers("R", gold)
            else:
                yield failure


@dataclass
class Exam:
    """A plan of one stage, and the evidence of those who sat it. ``params`` go over defaults."""

    problems: int = 120
    params: dict[str, object] = field(default_factory=dict)
    seed: int = 0

    @cached_property
    def data(self) -> bytes:
        rows = ({"question": f"{i}?", "answer": f"#### {i}"} for i in range(self.problems))
        return "".join(json.dumps(row) + "\n" for row in rows).encode()

    @cached_property
    def spec(self) -> StageSpec:
        params = {p.name: p.default for p in STAGE.params} | {"limit": self.problems}
        params |= {**self.params, DATA: hashlib.sha256(self.data).hexdigest()}
        return StageSpec(GSM8K, params, seed=self.seed)  # type: ignore[arg-type]

    def plan(self, baseline_root: str = "") -> Plan:
        return Plan((self.spec,), "p" * 64, (), (0,), baseline_root)

    def context(self, observed: Observed, arm: Arm = Arm.CANDIDATE, launch: int = 0) -> Context:
        return Context(
            self.spec, observed.plan, {}, observed.seen, 0, arm, launch, observed.baseline,
            observed.engines, observed.data.get(GSM8K, b""),
        )  # fmt: skip

    @cached_property
    def units(self) -> tuple[str, ...]:
        return questions(self.context(Observed(self.plan(), {}, {}, data=self._data()))).units

    def _data(self) -> dict[str, bytes]:
        return {GSM8K: self.data}

    @cached_property
    def _sha256(self) -> dict[Tag, str]:
        return {}

    def sha256(self, tag: Tag) -> str:
        """Of the call that this tag stands for."""
        if tag not in self._sha256:
            observed = Observed(self.plan(), {}, {}, data=self._data())
            self._sha256[tag] = digest(questions(self.context(observed)).call(tag.unit, tag))
        return self._sha256[tag]

    def sat(self, letters: str, arm: Arm, launch: int = 0) -> dict[Tag, Observation]:
        kept = {}
        for unit, letter in zip(self.units, spread(letters), strict=False):
            for attempt, answer in enumerate(answers(letter, int(unit[6:]))):
                tag = Tag(arm, GSM8K, unit, launch, attempt)
                kept[tag] = Observation(tag, self.sha256(tag), answer)
        return kept

    def capture(self, letters: str, again: str = "") -> Observed:
        """A reference; ``again`` is its first relaunch."""
        seen = self.sat(letters, Arm.BASELINE) | self.sat(again, Arm.REPEAT, 1)
        launches = [(Arm.BASELINE, 0), *([(Arm.REPEAT, 1)] if again else [])]
        engines = dict.fromkeys(launches, ENGINE)
        return Observed(self.plan(), {}, {GSM8K: seen}, engines, root=ROOT, data=self._data())

    def compare(self, baseline: Observed, letters: str) -> Observed:
        engines = {(Arm.CANDIDATE, 0): replace(ENGINE, version="2.0")}
        return Observed(
            self.plan(ROOT), {}, {GSM8K: self.sat(letters, Arm.CANDIDATE)}, engines,
            baseline=baseline, data=self._data(),
        )  # fmt: skip

    def judge(self, observed: Observed) -> StageResult:
        arm = Arm.BASELINE if observed.baseline is None else Arm.CANDIDATE
        return STAGE.judge(self.context(observed, arm))

    def result(self, baseline: str, candidate: str, again: str = "") -> StageResult:
        return self.judge(self.compare(self.capture(baseline, again), candidate))


def less(observed: Observed, tags: Sequence[Tag] | Mapping[Tag, object]) -> Observed:
    """The evidence without those observations."""
    kept = {t: o for t, o in observed.seen[GSM8K].items() if t not in tags}
    return replace(observed, seen={GSM8K: kept})
