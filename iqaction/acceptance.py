"""A way through for changes that are wanted: a maintainer's word, and what it settles. Pure.

A file that the pull request cannot change (``.inferquality/accept.yml`` where it starts from)
names single checks::

    accept:
      - suite: default
        check: score:reference.kl    # or  field: plan | prompts | baseline | acceptances
        plan: 3f2a9c0d1e2b           # the plan's settings hash, 12 digits of it or more
        expires: 2027-01-31
        reason: we move to 8-bit weights on purpose
        author: jane

An accepted check keeps its verdict, and the job is not held to it: that is the gate. Nothing else
is settled with it. Knows no clock (the day of the run is given) and no file.
"""

from __future__ import annotations

import calendar
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from iqaction import days, values
from iqaction.counts import counted
from iqaction.document import Entry, Listing, Node, Scalar, Table, describe, parse, scalar
from iqaction.errors import ConfigError
from iqaction.report import Acceptance, Check, Difference, Report, StageResult
from iqaction.spelling import nearest
from iqaction.verdict import Verdict, cap, combine

MAX_ENTRIES = 200
MAX_REASON = 500
MAX_AUTHOR = 100
OFFERED_DAYS = 30  # how long an offered acceptance would hold
FIELDS = ("plan", "prompts", "baseline", "acceptances")
_KEYS = ("suite", "check", "field", "plan", "expires", "reason", "author")
_OPEN = (Verdict.FAIL, Verdict.UNPROVEN)
_TOLD = 10  # acceptances that do not apply, told one by one
_SUITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_CHECK = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}:[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_PLAN = re.compile(r"[0-9a-f]{12,64}\Z")


# --- the file -------------------------------------------------------------------------------


def read(text: str, name: str) -> tuple[Acceptance, ...]:
    """The acceptances of a file's text; ``name`` is what errors call it. An empty file has none.

    Raises
    ------
    ConfigError
        For the first mistake, with its line.
    """
    root = parse(text, name)
    if _is_nothing(root):
        return ()
    if not isinstance(root, Table):
        raise values.wrong(f"{name}:{root.line if root else 1}", root or Table((), 1), _SHAPE)
    for entry in root.entries:
        if entry.key != "accept":
            raise _unknown(f"{name}:{entry.line}", entry.key, ("accept",))
    accept = root.get("accept")
    if accept is None or _is_nothing(accept.value):
        return ()
    if not isinstance(accept.value, Listing):
        raise values.wrong(f"{name}:{accept.line}: accept", accept.value, _SHAPE)
    if len(accept.value.items) > MAX_ENTRIES:
        raise ConfigError(
            f"{name}:{accept.line}: accept: {len(accept.value.items)} entries",
            expected=f"at most {MAX_ENTRIES}; take out those that have expired",
        )
    return tuple(_acceptance(item, name) for item in accept.value.items)


_SHAPE = "a list below the key `accept`, each entry with " + ", ".join(_KEYS)


def _is_nothing(node: Node | None) -> bool:
    return node is None or (isinstance(node, Scalar) and scalar(node) is None)


def _acceptance(item: Node, name: str) -> Acceptance:
    place = f"{name}:{item.line}: accept"
    if not isinstance(item, Table):
        raise values.wrong(place, item, "an entry with " + ", ".join(_KEYS))
    for entry in item.entries:
        if entry.key not in _KEYS:
            raise _unknown(f"{name}:{entry.line}: accept", entry.key, _KEYS)
    check, field = item.get("check"), item.get("field")
    if (check is None) == (field is None):
        raise ConfigError(
            f"{place}: {'neither check nor field' if check is None else 'both check and field'}",
            expected="one of them: `check: score:reference.kl`, or `field: plan`",
        )
    return Acceptance(
        suite=_matching(item, "suite", name, _SUITE, "a suite's name"),
        check=_matching(item, "check", name, _CHECK, _CHECK_SHOWN) if check else "",
        field=_field(field, name) if field else "",
        plan=_plan(item, name),
        expires=_expires(item, name),
        reason=_text(item, "reason", name, MAX_REASON, "why the change is wanted"),
        author=_text(item, "author", name, MAX_AUTHOR, "who accepts it"),
    )


_CHECK_SHOWN = "stage:metric as the report prints it, as score:reference.kl"


def _needed(item: Table, key: str, name: str, expected: str) -> tuple[Entry, str]:
    entry = item.get(key)
    if entry is None:
        raise ConfigError(f"{name}:{item.line}: accept: no {key}", expected=expected)
    return entry, f"{name}:{entry.line}: accept.{key}"


def _text(item: Table, key: str, name: str, most: int, expected: str) -> str:
    entry, place = _needed(item, key, name, expected)
    found = values.text(entry.value, place, expected)
    if len(found) > most:
        raise values.wrong(place, entry.value, f"{expected}, in at most {most} characters")
    return found


def _matching(item: Table, key: str, name: str, form: re.Pattern[str], expected: str) -> str:
    entry, place = _needed(item, key, name, expected)
    found = values.text(entry.value, place, expected)
    if not form.match(found):
        raise values.wrong(place, entry.value, expected)
    return found


def _field(entry: Entry, name: str) -> str:
    place, expected = f"{name}:{entry.line}: accept.field", "one of " + ", ".join(FIELDS)
    word = values.text(entry.value, place, expected)
    if word not in FIELDS:
        raise ConfigError(
            f"{place}: found {describe(entry.value)}{nearest(word, FIELDS)}", expected=expected
        )
    return word


def _plan(item: Table, name: str) -> str:
    expected = "12 to 64 hexadecimal digits of the plan's settings hash, as the report prints it"
    entry, place = _needed(item, "plan", name, expected)
    # As written: twelve digits without a letter among them are a number to YAML.
    found = entry.value.text.lower() if isinstance(entry.value, Scalar) else ""
    if not _PLAN.match(found):
        raise values.wrong(place, entry.value, expected)
    return found


def _expires(item: Table, name: str) -> str:
    expected = "the last day it holds, as 2027-01-31"
    entry, place = _needed(item, "expires", name, expected)
    if not isinstance(entry.value, Scalar) or days.parse(entry.value.text) is None:
        raise values.wrong(place, entry.value, expected)
    return entry.value.text


def _unknown(place: str, word: str, names: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"{place}: unknown key {word[:60]!r}{nearest(word, names)}", expected=", ".join(names)
    )


# --- what it settles ------------------------------------------------------------------------


def apply(
    report: Report, acceptances: Iterable[Acceptance], on_day: str, settings_sha256: str
) -> Report:
    """The report with what is accepted said, and with its gate.

    Parameters
    ----------
    on_day
        The day of the run, as "2026-11-30". Where it is no day, nothing is accepted.
    settings_sha256
        Of the plan that was judged. An acceptance of another plan says nothing about this one.
    """
    named = [a for a in acceptances if a.suite == report.suite]
    inert = {id(a): _why_not(a, on_day, settings_sha256) for a in named}
    valid = [a for a in named if not inert[id(a)]]
    # A capture compares nothing, and what was not compared cannot be fine.
    of_checks = {a.check: a for a in reversed(valid) if a.check and report.baseline_root}
    of_fields = {a.field: a for a in reversed(valid) if a.field}
    told = [f"the acceptance of {_of(a)} {inert[id(a)]}" for a in named if inert[id(a)]]
    told += [f"the acceptance of {_of(a)} {said}" for a in valid if (said := _idle(report, a))]
    if len(told) > _TOLD:
        more = counted(len(told) - _TOLD, "more acceptance does", "more acceptances do")
        told = [*told[:_TOLD], f"{more} not apply"]
    known = replace(
        report,
        stages=tuple(_stage(s, of_checks) for s in report.stages),
        differences=tuple(
            replace(d, accepted=_said(of_fields[d.field]) if d.field in of_fields else "")
            for d in report.differences
        ),
        caveats=tuple(dict.fromkeys((*report.caveats, *told))),
    )
    return replace(known, gate=_gate(known))


def _why_not(a: Acceptance, on_day: str, settings_sha256: str) -> str:
    """Why this one does not hold for this run; "" where it does."""
    if bool(a.check) == bool(a.field) or not _PLAN.match(a.plan) or days.parse(a.expires) is None:
        return "is malformed"  # not from our reader: a file that was altered
    if days.parse(on_day) is None:
        return "is not applied: the day of this run is not known"
    if a.expires < on_day:
        return f"expired on {a.expires}"
    if not settings_sha256.startswith(a.plan):
        shown = settings_sha256[:12] or "not known"
        return f"is for the plan `{a.plan[:12]}`; this run's is `{shown}`"
    return ""


def _idle(report: Report, a: Acceptance) -> str:
    """Why one that holds settles nothing here; "" where it does, or where all is well anyway."""
    if a.field:
        return ""
    if not report.baseline_root:
        return "settles nothing: nothing was compared"
    checks = [(s, c) for s in report.stages for c in s.checks if _name(s, c) == a.check]
    if not any(c.judged for _, c in checks):
        return "names no check of this run"
    if any(s.verdict is Verdict.NOT_RUN or c.verdict is Verdict.NOT_RUN for s, c in checks):
        return "settles nothing: it did not run"
    return ""


def _name(stage: StageResult, check: Check) -> str:
    return f"{stage.stage}:{check.metric}"


def _of(a: Acceptance) -> str:
    what = a.check or a.field or "nothing"
    return f"`{what.replace('`', '')[:200]}` by {a.author[:MAX_AUTHOR]}"


def _said(a: Acceptance) -> str:
    return f"accepted by {a.author} until {a.expires}: {a.reason}"


def _stage(stage: StageResult, accepted: dict[str, Acceptance]) -> StageResult:
    return replace(stage, checks=tuple(_check(stage, c, accepted) for c in stage.checks))


def _check(stage: StageResult, check: Check, accepted: dict[str, Acceptance]) -> Check:
    by = accepted.get(_name(stage, check))
    able = check.judged and check.verdict in _OPEN and stage.verdict is not Verdict.NOT_RUN
    return replace(check, accepted=_said(by) if by is not None and able else "")


# --- the gate -------------------------------------------------------------------------------


def _gate(report: Report) -> Verdict:
    """The verdict with accepted checks counted as PASS, and nothing else changed.

    Where the report's verdict does not follow from its stages, something decided that is not
    known here, and a maintainer's word about a check does not settle it.
    """
    required = [s for s in report.stages if s.required]
    differs = any(not d.accepted for d in report.differences)
    bare = _capped(combine(s.verdict for s in required), bool(report.problems))
    if report.verdict not in (bare, _capped(bare, bool(report.differences))):
        return cap(report.verdict, Verdict.UNPROVEN)
    held = combine(_held(s) for s in required)
    return _capped(held, bool(report.problems) or differs)


def _capped(verdict: Verdict, capped: bool) -> Verdict:
    return cap(verdict, Verdict.UNPROVEN) if capped else verdict


def _held(stage: StageResult) -> Verdict:
    """What the job is held to for one stage."""
    judged = [c for c in stage.checks if c.judged]
    if stage.verdict is Verdict.NOT_RUN:
        return stage.verdict
    if stage.verdict is not combine(c.verdict for c in judged):
        return cap(stage.verdict, Verdict.UNPROVEN)  # coverage or evidence decided, not a check
    held = combine(Verdict.PASS if c.accepted else c.verdict for c in judged)
    # As long as nothing is known of a prompt, nothing PASSes; a FAIL that is accepted may have
    # been all that said so.
    unknown = bool(stage.coverage.missing) or not stage.coverage.observed
    return _capped(held, unknown and any(c.accepted for c in judged))


# --- what could be accepted -----------------------------------------------------------------


def offer(report: Report) -> str:
    """The YAML that would accept what is open here; "" where accepting would not make it PASS.

    Reason and author are left empty, so that nothing is accepted by pasting alone.
    """
    if not _PLAN.match(report.settings_sha256) or not _SUITE.match(report.suite):
        return ""
    day, plan = "2000-01-01", report.settings_sha256[:12]
    found = [*_open_checks(report), *_open_fields(report.differences)]
    would = [
        Acceptance(
            report.suite,
            name if key == "check" else "",
            name if key == "field" else "",
            *(plan, day, "as offered", "nobody"),
        )
        for key, name, _ in found
    ]
    if apply(report, would, day, plan).gate is not Verdict.PASS:
        return ""
    wanted = [(key, name) for key, name, accepted in found if not accepted]
    if not wanted:
        return ""
    lines = ["accept:"]
    for key, name in wanted:
        lines += [
            f"  - suite: {json.dumps(report.suite)}",
            f"    {key}: {json.dumps(name)}",
            f"    plan: {json.dumps(plan)}",
            f"    expires: {_later(report.run.started_at[:10]) or '# the last day, as 2027-01-31'}",
            "    reason: # why the change is wanted",
            "    author: # who accepts it",
        ]
    return "\n".join(lines) + "\n"


def _open_checks(report: Report) -> list[tuple[str, str, bool]]:
    """Those of required stages that are open, and whether each is accepted already."""
    found = {
        _name(s, c): bool(c.accepted)
        for s in report.stages
        for c in s.checks
        if s.required and c.judged and c.verdict in _OPEN
    }
    return [("check", name, done) for name, done in found.items() if _CHECK.match(name)]


def _open_fields(differences: Iterable[Difference]) -> list[tuple[str, str, bool]]:
    done = {d.field: bool(d.accepted) for d in differences}
    return [("field", f, done[f]) for f in FIELDS if f in done]


# --- days -----------------------------------------------------------------------------------


def _later(text: str) -> str:
    """The day ``OFFERED_DAYS`` after this one; "" for what is no day."""
    start = days.parse(text)
    if start is None:
        return ""
    year, month, day = start
    day += OFFERED_DAYS
    while day > (length := calendar.monthrange(year, month)[1]):
        day -= length
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
    return f"{year:04}-{month:02}-{day:02}"
