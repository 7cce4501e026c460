"""The questions of `niah`: which there are, how long they are, and what they say. Pure.

Knows the plan's lengths and what the baseline's tokenizer made of a piece of filler. Knows no
answer. A question is a function of the plan and of the *baseline's* measurement, so that both
arms are asked the very same text and a judge can write it again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from iqaction import shards
from iqaction.calls import (
    Answer,
    Arm,
    Call,
    Capability,
    Chat,
    EngineInfo,
    Failure,
    FailureKind,
    Generation,
    Message,
    Observation,
    Tag,
    TokenIds,
    Tokenize,
)
from iqaction.plan import StageSpec
from iqaction.stages import _haystack
from iqaction.stages._base import Asking, Context, Round
from iqaction.stages._niah_answer import named
from iqaction.stages._paired_items import AGAIN, Graded, Kind, Questions, Read, graded, permuted

NIAH = "niah"
MEASURE = "measure"  # the leg in which lengths are measured
MOST_TOKENS = 20_000_000  # of all questions together
MOST_ITEMS = 10_000
_BY_TOKENIZER, _BY_USAGE = 0, 1  # attempt numbers of the two ways to measure
_BLOCK = 24_000  # characters of filler that a tokenizer is shown: a ratio good to 1 %
# Of a length, left free: what a text's own ratio differs from the measured one by. Without it
# half of the questions of a length would not fit into a context of exactly that length.
_SPARE = 0.015
_SPARE_TOKENS = 4
_TYPICAL = 4.5  # characters a token, where nothing could be measured
_TYPICAL_TEMPLATE = 40  # tokens that a chat template adds
_PART = re.compile(r"(?:all|[1-9]\d{0,2}of[1-9]\d{0,2})\Z", re.ASCII)
_REFUSED = (400, 413, 422)
_TOO_LONG = re.compile(
    r"tokens?\b.{0,120}(?:exceed|must be <|too long|longer than|over the limit|limit of)"
    r"|(?:exceed|too long|longer than|too many)\b.{0,120}(?:\btokens?\b|context|model_len|length)",
    re.IGNORECASE,
)
_PLAUSIBLE = (1.0, 20.0)  # characters a token; beyond it the measurement is none

_QUESTION = (
    "What is the secret code that the text above tells you to remember? "
    "Answer with its seven digits and nothing else."
)


def needle(code: str) -> str:
    """The sentence that is hidden."""
    return f"Remember this: the secret code is {code}."


@dataclass(frozen=True)
class Item:
    """One question: at which length and depth, and which try of that."""

    length: int
    depth: float
    trial: int

    @property
    def unit(self) -> str:
        return f"{self.length}-{self.depth}-{self.trial}"


def numbers(spec: StageSpec, name: str) -> tuple[float, ...]:
    """The values of a parameter that is a list of numbers."""
    value = spec.params[name]
    assert isinstance(value, tuple)
    return tuple(x for x in value if isinstance(x, (int, float)))


def items(spec: StageSpec) -> tuple[Item, ...]:
    """Every question, in an order that is the plan's and mixes lengths and depths: each part of
    a matrix asks some of each. None where they are absurdly many, or long together."""
    sizes, depths = numbers(spec, "lengths"), numbers(spec, "depths")
    cells, trials = len(sizes) * len(depths), spec.integer("trials")
    if cells * trials > MOST_ITEMS or sum(sizes) * len(depths) * trials > MOST_TOKENS:
        return ()
    every = [Item(int(n), d, t) for n in sizes for d in depths for t in range(trials)]
    named = {item.unit: item for item in every}
    return tuple(named[unit] for unit in permuted(named, spec.seed))


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def salt(spec: StageSpec, item: Item) -> str:
    """What makes this question's text unlike any other's."""
    return f"niah/{spec.seed}/{item.unit}"


def code(spec: StageSpec, item: Item) -> str:
    """The seven digits that are hidden."""
    drawn = int.from_bytes(_hash(f"code/{salt(spec, item)}"), "big")
    return str(1_000_000 + drawn % 9_000_000)


@dataclass(frozen=True)
class Measure:
    """How text becomes tokens at the baseline's engine.

    Attributes
    ----------
    ratio
        Characters of filler a token.
    frame
        Tokens of a question without any filler, the chat template's included.
    source
        "tokenizer", "usage" (the prompt tokens that two short answers reported) or "estimate".
    """

    ratio: float
    frame: int
    source: str


def _frame() -> str:
    return f"{needle('1234567')}\n\n{_QUESTION}"


ESTIMATE = Measure(_TYPICAL, _TYPICAL_TEMPLATE + round(len(_frame()) / _TYPICAL), "estimate")


def wanted_tokens(spec: StageSpec, length: int) -> float:
    """How long a prompt is meant to be, so that with its answer it fits into ``length``."""
    return length * (1 - _SPARE) - _SPARE_TOKENS - spec.integer("max_tokens")


def text(spec: StageSpec, item: Item, measure: Measure) -> str:
    """The question as it is sent: with its answer it takes at most ``item.length`` tokens."""
    room = max(0.0, wanted_tokens(spec, item.length) - measure.frame) * measure.ratio
    found = _haystack.filler(salt(spec, item), room)
    hidden = _haystack.hide(needle(code(spec, item)), item.depth, found)
    return f"{_haystack.text(hidden)}\n\n{_QUESTION}"


def chat(spec: StageSpec, tag: Tag, content: str, max_tokens: int) -> Chat:
    """The request for one text."""
    return Chat(
        tag,
        (Message("user", content),),
        max_tokens,
        temperature=0.0,
        seed=spec.seed,
        template_kwargs=spec.text("chat_template_kwargs"),
    )


def part_name(part: tuple[int, int]) -> str:
    """Legs of a matrix measure for themselves, under names of their own."""
    return f"{part[0]}of{part[1]}" if part[1] else "all"


def mine(context: Context) -> tuple[Item, ...]:
    """The questions of this part."""
    found = items(context.spec)
    wanted = set(shards.part([i.unit for i in found], *context.part))
    return tuple(i for i in found if i.unit in wanted)


def measuring(context: Context) -> Asking:
    """What the lengths of a capture rest on: two token counts, by the tokenizer where there is
    one, else by what two short answers report."""
    spec, part = context.spec, part_name(context.part)
    engine = context.engines.get((Arm.BASELINE, 0))
    label = "niah: measuring lengths"
    if engine is not None and Capability.TOKENIZE in engine.capabilities:
        frame = (Message("user", _frame()),)
        kwargs = spec.text("chat_template_kwargs")
        calls: tuple[Call, ...] = (
            Tokenize(_tag("frame", part, _BY_TOKENIZER), None, frame, kwargs),
            Tokenize(_tag("filler", part, _BY_TOKENIZER), _block(spec, part, _BLOCK)),
        )
        told = yield Round(calls, 1, label)
        if any(o.tag.unit.startswith("filler") and isinstance(o.answer, TokenIds) for o in told):
            return
    content = f"{_block(spec, part, _short(spec))}\n\n{_frame()}"
    yield Round(
        (
            chat(spec, _tag("frame", part, _BY_USAGE), _frame(), 1),
            chat(spec, _tag("filler", part, _BY_USAGE), content, 1),
        ),
        1,
        label,
    )


def _tag(what: str, part: str, way: int) -> Tag:
    return Tag(Arm.BASELINE, MEASURE, f"{what}-{part}", 0, way)


def _block(spec: StageSpec, part: str, characters: float) -> str:
    return _haystack.text(_haystack.filler(f"niah/{spec.seed}/measure/{part}", characters))


def _short(spec: StageSpec) -> float:
    """Characters that surely fit where the shortest question does."""
    return min(_BLOCK, min(numbers(spec, "lengths")) * _TYPICAL / 2)


@dataclass(frozen=True)
class Lengths:
    """How the baseline's lengths were measured, by part, as "2of4"."""

    measures: Mapping[str, Measure]

    def of(self, index: int) -> Measure:
        """As the leg found it that asked the baseline the ``index``-th question of the plan."""
        for name, measure in self.measures.items():
            part, _, parts = name.partition("of")
            if not parts or index % int(parts) == int(part) - 1:
                return measure
        return ESTIMATE


