"""Size and reading time of evidence against the raw answers it was made from.

Run as ``python benchmarks/evidence.py``. 64 prompts x 256 positions x top 20, synthetic with the
shape of a real engine's answers (Zipf-like tokens, lists that share most of their tokens from one
position to the next). The peer keeps each answer as an OpenAI server sends it, one JSON object a
line, gzipped, and reads it with ``json.loads`` alone: it has no arrays then, ours has, checked.
Goals: at most 2.5 MB, at most .40 of the peer's size, read in at most 1/8 of the peer's time, and
1,319 envelopes checked against the schema in well under a second.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import hashlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: CPU time of one thread

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout needs no install

from iqaction.calls import Arm, Generation, Observation, Tag
from iqaction.evidence import schema
from iqaction.evidence.envelope import observation_to_json
from iqaction.evidence.store import Folder
from iqaction.plan import Plan, StageSpec
from iqaction.report import Coverage, Report, StageResult
from iqaction.rows import Match, Rows
from iqaction.verdict import Verdict

MOST_BYTES, MOST_SHARE, MOST_TIME, MOST_SECONDS = 2.5e6, 0.40, 1 / 8, 0.5
VOCABULARY = 49_152
ENVELOPES = 1319


def words(rng: np.random.Generator) -> list[str]:
    """A vocabulary of words, most with a blank before them."""
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    lengths = rng.integers(1, 9, VOCABULARY)
    blanks = np.where(rng.random(VOCABULARY) < 0.7, " ", "")
    weights = 1 / np.arange(1, 27)
    return [
        b + "".join(rng.choice(letters, n, p=weights / weights.sum()))
        for b, n in zip(blanks, lengths, strict=True)
    ]


def answer(rng: np.random.Generator, n: int, k: int) -> Rows:
    """One text's rows: peaked or flat positions, the argmax chosen."""
    rank = np.arange(1, VOCABULARY + 1)
    p = (1 / rank) / (1 / rank).sum()
    top = np.array([rng.choice(VOCABULARY, k, replace=False, p=p) for _ in range(n)])
    values = np.sort(rng.normal(0, 2.5, (n, k)), axis=1)[:, ::-1].copy()
    values[:, 0] += rng.exponential(4, n)  # most positions are nearly certain
    rest = rng.uniform(0.002, 0.2, n)
    logp = values - np.log(np.exp(values).sum(axis=1) * (1 + rest))[:, None]
    logp = logp.astype(np.float32)
    return Rows(top[:, 0].astype(np.int64), logp[:, 0], top, logp, np.ones(n, np.bool_), Match.ID)


def as_openai(rows: Rows, vocabulary: list[str]) -> bytes:
    """The body that an OpenAI-compatible server would have sent."""

    def token(ident: int, value: float) -> dict[str, object]:
        text = vocabulary[ident]
        return {"token": text, "logprob": value, "bytes": list(text.encode())}

    content = [
        {
            **token(int(rows.chosen[i]), float(rows.logprob[i])),
            "top_logprobs": [
                token(int(t), float(x))
                for t, x in zip(rows.top[i], rows.top_logprob[i], strict=True)
            ],
        }
        for i in range(len(rows))
    ]
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "length", "logprobs": {"content": content}}],
    }
    return json.dumps(body).encode() + b"\n"


def stored(path: Path, texts: list[tuple[Rows, str]]) -> None:
    """A sealed folder that holds these answers."""
    units = tuple(f"p-{i:04d}" for i in range(len(texts)))
    lines = [{"id": u, "messages": [{"role": "user", "content": u}]} for u in units]
    data = "".join(json.dumps(x) + "\n" for x in lines).encode()
    plan = Plan((StageSpec("trajectory"),), hashlib.sha256(data).hexdigest(), units, (len(units),))
    with Folder.create_or_continue(path, plan, data, None) as folder:
        for unit, (rows, text) in zip(units, texts, strict=True):
            made = Generation(text, "length", rows, True, "", tuple(range(40)), 40, len(rows), 20)
            tag = Tag(Arm.BASELINE, "trajectory", unit)
            folder.keep("trajectory", Observation(tag, "0" * 64, made, 1, 1.0))
        result = StageResult("trajectory", Verdict.PASS, (), Coverage(len(units), len(units)))
        folder.seal(Report(Verdict.PASS, (result,), ""))


def cpu_ms(act: Callable[[], object], repeats: int) -> float:
    """Median CPU time of this process in milliseconds."""
    times = []
    for _ in range(repeats):
        gc.collect()
        started = time.process_time()
        act()
        times.append(time.process_time() - started)
    return 1e3 * statistics.median(times)


def read_raw(path: Path) -> list[object]:
    with gzip.open(path) as file:
        return [json.loads(line) for line in file]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--positions", type=int, default=256)
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    vocabulary = words(rng)
    texts = []
    for _ in range(options.prompts):
        rows = answer(rng, options.positions, options.top)
        pieces = {int(t): vocabulary[t] for t in rows.chosen}
        text = "".join(vocabulary[t] for t in rows.chosen)
        texts.append((Rows(**{**vars(rows), "pieces": pieces}), text))
    with tempfile.TemporaryDirectory() as name:
        return report(Path(name), texts, vocabulary, options.repeats)


def report(path: Path, texts: list[tuple[Rows, str]], vocabulary: list[str], repeats: int) -> int:
    raw = path / "raw.jsonl.gz"
    raw.write_bytes(
        gzip.compress(b"".join(as_openai(rows, vocabulary) for rows, _ in texts), 6, mtime=0)
    )
    stored(path / "e", texts)
    ours = path / "e/observations/trajectory.jsonl.gz"
    found = Folder.open(path / "e").load().seen["trajectory"]
    for (rows, _), (_, one) in zip(texts, sorted(found.items()), strict=True):
        assert isinstance(one.answer, Generation) and one.answer.rows is not None
        assert np.array_equal(one.answer.rows.top_logprob, rows.top_logprob)

    sizes = ours.stat().st_size, raw.stat().st_size
    times = (
        cpu_ms(lambda: Folder.open(path / "e").load(), repeats),
        cpu_ms(lambda: read_raw(raw), repeats),
    )
    one = next(iter(found.values()))
    body = observation_to_json("trajectory", one, "2026-01-01T00:00:00Z")
    checking = cpu_ms(
        lambda: [schema.validate("observation", body) for _ in range(ENVELOPES)], repeats
    )
    size_ratio, time_ratio = sizes[0] / sizes[1], times[0] / times[1]
    lines = [
        ("", "ours", "raw JSONL.gz", "ratio", "goal"),
        ("bytes", f"{sizes[0]:,}", f"{sizes[1]:,}", f"{size_ratio:.3f}", f"<= {MOST_SHARE}"),
        ("read, CPU ms", f"{times[0]:.1f}", f"{times[1]:.1f}", f"{time_ratio:.3f}", "<= 0.125"),
        (
            f"{ENVELOPES} envelopes, CPU ms",
            f"{checking:.0f}",
            "",
            "",
            f"<= {MOST_SECONDS * 1e3:.0f}",
        ),
    ]
    for line in lines:
        print("{:<26}{:>14}{:>14}{:>8}  {}".format(*line))
    met = (
        sizes[0] <= MOST_BYTES
        and size_ratio <= MOST_SHARE
        and time_ratio <= MOST_TIME
        and checking <= 1e3 * MOST_SECONDS
    )
    print("goals met" if met else "GOALS MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
