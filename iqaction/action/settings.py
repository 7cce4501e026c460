"""The action's inputs, read once: texts in, a frozen object out. Pure.

Knows each input's form and nothing of what is done with it. ``action.yml`` gives the defaults;
a test holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from iqaction import shards
from iqaction.action import globs
from iqaction.errors import ConfigError
from iqaction.spelling import nearest

RUN, REPORT, PUBLISH, CAPTURE = MODES = ("run", "report", "publish", "capture")
_ASKING = (RUN, CAPTURE)
NONE, COMMAND, COMPOSE = BOOTS = ("none", "command", "compose")
FAIL, WARN = ("fail", "warn")
AUTO = "auto"
# As the stages' own, which are not imported for it: numpy, which most steps do not need.
FEWEST_LAUNCHES, ENOUGH_LAUNCHES, MOST_LAUNCHES = 3, 5, 50
MAX_TIMEOUT_S = 24 * 3600.0
_SUITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_SHA256 = re.compile(r"(?:sha256:)?[0-9a-fA-F]{64}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_TIME = re.compile(r"([0-9]{1,6})(s|m|h)?\Z")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
T = TypeVar("T")
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class Settings:
    """Every input but the token, which no step but two may hold, and ``python``, which is used
    up before this is read.

    Attributes
    ----------
    stages, plan
        The plan's ``stages`` as YAML, or a plan file's path; both empty: the built-in plan.
    baseline
        A path; "auto" where it is looked for, unless the plan names one.
    baseline_sha256
        Which one a named baseline must be; "" for any.
    launches
        How often `mode: capture` starts the reference anew.
    suite
        "" for the plan's own.
    compose_env
        For the compose file's variables; may hold keys.
    shard, shards
        0 of 0: the whole.
    legs
        The artifacts that ``mode: report`` expects.
    """

    mode: str = RUN
    stages: str = ""
    plan: str = ""
    endpoint: str = ""
    model: str = AUTO
    dialect: str = AUTO
    baseline: str = AUTO
    baseline_sha256: str = ""
    launches: int = ENOUGH_LAUNCHES
    reference_endpoint: str = ""
    reference_model: str = ""
    boot: str = NONE
    boot_command: str = field(default="", repr=False)
    stop_command: str = field(default="", repr=False)
    compose_file: str = ""
    compose_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    ready_timeout_s: float = 1200.0
    paths: tuple[str, ...] = ()
    suite: str = ""
    warn_unproven: bool = False
    allow_forks: bool = False
    api_key_env: str = ""
    comment: bool = True
    check_run: bool = True
    artifact: bool = True
    shard: int = 0
    shards: int = 0
    legs: tuple[str, ...] = ()
    artifacts_path: str = ""

    @property
    def is_leg(self) -> bool:
        """True for one part of a suite: another job judges the whole."""
        return bool(self.shards)

    @property
    def named_baseline(self) -> str:
        """The baseline's path; "" where it is looked for."""
        return "" if self.baseline == AUTO else self.baseline


def read(inputs: Mapping[str, str]) -> Settings:
    """The settings of the inputs' texts.

    Raises
    ------
    ConfigError
        For the first mistake, naming the input.
    """
    get = _Texts(inputs)
    shard, parts = shards.read(get("shard"), "shard")
    found = Settings(
        mode=get.choice("mode", MODES),
        stages=inputs.get("stages", "").strip("\n"),
        plan=get("plan"),
        endpoint=get("endpoint"),
        model=get("model") or AUTO,
        dialect=_dialect(get),
        baseline=_baseline(get("baseline")),
        baseline_sha256=_matching(
            get("baseline_sha256"), "baseline_sha256", _SHA256, "64 hexadecimal digits"
        ),
        launches=_launches(get("launches")),
        reference_endpoint=get("reference_endpoint"),
        reference_model=get("reference_model"),
        boot=get.choice("boot", BOOTS),
        boot_command=get("boot_command"),
        stop_command=get("stop_command"),
        compose_file=get("compose_file"),
        compose_env=_variables(inputs.get("compose_env", "")),
        ready_timeout_s=_duration(get("ready_timeout") or "20m"),
        paths=globs.parse(inputs.get("paths", "")),
        suite=_matching(get("suite"), "suite", _SUITE, "a name, as qwen27b-dual"),
        warn_unproven=get.choice("on_unproven", (FAIL, WARN)) == WARN,
        allow_forks=get.flag("allow_forks", default=False),
        api_key_env=_matching(
            get("api_key_env"), "api_key_env", _VARIABLE, "a variable's name, as MY_KEY; not a key"
        ),
        comment=get.flag("comment", default=True),
        check_run=get.flag("check_run", default=True),
        artifact=get.flag("artifact", default=True),
        shard=shard,
        shards=parts,
        legs=tuple(dict.fromkeys(inputs.get("legs", "").replace(",", " ").split())),
        artifacts_path=get("artifacts_path"),
    )
    _together(found)
    return found


def known(inputs: Mapping[str, str]) -> Settings:
    """What inputs with a mistake in them still tell: whose result it is, and what is posted of it.

    A mistake elsewhere must not make a comment for who wants none, nor leave an earlier verdict
    standing on the suite's own.
    """
    get = _Texts(inputs)

    def told(read: Callable[[], T], absent: T) -> T:
        try:
            return read()
        except ConfigError:
            return absent

    shard, parts = told(lambda: shards.read(get("shard"), "shard"), (0, 0))
    return Settings(
        mode=told(lambda: get.choice("mode", MODES), RUN),
        stages=inputs.get("stages", "").strip("\n"),
        plan=told(lambda: get("plan"), ""),
        suite=told(lambda: _matching(get("suite"), "suite", _SUITE, "a name"), ""),
        comment=told(lambda: get.flag("comment", default=True), True),
        check_run=told(lambda: get.flag("check_run", default=True), True),
        artifact=told(lambda: get.flag("artifact", default=True), True),
        shard=shard,
        shards=parts,
    )


