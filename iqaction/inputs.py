"""The plan file: YAML text in, a frozen request out, and from it the plan. Reads no file.

A mistake is told once, before anything is sent: the file, the line, the key, what was found,
what was expected and the nearest valid name. Which stages there are, and which parameters and
margins they take, is asked of the registry; no stage is named here but `trajectory`, whose
``prompts`` and ``limit`` decide what every stage asks about.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from iqaction import stages, top_keys, values
from iqaction.document import Entry, Listing, Node, Scalar, Table, describe, parse, scalar
from iqaction.errors import ConfigError
from iqaction.observed import Observed
from iqaction.plan import DATA, MAX_AGE_DAYS, Margin, Plan, StageSpec, Value
from iqaction.prompts import PromptSet
from iqaction.spelling import nearest
from iqaction.stages._base import Stage
from iqaction.stages._levels import fewest_to_pass

DEFAULT_LIMIT = 96  # prompts of the first look
MAX_SEED = 2**31 - 1  # engines read the seed as a signed 32-bit number
MAX_MARGIN = 1000.0
MAX_CONCURRENCY = 1024
_TOP = ("stages", *top_keys.NAMES, "max_age", "strict")
_COMMON = ("required", "seed", "margins")
_EXAMPLE = "stages:\n  - trajectory: {}\n  - score: {}"


class Registry(Protocol):
    """Where stages come from: the package ``stages``, or a double."""

    def names(self) -> list[str]: ...

    def load(self, name: str) -> Stage: ...


@dataclass(frozen=True)
class Request:
    """A plan file, checked as far as that is possible without prompts and baseline.

    Attributes
    ----------
    stages
        In the order of the file, every parameter and margin filled in.
    prompts
        "default", "demo" or a path.
    limit
        Prompts of the first look; None: 96.
    baseline
        "" (none: the run is a capture), "auto", a folder, a packed capture (.tar.gz), or a URL.
    baseline_sha256
        What the baseline must be: its evidence root, or the packed file's own sha256. "": any.
    anchor
        A file of `iqaction baseline pin`, beside the plan: the baseline must be the pinned one.
    dialect
        "auto", or one of the engine dialects.
    places
        Where each stage stands ("plan.yml:3"), for errors that only the plan shows.
    """

    stages: tuple[StageSpec, ...]
    prompts: str = "default"
    limit: int | None = None
    endpoint: str = ""
    model: str = ""
    dialect: str = "auto"
    baseline: str = ""
    suite: str = "default"
    api_key_env: str = ""
    baseline_sha256: str = ""
    baseline_model: str = ""
    anchor: str = ""
    model_identity: str = ""
    max_age_days: int = MAX_AGE_DAYS
    strict: bool = False
    places: tuple[str, ...] = field(default=(), compare=False)


def read_request(text: str, name: str, registry: Registry = stages) -> Request:
    """Read a plan file's text; ``name`` is what errors call the file.

    Raises
    ------
    ConfigError
        For the first mistake, with its line.
    """
    root = parse(text, name)
    if not isinstance(root, Table):
        raise ConfigError(
            f"{name}:{root.line if root else 1}: found {describe(root)}",
            expected="a table with the key `stages`, as\n" + _EXAMPLE,
        )
    for entry in root.entries:
        if entry.key not in _TOP:
            raise _unknown(f"{name}:{entry.line}", entry.key, _TOP)
    specs, places = _stages(root, name, registry)
    asked = next((s for s in specs if s.stage == "trajectory"), StageSpec("trajectory"))
    limit = asked.params.get("limit")
    prompts = asked.params.get("prompts")
    request = Request(
        specs,
        prompts if isinstance(prompts, str) else "default",
        limit if isinstance(limit, int) else None,
        places=places,
    )
    for entry in root.entries:
        place = f"{name}:{entry.line}: {entry.key}"
        if entry.key == "strict":
            request = dataclasses.replace(request, strict=values.flag(entry.value, place))
        elif entry.key == "max_age":
            request = dataclasses.replace(request, max_age_days=values.days(entry.value, place))
        elif entry.key != "stages":
            request = _with(request, entry.key, values.text(entry.value, place), place)
    return request


def with_flags(
    request: Request, flags: Sequence[tuple[str, str]], concurrency: int | None = None
) -> Request:
    """The request with what the command line says put over it.

    ``flags`` are (key, value) pairs of the plan's top-level keys ("endpoint", "model", ...); an
    empty value changes nothing. ``concurrency`` replaces that parameter of every stage that has
    it: the plan, and so its hash, says what was asked.

    Raises
    ------
    ConfigError
        Naming the flag, as ``--endpoint``.
    """
    for key, value in flags:
        if value:
            place = "--" + key.replace("_", "-")
            text = values.text(Scalar(value, plain=False, line=0), place)
            request = _with(request, key, text, place)
    if concurrency is None:
        return request
    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise ConfigError(
            f"--concurrency: found the number {concurrency}",
            expected=f"a whole number from 1 to {MAX_CONCURRENCY}",
        )
    changed = tuple(
        dataclasses.replace(s, params={**s.params, "concurrency": concurrency})
        if "concurrency" in s.params
        else s
        for s in request.stages
    )
    return dataclasses.replace(request, stages=changed)


def with_reference(request: Request, url: str, model: str = "") -> Request:
    """The request with the live reference of `score`; "" changes nothing.

    Raises
    ------
    ConfigError
        There is no `score` stage, or it is no URL.
    """
    if not url:
        return request
    checked = values.url(url, "reference_endpoint")
    if not any(s.stage == "score" for s in request.stages):
        raise ConfigError(
            "reference_endpoint: the plan has no stage `score`", expected="- score in the stages"
        )
    named = {"reference": checked, **({"reference_model": model} if model else {})}
    changed = tuple(
        dataclasses.replace(s, params={**s.params, **named}) if s.stage == "score" else s
        for s in request.stages
    )
    return dataclasses.replace(request, stages=changed)


PROMPT_SETS = ("default", "demo")  # prompts that ship with the package, by names that are no files
PUBLIC_DATA = "default"  # likewise a stage's own data that is fetched from where it is published


def files(request: Request, registry: Registry = stages) -> tuple[tuple[str, str], ...]:
    """The files that a plan names, each with the key that names it ("gsm8k.data"): what is asked
    is in them, so whoever may change them may change the question. Relative to the plan's folder.
    """
    own = [(f"{s.stage}.data", registry.load(s.stage).data(s)) for s in request.stages]
    found = [(key, name) for key, name in own if name and name != PUBLIC_DATA]
    if request.prompts not in PROMPT_SETS:
        found.insert(0, ("trajectory.prompts", request.prompts))
    if request.anchor:
        found.append(("anchor", request.anchor))
    return tuple(found)


def with_data(request: Request, sha256: Mapping[str, str]) -> Request:
    """The request with the sha256 of the stages' own data files, by stage: so the plan's hash
    says which questions were asked."""
    changed = tuple(
        dataclasses.replace(s, params={**s.params, DATA: sha256[s.stage]})
        if s.stage in sha256
        else s
        for s in request.stages
    )
    return dataclasses.replace(request, stages=changed)


def freeze(
    request: Request,
    prompts: PromptSet,
    baseline: Observed | None = None,
    registry: Registry = stages,
    *,
    extend: bool = True,
) -> Plan:
    """The plan: prompts in the file's order, the first ``limit`` of them judged first.

    Where the file holds more prompts than that, up to as many again are kept for the one
    extension; the others are not in the plan. Without a baseline the plan is a capture. Without
    ``extend`` there is one look: legs that run apart cannot agree to go on.

    Raises
    ------
    ConfigError
        A stage that is impossible in this plan; a baseline that is none.
    """
    if baseline is not None and not baseline.root:
        raise ConfigError(
            "the baseline's evidence is not sealed: its capture did not end",
            expected="a folder whose `iqaction run` came to its end",
            next_step="run the capture again with the same --evidence; it continues",
        )
    if baseline is not None and not baseline.plan.is_capture:
        raise ConfigError(
            "the baseline is itself a judged run, with a baseline of its own",
            expected="a capture: a run without --baseline",
        )
    available = len(prompts.prompts)
    first = min(request.limit or DEFAULT_LIMIT, available)
    last = min(2 * first, available)
    if 2 * last < 3 * first or not extend:
        # Two looks share the error rate, and a few more prompts do not pay for that.
        last = first
    plan = Plan(
        stages=request.stages,
        prompts_sha256=prompts.sha256,
        prompt_ids=tuple(p.id for p in prompts.prompts[:last]),
        looks=(first, last) if last > first else (first,),
        baseline_root="" if baseline is None else baseline.root,
        suite=request.suite,
        model_identity=request.model_identity,
        max_age_days=request.max_age_days,
        strict=request.strict,
    )
    places = request.places or ("the plan",) * len(plan.stages)
    for spec, place in zip(plan.stages, places, strict=True):
        impossible = registry.load(spec.stage).check(spec, plan)
        if impossible:
            raise ConfigError(f"{place}: {spec.stage}: {impossible}")
    return plan


def warnings(plan: Plan, registry: Registry = stages) -> tuple[str, ...]:
    """What to say before the first request: today, only that a PASS is out of reach."""
    loaded = [(s, registry.load(s.stage)) for s in plan.stages]
    found = [f"{s.stage} {said}" for s, x in loaded if (said := x.out_of_reach(s, plan))]
    if any(x.about_prompts for _, x in loaded):
        found += _too_few_prompts(plan)
    return tuple(found)


def _too_few_prompts(plan: Plan) -> tuple[str, ...]:
    least = max([fewest_to_pass(plan)] + [m.min_units for s in plan.stages for m in s.margins])
    first, last = plan.looks[0], plan.looks[-1]
    if last < least:
        what = "cannot support a PASS" if plan.is_capture else "cannot PASS"
        return (f"{what}: fewer than {least} prompts ({last} in the plan)",)
    if first < least:
        return (
            f"the first {first} prompts cannot PASS: fewer than {least}; "
            f"the run will be extended to {last} where it can still PASS",
        )
    return ()


def _with(request: Request, key: str, value: str, place: str) -> Request:
    """The request with one checked top-level key: its field has the key's name."""
    return dataclasses.replace(request, **{key: top_keys.checked(key, value, place)})  # type: ignore[arg-type]