def lengths(spec: StageSpec, kept: Mapping[Tag, Observation]) -> Lengths:
    """From what the baseline's evidence (``kept``) says."""
    named_ = {t.unit.partition("-")[2] for t in kept if t.arm is Arm.BASELINE and t.leg == MEASURE}
    parts = sorted((n for n in named_ if _PART.match(n)), key=lambda n: (n != "all", n))
    return Lengths({n: _measure(spec, kept, n) for n in parts})


def _measure(spec: StageSpec, kept: Mapping[Tag, Observation], part: str) -> Measure:
    def told(what: str, way: int) -> int | None:
        observation = kept.get(_tag(what, part, way))
        return _tokens(observation.answer) if observation is not None else None

    frame, filler = told("frame", _BY_TOKENIZER), told("filler", _BY_TOKENIZER)
    if filler:
        ratio = len(_block(spec, part, _BLOCK)) / filler
        if _is_plausible(ratio):
            guess = _TYPICAL_TEMPLATE + round(len(_frame()) / ratio)
            return Measure(ratio, guess if frame is None else frame, "tokenizer")
    frame, whole = told("frame", _BY_USAGE), told("filler", _BY_USAGE)
    if frame is not None and whole is not None and whole > frame:
        ratio = len(_block(spec, part, _short(spec))) / (whole - frame)
        if _is_plausible(ratio):
            return Measure(ratio, frame, "usage")
    return ESTIMATE


