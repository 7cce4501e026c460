"""Reads the files a run is asked with: the plan and its prompts. I/O; judges nothing they say.

Both are read whole, up to a limit, and only from plain files: a pipe would wait for ever, and
``/dev/zero`` would never end.
"""

from __future__ import annotations

import stat
from importlib import resources
from pathlib import Path

from iqaction import anchor, datasets, prompts, stages
from iqaction.anchor import Anchor
from iqaction.errors import ConfigError
from iqaction.inputs import PROMPT_SETS, PUBLIC_DATA, Request, read_request
from iqaction.prompts import PromptSet
from iqaction.spelling import FILES, nearest

_MAX_PLAN = 4 * 1024 * 1024  # bytes; a character is at most four of them


def plan_file(path: Path | None) -> Request:
    """The request of a plan file; None is the plan that ships with the package.

    Raises
    ------
    ConfigError
        No such file, not UTF-8, or a mistake in it.
    """
    if path is None:
        data = (resources.files("iqaction") / "data" / "plan.yml").read_bytes()
        return read_request(data.decode(), "the default plan")
    data = _read(path, _MAX_PLAN, "a plan", "--plan names a YAML file; without it: the default")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 ({exc.reason})", expected="UTF-8") from exc
    return read_request(text, str(path))


def prompt_file(request: Request, plan: Path | None) -> PromptSet:
    """The prompts that a request names: a built-in set, or a file.

    A relative path starts at the plan file's folder, so that a plan and its prompts move
    together; without a plan file at the working directory.

    Raises
    ------
    ConfigError
        No such file, or a mistake in it.
    """
    if request.prompts in PROMPT_SETS:
        name = f"{request.prompts}_prompts.jsonl"
        data = (resources.files("iqaction") / "data" / name).read_bytes()
        return prompts.parse(data, f"the {request.prompts} prompts")
    path = _beside(plan, request.prompts)
    built_in = " or ".join(f"`{x}`" for x in PROMPT_SETS)
    data = _read(
        path, prompts.MAX_BYTES, "prompts", f"trajectory.prompts is {built_in}, or a JSONL file"
    )
    return prompts.parse(data, str(path))


def stage_data(request: Request, plan: Path | None) -> dict[str, bytes]:
    """The stages' own data files, by stage, in the form that is kept; see ``Stage.convert``.

    Raises
    ------
    ConfigError
        No such file, a mistake in it, or a default that cannot be fetched.
    """
    found: dict[str, bytes] = {}
    for spec in request.stages:
        stage = stages.load(spec.stage)
        source = stage.data(spec)
        if source == PUBLIC_DATA:
            found[spec.stage] = stage.convert(datasets.fetch(spec.stage), f"the {spec.stage} data")
        elif source:
            path = _beside(plan, source)
            data = _read(path, prompts.MAX_BYTES, "data", f"{spec.stage}.data is a file")
            found[spec.stage] = stage.convert(data, str(path))
    return found


def anchor_file(request: Request, plan: Path | None) -> Anchor:
    """The pinned baseline of the file that a request names as its anchor.

    Raises
    ------
    ConfigError
        No such file, or a mistake in it.
    """
    return anchor_at(_beside(plan, request.anchor))


def anchor_at(path: Path) -> Anchor:
    """The pinned baseline of a file; raises as :func:`anchor_file`."""
    data = _read(path, anchor.MAX_BYTES, "the anchor", "a file that `iqaction baseline pin` wrote")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: not UTF-8 ({exc.reason})", expected="UTF-8") from exc
    return anchor.read(text, str(path))


def _beside(plan: Path | None, name: str) -> Path:
    """A file that a plan names: relative to the plan's folder, which an absolute path ignores."""
    return Path(name) if plan is None else plan.parent / name


def _read(path: Path, limit: int, what: str, expected: str) -> bytes:
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "no plain file"
            raise ConfigError(f"{path}: cannot read {what}: it is {kind}", expected=expected)
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except FileNotFoundError as exc:
        hint = nearest(path.name, _neighbours(path), FILES)
        raise ConfigError(f"{path}: no such file{hint}", expected=expected) from exc
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the path
        said = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise ConfigError(f"{path}: cannot read {what}: {said}", expected=expected) from exc
    if len(data) > limit:
        raise ConfigError(f"{path}: larger than {limit} bytes", expected="a smaller file")
    return data


def _neighbours(path: Path) -> list[str]:
    try:
        return [p.name for p, _ in zip(path.parent.iterdir(), range(1000), strict=False)]
    except OSError:
        return []
