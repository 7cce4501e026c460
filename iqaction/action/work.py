"""What the steps of one job tell each other: small files in a private folder. I/O.

Every step is a process of its own. The folder lies below RUNNER_TEMP, is nobody else's, and is
gone after the job; nothing is written to the workspace, the home folder or the job's environment.
"""

from __future__ import annotations

import json
import os
import tempfile
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from iqaction.circumstances import NONE, Circumstances
from iqaction.errors import ConfigError, EvidenceError
from iqaction.evidence import canon, dataclass_json
from iqaction.json_value import JSON

MEASURE, SKIP, REFUSE, REPUBLISH = ("measure", "skip", "refuse", "republish")
BASELINE = "inferquality-baseline-"  # what captured baselines are called as artifacts
_MAX_BYTES = 16 * 1024 * 1024
T = TypeVar("T")


@dataclass(frozen=True)
class Decision:
    """What the prepare step found out, before anything of the pull request ran.

    Attributes
    ----------
    action
        "measure", "republish" (the same was measured before), "skip" (nothing relevant changed)
        or "refuse" (a fork on our hardware; a mistake in the inputs).
    exit_code
        Of a refusal; never 0 there.
    plan, baseline
        Paths; "" for the built-in plan and for no baseline.
    judged
        Folder of the evidence to publish again.
    key
        Under which this measurement is found again; "" where it cannot be.
    base
        The commit that is to be started as the reference: the merge-base where there is no
        baseline, the checkout's own with `mode: capture`.
    check
        Id of the check run that is in progress, 0 where there is none.
    """

    action: str
    reason: str = ""
    exit_code: int = 0
    plan: str = ""
    baseline: str = ""
    judged: str = ""
    key: str = ""
    check: int = 0
    base: str = ""
    suite: str = "default"
    circumstances: Circumstances = NONE


@dataclass(frozen=True)
class Endpoint:
    """What the boot step left: where to ask, or why there is nobody."""

    endpoint: str
    problem: str = ""
    lease: str = ""
    log_tail: str = ""
    machine: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ending:
    """How a step ended that did not end well; the gate can only become redder by it."""

    exit_code: int
    reason: str


@dataclass(frozen=True)
class Measured:
    """What the observing step reached."""

    complete: bool
    problem: str = ""


class Work:
    """The folder, with one file for each thing above."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def evidence(self) -> Path:
        return self.path / "evidence"

    @property
    def reference(self) -> Path:
        """Evidence of what the merge-base serves, where there is no baseline."""
        return self.path / "reference"

    @property
    def baseline(self) -> Path:
        """The baseline that was found elsewhere, or unpacked."""
        return self.path / "baseline"

    @property
    def judge(self) -> Path:
        """Copies of the files that the pull request cannot change."""
        return self.path / "judge"

    def inputs(self) -> dict[str, str]:
        """The inputs' texts by name. Raises ConfigError where the set-up step left none."""
        body = self._body("inputs")
        if body is None:
            raise ConfigError(
                "the inputs are not there: the set-up step did not end",
                next_step="read the log of the step before",
            )
        return {name: str(value) for name, value in body.items()}

    def keep(self, thing: Decision | Endpoint | Ending | Measured) -> None:
        """Store one of them, whole or not at all."""
        self._write(type(thing).__name__.lower(), dataclass_json.to_json(thing))

    def decision(self) -> Decision | None:
        return self._thing(Decision)

    def decided(self) -> Decision:
        """The decision. Raises EvidenceError where none was left."""
        decision = self.decision()
        if decision is None:
            raise EvidenceError(
                "the step before this one left no decision", next_step="read its log"
            )
        return decision

    def endpoint(self) -> Endpoint | None:
        return self._thing(Endpoint)

    def ending(self) -> Ending | None:
        return self._thing(Ending)

    def measured(self) -> Measured | None:
        return self._thing(Measured)

    def _thing(self, kind: type[T]) -> T | None:
        """What a step kept; None where none did. Raises EvidenceError where it is damaged."""
        name = kind.__name__.lower()
        body = self._body(name)
        if body is None:
            return None
        try:
            thing = dataclass_json.from_json(body, kind)
        except (EvidenceError, TypeError, ValueError) as exc:
            raise EvidenceError(f"{name}.json of this job is damaged") from exc
        for key, declared in typing.get_type_hints(kind).items():
            plain = declared if isinstance(declared, type) else Mapping
            if not isinstance(getattr(thing, key), plain):  # no schema has looked at it
                raise EvidenceError(f"{name}.json of this job is damaged: {key}")
        return thing

    def _body(self, name: str) -> Mapping[str, JSON] | None:
        path = self.path / f"{name}.json"
        try:
            with path.open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        if len(data) > _MAX_BYTES:
            raise EvidenceError(f"{name}.json of this job is larger than {_MAX_BYTES} bytes")
        return canon.load_object(data, f"{name}.json")

    def _write(self, name: str, body: Mapping[str, object]) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, staged = tempfile.mkstemp(dir=self.path, prefix=f".{name}")
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(body).encode())
        os.replace(staged, self.path / f"{name}.json")
