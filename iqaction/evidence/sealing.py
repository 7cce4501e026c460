"""From a journal to a sealed folder: compact, describe, list; killed anywhere, nothing is lost.

The order of writing makes every moment a folder that loads the same. First all that takes space
is staged under other names. Then the old manifest goes (the journal standing), the staged files
take their names, the manifest last, and then the journal goes. Only who holds the folder's lock
may call this.
"""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterable, Iterator, Mapping

from iqaction.calls import Tag
from iqaction.errors import EvidenceError
from iqaction.evidence import canon, journal, manifest, reading, report_json, statements
from iqaction.evidence.lines import ENGINES, Key, Where, stored_as, unpacked
from iqaction.evidence.manifest import Stored
from iqaction.evidence.reading import (
    BASELINE,
    CIRCUMSTANCES,
    PLAN,
    PROMPTS,
    Loaded,
    data_name,
)
from iqaction.evidence.record import Artifact
from iqaction.evidence.statements import Run, SetSummary
from iqaction.evidence.tree import MAX_EVIDENCE, Tree
from iqaction.report import Report

RECORDS = "records"
_LEVEL = 6  # of gzip; higher levels take far longer for one percent
_ELSEWHERE = "keep this folder as it is and run again with another one"


def seal(tree: Tree, report: Report) -> str:
    """Make the folder whole and unchangeable; returns its evidence root.

    Where nothing has changed nothing is written. What was altered since an earlier seal keeps
    that seal's sha256 in the new manifest, so that the damage stays visible whoever judges next.

    Raises
    ------
    EvidenceError
        A file cannot be written; or the folder is so damaged that sealing would hide it.
    """
    tree.sweep()
    loaded = reading.load(tree, numbers=False)
    _refuse_to_hide(tree, loaded)
    old = manifest.from_bytes(tree.read(manifest.NAME)) if tree.has(manifest.NAME) else None
    try:
        staged = _compact(tree, loaded)
        files = {**_given(tree, old, loaded), **staged}
        texts = _texts(loaded, files, report)
        for name, data in texts.items():
            files[name] = Stored(canon.identify(data), len(data))
        listing = manifest.to_bytes(files)
        if not _is_in_place(tree, files, [*staged, *texts], listing):
            for name, data in [*texts.items(), (manifest.NAME, listing)]:
                with tree.staging(name) as file:
                    file.write(data)
            _settle(tree, [*staged, *texts], had_manifest=old is not None)
    except EvidenceError:
        with contextlib.suppress(EvidenceError):  # the first error says why
            tree.sweep()
        raise
    _clear(tree, files)
    return canon.identify(listing)


def _refuse_to_hide(tree: Tree, loaded: Loaded) -> None:
    """Damage that a new manifest would paper over is never sealed."""
    touched = {stored_as(s) for s in _with_news(loaded)}
    torn = [n for n in loaded.unreadable if n in touched or n == journal.NAME]
    if manifest.NAME in loaded.altered or (loaded.altered and loaded.pending) or torn:
        raise EvidenceError(
            f"{tree.root}: {[*loaded.altered, *torn][0]} was altered or is broken",
            expected="evidence as the tool wrote it",
            next_step=_ELSEWHERE,
        )


def _with_news(loaded: Loaded) -> set[str]:
    """Stages (and ENGINES) of which the journal holds lines."""
    news = {stage for (stage, _), where in loaded.lines.items() if where.name == journal.NAME}
    return news | ({ENGINES} if _damage(loaded, journal.NAME) else set())


def _damage(loaded: Loaded, name: str) -> list[Where]:
    return [where for where in loaded.broken if where.name == name]


def _compact(tree: Tree, loaded: Loaded) -> dict[str, Stored]:
    """Stage the files of all stages that the journal adds to; lines go over byte by byte."""
    staged: dict[str, Stored] = {}
    if not loaded.pending:
        return staged
    for stage in sorted(_with_news(loaded)):
        name = stored_as(stage)
        wanted = [w for _, w in sorted(_of(loaded, stage), key=_order)]
        wanted += _damage(loaded, name)
        if stage == ENGINES:  # a broken line of the journal belongs nowhere, and stays
            wanted += _damage(loaded, journal.NAME)
        with (
            tree.staging(name) as raw,
            gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as packed,
        ):
            for line in _fetch(tree, name, wanted):
                packed.write(line)
        staged[name] = Stored(*tree.digest(tree.staged(name)))
    return staged


def _of(loaded: Loaded, stage: str) -> Iterator[tuple[Key, Where]]:
    for (of, key), where in loaded.lines.items():
        if of == stage:
            yield key, where


