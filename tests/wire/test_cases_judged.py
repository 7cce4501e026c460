"""Cases whose right answer is a verdict: what the stages make of what engines said."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answered import STAGE as GSM8K
from answered import Exam
from fake_engine import FakeEngine, captured, compared
from sampler_world import Faulty, SamplerWorld, Sampling, spec
from sampler_world import run as sampled
from wire.cases import CASES, CHECKS, case, generation, of
from wire.lab import Lab, json_of, said
from wire.replay import chat, force, tokenize
from world import (
    World,
    answering,
    check_of,
    judged,
    stage_of,
)

from iqaction import datasets
from iqaction.boot import readiness
from iqaction.boot._base import World as Machine
from iqaction.boot.logs import LogTail
from iqaction.boot.readiness import Watched
from iqaction.calls import (
    Arm,
    Call,
    Chat,
    Drawn,
    Failure,
    Generation,
    Message,
    Observation,
    Scored,
    Tag,
    TokenIds,
    digest,
)
from iqaction.errors import BootError
from iqaction.graders import numbers
from iqaction.observed import Observed
from iqaction.prompts import Prompt
from iqaction.report import StageResult
from iqaction.rows import Rows
from iqaction.stages._divergence import find
from iqaction.stages._paired_items import Kind, Questions, Read, graded
from iqaction.stages._paths import own
from iqaction.stages.sampling import STAGE as SAMPLING
from iqaction.stats.filters import Sampler
from iqaction.stats.sampling import holm, sums, weighed
from iqaction.verdict import Verdict

SMALL = World(units=64, length=6)
PROMPT = Prompt("p", "short", (Message("user", "x"),))
USUAL = {"temperature": 0.6, "top_k": 20, "top_p": 0.95}


@cache
def reference() -> Observed:
    """A healthy reference of 64 short texts, with three relaunches."""
    return captured(SMALL, launches=3)


# GSM8K: the answer in a text


def exam_of(gold: str) -> Questions:
    def call(unit: str, tag: Tag) -> Call:
        return Chat(tag, (), 8)

    def read(unit: str, text: str, cut: bool) -> Read:
        found = numbers.read(text, cut=cut)
        if found is None:
            return Read(False, None)
        return Read(found.value == Fraction(gold), numbers.shown(found.value), found.rule)

    return Questions(("p",), call, read, "gsm8k")


def marked(answer: Generation | Failure, gold: str) -> Any:
    questions, tag = exam_of(gold), Tag(Arm.CANDIDATE, "gsm8k", "p")
    seen = {tag: Observation(tag, digest(questions.call("p", tag)), answer)}
    return graded(questions, seen, "p", Arm.CANDIDATE)


@case(
    "gsm-plain", "gsm-decimal-00", "gsm-dollar-hash", "gsm-runon", "gsm-boxed-text", "gsm-bold",
    "gsm-nospace", "gsm-unicode-minus", "gsm-minus-hyphen-range", "gsm-ellipsis",
    "gsm-thin-space", "gsm-fraction", "gsm-percent", "gsm-no-period-regex", "gsm-truncated",
    "gsm-think-numbers", "gsm-opencompass-comma", "gsm-huge-int", "gsm-neg-gold", "gsm-nan-text",
    "gsm-inf-text", "gsm-empty",
)  # fmt: skip
def answer_in_a_text(c: dict[str, Any]) -> None:
    """From the server's bytes to the mark: the number is read, or there is none."""
    told = c["response"]
    message = {"message": {"content": told["text"]}, "finish_reason": told["finish_reason"]}
    lab = Lab(json_of({"choices": [message], "usage": {"completion_tokens": 9}}))
    answer = lab.call(chat(top_logprobs=0), "openai").answer
    found = marked(answer, told["gold"])  # type: ignore[arg-type]

    assert (found.shown or None) == c["expected"]["answer"]
    assert found.right is c["expected"]["correct"]
    kinds = {"gsm-truncated": Kind.CUT_OFF, "gsm-empty": Kind.EMPTY}
    nothing = kinds.get(c["id"], Kind.UNREADABLE)
    assert found.kind is (Kind.RIGHT if c["expected"]["correct"] else nothing)


