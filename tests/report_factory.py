# ruff: noqa: E501 - one line of the little language is one line
"""Reports for tests, with a little language to write them in.

A check is one line, cells between bars, empty where there is nothing::

    PASS | reference.kl | reference leg: KL (>=) | .0008 -> .0029 nats | .0021 [.0012, .0030] | <= .02 | why
    UNPROVEN | ... | why | what would decide it

An estimate may end in ``@.95`` (its level) and ``n=64``. A divergence is one line::

    real | code-017 | 38 | 2.1 | return | sorted(rows | sort(rows

that is kind, prompt, position, gap, the text both share, what each wrote (its token is the first
word). ``⏎`` in a text is a newline, ``·`` a blank, ``∅`` nothing: the text ends there.
"""

from __future__ import annotations

import re
from dataclasses import replace

from iqaction.report import (
    Change,
    ChangedLine,
    Check,
    Coverage,
    Difference,
    Divergence,
    Engine,
    Estimate,
    Mover,
    Past,
    Report,
    Run,
    Series,
    StageResult,
    Table,
    UnitFault,
)
from iqaction.verdict import Verdict, combine

_ARMS = re.compile(r"(\S+) -> (\S+)\s*(\w*)\Z")
_ESTIMATE = re.compile(
    r"(?P<value>\S+)(?: \[(?P<low>[^,]+), (?P<high>[^\]]+)\])?"
    r"(?: @(?P<level>\S+))?(?: n=(?P<n>\d+))?\Z"
)
_FIRST = re.compile(r"\s*(?:\w+|\S?)")
SHA = {name: (name * 64)[:64] for name in "abcdef"}


def _text(shown: str) -> str:
    return shown.replace("⏎", "\n").replace("·", " ").replace("∅", "")


def _number(text: str) -> float | None:
    return None if text in ("-", "") else float(text)


def check(line: str, *, judged: bool = True) -> Check:
    """One check of the little language."""
    cells = [c.strip() for c in line.split("|")] + [""] * 8
    verdict, metric, title, arms, estimate, limit, reason, power = cells[:8]
    found = _ARMS.match(arms)
    return Check(
        metric,
        title,
        Verdict(verdict),
        reason,
        _estimate(estimate, metric, found[3] if found else ""),
        float(limit.removeprefix("<=")) if limit else None,
        _number(found[1]) if found else None,
        _number(found[2]) if found else None,
        power,
        judged,
    )


def _estimate(text: str, metric: str, unit: str) -> Estimate | None:
    if not text:
        return None
    found = _ESTIMATE.match(text)
    assert found, text
    interval = (_number(found["low"]), _number(found["high"])) if found["low"] else None
    return Estimate(
        metric,
        _number(found["value"]),
        interval,
        float(found["level"] or 0.95),
        "bootstrap-t",
        int(found["n"] or 64),
        unit or "nats",
        seed=0,
    )


def divergence(line: str, bucket: str = "code") -> Divergence:
    """One divergence of the little language."""
    kind, unit, position, gap, before, a, b = [c.strip() for c in line.split("|")]
    shown = [_text(t) for t in (before, a, b)]
    token_a, token_b = (_FIRST.match(t)[0] for t in shown[1:])
    return Divergence(unit, bucket, int(position), kind, _number(gap), token_a, token_b, *shown)


def stage(
    name: str,
    checks: str = "",
    divergences: str = "",
    *,
    also: str = "",
    coverage: Coverage = Coverage(64, 64),  # noqa: B008 - frozen
    **more: object,
) -> StageResult:
    """A stage whose verdict follows from its checks, written one a line."""
    lines = [check(x) for x in checks.split("\n") if x.strip()]
    lines += [check(x, judged=False) for x in also.split("\n") if x.strip()]
    verdict = combine(c.verdict for c in lines if c.judged) if lines else Verdict.NOT_RUN
    result = StageResult(
        name,
        verdict,
        tuple(lines),
        coverage,
        divergences=tuple(divergence(x) for x in divergences.split("\n") if x.strip()),
    )
    return replace(result, **more)