def _order(entry: tuple[Key, Where]) -> tuple[str | int, ...]:
    """By tag; engines by arm and launch, several of one in the order in which they answered."""
    key = entry[0]
    if isinstance(key, Tag):
        return key.arm.value, key.leg, key.unit, key.launch, key.attempt
    return key[:3]


def _fetch(tree: Tree, name: str, wanted: Iterable[Where]) -> Iterator[bytes]:
    """The bytes of lines that lie in the packed file ``name`` or in the journal, in order."""
    wanted = list(wanted)
    numbers = {w.number for w in wanted if w.name == name}
    packed: dict[int, bytes] = {}
    if numbers:
        with tree.stream(name, MAX_EVIDENCE) as file:
            packed = {x.number: x.data for x in unpacked(file, name) if x.number in numbers}
    if not any(w.name == journal.NAME for w in wanted):
        yield from (packed[w.number] for w in wanted)
        return
    with tree.stream(journal.NAME, MAX_EVIDENCE) as file:
        for where in wanted:
            if where.name == name:
                yield packed[where.number]
                continue
            file.seek(where.offset)
            yield file.read(where.length)


def _given(tree: Tree, old: Mapping[str, Stored] | None, loaded: Loaded) -> dict[str, Stored]:
    """The files that judging rests on, with the sha256 of an earlier seal where there was one."""
    stages = (*(s.stage for s in loaded.observed.plan.stages), ENGINES)
    ours = {PLAN, PROMPTS, CIRCUMSTANCES, *(stored_as(s) for s in stages)}
    ours |= {data_name(s.stage) for s in loaded.observed.plan.stages if s.data_sha256}
    files: dict[str, Stored] = {}
    for entry in tree.entries():
        belongs = entry.name in ours or entry.name.startswith(f"{BASELINE}/")
        if belongs and entry.plain and (old is None or entry.name in old):
            files[entry.name] = Stored(*tree.digest(entry.name))
    for name, stored in (old or {}).items():
        if name in ours or name.startswith(f"{BASELINE}/"):
            files[name] = stored
    return files


def _texts(loaded: Loaded, files: Mapping[str, Stored], report: Report) -> dict[str, bytes]:
    """The report and the records, by name."""
    texts = {report_json.NAME: report_json.to_bytes(report)}
    known = {
        "plan": PLAN,
        "prompts": PROMPTS,
        "engines": stored_as(ENGINES),
        "circumstances": CIRCUMSTANCES,
        "baseline": f"{BASELINE}/{manifest.NAME}",
    }
    artifacts = {r: Artifact(r, n, files[n].sha256) for r, n in known.items() if n in files}
    digest = canon.identify(texts[report_json.NAME])
    artifacts["report"] = Artifact("report", report_json.NAME, digest)
    sets: dict[str, SetSummary] = {}
    for spec in loaded.observed.plan.stages:
        name = stored_as(spec.stage)
        if name in files:
            found = [where for _, where in _of(loaded, spec.stage)]
            sets[spec.stage] = _summary(Artifact("observations", name, files[name].sha256), found)
    run = Run(loaded.observed.plan, loaded.observed.engines, sets, artifacts, report)
    for ident, data in statements.build(run).items():
        texts[f"{RECORDS}/{ident}.json"] = data
    return texts


def _summary(artifact: Artifact, found: list[Where]) -> SetSummary:
    failed: dict[str, int] = {}
    for where in found:
        if where.failed:
            failed[where.failed] = failed.get(where.failed, 0) + 1
    times = sorted(where.observed_at for where in found)
    return SetSummary(
        artifact,
        sum(not where.failed for where in found),
        failed,
        sum(where.rows for where in found),
        sum(where.unusable for where in found),
        (times[0], times[-1]) if times else (),
    )


def _is_in_place(
    tree: Tree, files: Mapping[str, Stored], names: Iterable[str], listing: bytes
) -> bool:
    """True where the folder already holds just this."""
    if not tree.has(manifest.NAME) or tree.read(manifest.NAME) != listing:
        return False
    return all(tree.has(n) and Stored(*tree.digest(n)) == files[n] for n in names)


def _settle(tree: Tree, names: list[str], *, had_manifest: bool) -> None:
    if had_manifest:
        if not tree.has(journal.NAME):
            tree.write(journal.NAME, b"")  # says: not sealed, and nothing missing
        tree.remove(manifest.NAME)
    for name in names:
        tree.settle(name, durable=False)
    tree.sync(names)
    tree.settle(manifest.NAME)


def _clear(tree: Tree, files: Mapping[str, Stored]) -> None:
    """Remove what is left of an earlier seal, and last the journal."""
    tree.sweep()
    for entry in tree.entries():
        if entry.plain and entry.name.startswith(f"{RECORDS}/") and entry.name not in files:
            tree.remove(entry.name)
    tree.remove(journal.NAME)