@case("gsm-label-noise")
def labels_are_wrong_for_both(c: dict[str, Any]) -> None:
    """Items are paired: an engine that solves three in four, as its baseline does, PASSes."""
    exam = Exam(240, {"margin": 0.05})
    result = exam.result("R*180 W*60", "R*180 W*60")

    assert c["expected"]["absolute_gate"] is False
    assert result.verdict is Verdict.PASS
    assert c["response"]["sha256_test_jsonl"] == datasets.PINS["gsm8k"].sha256
    assert c["response"]["rows"] == {p.name: p.default for p in GSM8K.params}["limit"]


@case("gsm-refused-vs-wrong")
def failed_items_stay(c: dict[str, Any]) -> None:
    """Items without an answer are no smaller exam: they count as lost, and nothing PASSes."""
    told = c["response"]
    wrong = told["ok"] - told["correct"]
    exam = Exam(told["items"])
    text = f"R*{told['correct']} W*{wrong} F*{told['errors']}"
    result = exam.result(text.replace("F", "R"), text)
    lost = exam.result(text.replace("F", "R"), text.replace("F", "T"))

    for one in (result, lost):
        assert one.verdict is not Verdict.PASS
        share = one.coverage.observed / told["items"]
        assert share == pytest.approx(c["expected"]["coverage"], abs=1e-4)
    assert lost.verdict is Verdict.UNPROVEN
    assert len(lost.coverage.failed) + len(lost.coverage.missing) == told["errors"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("reason-exhausted", Kind.CUT_OFF),
        ("reason-think-unclosed", Kind.CUT_OFF),
        ("reason-sglang-empty-string", Kind.CUT_OFF),
        ("reason-both-null", Kind.EMPTY),
        ("reason-think-in-content", Kind.RIGHT),
        ("reason-think-unopened", Kind.RIGHT),
    ],
)
def test_case__reasoning_is_never_marked(name: str, kind: Kind) -> None:
    """A number that was only thought is no answer; a budget that ran out is told apart."""
    assert marked(generation(CASES[name]), "12").kind is kind


def test_case__two_empty_texts_are_no_match() -> None:
    """reason-both-null on both sides: that nothing came from either is no agreement."""
    empty = generation(CASES["reason-both-null"])

    assert find(PROMPT, empty, empty, None, 0.25) is not None


# greedy texts


def text_of(tokens: list[str]) -> Generation:
    """A greedy answer of these tokens, read by the client."""
    rows = [{"token": t, "logprob": -0.1, "top_logprobs": []} for t in tokens]
    body = {
        "choices": [
            {
                "message": {"content": "".join(tokens)},
                "logprobs": {"content": rows},
                "finish_reason": "length",
            }
        ],
        "usage": {"completion_tokens": len(tokens), "prompt_tokens": 5},
    }
    answer = Lab(json_of(body)).call(chat(), "openai").answer
    assert isinstance(answer, Generation)
    return answer


@case("greedy-cold-warm")
def like_with_like(c: dict[str, Any]) -> None:
    """Every arm is asked each prompt once and in the same order, so that both are as cold; a
    first answer beside a second one shows where they part."""
    runs = [text_of(tokens) for tokens in c["response"]["runs"]]
    parted = find(PROMPT, runs[0], runs[1], runs[0].rows, 0.25)
    again = find(PROMPT, runs[1], runs[2], runs[1].rows, 0.25)
    once = FakeEngine(SMALL)
    compared(SMALL, once, reference())
    texts = [t for t in once.tags if t.leg == "trajectory"]

    assert parted is not None
    assert parted.position == c["expected"]["position"]
    assert again is None
    assert texts == [Tag(Arm.CANDIDATE, "trajectory", u) for u in SMALL.names]


