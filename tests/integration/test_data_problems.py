"""Data problems on a real engine: whatever is wrong with the data, never PASS, and it is named.

The candidate is the reference's own model, so that nothing but the data is wrong.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from integration.captured import UNITS, Capture, as_lines, demo_prompts
from integration.stand_in import CHAT, FORCE, Ask, Memory, Said, StandIn, swapped

from iqaction import __version__, judgement, session
from iqaction.calls import Arm, Generation, Observation
from iqaction.evidence.store import Folder
from iqaction.plan import Plan
from iqaction.report import Check, Report
from iqaction.session import Outcome
from iqaction.verdict import Verdict

pytestmark = pytest.mark.timeout(3600)

TRAJECTORIES = "observations/trajectory.jsonl.gz"
Edit = Callable[[str, Observation], Observation | None]


def check(report: Report, metric: str) -> Check:
    return next(c for s in report.stages for c in s.checks if c.metric == metric)


def named(report: Report, kind: str) -> set[str]:
    return {f.unit for s in report.stages for f in s.faults if f.kind == kind}


def everything(report: Report) -> str:
    """All that a report says in words."""
    said = [report.headline, *report.problems, *report.caveats]
    for stage in report.stages:
        said += [*stage.caveats, *(c.reason for c in stage.checks)]
        said += [f"{f.kind} {f.unit}: {f.detail}" for f in stage.faults]
    return "\n".join(said)


@pytest.fixture
def healthy(memory: Memory, engine: str):
    """URL of the reference's model, most of its answers remembered."""
    with StandIn(engine, memory=memory) as between:
        yield between


@pytest.fixture(scope="module")
def three(capture: Capture) -> tuple[str, ...]:
    """Three prompts of the plan."""
    return capture.load().plan.prompt_ids[10:13]


def test_other_template(other_template: Outcome) -> None:
    """A server with another chat template: its fingerprint tells, and no prompt is asked."""
    report = other_template.report
    with Folder.open(other_template.folder) as folder:
        observed = folder.load()
    before = observed.baseline.engines[Arm.BASELINE, 0]  # type: ignore[union-attr]
    now = observed.engines[Arm.CANDIDATE, 0]

    assert report.verdict is Verdict.UNPROVEN
    assert report.problems == (
        f"chat template: {now.template_sha256[:12]} now, {before.template_sha256[:12]} in the "
        "baseline",
    )
    assert "chat template: " in report.headline
    assert any("iqaction baseline capture --plan PLAN --out DIR" in s for s in report.next_steps)
    assert {"chat template", "chat_template_sha256"} <= {c.what for c in report.changes}
    assert now.tokenizer_sha256 == before.tokenizer_sha256 != ""
    assert not any(observed.seen.values())


def test_other_prompt_file(capture: Capture, healthy: StandIn, tmp_path: Path) -> None:
    """One prompt reworded: the file's sha256 differs, which is said before anything is asked."""
    prompts = demo_prompts(UNITS)
    prompts[5]["messages"][-1]["content"] += " Please."
    (tmp_path / "prompts.jsonl").write_text(as_lines(prompts))
    plan = shutil.copy(capture.plan(), tmp_path)
    report = capture.compare("other_prompts", healthy.url, plan=Path(plan)).report

    assert report.verdict is Verdict.UNPROVEN
    assert any(p.startswith("prompt file: ") for p in report.problems)
    assert "prompt file: " in everything(report)
    assert healthy.count(CHAT) == healthy.count(FORCE) == 0


def edited(data: bytes) -> bytes:
    """One letter of one text of a compacted observation file."""
    text = gzip.decompress(data).decode()
    line = next(x for x in text.splitlines() if '"text"' in x)
    start = line.index('"text"') + 9
    letter = "x" if line[start] != "x" else "y"
    return gzip.compress(text.replace(line, line[:start] + letter + line[start + 1 :]).encode())


def test_edited_trajectory__in_the_baseline(
    capture: Capture, healthy: StandIn, tmp_path: Path
) -> None:
    """A baseline with an edited text is used as it is, and the report names the file."""
    baseline = shutil.copytree(capture.folder, tmp_path / "edited")
    file = baseline / TRAJECTORIES
    file.write_bytes(edited(file.read_bytes()))
    report = capture.compare("edited", healthy.url, baseline=baseline).report

    assert report.verdict is not Verdict.PASS
    assert any(TRAJECTORIES in p and "sha256 differs" in p for p in report.problems)
    assert not session.verify(baseline).ok