def _stages(
    root: Table, name: str, registry: Registry
) -> tuple[tuple[StageSpec, ...], tuple[str, ...]]:
    entry = root.get("stages")
    if entry is None:
        raise ConfigError(f"{name}:{root.line}: no key `stages`", expected=_EXAMPLE)
    place = f"{name}:{entry.line}: stages"
    if not isinstance(entry.value, Listing):
        raise values.wrong(place, entry.value, "a list of stages, as\n" + _EXAMPLE)
    if not entry.value.items:
        raise ConfigError(f"{place}: the list is empty", expected="at least one stage")
    specs: list[StageSpec] = []
    lines: dict[str, int] = {}
    for item in entry.value.items:
        stage, line, body = _item(item, name)
        if stage in lines:
            raise ConfigError(
                f"{name}:{line}: {stage}: the stage is there twice (first on line {lines[stage]})",
                expected="each stage once",
            )
        lines[stage] = line
        specs.append(_stage(stage, f"{name}:{line}", body, name, registry))
    return tuple(specs), tuple(f"{name}:{line}" for line in lines.values())


def _item(item: Node, name: str) -> tuple[str, int, Table]:
    """A stage's name, its line and its settings, of ``- name`` or ``- name: {...}``."""
    if isinstance(item, Scalar) and isinstance(scalar(item), str):
        return item.text, item.line, Table((), item.line)
    if isinstance(item, Table) and len(item.entries) == 1:
        (entry,) = item.entries
        if isinstance(entry.value, Table):
            return entry.key, entry.line, entry.value
        if isinstance(entry.value, Scalar) and scalar(entry.value) is None:
            return entry.key, entry.line, Table((), entry.line)
        raise values.wrong(
            f"{name}:{entry.line}: {entry.key[:60]}", entry.value, "the stage's parameters"
        )
    if isinstance(item, Table) and item.entries:
        # The commonest slip: parameters that are not indented below the stage's name.
        second = item.entries[1]
        raise ConfigError(
            f"{name}:{second.line}: stages: {second.key[:60]!r} stands beside "
            f"{item.entries[0].key[:60]!r}, not below it",
            expected="one stage an item, its parameters indented below its name",
        )
    raise values.wrong(f"{name}:{item.line}: stages", item, "a stage's name, as `- score`")