@case("greedy-tie")
def tie(c: dict[str, Any]) -> None:
    """Two tokens that were all but equally likely: noise, whichever came."""

    def one(side: dict[str, Any]) -> Generation:
        top = [{"token": t, "logprob": v} for t, v in side["top"]]
        row = {"token": side["token"], "logprob": side["logprob"], "top_logprobs": top}
        choice = {"message": {"content": side["token"]}, "finish_reason": "length"}
        body = {"choices": [{**choice, "logprobs": {"content": [row]}}]}
        answer = Lab(json_of(body)).call(chat(), "openai").answer
        assert isinstance(answer, Generation)
        return answer

    a, b = one(c["response"]["a"]), one(c["response"]["b"])
    found = (find(PROMPT, a, b, a.rows, 0.25), find(PROMPT, b, a, b.rows, 0.25))

    assert [d.kind for d in found if d] == ["tie", "tie"]
    assert [d.gap for d in found if d] == pytest.approx(
        [c["expected"]["gap_nats_a"], c["expected"]["gap_nats_b"]], abs=1e-6
    )


@case("greedy-concurrency")
def load_differs(c: dict[str, Any]) -> None:
    """A lighter load than the baseline's takes a PASS away; a heavier one is said."""
    well = compared(SMALL, FakeEngine(SMALL), reference())
    texts = [text_of(tokens) for tokens in c["response"].values()]
    for now, before in ((1, 16), (16, 1)):
        baseline = replace(reference(), concurrency={(Arm.BASELINE, 0): (before, "plan")})
        observed = replace(well, baseline=baseline, concurrency={(Arm.CANDIDATE, 0): (now, "plan")})
        report = judged(observed)
        if now < before:
            assert any(f"concurrency: {now} now, {before} in" in x for x in report.problems)
            assert c["expected"]["verdict_cap"] == report.verdict.value
        else:
            named = f"asked {now} at a time, the baseline {before} at a time"
            assert any(named in x for x in report.caveats)
    assert find(PROMPT, *texts, texts[0].rows, 0.25) is not None


@case("greedy-empty-equal")
def empty_texts(c: dict[str, Any]) -> None:
    """No text agrees with no text: every prompt that says nothing really diverges."""
    a, b = (text_of([]) for _ in "ab")
    found = find(PROMPT, a, b, a.rows, 0.25)

    def silent(_: Tag, answer: object) -> object:
        return replace(answer, text="", rows=None, rows_complete=False, top_logprobs=0)  # type: ignore[type-var]

    well = compared(SMALL, FakeEngine(SMALL), reference(), legs=("reference",))
    mute = answering(well, "trajectory", silent)
    mute = replace(mute, baseline=answering(reference(), "trajectory", silent))

    assert found is not None
    assert (found.kind, c["expected"]["counts_as_match"]) == ("real", False)
    assert judged(mute).verdict is not Verdict.PASS


# prompts and scoring


@case("tok-prompt-mismatch")
def another_template(c: dict[str, Any]) -> None:
    """One prompt token more than the baseline had: never a PASS, and it is named."""
    now = len(c["response"]["reference"]["tokens"])
    more = c["response"]["engine"]["usage"]["prompt_tokens"] - now

    def counted(extra: int) -> Any:
        def change(_: Tag, answer: object) -> object:
            assert isinstance(answer, (Generation, TokenIds))
            if isinstance(answer, TokenIds):
                return answer
            return replace(answer, prompt_ids=None, prompt_tokens=now + extra)

        return change

    well = compared(SMALL, FakeEngine(SMALL, tokenizes=False), reference(), legs=("reference",))
    baseline = answering(reference(), "trajectory", counted(0))
    observed = answering(replace(well, baseline=baseline), "trajectory", counted(more))
    report = judged(observed)
    check = check_of(report, "trajectory.template")

    assert check.verdict.value == c["expected"]["verdict_cap"]
    assert f"{c['expected']['reference']} prompt tokens before" in check.reason
    assert f"{c['expected']['engine']} now" in check.reason
    assert stage_of(report, "score").verdict is not Verdict.PASS
    assert report.verdict is not Verdict.PASS