def test_edited_trajectory__in_the_evidence(f16: Outcome, tmp_path: Path) -> None:
    """The same in the copy that a judged run holds: judged again it does not PASS."""
    assert f16.report.verdict is Verdict.PASS
    folder = shutil.copytree(f16.folder, tmp_path / "edited")
    file = folder / "baseline" / TRAJECTORIES
    file.write_bytes(edited(file.read_bytes()))
    report = session.judge(folder, write=False).report
    found = session.verify(folder, f16.root)

    assert report.verdict is not Verdict.PASS
    assert any(TRAJECTORIES in p for p in report.problems)
    assert not found.ok
    assert any(TRAJECTORIES in p for p in found.problems)


def sealed_anew(
    capture: Capture, target: Path, edit: Edit, change: Callable[[Plan], Plan] = lambda p: p
) -> Path:
    """The reference as somebody leaves it who edits evidence and seals it anew."""
    with Folder.open(capture.folder) as source:
        kept, prompts = source.load(), source.prompts_bytes()
    with Folder.create_or_continue(target, change(kept.plan), prompts, None) as folder:
        for (arm, launch), info in kept.engines.items():
            folder.keep_engine(arm, launch, info)
        for (arm, launch), (number, where) in kept.concurrency.items():
            folder.keep_concurrency(arm, launch, number, where)
        for stage, tags in kept.seen.items():
            for observation in tags.values():
                new = edit(stage, observation)
                if new is not None:
                    folder.keep(stage, new)
        folder.seal(judgement.judge(folder.load(), __version__))
    assert session.verify(target).ok
    return target


def other_token(observation: Observation) -> Observation:
    """Its text with another token at position 2, as if the reference had written that."""
    answer = observation.answer
    assert isinstance(answer, Generation)
    assert answer.rows is not None
    rows = answer.rows
    chosen, logprob = rows.chosen.copy(), rows.logprob.copy()
    chosen[2], logprob[2] = rows.top[2, 4], rows.top_logprob[2, 4]
    return replace(
        observation, answer=replace(answer, rows=replace(rows, chosen=chosen, logprob=logprob))
    )


def test_edited_trajectory__sealed_anew(
    capture: Capture, healthy: StandIn, three: tuple[str, ...], tmp_path: Path
) -> None:
    """Other tokens in three reference texts: what was forced contradicts them, by name."""

    def edit(stage: str, observation: Observation) -> Observation:
        hit = stage == "trajectory" and observation.tag.unit in three
        return other_token(observation) if hit else observation

    baseline = sealed_anew(capture, tmp_path / "sealed", edit)
    report = capture.compare("sealed_anew", healthy.url, baseline=baseline).report

    assert report.verdict is not Verdict.PASS
    assert all(unit in everything(report) for unit in three)


def test_edited_trajectory__other_words_sealed_anew(
    capture: Capture, healthy: StandIn, three: tuple[str, ...], tmp_path: Path
) -> None:
    """The words of three reference texts are others and the tokens are not: they really differ."""

    def edit(stage: str, observation: Observation) -> Observation:
        answer = observation.answer
        if stage != "trajectory" or observation.tag.unit not in three:
            return observation
        assert isinstance(answer, Generation)
        return replace(observation, answer=replace(answer, text="Nothing of the kind."))

    baseline = sealed_anew(capture, tmp_path / "sealed", edit)
    report = capture.compare("other_words", healthy.url, baseline=baseline).report

    assert report.verdict is not Verdict.PASS
    assert {d.unit for s in report.stages for d in s.divergences} == set(three)