def report(headline: str, *stages: StageResult, **more: object) -> Report:
    """A report whose verdict follows from its stages, with an engine change around them. The job
    is held to the verdict, unless ``gate`` says otherwise."""
    verdict = more.get("verdict", combine(s.verdict for s in stages if s.required))
    base = Report(
        verdict,
        stages,
        headline,
        gate=verdict,
        suite="smollm2-cpu",
        engines=(
            Engine("baseline", "llamacpp", "b6500", "SmolLM2-135M"),
            Engine("candidate", "llamacpp", "b6712", "SmolLM2-135M", details={"slots": "4"}),
        ),
        changes=(Change("image", "server:b6500", "server:b6712"),),
        plan_sha256=SHA["a"],
        settings_sha256=SHA["e"],
        baseline_root=SHA["b"],
        run=Run(
            repository="org/repo",
            event="pull_request",
            head_sha=SHA["c"][:40],
            tested_sha=SHA["d"][:40],
            run_id="17",
            attempt=1,
            url="https://github.example/org/repo/actions/runs/17",
            started_at="2026-11-30T12:00:00Z",
        ),
        tool_version="0.1.0",
        evidence_root=SHA["d"],
    )
    return replace(base, **more)


# --- one report for each verdict ------------------------------------------------------------

_TIES = """
tie  | short-003   | 12 | .04 | The answer is   | ·4.       | ·four.
tie  | json-011    | 40 | .18 | {"name":        | ·"Ada"    | ·"Ada·L"
"""


def passed() -> Report:
    """A healthy change: all checks PASS, three ties."""
    score = stage(
        "score",
        """
PASS | reference.kl       | reference leg: KL (>=)  | .0008 -> .0029 nats | .0021 [.0012, .0030] | <= .02 | the upper end .0030 is within the margin
PASS | reference.decisive | reference leg: decisive | .0000 -> .0004 share | .0004 [.0, .0011] | <= .005 | 6 of 16384 tokens
PASS | self.broken        | self leg: decode faults | .0 -> .0 share | .0 [-, .0457] | <= .05 | 0 of 64 prompts
PASS | template           | prompt ids              | | | | the same for all 64 prompts
""",
        also="""
PASS | reference.tv | reference leg: total variation | .0040 -> .0090 share | .0050 [.0041, .0059] | | shown, not judged
PASS | reference.ppl | reference leg: perplexity | 8.1201 -> 8.1333 perplexity | .0132 [-, -] | | shown, not judged
""",
        tables=(_floor_table(),),
        series=_plots(),
        meaning=("Prefill and decoding agree with the baseline within the margins.",),
    )
    trajectory = stage(
        "trajectory",
        "PASS | trajectory.real | texts: real divergences | - -> .0 share | .0 [-, .0457] | <= .05 "
        "| 0 of 64 prompts part by more than 1 nat",
        _TIES,
    )
    return report("the model's output is unchanged within the margins", trajectory, score)


