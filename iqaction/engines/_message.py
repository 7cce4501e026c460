"""Reasoning and answer of one chat message, in every shape seen. Knows no rows and sends nothing.

Engines part the two, or leave ``<think>`` in the content; some gateways answer in content parts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from iqaction.engines._reading import as_map, as_text
from iqaction.json_value import JSON

# What begins a text that thinks first, and what ends its thinking. Models but those of the first
# pair may write the others' ends in an answer, so that without a beginning only </think> counts.
_MARKS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
)
_HARMONY = re.compile(
    r"\A\s*(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>(?P<thought>.*?)"
    r"(?:(?:<\|end\|>)?(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>(?P<answer>.*)|\Z)",
    re.DOTALL,
)


def reasoning_and_text(message: Mapping[str, JSON]) -> tuple[str, str] | None:
    """Reasoning and answer, whether or not the engine parted them; None where the content is no
    text: it is not read as an empty answer.

    The beginning may be missing (the template wrote it) and the end too (the text was cut).
    """
    content = message.get("content")
    if not (content is None or isinstance(content, (str, list))):
        return None
    thought, text = _parts(content) if isinstance(content, list) else ("", as_text(content) or "")
    apart = as_text(message.get("reasoning")) or as_text(message.get("reasoning_content"))
    apart = apart or thought
    return (apart, text) if apart else _divided(text)


def _parts(parts: list[JSON]) -> tuple[str, str]:
    """Thoughts and text of content parts; text may stand for a part of its own."""
    thoughts, texts = [], []
    for part in parts:
        inner = as_map(part)
        thought = inner.get("thinking")
        if isinstance(thought, list):
            thoughts.append(_parts(thought)[1])
        elif thought is not None:
            thoughts.append(as_text(thought) or "")
        else:
            texts.append(as_text(part) or as_text(inner.get("text")) or "")
    return "".join(thoughts), "".join(texts)


def _divided(content: str) -> tuple[str, str]:
    start = content.lstrip()
    for begin, end in _MARKS:
        if start.startswith(begin):
            thought, _, after = start.removeprefix(begin).partition(end)
            return thought.strip(), after.lstrip()
    before, closed, after = content.partition("</think>")
    if closed:
        return before.strip(), after.lstrip()
    parted = _HARMONY.match(content) if "<|channel|>" in content else None
    if parted:
        return parted["thought"].strip(), (parted["answer"] or "").strip()
    return "", content
