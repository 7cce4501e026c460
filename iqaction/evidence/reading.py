"""From an evidence folder to what judging sees. Reads, never writes; the folder is not trusted.

Nothing in it makes the load fail but a plan that is none: every other fault becomes a sentence
in ``problems``, and any of those keeps the verdict from PASS. The journal and the compacted files
may both be there (a run was killed while it sealed, or continues a sealed folder): then the
journal, which is later, wins tag by tag.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from iqaction import plan as plans
from iqaction import prompts as prompt_files
from iqaction.calls import Arm, Drawn, EngineInfo, Generation, Observation, Scored, Tag
from iqaction.circumstances import NONE, Circumstances
from iqaction.counts import counted
from iqaction.errors import ConfigError, EvidenceError
from iqaction.evidence import canon, circumstances_json, envelope, journal, manifest, schema
from iqaction.evidence.lines import ENGINES, FOLDER, Item, Key, Where, item, locate, stored_as
from iqaction.evidence.lines import unpacked as unpacked_lines
from iqaction.evidence.tree import MAX_EVIDENCE, Tree, digest, explain
from iqaction.json_value import JSON
from iqaction.observed import Observed
from iqaction.plan import Plan
from iqaction.prompts import Prompt
from iqaction.rows import Rows

PLAN = "plan.json"
PROMPTS = "prompts.jsonl"
DATA = "data"  # the folder of what stages ask of their own
CIRCUMSTANCES = circumstances_json.NAME
BASELINE = "baseline"
MAX_DECODED = 8 * 1024**3  # bytes of all arrays of a folder
_MAX_NAMED = 20  # faults of one file that are told one by one


@dataclass(frozen=True)
class Loaded:
    """A folder's evidence, and what its keeper must know of it.

    Attributes
    ----------
    notes
        What happened and is no fault, as a torn last line.
    altered
        Sealed files that are no longer as the manifest says, and a manifest that is none.
    unreadable
        Files of which only a part can be read.
    pending
        The journal holds something that the compacted files do not.
    lines, broken
        The line that counts for each key of each stage, and lines that say nothing usable.
    """

    observed: Observed
    notes: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    pending: bool = False
    lines: Mapping[tuple[str, Key], Where] = field(default_factory=dict)
    broken: tuple[Where, ...] = ()


def data_name(stage: str) -> str:
    """Where in the folder a stage's own questions lie."""
    return f"{DATA}/{stage}.jsonl"


def load(tree: Tree, *, inner: bool = False, numbers: bool = True) -> Loaded:
    """Everything in the folder.

    Parameters
    ----------
    inner
        Leaves the baseline out: for a baseline's copy, which holds none, and for who needs none.
    numbers
        False leaves the observations themselves out (``observed.seen`` and the baseline), for
        who wants to know only which lines there are.

    Raises
    ------
    EvidenceError
        The plan is missing or is none, or the folder cannot be read at all.
    """
    reading = _Reading(tree, numbers)
    plan = reading.read_plan()
    files = reading.read_manifest()
    reading.compare_lists(plan)
    prompts = reading.read_prompts(plan)
    data = reading.read_data(plan)
    circumstances = reading.read_circumstances()
    reading.read_compacted(plan, files)
    reading.read_journal()
    baseline = None if inner or not numbers else _baseline(tree, plan, reading.problems)
    root = reading.root if files is not None and not reading.pending else ""
    return Loaded(
        Observed(
            plan,
            prompts,
            reading.seen,
            reading.engines,
            reading.concurrency,
            tuple(dict.fromkeys(reading.problems)),
            baseline,
            root,
            circumstances,
            data,
        ),
        tuple(reading.notes),
        tuple(reading.altered),
        tuple(reading.unreadable),
        reading.pending,
        reading.lines,
        tuple(reading.broken),
    )


def _baseline(tree: Tree, plan: Plan, problems: list[str]) -> Observed | None:
    """The copied baseline with its own problems; None in a capture, or where there is none."""
    if plan.is_capture:
        return None
    try:
        return load(tree.sub(BASELINE), inner=True).observed
    except EvidenceError as exc:
        problems.append(exc.happened)
        return None


def _is_evidence(name: str) -> bool:
    """True for what judging reads, as opposed to what it writes."""
    return name in (PLAN, PROMPTS, CIRCUMSTANCES) or name.startswith((FOLDER + "/", DATA + "/"))