@case("tok-double-bos")
def double_bos(c: dict[str, Any]) -> None:
    """The tokenizer adds a BOS to the one that the template wrote: those are not the ids of the
    prompt that was answered, so that nothing is forced after them."""
    told = c["response"]["tokens"]
    ids = Lab(said(c)).call(tokenize("x"), "vllm").answer
    assert ids == TokenIds(tuple(told))
    assert told[:2] == [c["expected"]["bos"]] * 2
    tag = Tag(Arm.BASELINE, "trajectory", "p")
    chatted = replace(
        SMALL.generation(SMALL.logits("p-000"), "p-000"),
        prompt_ids=None,
        prompt_tokens=len(told) - 1,
    )
    kept = {tag: Observation(tag, "", chatted)}
    kept[Tag(Arm.BASELINE, "template", "p")] = Observation(tag, "", ids)
    right = replace(chatted, prompt_tokens=len(told))

    assert own(kept, Arm.BASELINE, "p") == "its prompt has 3 tokens, and its token ids are 4"
    assert not isinstance(own({**kept, tag: Observation(tag, "", right)}, Arm.BASELINE, "p"), str)


@case("plp-stale-buffer")
def scored_twice(c: dict[str, Any]) -> None:
    """A prompt that scores otherwise the second time: the reference is not trusted."""
    call = force((1,), (7, 8), 2)
    first, second = (
        Lab(json_of(c["response"][which])).call(call, "vllm").answer for which in c["response"]
    )
    assert isinstance(first, Scored) and isinstance(second, Scored)
    gap = np.abs(first.rows.logprob - second.rows.logprob)
    at = c["expected"]["positions"][0] - len(call.prompt_ids)
    assert int(gap.argmax()) == at
    # The argmax moved as well: 4.2 nats is by how much the value of token 9 changed.
    nine = [float(r.top_logprob[at][r.top[at] == 9][0]) for r in (first.rows, second.rows)]
    assert abs(nine[0] - nine[1]) == pytest.approx(c["expected"]["max_abs_diff"], abs=1e-5)

    twice = Tag(Arm.BASELINE, "self", "p-001", 0, 2)
    answer = reference().seen["score"][twice].answer
    assert isinstance(answer, Scored)
    logprob = answer.rows.logprob.copy()
    logprob[2] -= float(gap[at])
    stale = replace(answer, rows=replace(answer.rows, logprob=logprob))
    bad = answering(reference(), "score", {twice: stale})
    observed = replace(compared(SMALL, FakeEngine(SMALL), reference()), baseline=bad)
    stage = stage_of(judged(observed), "score")

    assert stage.verdict.value == c["expected"]["verdict_cap"]
    assert all("does not repeat itself" in x.reason for x in stage.checks if x.judged)
    assert judged(bad).verdict is Verdict.FAIL  # at capture the reference is refused


@case("plp-lora-lmhead")
def decoding_and_scoring_disagree(c: dict[str, Any]) -> None:
    """A reference whose own tokens score otherwise than they were decoded is not trusted."""
    told = c["response"]
    off = told["decode_mean_logprob"] - told["prefill_mean_logprob"]
    assert off > c["expected"]["limit_nats"]

    def wrong_head(tag: Tag, answer: object) -> object:
        if tag.arm is not Arm.BASELINE or not isinstance(answer, Scored):
            return answer
        logprob = answer.rows.logprob - np.float32(off)
        return replace(answer, rows=replace(answer.rows, logprob=logprob))

    bad = answering(reference(), "score", wrong_head)
    observed = replace(compared(SMALL, FakeEngine(SMALL), reference()), baseline=bad)
    stage = stage_of(judged(observed), "score")

    assert stage.verdict.value == c["expected"]["verdict_cap"]
    assert all("the reference itself is faulty" in x.reason for x in stage.checks if x.judged)


# sampling


def sampler(fault: Faulty, **params: float) -> StageResult:
    asked = spec(**{**USUAL, **params})
    return SAMPLING.judge(sampled(asked, Sampling(SamplerWorld(), asked.params, fault=fault)))


