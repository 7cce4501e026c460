"""Evidence made from a seed, for the other benchmarks: the shape of what a chat model gives.

Every position has a handful of likely tokens out of a large vocabulary, frequent ones more often,
and most positions have one clear favourite. An arm is the same model with noise on its logits, so
that values move, ranks swap and tokens come and go at the end of the list. The arms' rows go
through the package's own types, and a folder through its own writer.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: CPU time of one thread

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout needs no install

from iqaction import judgement
from iqaction.calls import Arm, Capability, EngineInfo, Generation, Observation, Scored, Tag
from iqaction.evidence.store import Folder
from iqaction.plan import Margin, Plan, StageSpec
from iqaction.rows import Match, Rows

ROOT = Path(__file__).resolve().parent.parent
VOCABULARY = 150_000
K = 20
BOTH = ("reference", "self")
_NEAR = 32  # tokens that may reach a list
ENGINE = EngineInfo("vllm", "1.0", "m", capabilities=frozenset(Capability))
MARGINS = (Margin("kl", 0.02), Margin("decisive", 0.005), Margin("nll", 0.05))


@dataclass(frozen=True)
class Model:
    """``units`` prompts of ``length`` tokens, all different, the same for the same ``seed``."""

    units: int = 64
    length: int = 256
    seed: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"p-{i:05d}" for i in range(self.units))

    def _logits(self, unit: int) -> tuple[np.ndarray, np.ndarray]:
        """Keys and logits of the near tokens, (length, _NEAR) each; keys differ in a row."""
        rng = np.random.default_rng([self.seed, unit])
        n = self.length
        logits = rng.normal(0, 1.8, (n, _NEAR))
        logits[:, 0] += rng.gamma(2.0, 4.0, n)
        slots = VOCABULARY // _NEAR
        # As Zipf's law has it: frequent tokens, which have low ids in most vocabularies.
        keys = (slots ** rng.random((n, _NEAR)) - 1).astype(np.int64) * _NEAR
        return keys + rng.permutation(_NEAR), logits

    def rows(
        self,
        unit: int,
        arm: int,
        noise: float,
        path: np.ndarray | None = None,
        *,
        named: bool = True,
    ) -> Rows:
        """The arm's rows along ``path``, or along its own favourites; arm 0 is the reference.
        ``named``: with the texts of the tokens."""
        keys, logits = self._logits(unit)
        if arm:
            rng = np.random.default_rng([self.seed, unit, arm])
            logits = logits + rng.normal(0, noise, logits.shape)
        height = logits.max(axis=1, keepdims=True)
        # As much mass as e^-1 of a middling token lies outside of the near ones.
        mass = np.exp(logits - height).sum(axis=1, keepdims=True) + np.exp(-1 - height)
        values = logits - height - np.log(mass)
        order = np.argsort(-values, axis=1)[:, :K]
        listed = np.take_along_axis(keys, order, axis=1)
        chosen = listed[:, 0].copy() if path is None else path
        at = (keys == chosen[:, None]).argmax(axis=1)
        n = np.arange(self.length)
        seen = {*chosen.tolist(), *listed[:, 0].tolist()} if named else set[int]()
        return Rows(
            chosen.astype(np.int32),
            values[n, at].astype(np.float32),
            listed.astype(np.int32),
            np.take_along_axis(values, order, axis=1).astype(np.float32),
            np.ones(self.length, np.bool_),
            Match.ID,
            {t: word(t) for t in seen},
        )

    def prompts(self) -> bytes:
        lines = (
            {"id": n, "bucket": ("code", "short")[i % 2],
             "messages": [{"role": "user", "content": f"say {n}"}]}
            for i, n in enumerate(self.names)
        )  # fmt: skip
        return "".join(json.dumps(line) + "\n" for line in lines).encode()

    def plan(self, root: str = "", legs: tuple[str, ...] = BOTH, floor: str = "launches") -> Plan:
        trajectory = {
            "prompts": "x.jsonl", "limit": self.units, "max_tokens": self.length,
            "top_logprobs": K, "concurrency": 8, "chat_template_kwargs": "",
        }  # fmt: skip
        score = {
            "legs": legs, "floor": floor, "reference": "", "reference_model": "",
            "reference_dialect": "auto", "tokenizer": "",
        }  # fmt: skip
        return Plan(
            (StageSpec("trajectory", trajectory), StageSpec("score", score, MARGINS)),
            hashlib.sha256(self.prompts()).hexdigest(),
            self.names,
            (self.units,),
            root,
        )


def word(token: int) -> str:
    """The text of a token: a word-like string that its id determines."""
    digits, text = token * 2_654_435_761 % 2**32, ""
    for _ in range(1 + token % 5):
        digits, letter = divmod(digits, 26)
        text += chr(97 + letter)
    return (" " if token % 3 else "") + text


def text(rows: Rows) -> str:
    return "".join(rows.piece(t) for t in rows.chosen.tolist())


def generation(rows: Rows, unit: int) -> Generation:
    ids = (7, unit, 8, 9, 10)
    return Generation(
        text(rows), "length", rows, True, "", ids, len(ids), len(rows), rows.k, model="m"
    )


Found = Iterator[tuple[str, Observation]]


def baseline(model: Model, launches: int, noise: float, legs: tuple[str, ...]) -> Found:
    """What a capture keeps, stage by stage."""
    for unit, name in enumerate(model.names):
        ref = model.rows(unit, 0, 0)
        yield "trajectory", seen(Tag(Arm.BASELINE, "trajectory", name), generation(ref, unit))
        twice = unit < 3
        if "self" in legs or twice:
            own = Scored(model.rows(unit, 1, noise, ref.chosen), "prompt_logprobs")
            for attempt in (0, 2) if twice else (0,):
                yield "score", seen(Tag(Arm.BASELINE, "self", name, 0, attempt), own)
        for n in range(1, launches + 1):
            again = model.rows(unit, 10 + n, noise, ref.chosen)
            tag = Tag(Arm.REPEAT, "reference", name, n)
            yield "score", seen(tag, Scored(again, "prompt_logprobs"))


def candidate(model: Model, noise: float, legs: tuple[str, ...]) -> Found:
    """What a comparison keeps."""
    for unit, name in enumerate(model.names):
        mine = model.rows(unit, 2, noise)
        path = model.rows(unit, 0, 0).chosen
        yield "trajectory", seen(Tag(Arm.CANDIDATE, "trajectory", name), generation(mine, unit))
        forced = Scored(model.rows(unit, 2, noise, path), "prompt_logprobs")
        yield "score", seen(Tag(Arm.CANDIDATE, "reference", name), forced)
        if "self" in legs:
            own = model.rows(unit, 2, noise, mine.chosen)
            own = replace(own, logprob=np.minimum(own.logprob + np.float32(1e-3), 0))
            yield "score", seen(Tag(Arm.CANDIDATE, "self", name), Scored(own, "prompt_logprobs"))


def seen(tag: Tag, answer: Generation | Scored) -> Observation:
    return Observation(tag, hashlib.sha256(repr(tag).encode()).hexdigest(), answer, 1, 0.25)


def folders(
    path: Path,
    model: Model,
    launches: int,
    *,
    noise: float = 0.02,
    worse: float = 0.05,
    legs: tuple[str, ...] = BOTH,
) -> Path:
    """A sealed capture and, beside it, a sealed comparison with it: the folder to judge."""
    capture, compare = path / "reference", path / "candidate"
    floor = "launches" if launches >= 3 else "single"
    with mock.patch("os.fsync"):  # not what is measured
        plan, found = model.plan("", legs, floor), baseline(model, launches, noise, legs)
        root = _write(capture, plan, model, found, launches)
        plan, found = model.plan(root, legs, floor), candidate(model, worse, legs)
        _write(compare, plan, model, found, 0, capture)
    return compare


def _write(
    path: Path, plan: Plan, model: Model, found: Found, launches: int, base: Path | None = None
) -> str:
    arm = Arm.CANDIDATE if base else Arm.BASELINE
    with Folder.create_or_continue(path, plan, model.prompts(), base) as folder:
        version = "2.0" if base else "1.0"
        folder.keep_engine(arm, 0, replace(ENGINE, version=version))
        for n in range(1, launches + 1):
            folder.keep_engine(Arm.REPEAT, n, ENGINE)
        for stage, observation in found:
            folder.keep(stage, observation)
        return folder.seal(judgement.judge(folder.load(), "0"))