def failed_by_score() -> Report:
    """Decode faults: the self leg FAILs, prefill is fine."""
    score = stage(
        "score",
        """
PASS     | reference.decisive | reference leg: decisive | .0000 -> .0004 share | .0004 [.0, .0011] | <= .005 | 6 of 16384 tokens
PASS     | reference.kl       | reference leg: KL (>=)  | .0008 -> .0029 nats | .0021 [.0012, .0030] | <= .02 | within the margin
FAIL     | self.broken        | self leg: decode faults | .0 -> .09375 share | .09375 [-, .176] | <= .05 | 6 of 64 prompts hold a token whose log-probability changed by more than .5 nats between decoding and forcing, 0 of 64 in the baseline (exact p = .014)
UNPROVEN | reference.nll      | reference leg: NLL      | 2.0101 -> 2.0361 nats | .0260 [-.0110, .0630] | <= .05 | the interval reaches beyond the margin | nll +.026 (CI -.011..+.063, margin .05): about 70 more prompts would decide it (80%)
""",
        coverage=Coverage(64, 63, failed=("long-002",), left_out=("reasoning-009",)),
        faults=(
            UnitFault("code-017", "code", "broken", "KL .31 nats above the floor"),
            UnitFault("json-004", "json", "broken", "KL .27 nats above the floor"),
            UnitFault("code-017", "code", "decode fault", "from token 38 on: 3 positions"),
            UnitFault("long-002", "long", "failed", "timeout after 3 attempts"),
        ),
        tables=(_floor_table(),),
        series=_plots(),
        meaning=(
            "Prefill agrees with the baseline and decoding does not: the KV cache or the decode "
            "kernels changed the output",
        ),
        next_steps=(
            "run once without `--kv-cache-dtype fp8`",
            "`iqaction inspect DIR` shows code-017 whole",
        ),
        caveats=("launch noise from 3 relaunches only",),
    )
    trajectory = stage(
        "trajectory",
        "PASS | trajectory.real | texts: real divergences | - -> .015625 share | .015625 [-, .0477] "
        "| <= .05 | 1 of 64 prompts part by more than 1 nat",
        """
real  | code-017   | 38 | 2.10 | def top(rows):⏎····return | ·sorted(rows, key=len) | ·sort(rows, key=len)
shift | long-014   | 91 | .61  | the harbour was           | ·closed for the winter | ·frozen over
"""
        + _TIES,
    )
    return report(
        "this change alters the model's output",
        trajectory,
        score,
        changes=(
            Change("image", "v0.24.0", "v0.27.1"),
            Change("flag", "", "--kv-cache-dtype fp8"),
        ),
        suite="qwen27b-dual",
        baseline_run=_BASELINE_RUN,
        changed_lines=(
            ChangedLine("compose.yml", 7, "    image: vllm/vllm-openai:v0.27.1"),
            ChangedLine("compose.yml", 31, "      --kv-cache-dtype=fp8"),
            ChangedLine("compose.yml", 32, "      --max-num-seqs 8"),
        ),
        machine={
            "system": "Linux 6.8.0 x86_64",
            "gpu 0": "NVIDIA GeForce RTX 3090, driver 560.35, 24576 MiB",
            "gpu 1": "NVIDIA GeForce RTX 3090, driver 560.35, 24576 MiB",
            "image": "vllm/vllm-openai@sha256:" + SHA["f"],
        },
    )


_BASELINE_RUN = Run(
    repository="org/repo",
    event="push",
    head_sha="4f1c2aa" + "0" * 33,
    run_id="9",
    attempt=1,
    url="https://github.example/org/repo/actions/runs/9",
    started_at="2026-11-26T06:00:00Z",
)


def accepted() -> Report:
    """A wanted change: its FAIL is accepted, and the job is green."""
    score = stage(
        "score",
        """
FAIL | reference.kl       | reference leg: KL (>=)  | .0008 -> .0429 nats | .0421 [.0402, .0440] | <= .02 | the lower end .0402 is beyond the margin
PASS | reference.decisive | reference leg: decisive | .0000 -> .0004 share | .0004 [.0, .0011] | <= .005 | 6 of 16384 tokens
""",
    )
    kl = replace(score.checks[0], accepted=ACCEPTED)
    return report(
        "this change alters the model's output",
        replace(score, checks=(kl, *score.checks[1:])),
        gate=Verdict.PASS,
        changes=(Change("quantization", "BF16", "Q8_0"),),
    )


ACCEPTED = "accepted by jane until 2027-01-31: we move to 8-bit weights on purpose"
_DIFF = """--- a/.inferquality/plan.yml
+++ b/.inferquality/plan.yml
@@ -1,3 +1,3 @@
 stages:
-  - score: {margins: {kl: 0.02}}
+  - score: {margins: {kl: 0.2}}
"""