@case("samp-all-identical", "samp-top1-dropped")
def histogram(c: dict[str, Any]) -> None:
    """The case's own counts under its own list are striking; and a sampler that always, or never,
    takes the most likely token FAILs."""
    told = c["response"]
    names = list(told["baseline"])
    total = sum(told["baseline"].values())
    logs = np.log([told["baseline"][n] / total for n in names])
    place = np.repeat(np.arange(3), [told["candidate"].get(n, 0) for n in names])
    n = len(place)
    found = sums(
        weighed(
            np.tile(logs, (n, 1)),
            place.astype(np.intp),
            np.zeros((n, 3), np.bool_),
            Sampler(1.0, told["settings"].get("top_k", 0), 1.0, 0.0, ("temperature", "top_k")),
        )
    )
    always = c["expected"]["flag"] == "degenerate_distribution"
    result = sampler(Faulty(greedy=1.0) if always else Faulty(no_top=1.0))

    assert holm(found.p, 0.01)
    assert result.verdict.value == c["expected"]["verdict"]


class OneSeed(Sampling):
    """Seeds every request alike: each sequence of a request is the first one again."""

    def draws(self, n: int, tokens: int) -> Drawn:
        one = super().draws(1, tokens)
        at = np.tile(np.arange(tokens), n)
        rows = one.rows
        again = Rows(
            rows.chosen[at], rows.logprob[at], rows.top[at], rows.top_logprob[at],
            rows.usable[at], rows.match,
        )  # fmt: skip
        return Drawn(again, (tokens,) * n, ("length",) * n, n * tokens, one.top_logprobs)


@case("samp-seed-fixed")
def one_seed(c: dict[str, Any]) -> None:
    """200 times the same draw is one draw: nothing is concluded from it."""
    asked = spec(**USUAL)
    result = SAMPLING.judge(sampled(asked, OneSeed(SamplerWorld(), asked.params, seed=3)))

    assert result.verdict.value == c["expected"]["verdict_cap"]
    assert all("not independent" in x.reason for x in result.checks)


# readiness


@contextmanager
def engine(chat_answer: tuple[int, Any] | None) -> Iterator[str]:
    """A server whose /health is 200 and empty; None: a chat is never answered."""
    ended = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/health":
                self.answer(200, b"")
            else:
                self.answer(200, json.dumps({"data": [{"id": "m"}]}).encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if chat_answer is None:
                ended.wait(20)
                return
            self.answer(chat_answer[0], json.dumps(chat_answer[1]).encode())

        def answer(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            ended.set()
            server.shutdown()
            thread.join()


@case("info-health-empty-body")
def healthy_and_generating(c: dict[str, Any]) -> None:
    """An empty 200 at /health is no obstacle: ready is what generates."""
    good = {"choices": [{"message": {"content": "Yes"}, "finish_reason": "stop"}]}
    with engine((200, good)) as url:
        assert (readiness.probe(url, "", "", "") == "") is c["expected"]["ready"]


@case("info-health-503-llamacpp")
def still_loading(c: dict[str, Any]) -> None:
    """Not ready, and waited for: the server's own words are the reason."""
    with engine((c["status"], c["response"])) as url:
        reason = readiness.probe(url, "", "", "")

    assert "Loading model" in reason
    assert c["expected"]["ready"] is False


@case("info-health-lies")
def healthy_and_dead(c: dict[str, Any]) -> None:
    """Healthy, with a version and a list of models, and a chat that hangs: not ready, and the
    deadline ends the waiting."""
    assert c["expected"]["ready"] is False
    with engine(None) as url:
        log = LogTail(Path("/no/log"))
        watched = Watched(lambda: readiness.probe(url, "", "", ""), lambda: "", log)
        with pytest.raises(BootError, match="it has generated nothing within"):
            readiness.wait(watched, 0.5, Machine({}), lambda _: None)


@pytest.mark.parametrize("name", of(__name__))
def test_case(name: str) -> None:
    """What the case's own `expected` says, checked by the stage that concludes it."""
    CHECKS[name](CASES[name])