def _stage(name: str, at: str, body: Table, file: str, registry: Registry) -> StageSpec:
    if name not in registry.names():
        raise _unknown(at, name, registry.names(), "stage")
    stage = registry.load(name)
    by_name = {p.name: p for p in stage.params}
    params: dict[str, Value] = {p.name: p.default for p in stage.params}
    margins = {m: limit for m, limit in stage.margins.items() if limit is not None}
    required, seed = True, 0
    for entry in body.entries:
        place = f"{file}:{entry.line}: {name}.{entry.key}"
        if entry.key == "required":
            required = values.flag(entry.value, place)
        elif entry.key == "seed":
            seed = values.integer(entry.value, place, 0, MAX_SEED)
        elif entry.key == "margins":
            margins |= _margins(entry, name, file, stage)
        elif entry.key in by_name:
            params[entry.key] = values.read(by_name[entry.key], entry.value, place)
        else:
            raise _unknown(
                f"{file}:{entry.line}: {name}", entry.key, sorted([*by_name, *_COMMON]), "parameter"
            )
    judged = tuple(Margin(m, margins[m]) for m in stage.margins if m in margins)
    return StageSpec(name, params, judged, required, seed)


def _margins(entry: Entry, name: str, file: str, stage: Stage) -> dict[str, float]:
    place = f"{file}:{entry.line}: {name}.margins"
    if not isinstance(entry.value, Table):
        raise values.wrong(place, entry.value, "a table, as {kl: 0.02}")
    found = {}
    for margin in entry.value.entries:
        place = f"{file}:{margin.line}: {name}.margins"
        if margin.key not in stage.margins:
            if not stage.margins:
                raise ConfigError(
                    f"{place}: found {margin.key[:60]!r}", expected="nothing: it takes no margins"
                )
            raise _unknown(place, margin.key, list(stage.margins), "margin")
        expected = f"a number above 0 and at most {MAX_MARGIN:g}, as 0.005 for half a percent"
        limit = values.number(margin.value, f"{place}.{margin.key}", expected)
        if not 0 < limit <= MAX_MARGIN:
            raise values.wrong(f"{place}.{margin.key}", margin.value, expected)
        found[margin.key] = limit
    return found


def _unknown(place: str, word: str, names: Sequence[str], what: str = "key") -> ConfigError:
    return ConfigError(
        f"{place}: unknown {what} {word[:60]!r}{nearest(word, names)}",
        expected=", ".join(names),
    )
