"""Prompt sets: bytes in, checked prompts out. Reads no file itself.

One JSON object a line::

    {"id": "code-017", "bucket": "code", "messages": [{"role": "user", "content": "..."}],
     "max_tokens": 128, "chat_template_kwargs": {"enable_thinking": false}}
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import io
import json
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from iqaction.calls import Message
from iqaction.errors import ConfigError
from iqaction.json_value import JSON

MAX_BYTES = 64 * 1024 * 1024  # of a prompt file, unpacked
MAX_PROMPTS = 100_000
MAX_TOKENS = 100_000  # of one answer, as in a plan; more is a slip of the pen
MAX_DEPTH = 16  # of chat_template_kwargs: what every later reader and writer of JSON can walk
DEFAULT_MAX_TOKENS = 256
_SHOWN = 80  # characters of a foreign value in an error
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_KEYS = ("id", "bucket", "messages", "max_tokens", "chat_template_kwargs")
_ROLES = ("system", "user", "assistant", "developer", "tool")


@dataclass(frozen=True)
class Prompt:
    """One unit of judgement. ``template_kwargs`` is canonical JSON of an object, "" for none."""

    id: str
    bucket: str
    messages: tuple[Message, ...]
    max_tokens: int | None = None
    template_kwargs: str = ""


@dataclass(frozen=True)
class PromptSet:
    """All prompts of a file in its order, its (unpacked) bytes and their sha256."""

    prompts: tuple[Prompt, ...]
    sha256: str
    data: bytes = field(default=b"", repr=False)


def parse(data: bytes, name: str) -> PromptSet:
    """Read a prompt file's bytes (JSONL, or the same gzipped).

    Raises
    ------
    ConfigError
        Naming the file, the line, what was found and what was expected.
    """
    if data[:2] == b"\x1f\x8b":
        data = _unpack(data, name)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{name}: larger than {MAX_BYTES} bytes", expected="a smaller file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        number = data.count(b"\n", 0, exc.start) + 1
        raise ConfigError(
            f"{name}:{number}: not UTF-8 ({exc.reason})", expected="UTF-8 JSONL"
        ) from exc
    prompts: list[Prompt] = []
    first_line: dict[str, int] = {}
    asked: dict[tuple[tuple[Message, ...], str], str] = {}
    for number, line in enumerate(io.StringIO(text, newline="\n"), start=1):
        if not line.strip():
            continue
        prompt = _prompt(line, f"{name}:{number}")
        if prompt.id in first_line:
            raise ConfigError(
                f"{name}:{number}: the id {prompt.id!r} is used twice "
                f"(first on line {first_line[prompt.id]})",
                expected="ids that are unique in the file",
            )
        first_line[prompt.id] = number
        twin = asked.setdefault((prompt.messages, prompt.template_kwargs), prompt.id)
        if twin != prompt.id:
            raise ConfigError(
                f"{name}:{number}: {prompt.id!r} asks the same as {twin!r}",
                expected="prompts that differ: each counts as one independent question",
            )
        prompts.append(prompt)
        if len(prompts) > MAX_PROMPTS:
            raise ConfigError(
                f"{name}: more than {MAX_PROMPTS} prompts", expected="a smaller prompt set"
            )
    if not prompts:
        raise ConfigError(f"{name}: no prompts in it", expected="one JSON object a line")
    return PromptSet(tuple(prompts), hashlib.sha256(data).hexdigest(), data)


def _unpack(data: bytes, name: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return stream.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as exc:
        raise ConfigError(f"{name}: broken gzip file ({exc})", expected="a whole .gz") from exc


def _prompt(line: str, place: str) -> Prompt:
    item = _object(line, place)
    for key in item:
        if key not in _KEYS:
            near = difflib.get_close_matches(key[:_SHOWN], _KEYS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"{place}: unknown key {_shown(key)}{hint}", expected=", ".join(_KEYS)
            )
    ident, bucket = item.get("id"), item.get("bucket", "default")
    if not isinstance(ident, str) or not _ID.match(ident):
        raise ConfigError(
            f"{place}: id is {_shown(ident)}",
            expected="1 to 128 of letters, digits, '.', '_', '-', starting with a letter or digit",
        )
    if not isinstance(bucket, str) or not _ID.match(bucket):
        raise ConfigError(f"{place}: bucket is {_shown(bucket)}", expected="a name like an id")
    limit = item.get("max_tokens")
    if limit is not None and not (type(limit) is int and 1 <= limit <= MAX_TOKENS):
        raise ConfigError(
            f"{place}: max_tokens is {_shown(limit)}",
            expected=f"a whole number from 1 to {MAX_TOKENS}",
        )
    kwargs = item.get("chat_template_kwargs")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise ConfigError(
            f"{place}: chat_template_kwargs is {_shown(kwargs)}",
            expected='an object such as {"enable_thinking": false}',
        )
    return Prompt(
        ident, bucket, _messages(item.get("messages"), place), limit, canonical(kwargs, place)
    )


def _object(line: str, place: str) -> dict[str, JSON]:
    def unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
        # json keeps the last of two equal keys: half of what was written would be lost unseen
        item: dict[str, JSON] = {}
        for key, value in pairs:
            if key in item:
                raise ConfigError(f"{place}: the key {_shown(key)} is there twice", expected="once")
            item[key] = value
        return item

    try:
        item = json.loads(line, object_pairs_hook=unique)
    except (ValueError, RecursionError) as exc:  # ValueError: also numbers of 4,300 digits
        raise ConfigError(f"{place}: not JSON ({exc})", expected="one JSON object a line") from exc
    if not isinstance(item, dict):
        raise ConfigError(f"{place}: {_shown(item)}", expected="a JSON object")
    return item


def _shown(value: object) -> str:
    """A foreign value for an error message: short, its control characters escaped."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str) and len(value) > _SHOWN:
        return f"{value[:_SHOWN]!r}..."
    return repr(value)[: 2 * _SHOWN]


