"""Makes a folder one run's evidence: the plan, the prompts, the copy of the baseline.

Writes the plan last: a folder without it is not founded yet, and founding simply goes on. Never
overwrites a file that it did not write.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from pathlib import Path

from iqaction import plan as plans
from iqaction.errors import EvidenceError
from iqaction.evidence import canon, journal, manifest, reading
from iqaction.evidence.lines import FOLDER
from iqaction.evidence.reading import BASELINE, CIRCUMSTANCES, DATA, PLAN, PROMPTS, data_name
from iqaction.evidence.tree import MAX_EVIDENCE, STAGED, Tree
from iqaction.json_value import JSON
from iqaction.plan import Plan
from iqaction.prompts import MAX_BYTES

LOCK = ".lock"
_CHUNK = 1024**2
_ELSEWHERE = "use another folder"


def found(
    tree: Tree,
    plan: Plan,
    prompts_bytes: bytes,
    baseline: Path | None,
    data_of: Mapping[str, bytes] | None = None,
) -> None:
    """Write plan, prompts, the stages' data and baseline, or check that just these are there.

    Raises
    ------
    EvidenceError
        The folder is another run's or not ours, or the baseline is not the plan's.
    """
    data = _unpacked(prompts_bytes)
    if canon.identify(data) != plan.prompts_sha256:
        raise EvidenceError(
            "the prompts are not those that the plan was made for",
            expected=f"a file with sha256 {plan.prompts_sha256}",
        )
    tree.sweep()
    is_ours = tree.has(PLAN)
    if is_ours:
        _same_plan(tree, plan)
    else:
        _unclaimed(tree)
    _put(tree, PROMPTS, data, "prompts")
    for spec in plan.stages:
        if spec.data_sha256:
            content = (data_of or {}).get(spec.stage, b"")
            if canon.identify(content) != spec.data_sha256:
                raise EvidenceError(
                    f"the data of {spec.stage} are not those that the plan was made for",
                    expected=f"a file with sha256 {spec.data_sha256}",
                )
            _put(tree, data_name(spec.stage), content, "data")
    if not plan.is_capture:
        _adopt(tree, plan, baseline)
    if not is_ours:
        tree.write(PLAN, plans.to_bytes(plan))


def _put(tree: Tree, name: str, data: bytes, what: str) -> None:
    if not tree.has(name):
        tree.write(name, data)
    elif tree.read(name, MAX_BYTES) != data:
        raise EvidenceError(
            f"{tree.root}/{name} holds other {what}",
            expected=f"the {what} of this run",
            next_step=_ELSEWHERE,
        )


def _unpacked(data: bytes) -> bytes:
    """A prompt file's own bytes, as ``prompts.parse`` hashes them."""
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return stream.read(MAX_BYTES + 1)
    except (OSError, EOFError) as exc:
        raise EvidenceError("the prompts are a broken gzip file") from exc


def _unclaimed(tree: Tree) -> None:
    """Refuse to found evidence among files that are not ours."""
    for entry in tree.entries():
        top = entry.name.partition("/")[0]
        if top not in (LOCK, PROMPTS, DATA, BASELINE) and not top.startswith(STAGED):
            raise EvidenceError(
                f"{tree.root} holds other files, as {canon.shown(entry.name)}",
                expected="an empty folder, a new one, or the evidence of this same run",
                next_step=_ELSEWHERE,
            )


def _same_plan(tree: Tree, plan: Plan) -> None:
    data, wanted = tree.read(PLAN), plans.to_bytes(plan)
    if data == wanted:
        return
    try:
        kept = canon.load_object(data, PLAN)
    except EvidenceError:
        kept = {}
    what = ", ".join(_differences(kept, plans.to_json(plan))) if kept else "it is no plan"
    raise EvidenceError(
        f"{tree.root} holds the evidence of another plan; different: {what or 'unknown fields'}",
        expected="the same plan, to continue its run",
        next_step=_ELSEWHERE + ", or the plan with which this one was begun",
    )


def _differences(kept: Mapping[str, JSON], wanted: Mapping[str, JSON]) -> list[str]:
    """What differs between two plans, by name; stages parameter by parameter."""
    names = [k for k in wanted if k != "stages" and kept.get(k) != wanted[k]]
    old, new = _stages(kept.get("stages")), _stages(wanted["stages"])
    for stage in sorted({*old, *new}):
        if stage not in old or stage not in new:
            whose = "the new" if stage in new else "the kept"
            names.append(f"stage {canon.shown(stage)} is only in {whose} plan")
            continue
        fields = _flat(old[stage]), _flat(new[stage])
        for key in sorted({*fields[0], *fields[1]}):
            if fields[0].get(key) != fields[1].get(key):
                names.append(f"{canon.shown(stage)}.{canon.shown(key)}")
    if not names and kept.get("stages") != wanted["stages"]:
        names.append("the order of the stages")
    return names


def _stages(value: JSON) -> dict[str, Mapping[str, JSON]]:
    listed = value if isinstance(value, list) else []
    return {str(s.get("stage")): s for s in listed if isinstance(s, dict)}


def _flat(stage: Mapping[str, JSON]) -> dict[str, JSON]:
    params = stage.get("params")
    inner = {f"params.{k}": v for k, v in params.items()} if isinstance(params, dict) else {}
    return {**{k: v for k, v in stage.items() if k != "params"}, **inner}


def _adopt(tree: Tree, plan: Plan, baseline: Path | None) -> None:
    """Copy the baseline in, byte by byte, unless it is there.

    Damage is copied as it is: the report is to name it. Only the manifest must be the plan's.
    """
    copy = tree.sub(BASELINE)
    if tree.has(BASELINE):
        _is_the_plans(copy, plan)
        return
    if baseline is None:
        raise EvidenceError(
            "the plan compares with a baseline, and none was given",
            expected=f"the folder whose evidence root is {plan.baseline_root}",
            next_step="give it with --baseline DIR",
        )
    source, staged = Tree(baseline), tree.sub(STAGED + BASELINE)
    _is_the_plans(source, plan)
    if source.has(journal.NAME) and reading.load(source, numbers=False).pending:
        raise EvidenceError(
            f"{baseline} is not finished: its journal holds answers that are not sealed",
            expected="a sealed capture",
            next_step="let the capture finish: run its command again",
        )
    for name in sorted(manifest.from_bytes(source.read(manifest.NAME), str(baseline))):
        wanted = name in (PLAN, PROMPTS, CIRCUMSTANCES) or name.startswith(
            (f"{FOLDER}/", f"{DATA}/")
        )
        if wanted and source.has(name):
            with source.stream(name, MAX_EVIDENCE) as file, staged.staging(name) as out:
                while chunk := file.read(_CHUNK):
                    out.write(chunk)
            staged.settle(name)
    staged.write(manifest.NAME, source.read(manifest.NAME))
    tree.settle(BASELINE)


def _is_the_plans(baseline: Tree, plan: Plan) -> None:
    if not baseline.root.is_dir() or not baseline.has(manifest.NAME):
        raise EvidenceError(
            f"{baseline.root}{'/' + baseline.inside if baseline.inside else ''} is no sealed "
            f"baseline: it has no {manifest.NAME}",
            expected="a folder that a capture has sealed",
            next_step="let the capture finish: run its command again",
        )
    root = canon.identify(baseline.read(manifest.NAME))
    if root != plan.baseline_root:
        raise EvidenceError(
            f"the baseline's evidence root is {root}",
            expected=f"{plan.baseline_root}, for which the plan was made",
            next_step="make the plan anew, or give the baseline that it names",
        )
