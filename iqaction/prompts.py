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
import re
from dataclasses import dataclass

from iqaction.calls import Message
from iqaction.errors import ConfigError

MAX_BYTES = 64 * 1024 * 1024  # of a prompt file, unpacked
MAX_PROMPTS = 100_000
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
    """All prompts of a file in its order, and the sha256 of its (unpacked) bytes."""

    prompts: tuple[Prompt, ...]
    sha256: str


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
        raise ConfigError(f"{name}: not UTF-8 ({exc.reason})", expected="UTF-8 JSONL") from exc
    prompts: list[Prompt] = []
    first_line: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
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
        prompts.append(prompt)
        if len(prompts) > MAX_PROMPTS:
            raise ConfigError(f"{name}: more than {MAX_PROMPTS} prompts")
    if not prompts:
        raise ConfigError(f"{name}: no prompts in it", expected="one JSON object a line")
    return PromptSet(tuple(prompts), hashlib.sha256(data).hexdigest())


def _unpack(data: bytes, name: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return stream.read(MAX_BYTES + 1)
    except (OSError, EOFError, ValueError) as exc:
        raise ConfigError(f"{name}: broken gzip file ({exc})") from exc


def _prompt(line: str, place: str) -> Prompt:
    try:
        item = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as exc:
        raise ConfigError(f"{place}: not JSON ({exc})", expected="one JSON object a line") from exc
    if not isinstance(item, dict):
        raise ConfigError(f"{place}: a {type(item).__name__}", expected="a JSON object")
    for key in item:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{place}: unknown key {key!r}{hint}", expected=", ".join(_KEYS))
    ident, bucket = item.get("id"), item.get("bucket", "default")
    if not isinstance(ident, str) or not _ID.match(ident):
        raise ConfigError(
            f"{place}: id is {str(ident)[:80]!r}",
            expected="1 to 128 of letters, digits, '.', '_', '-', starting with a letter or digit",
        )
    if not isinstance(bucket, str) or not _ID.match(bucket):
        raise ConfigError(f"{place}: bucket is {str(bucket)[:80]!r}", expected="a name like an id")
    limit = item.get("max_tokens")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ConfigError(f"{place}: max_tokens is {limit!r}", expected="a whole number from 1")
    kwargs = item.get("chat_template_kwargs")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise ConfigError(f"{place}: chat_template_kwargs is no object", expected="an object")
    return Prompt(ident, bucket, _messages(item.get("messages"), place), limit, canonical(kwargs))


def _messages(value: object, place: str) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{place}: no messages", expected='[{"role": "user", "content": "..."}]')
    messages = []
    for message in value:
        match message:
            case {"role": str(role), "content": str(content)} if len(message) == 2:
                if role not in _ROLES:
                    raise ConfigError(f"{place}: role {role!r}", expected=", ".join(_ROLES))
                try:
                    content.encode()
                except UnicodeEncodeError as exc:
                    raise ConfigError(f"{place}: content holds a lone surrogate") from exc
                messages.append(Message(role, content))
            case _:
                raise ConfigError(
                    f"{place}: a message is not a role with a text",
                    expected='{"role": "user", "content": "..."} and no other keys',
                )
    return tuple(messages)


def canonical(value: dict[str, object] | None) -> str:
    """Canonical JSON of an object; "" for none or an empty one."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")) if value else ""


def merge_kwargs(plan: str, prompt: str) -> str:
    """The plan's template kwargs with the prompt's own put over them, key by key."""
    if not plan or not prompt:
        return plan or prompt
    return canonical({**json.loads(plan), **json.loads(prompt)})


def max_tokens(plan: int | None, prompt: Prompt) -> int:
    """The smaller of the plan's and the prompt's limit where both are given; default 256."""
    given = [x for x in (plan, prompt.max_tokens) if x is not None]
    return min(given) if given else 256