def _messages(value: object, place: str) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{place}: no messages", expected='[{"role": "user", "content": "..."}]')
    messages = []
    for message in value:
        match message:
            case {"role": str(role), "content": str(content)} if len(message) == 2:
                if role not in _ROLES:
                    raise ConfigError(f"{place}: role {_shown(role)}", expected=", ".join(_ROLES))
                if not _is_text(content):
                    raise ConfigError(
                        f"{place}: content holds a lone surrogate",
                        expected="whole characters: \\ud83d only together with its second half",
                    )
                messages.append(Message(role, content))
            case _:
                raise ConfigError(
                    f"{place}: a message is not a role with a text",
                    expected='{"role": "user", "content": "..."} and no other keys',
                )
    return tuple(messages)


def _is_text(value: str) -> bool:
    """Whether it can be sent: JSON's escapes can write half a character."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def canonical(value: Mapping[str, object] | None, place: str = "chat_template_kwargs") -> str:
    """Canonical JSON of an object; "" for none or an empty one.

    Raises
    ------
    ConfigError
        Where the object cannot be sent as JSON: a key that is no text, NaN, infinity, a date of
        YAML, half a character, more than ``MAX_DEPTH`` levels.
    """
    if not value:
        return ""
    _check_sendable(dict(value), place, MAX_DEPTH)
    return json.dumps(dict(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _check_sendable(value: object, place: str, depth: int) -> None:
    if depth < 0:
        raise ConfigError(
            f"{place}: template kwargs are nested too deeply", expected=f"{MAX_DEPTH} levels"
        )
    match value:
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise ConfigError(
                        f"{place}: the template key {_shown(key)} is no text", expected="a name"
                    )
                _check_sendable(key, place, depth)
                _check_sendable(item, place, depth - 1)
        case list():
            for item in value:
                _check_sendable(item, place, depth - 1)
        case str() if _is_text(value):
            pass
        case None | bool() | int():
            pass
        case float() if math.isfinite(value):
            pass
        case _:
            raise ConfigError(
                f"{place}: the template value {_shown(value)} is no JSON",
                expected="text, a finite number, true, false, null, a list or an object",
            )


def merge_kwargs(plan: str, prompt: str) -> str:
    """The plan's template kwargs with the prompt's own put over them, key by key.

    Both are canonical JSON of an object or ""; so is the result.
    """
    if not plan or not prompt:
        return plan or prompt
    return canonical({**json.loads(plan), **json.loads(prompt)})


def max_tokens(plan: int | None, prompt: Prompt) -> int:
    """The smaller of the plan's and the prompt's limit where both are given; default 256."""
    given = [x for x in (plan, prompt.max_tokens) if x is not None]
    return min(given) if given else DEFAULT_MAX_TOKENS