def changed_judge() -> Report:
    """All checks PASS, and the pull request changes its own judge: one file of two accepted."""
    return replace(
        passed(),
        verdict=Verdict.UNPROVEN,
        gate=Verdict.UNPROVEN,
        headline="not proven either way: the pull request changes what it is judged by",
        differences=(
            Difference("plan", ".inferquality/plan.yml", _DIFF),
            Difference(
                "prompts",
                "prompts/dev.jsonl",
                "too long to be shown (1,200 lines differ)",
                ACCEPTED,
            ),
        ),
        changed_lines=(ChangedLine(".inferquality/plan.yml", 2, "  - score: {}"),),
    )


def republished() -> Report:
    """Judged before: the evidence of run 15 again, in a second attempt, with its artifact."""
    of = passed()
    url = "https://github.example/org/repo/actions/runs"
    run = replace(
        of.run, attempt=2, artifact_url=f"{url}/17/artifacts/301", republished=f"{url}/15"
    )
    return replace(of, run=run)


def matrix() -> Report:
    """Two legs of a matrix as one report: one is fine, one did not start."""
    fine = stage(
        "score",
        "PASS | reference.kl | reference leg: KL (>=) | .0008 -> .0029 nats | .0021 [.0012, .0030] "
        "| <= .02 | within the margin",
        _TIES,
        leg="rtx3090",
        faults=(UnitFault("code-017", "code", "failed", "timeout"),),
    )
    broken = stage("score", coverage=Coverage(64, 0, missing=("a", "b")), leg="h200 fp8")
    return report(
        "not proven either way",
        fine,
        broken,
        problems=(
            "h200 fp8: the endpoint did not answer within 600 s\n  expected: a generation\n"
            "  | INFO loading weights\n  | torch.OutOfMemoryError: CUDA out of memory",
        ),
    )


def failed_by_trajectory() -> Report:
    """Other texts: real divergences, one of them an early end."""
    trajectory = stage(
        "trajectory",
        """
FAIL | trajectory.real | texts: real divergences | - -> .21875 share | .21875 [.1252, .3388] @.95 n=64 | <= .05 | 14 of 64 prompts part by more than 1 nat (97.5 % lower bound 12.5 %)
FAIL | trajectory.stop | texts: stopped by length | .0625 -> .34375 share | .28125 [.16, .41] | | 22 of 64 texts run into the limit, 4 of 64 in the baseline (exact p < .001)
UNPROVEN | template | prompt ids | | | | 3 of 64 prompts reach the model with other token ids: the chat template differs
""",
        """
real | code-001 | 0  | 9.31 | | Sure! Here is | def add(a, b):
real | multi-07 | 17 | 4.02 | 東京は | ·日本の首都です | ·ist·die Hauptstadt
real | short-020 | 6 | 3.33 | The capital is Paris | .⏎⏎It lies | ∅
"""
        + _TIES,
        faults=tuple(
            UnitFault(f"chat-{i:03}", "short", "template", "31 prompt tokens, 44 in the baseline")
            for i in range(3)
        ),
        meaning=("The texts differ from the first token on: look at the chat template first.",),
        next_steps=("compare `--chat-template` of both servers",),
    )
    return report(
        "the engine writes other texts",
        trajectory,
        problems=("3 prompts reach the model in another form than in the baseline",),
    )


def unproven() -> Report:
    """Too few prompts: nothing is wrong and nothing is shown to be right."""
    score = stage(
        "score",
        """
UNPROVEN | reference.kl | reference leg: KL (>=) | .0009 -> .0129 nats | .0120 [-.0010, .0250] @.975 n=32 | <= .02 | 32 prompts of the 59 that a PASS needs; the upper end .0250 is beyond the margin | kl +.012 (CI -.001..+.025, margin .02): about 70 more prompts would decide it (80%)
UNPROVEN | reference.nll | reference leg: NLL | | | <= .05 | not computed: the engine gave no log-probabilities for 5 prompts
""",
        coverage=Coverage(64, 32, missing=tuple(f"code-{i:03}" for i in range(32))),
        caveats=("decoding under load is not covered (the plan leaves out the self leg)",),
        next_steps=("run with 96 prompts",),
    )
    return report("not enough was observed to tell", score)