def _baseline(text: str) -> str:
    if "://" in text:
        from iqaction import values  # noqa: PLC0415 - NumPy is not for every step

        return values.url(text, "baseline")
    return AUTO if text.lower() in ("", AUTO) else text


def _launches(text: str) -> int:
    if not text:
        return ENOUGH_LAUNCHES
    number = int(text) if re.fullmatch(r"[0-9]{1,3}", text) else 0
    if not FEWEST_LAUNCHES <= number <= MOST_LAUNCHES:
        raise ConfigError(
            f"launches: found {text[:60]!r}",
            expected=f"a whole number from {FEWEST_LAUNCHES} to {MOST_LAUNCHES}",
        )
    return number


def _dialect(get: _Texts) -> str:
    if get("dialect").lower() in ("", AUTO):
        return AUTO
    from iqaction import engines  # noqa: PLC0415 - numpy, which most steps do not need

    return get.choice("dialect", (AUTO, *engines.names()))


class _Texts:
    """Inputs by name, blanks around them gone, errors naming them."""

    def __init__(self, inputs: Mapping[str, str]) -> None:
        self._inputs = inputs

    def __call__(self, name: str) -> str:
        text = self._inputs.get(name, "").strip()
        if "\0" in text:
            raise ConfigError(f"{name}: holds a NUL character", expected="a text")
        return text

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        word = self(name).lower() or choices[0]
        if word not in choices:
            raise ConfigError(
                f"{name}: found {word[:60]!r}{nearest(word, choices)}",
                expected="one of " + ", ".join(choices),
            )
        return word

    def flag(self, name: str, *, default: bool) -> bool:
        word = self(name).lower()
        if word and word not in (*_YES, *_NO):
            raise ConfigError(f"{name}: found {word[:60]!r}", expected="true or false")
        return default if not word else word in _YES


def _matching(text: str, name: str, form: re.Pattern[str], expected: str) -> str:
    if text and not form.match(text):
        # An API key in the wrong input must not reach the log.
        other = "no sha256" if form is _SHA256 else "no variable's name"
        shown = f": found {text[:60]!r}" if form is _SUITE else f": {other}"
        raise ConfigError(f"{name}{shown}", expected=expected)
    return text


def _duration(text: str) -> float:
    found = _TIME.match(text.lower())
    seconds = float(found[1]) * _SECONDS[found[2] or ""] if found else 0.0
    if not 1 <= seconds <= MAX_TIMEOUT_S:
        raise ConfigError(
            f"ready_timeout: found {text[:60]!r}", expected="a time up to 24h, as 90s, 20m or 2h"
        )
    return seconds


def _variables(text: str) -> dict[str, str]:
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, is_set, value = line.strip().partition("=")
        if not is_set or not _VARIABLE.match(name):
            raise ConfigError(
                f"compose_env: line {number} is no variable",  # the line may hold a key
                expected="one NAME=value a line",
            )
        found[name] = value
    return found


def _together(s: Settings) -> None:
    """What is impossible in one workflow, although each input is right."""
    faults: tuple[tuple[bool, str, str], ...] = (
        (bool(s.stages and s.plan), "both `stages` and `plan` are given", "one of them"),
        (
            s.mode in _ASKING and s.boot == NONE and not s.endpoint,
            "no endpoint: there is nobody to ask",
            "`endpoint: URL`, or `boot: command` or `boot: compose` to start one",
        ),
        (
            s.mode in _ASKING and s.boot == COMMAND and not (s.boot_command and s.endpoint),
            "boot: command needs `boot_command` and `endpoint`",
            "the command that starts the server, and the URL where it will answer",
        ),
        (
            s.mode in _ASKING and s.boot == COMPOSE and not s.compose_file,
            "boot: compose needs `compose_file`",
            "the compose file's path in the repository",
        ),
        (
            s.boot != COMMAND and bool(s.boot_command),
            "`boot_command` is given and boot is not `command`",
            "boot: command",
        ),
        (
            s.boot != COMPOSE and bool(s.compose_file),
            "`compose_file` is given and boot is not `compose`",
            "boot: compose",
        ),
        (
            s.mode != RUN and bool(s.shards),
            "`shard` belongs to the jobs that measure",
            "mode: run with `shard`, and one job with mode: report",
        ),
        (
            s.mode not in _ASKING and not s.artifacts_path,
            f"mode: {s.mode} needs `artifacts_path`",
            "the folder that actions/download-artifact has filled",
        ),
        (
            bool(s.baseline_sha256) and s.baseline == AUTO,
            "`baseline_sha256` is given and `baseline` names none",
            "`baseline`, the path of the one that it is the sha256 of",
        ),
        (
            s.mode == CAPTURE and s.baseline != AUTO,
            "mode: capture makes a baseline, and `baseline` names one",
            "no `baseline`: what is captured is the output of that name",
        ),
        (
            s.mode == REPORT and not (s.suite or s.plan or s.legs),
            "mode: report does not say what it reports on",
            "`suite` or `plan`, whose shards are judged as one, or `legs`, the artifacts to expect",
        ),
    )
    for wrong, happened, expected in faults:
        if wrong:
            raise ConfigError(happened, expected=expected)