@dataclass
class _Reading:
    """One load in progress."""

    tree: Tree
    numbers: bool
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    seen: dict[str, dict[Tag, Observation]] = field(default_factory=dict)
    engines: dict[tuple[Arm, int], EngineInfo] = field(default_factory=dict)
    concurrency: dict[tuple[Arm, int], tuple[int, str]] = field(default_factory=dict)
    files: Mapping[str, manifest.Stored] | None = None
    root: str = ""
    pending: bool = False
    decoded: int = 0
    lines: dict[tuple[str, Key], Where] = field(default_factory=dict)
    broken: list[Where] = field(default_factory=list)

    def read_plan(self) -> Plan:
        place = self.tree.place(PLAN)
        if not self.tree.has(PLAN):
            raise EvidenceError(
                f"no {place} in {self.tree.root}",
                expected="an evidence folder, as `iqaction run --evidence DIR` makes one",
                next_step="check the path, or run `iqaction run` first",
            )
        data = self.tree.read(PLAN)
        body = canon.load_object(data, place)
        schema.validate("plan", body, place)
        plan = plans.from_json(body)
        if plans.to_bytes(plan) != data:
            self.problems.append(f"{place}: not the bytes that its own fields give")
        return plan

    def read_manifest(self) -> Mapping[str, manifest.Stored] | None:
        """The manifest, None where there is none that can be used."""
        place = self.tree.place(manifest.NAME)
        if not self.tree.has(manifest.NAME):
            if not self.tree.has(journal.NAME) and any(self._compacted_names()):
                self.altered.append(manifest.NAME)
                self.problems.append(f"{place}: missing, and there is no journal either")
            return None
        try:
            data = self.tree.read(manifest.NAME)
            self.files = manifest.from_bytes(data, place)
        except EvidenceError as exc:
            self.altered.append(manifest.NAME)
            self.problems.append(exc.happened)
            return None
        self.root = canon.identify(data)
        for name in (PLAN, PROMPTS):
            self._compare(name, *self._digest(name))
        for name in self.files:
            if name.startswith(FOLDER + "/") and not self.tree.has(name):
                self._alter(name, "missing")
            # The baseline has a manifest of its own; here it is this one that may be altered.
            if name.startswith((BASELINE + "/", DATA + "/")):
                self._compare(name, *self._digest(name))
        return self.files

    def compare_lists(self, plan: Plan) -> None:
        """What is read of the baseline's copy and of the stages' data must be listed: who seals
        again lists what the manifest lists, and one that it does not name would be lost then."""
        names = [data_name(s.stage) for s in plan.stages if s.data_sha256]
        copied = f"{BASELINE}/{manifest.NAME}"
        if not plan.is_capture and self.tree.has(copied):
            try:
                inner = manifest.from_bytes(self.tree.read(copied), self.tree.place(copied))
                names += [copied, *(f"{BASELINE}/{n}" for n in inner if _is_evidence(n))]
            except EvidenceError:
                names += [copied]  # told where the baseline is read
        for name in names:
            if self.files is not None and name not in self.files and self.tree.has(name):
                self._alter(name, "not in the manifest")

    def read_circumstances(self) -> Circumstances:
        """Optional: nothing of them is needed to judge the model."""
        listed = self.files is not None and CIRCUMSTANCES in self.files
        if not self.tree.has(CIRCUMSTANCES):
            if listed:
                self._alter(CIRCUMSTANCES, "missing")
            return NONE
        if self.files is not None:
            self._compare(CIRCUMSTANCES, *self._digest(CIRCUMSTANCES))
        try:
            data = self.tree.read(CIRCUMSTANCES)
            return circumstances_json.from_bytes(data, self.tree.place(CIRCUMSTANCES))
        except EvidenceError as exc:
            self._unreadable(CIRCUMSTANCES, exc)
            return NONE

    def _digest(self, name: str) -> tuple[str, int]:
        try:
            return self.tree.digest(name)
        except EvidenceError:
            return "", 0

    def _compare(self, name: str, sha256: str, size: int) -> None:
        expected = None if self.files is None else self.files.get(name)
        if self.files is not None and expected is None:
            self._alter(name, "not in the manifest")
        elif expected is not None and expected != manifest.Stored(sha256, size):
            self._alter(name, "sha256 differs from the manifest")

    def _alter(self, name: str, how: str) -> None:
        self.altered.append(name)
        self.problems.append(f"{self.tree.place(name)}: {how}")

    def read_prompts(self, plan: Plan) -> dict[str, Prompt]:
        place = self.tree.place(PROMPTS)
        try:
            found = prompt_files.parse(self.tree.read(PROMPTS, prompt_files.MAX_BYTES), place)
        except (ConfigError, EvidenceError) as exc:
            self.problems.append(exc.happened)
            return {}
        if found.sha256 != plan.prompts_sha256:
            self.problems.append(f"{place}: not the prompt file that the plan was made for")
        wanted = set(plan.prompt_ids)
        prompts = {p.id: p for p in found.prompts if p.id in wanted}
        lost = [i for i in plan.prompt_ids if i not in prompts]
        if lost:
            said = counted(len(lost), "prompt of the plan is", "prompts of the plan are")
            self.problems.append(f"{place}: {said} missing, as {lost[0]}")
        return prompts

    def read_data(self, plan: Plan) -> dict[str, bytes]:
        """What the stages ask of their own, by stage; what is not the plan's is left out."""
        found: dict[str, bytes] = {}
        for spec in plan.stages:
            if not spec.data_sha256:
                continue
            name = data_name(spec.stage)
            try:
                content = self.tree.read(name, prompt_files.MAX_BYTES)
            except EvidenceError as exc:
                self.problems.append(exc.happened)
                continue
            if canon.identify(content) == spec.data_sha256:
                found[spec.stage] = content
            else:
                self.problems.append(
                    f"{self.tree.place(name)}: not the data that the plan was made for"
                )
        return found

    def _compacted_names(self) -> Iterator[str]:
        for entry in self.tree.entries():
            folder, _, name = entry.name.partition("/")
            if folder == FOLDER and not name.startswith("."):
                yield entry.name

    def read_compacted(self, plan: Plan, files: Mapping[str, manifest.Stored] | None) -> None:
        allowed = {stored_as(s.stage): s.stage for s in plan.stages}
        allowed[stored_as(ENGINES)] = ENGINES
        for name in self._compacted_names():
            place = self.tree.place(name)
            if name not in allowed or (files is not None and name not in files):
                self._alter(name, "does not belong in this evidence")
                continue
            try:
                with self.tree.stream(name, MAX_EVIDENCE) as file:
                    if files is not None:
                        self._compare(name, *digest(file))
                        file.seek(0)
                    self._take(unpacked_lines(file, place), name, allowed[name])
            except EvidenceError as exc:
                self._unreadable(name, exc)
            except OSError as exc:
                self._unreadable(name, explain(exc, f"cannot read {place}"))

    def read_journal(self) -> None:
        if not self.tree.has(journal.NAME):
            return
        before = {key: where.sha256 for key, where in self.lines.items()}
        broken = len(self.broken)
        place = self.tree.place(journal.NAME)
        try:
            with self.tree.stream(journal.NAME, MAX_EVIDENCE) as file:
                self._take(journal.lines(file, place), journal.NAME, None)
        except EvidenceError as exc:
            self._unreadable(journal.NAME, exc)
        except OSError as exc:
            self._unreadable(journal.NAME, explain(exc, f"cannot read {place}"))
        after = {key: where.sha256 for key, where in self.lines.items()}
        self.pending = (
            after != before or len(self.broken) > broken or journal.NAME in self.unreadable
        )

    def _unreadable(self, name: str, exc: EvidenceError) -> None:
        self.unreadable.append(name)
        self.problems.append(exc.happened)

    def _take(self, found: Iterator[journal.Line], name: str, stage: str | None) -> None:
        """Read the lines of file ``name``, which belong to ``stage`` (None: to any)."""
        place, broken = self.tree.place(name), 0
        for line in found:
            where = f"{place}:{line.number}"
            if line.torn and stage is None:
                self.notes.append(f"{where}: torn by a kill and dropped; it is asked again")
                continue
            sha256 = hashlib.sha256(line.data).digest()
            try:
                read = item(line.data, where)
                if stage not in (None, read.stage):
                    raise EvidenceError(f"{where}: belongs to stage {read.stage}")
                self._keep(read)
            except EvidenceError as exc:
                self.broken.append(locate(line, name, sha256))
                broken += 1
                if broken <= _MAX_NAMED:
                    said = exc.happened
                    self.problems.append(said if said.startswith(where) else f"{where}: {said}")
                continue
            # Put last, so that of two engines of one arm the later comes after the earlier.
            self.lines.pop((read.stage, read.key), None)
            self.lines[read.stage, read.key] = locate(line, name, sha256, read)
        if broken > _MAX_NAMED:
            self.problems.append(f"{place}: {broken - _MAX_NAMED} more broken")

    def _keep(self, read: Item) -> None:
        match read.body["kind"]:
            case "engine":
                self._engine(read.body)
            case "concurrency":
                arm, launch, value, source = envelope.concurrency_from_checked(read.body)
                self.concurrency[arm, launch] = (value, source)
            case _ if self.numbers:
                self._observation(read.body)

    def _observation(self, body: Mapping[str, JSON]) -> None:
        stage, observation = envelope.observation_from_checked(body)
        answer = observation.answer
        if isinstance(answer, (Generation, Scored, Drawn)) and answer.rows is not None:
            self.decoded += _bytes(answer.rows)
            if self.decoded > MAX_DECODED:
                raise EvidenceError(f"more than {MAX_DECODED} bytes of numbers in all")
        self.seen.setdefault(stage, {})[observation.tag] = observation

    def _engine(self, body: Mapping[str, JSON]) -> None:
        arm, launch, info = envelope.engine_from_checked(body)
        known = self.engines.get((arm, launch))
        if known is not None and _who(known) != _who(info):
            self.problems.append(
                f"{arm.value} (launch {launch}) was answered by two engines: "
                f"{_shown(known)}, then {_shown(info)}"
            )
        self.engines[arm, launch] = info


def _bytes(rows: Rows) -> int:
    columns = (rows.chosen, rows.logprob, rows.top, rows.top_logprob, rows.usable)
    return sum(c.nbytes for c in columns)


def _who(info: EngineInfo) -> tuple[str, str, str]:
    return info.dialect, info.version, info.model


def _shown(info: EngineInfo) -> str:
    return canon.shown(" ".join(x for x in _who(info) if x))