def test_edited_trajectory__other_values_sealed_anew(
    capture: Capture, healthy: StandIn, tmp_path: Path
) -> None:
    """Other log-probabilities in more reference texts than chance explains: it is refused."""
    hit = capture.load().plan.prompt_ids[20:24]

    def edit(stage: str, observation: Observation) -> Observation:
        answer = observation.answer
        if stage != "trajectory" or observation.tag.unit not in hit:
            return observation
        assert isinstance(answer, Generation)
        assert answer.rows is not None
        values = {"logprob": answer.rows.logprob - 1, "top_logprob": answer.rows.top_logprob - 1}
        return replace(observation, answer=replace(answer, rows=replace(answer.rows, **values)))

    baseline = sealed_anew(capture, tmp_path / "sealed", edit)
    report = capture.compare("other_values", healthy.url, baseline=baseline).report

    assert report.verdict is not Verdict.PASS
    assert "the reference itself is faulty" in everything(report)
    assert all(unit in everything(report) for unit in hit)


@pytest.mark.parametrize("where", ["everything", "texts", "one relaunch"])
def test_dropped_prompts__sealed_anew(
    where: str, capture: Capture, healthy: StandIn, three: tuple[str, ...], tmp_path: Path
) -> None:
    """Three prompts' evidence is gone from the baseline: they are not quietly left out."""

    def edit(stage: str, observation: Observation) -> Observation | None:
        if observation.tag.unit not in three:
            return observation
        gone = {
            "everything": True,
            "texts": stage == "trajectory",
            "one relaunch": observation.tag.arm is Arm.REPEAT and observation.tag.launch == 2,
        }
        return None if gone[where] else observation

    baseline = sealed_anew(capture, tmp_path / "sealed", edit)
    name = f"dropped_{where.replace(' ', '_')}"
    report = capture.compare(name, healthy.url, baseline=baseline).report

    assert report.verdict is not Verdict.PASS
    assert all(unit in everything(report) for unit in three)


def test_dropped_prompts__of_the_plan(
    capture: Capture, healthy: StandIn, three: tuple[str, ...], tmp_path: Path
) -> None:
    """A baseline whose plan lacks three prompts of the candidate's: named, and nothing asked."""

    def edit(stage: str, observation: Observation) -> Observation | None:
        return None if observation.tag.unit in three else observation

    def without(plan: Plan) -> Plan:
        ids = tuple(i for i in plan.prompt_ids if i not in three)
        return replace(plan, prompt_ids=ids, looks=(len(ids),))

    baseline = sealed_anew(capture, tmp_path / "sealed", edit, without)
    report = capture.compare("not_planned", healthy.url, baseline=baseline).report

    assert report.verdict is not Verdict.PASS
    (problem,) = (p for p in report.problems if "prompts are not in the baseline" in p)
    assert problem.startswith("3 prompts")
    assert all(unit in problem for unit in three)
    assert healthy.count(CHAT) == 0


def test_lost_answers(f16: Outcome, three: tuple[str, ...], tmp_path: Path) -> None:
    """Three prompts' answers lost from the candidate's own evidence: not PASS, by name."""
    folder = shutil.copytree(f16.folder, tmp_path / "lost")
    file = folder / "observations" / "score.jsonl.gz"
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    kept = [x for x in lines if json.loads(x).get("tag", {}).get("unit") not in three]
    assert len(lines) - len(kept) == 6
    file.write_bytes(gzip.compress(b"".join(kept)))
    report = session.judge(folder, write=False).report

    assert report.verdict is not Verdict.PASS
    assert any("score.jsonl.gz" in p for p in report.problems)
    assert all(unit in everything(report) for unit in three)


def test_broken_prompts__three_of_64(
    capture: Capture, memory: Memory, engine: str, three: tuple[str, ...]
) -> None:
    """Three prompts score as another model would, 61 as before: the mean hides it, we do not."""
    ids = [i for i, unit in capture.prompt_ids().items() if unit in three]

    def broken(ask: Ask, said: Said) -> Said:
        if ask.path != FORCE or not any(tuple(ask.body["prompt"][: len(i)]) == i for i in ids):
            return said
        body = said.body
        rows = [swapped(row, 4) for row in body["completion_probabilities"]]
        return said.with_body({**body, "completion_probabilities": rows})

    with StandIn(engine, memory=memory, tell=broken) as between:
        report = capture.compare("broken", between.url).report

    assert report.verdict is not Verdict.PASS
    assert named(report, "broken") == set(three)
    reason = check(report, "reference.broken").reason
    assert reason.startswith("3 of 64 prompts broken (3 again when asked once more)")
    assert all(unit in reason for unit in three)
