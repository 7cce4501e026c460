"""Is a folder what its tool wrote? Finds edited, missing and foreign files. Reads only.

With the evidence root, learned from elsewhere (the pull request's comment, the job's log), any
change is found. Without it a forger who rewrites everything is not: then the folder is at best
"consistent, not authenticated".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from iqaction.errors import EvidenceError
from iqaction.evidence import canon, journal, manifest, reading, record, report_json
from iqaction.evidence.founding import LOCK
from iqaction.evidence.manifest import Stored
from iqaction.evidence.reading import BASELINE
from iqaction.evidence.sealing import RECORDS
from iqaction.evidence.store import RENDERED
from iqaction.evidence.tree import Entry, Tree
from iqaction.observed import Observed
from iqaction.report import Report

_MOST = 200  # problems that are told; a wholly foreign folder has thousands

Rejudge = Callable[[Observed], Report]
Rerender = Callable[[Report], Mapping[str, bytes]]


@dataclass(frozen=True)
class Verified:
    """What was found.

    Attributes
    ----------
    ok
        True where there is no problem at all.
    problems
        One sentence each, naming the file.
    root
        The folder's evidence root, "" where it has no usable manifest.
    authenticated
        True where a root was given and the folder, all of it, is the one that has it.
    """

    ok: bool
    problems: tuple[str, ...]
    root: str
    authenticated: bool

    @property
    def claim(self) -> str:
        """What may be said of the folder."""
        if not self.ok:
            return "not what the tool wrote"
        return "authentic" if self.authenticated else "consistent, not authenticated"


def verify(
    path: Path,
    root: str = "",
    *,
    rejudge: Rejudge | None = None,
    rerender: Rerender | None = None,
) -> Verified:
    """Check files, records, links and schemas; judge and render again where told how.

    Parameters
    ----------
    root
        The evidence root as learned from elsewhere, "" for none.
    rejudge
        Judges the loaded evidence; the stored report must come out, the last bits of its numbers
        aside. The tool's version is taken from the stored report.
    rerender
        Makes the rendered files of a report, by name; the stored ones must come out.

    Raises
    ------
    EvidenceError
        There is no folder to look at. What is wrong inside one is a problem, not an error.
    """
    if not path.is_dir():
        raise EvidenceError(
            f"{path} is not there", expected="an evidence folder", next_step="check the path"
        )
    check = _Check(Tree(path))
    files = check.manifest(root)
    check.entries(files)
    check.records(files)
    observed = check.observed()
    report = check.report()
    if report is not None and observed is not None:
        check.plan(observed, report)
        if rejudge is not None:
            check.judgement(rejudge, observed, report)
    if report is not None and rerender is not None:
        check.rendered(rerender(dataclasses.replace(report, evidence_root=check.root)))
    problems = list(dict.fromkeys(check.problems))
    if len(problems) > _MOST:
        problems = [*problems[:_MOST], f"and {len(problems) - _MOST} more"]
    ok = not problems
    return Verified(ok, tuple(problems), check.root, ok and root == check.root and bool(root))


class _Check:
    """One verification in progress."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.problems: list[str] = []
        self.root = ""

    def manifest(self, root: str) -> Mapping[str, Stored]:
        """The manifest's files; none where it cannot be used."""
        if not self.tree.has(manifest.NAME):
            self.problems.append(f"{manifest.NAME}: missing; the folder was never sealed")
            return {}
        try:
            data = self.tree.read(manifest.NAME)
            files = manifest.from_bytes(data)
        except EvidenceError as exc:
            self.problems.append(exc.happened)
            return {}
        self.root = canon.identify(data)
        if root and root.lower() != self.root:
            self.problems.append(
                f"the evidence root is {self.root}, not {canon.shown(root)}: this is other "
                "evidence, or it was changed"
            )
        return files

    def entries(self, files: Mapping[str, Stored]) -> None:
        """Every file against the manifest, the baseline's against its own too."""
        found = {entry.name: entry for entry in self.tree.entries()}
        self._listed(files, found, "")
        for name, entry in found.items():
            shown = canon.shown(name, 200)
            if not entry.plain:
                self.problems.append(f"{shown}: a link or no plain file")
            elif name == journal.NAME:
                self.problems.append(
                    f"{shown}: the folder is not sealed, or its seal was interrupted: run the "
                    "same command again"
                )
            elif name not in files and name not in (manifest.NAME, LOCK, *RENDERED):
                self.problems.append(f"{shown}: not in the manifest")
        inner = f"{BASELINE}/{manifest.NAME}"
        if inner in found:
            try:
                listed = manifest.from_bytes(self.tree.read(inner), inner)
            except EvidenceError as exc:
                self.problems.append(exc.happened)
                return
            copied = {n: s for n, s in listed.items() if f"{BASELINE}/{n}" in files}
            self._listed(copied, found, f"{BASELINE}/")

    def _listed(self, files: Mapping[str, Stored], found: Mapping[str, Entry], prefix: str) -> None:
        for name, stored in files.items():
            full = prefix + name
            if full not in found:
                self.problems.append(f"{full}: missing")
            elif found[full].plain:
                try:
                    if Stored(*self.tree.digest(full)) != stored:
                        self.problems.append(f"{full}: sha256 differs from the manifest")
                except EvidenceError as exc:
                    self.problems.append(exc.happened)

    def records(self, files: Mapping[str, Stored]) -> None:
        """The statements and their links: one of the plan, one of the report, none loose."""
        records: dict[str, bytes] = {}
        for name in files:
            folder, _, ident = name.removesuffix(".json").partition("/")
            if folder == RECORDS:
                try:
                    records[ident] = self.tree.read(name)
                except EvidenceError as exc:
                    self.problems.append(exc.happened)
        digests = {name: stored.sha256 for name, stored in files.items()}
        self.problems += record.check(records, digests)
        for kind in (record.Kind.PLAN, record.Kind.REPORT):
            wanted = f'"predicateType":"{kind.predicate_type}"'.encode()
            if files and sum(wanted in data for data in records.values()) != 1:
                self.problems.append(f"{RECORDS}: not exactly one record of kind {kind.value}")

    def observed(self) -> Observed | None:
        try:
            loaded = reading.load(self.tree)
        except EvidenceError as exc:
            self.problems.append(exc.happened)
            return None
        observed = loaded.observed
        self.problems += observed.problems
        if observed.baseline is not None:
            self.problems += observed.baseline.problems
            if observed.baseline.root != observed.plan.baseline_root:
                self.problems.append(f"{BASELINE}: not the baseline that the plan names")
        return observed

    def report(self) -> Report | None:
        """The stored report, None where it is none."""
        try:
            data = self.tree.read(report_json.NAME)
            report = report_json.from_bytes(data)
        except EvidenceError as exc:
            self.problems.append(exc.happened)
            return None
        if canon.dump(canon.load(data, report_json.NAME)) != data:
            self.problems.append(f"{report_json.NAME}: not in canonical form")
        return report

    def plan(self, observed: Observed, report: Report) -> None:
        """The report must speak of this plan and this baseline."""
        if report.plan_sha256 != observed.plan.sha256:
            self.problems.append(f"{report_json.NAME}: speaks of another plan")
        if report.baseline_root != observed.plan.baseline_root:
            self.problems.append(f"{report_json.NAME}: speaks of another baseline")

    def judgement(self, rejudge: Rejudge, observed: Observed, stored: Report) -> None:
        try:
            again = rejudge(observed)
        except EvidenceError as exc:
            self.problems.append(exc.happened)
            return
        again = dataclasses.replace(again, tool_version=stored.tool_version, evidence_root="")
        named = report_json.differing(again, stored)
        if not named:
            return
        self.problems.append(
            f"{report_json.NAME}: judging the evidence again gives another report (verdict "
            f"{again.verdict.value}, stored {stored.verdict.value}; different: "
            f"{', '.join(named)}; written by version {canon.shown(stored.tool_version) or '?'})"
        )

    def rendered(self, again: Mapping[str, bytes]) -> None:
        """All rendered files or none; each as rendering gives it."""
        there = [name for name in RENDERED if self.tree.has(name)]
        if not there:
            return
        for name in sorted({*again, *there}):
            if name not in again:
                self.problems.append(f"{name}: rendering does not make it")
            elif name not in there:
                self.problems.append(f"{name}: missing, while other rendered files are there")
            else:
                self._as_rendered(name, again[name])

    def _as_rendered(self, name: str, again: bytes) -> None:
        try:
            if self.tree.read(name) != again:
                self.problems.append(f"{name}: not what rendering the report gives")
        except EvidenceError as exc:
            self.problems.append(exc.happened)