def _is_plausible(ratio: float) -> bool:
    return _PLAUSIBLE[0] <= ratio <= _PLAUSIBLE[1]


def _tokens(answer: Answer) -> int | None:
    if isinstance(answer, TokenIds):
        return len(answer.ids)
    return answer.prompt_tokens if isinstance(answer, Generation) else None


def questions(spec: StageSpec, kept: Mapping[Tag, Observation]) -> Questions:
    """The questions as the baseline was asked them, whose evidence ``kept`` is."""
    known = lengths(spec, kept)
    by_unit = {item.unit: (n, item) for n, item in enumerate(items(spec))}

    @lru_cache(maxsize=1)  # both arms' call of one question, before the next: texts are long
    def content(unit: str) -> str:
        n, item = by_unit[unit]
        return text(spec, item, known.of(n))

    def call(unit: str, tag: Tag) -> Chat:
        return chat(spec, tag, content(unit), spec.integer("max_tokens"))

    def read(unit: str, said: str, cut: bool) -> Read:
        found = named(said)
        if found is None:
            return Read(False, None)
        rule = "first of several" if found.more else "the only one"
        return Read(found.code == code(spec, by_unit[unit][1]), found.code, rule)

    return Questions(tuple(by_unit), call, read, NIAH)


def fits(item: Item, engine: EngineInfo | None) -> bool:
    """False where the engine says that its context is shorter than question and answer."""
    most = engine.max_model_len if engine is not None else None
    return most is None or item.length <= most


def is_overflow(failure: Failure) -> bool:
    """True where the engine refuses a question because it is too long for its context."""
    if failure.kind is FailureKind.UNSUPPORTED:  # of a plain chat, the dialects call nothing else
        return True
    return failure.status in _REFUSED and _TOO_LONG.search(failure.message) is not None


def refused(kept: Mapping[Tag, Observation], tag: Tag, side: Graded) -> str:
    """What the engine said to a question that is too long for it; "" where it is not."""
    if side.kind not in (Kind.LOST, Kind.FAILED):
        return ""
    for attempt in (0, AGAIN):
        observation = kept.get(replace(tag, attempt=attempt))
        answer = observation.answer if observation is not None else None
        if isinstance(answer, Failure) and is_overflow(answer):
            return f"it does not fit: {answer.message}"
    return ""


def is_comparable(known: Questions, kept: Mapping[Tag, Observation], unit: str) -> bool:
    """False where the baseline, whose evidence ``kept`` is, cannot be compared with whatever is
    answered: it was not asked, was refused, or broke down twice.

    What only the way lost of it is asked of a candidate too: that counts as badly as it can,
    and one of many does not stand in the way of a PASS.
    """
    side = graded(known, kept, unit, Arm.BASELINE)
    if side.kind is Kind.LOST:
        return not refused(kept, known.tag(unit, Arm.BASELINE), side)
    return side.right is not None