def not_run() -> Report:
    """Nobody answered."""
    score = stage("score", coverage=Coverage(64, 0, missing=tuple(f"p-{i}" for i in range(64))))
    return report(
        "the candidate could not be reached, so nothing was judged",
        score,
        engines=(Engine("baseline", "llamacpp", "b6500", "SmolLM2-135M"),),
        problems=("http://127.0.0.1:8080: connection refused (6 attempts in 30 s)",),
        next_steps=("start the server, then continue with the same `iqaction run` command",),
        evidence_root="",
    )


def with_history() -> Report:
    """A change that only raises KL, after three runs of the base branch; one of them had no KL."""
    score = stage(
        "score",
        """
UNPROVEN | reference.kl       | reference leg: KL (>=)  | .0008 -> .0229 nats | .0221 [.0152, .0290] | <= .02 | the margin is neither kept nor broken
PASS     | reference.decisive | reference leg: decisive | .0000 -> .0004 share | .0004 [.0, .0011] | <= .005 | 6 of 16384 tokens
PASS     | self.faults        | self leg: decode faults | .0 -> .0 share | .0 [-, .0457] | <= .05 | 0 of 64 prompts
""",
        movers=(
            Mover(
                "code-017", "code", "KL", 0.0004, 0.3121, 38, "def top(rows):\n  ", "return", "sort"
            ),
            Mover("json-004", "json", "KL", 0.0011, 0.0702, 0, "", "{", "Sure"),
        ),
    )
    gsm8k = stage(
        "gsm8k",
        "PASS | gsm8k.accuracy | GSM8K: right answers | .912 -> .908 share | .004 [-.006, .014] "
        "| <= .02 | at most 1.4 points worse",
        movers=(
            Mover("q-12", "gsm8k", "lost, 72 is right", None, None, -1, "", "72", "70: so 70."),
        ),
    )
    days = (("2026-11-24", "1"), ("2026-11-25", "2"), ("2026-11-26", "3"))
    figures = (
        {"score:reference.kl": 0.0008, "gsm8k:gsm8k.accuracy": 0.0},
        {"gsm8k:gsm8k.accuracy": -0.002},
        {"score:reference.kl": 0.0009, "gsm8k:gsm8k.accuracy": 0.001, "score:gone": 1.0},
    )
    return report(
        "not proven either way",
        score,
        gsm8k,
        history=tuple(
            Past(x * 40, f"{day}T06:00:00Z", Verdict.PASS, "", of)
            for (day, x), of in zip(days, figures, strict=True)
        ),
        changes=(
            Change(
                "command vllm",
                "serve m --max-num-seqs 8 --enforce-eager --seed 1",
                "serve m --seed 1 --max-num-seqs 16 --kv-cache-dtype fp8",
            ),
        ),
    )


CASES = {
    "history": with_history,
    "pass": passed,
    "fail-score": failed_by_score,
    "fail-trajectory": failed_by_trajectory,
    "unproven": unproven,
    "not-run": not_run,
    "accepted": accepted,
    "differences": changed_judge,
    "republished": republished,
}
GOLDENS = {**CASES, "matrix": matrix}


def _floor_table() -> Table:
    return Table(
        "Noise floor: the baseline against itself, started again",
        ("relaunch", "KL", "NLL", "decisive", "prompts"),
        (("1", 0.0007, 2.01, 0.0, 64), ("2", 0.0009, 2.0102, 0.0, 64), ("3", None, None, None, 0)),
    )


def _plots() -> tuple[Series, ...]:
    ids = tuple(f"p-{i:03}" for i in range(64))
    kl = tuple(0.002 + 0.0005 * (i * 7 % 11) + (0.3 if i in (17, 40) else 0) for i in range(64))
    by_position = tuple(None if 60 < i < 70 else 0.001 + i * 0.00003 for i in range(256))
    return (
        Series(
            "KL by prompt",
            "prompt",
            "KL - floor (nats)",
            tuple(map(float, range(64))),
            kl,
            ids,
            limit=0.1,
        ),
        Series(
            "KL by position", "token", "mean KL (nats)", tuple(map(float, range(256))), by_position
        ),
    )
