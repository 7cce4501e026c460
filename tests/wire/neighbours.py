"""Neighbours of an answer: the same JSON with something missing, of another type, or elsewhere.

    tree = draw(neighbour(body))
    data = draw(spelled(tree))

What is put in is what servers and gateways have been seen to send, and what JSON allows besides.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

Path = tuple[Any, ...]
_CHANGES = ("drop", *["put"] * 3, "wrap", "rename", "grow", "turn", "double", "move")
_SPELLINGS = (*["plain"] * 14, "twice", "cut", "after", "utf-16", "mark", "stream")

_DEEP: Any = None
for _ in range(60):
    _DEEP = [_DEEP]

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -0.0, 1, -1, 5, 0.5, -0.5, 1e-4, 1.1e-4, -9000, -9999.0, -3.4e38, 23.75,
    float("nan"), float("inf"), float("-inf"), 2**24, 2**31, 2**53, 2**63, -(2**63), 10**400,
    "", " ", "0", "-0.1", "NaN", "nan", "stop", "length", "abort", "error", "A", "\ufffd",
    "\ud800", "\udc00\ud800", "\x00", "\x1b[31m", "::error::x", "token_id:5",
    "token_id:99999999999", "token_id:\u0665", "<think>", "</think>", "<|channel|>", "####",
    "#### 18", "a\u202eb", "\U0001f31f",
    "x" * 3000, [], {}, [None], [[]], [1], ["A"], {"A": -0.1}, {"message": "boom"}, {"text": "A"},
    [{"text": "A"}], [0.5, 5, "A"], _DEEP,
)  # fmt: skip
_NAMES = (
    "logprob", "token", "bytes", "id", "content", "index", "finish_reason", "message", "tokens",
    "top_logprobs", "logprobs", "error", "usage", "choices", "token_ids", "reasoning", "count",
    "completion_tokens", "prompt_logprobs", "meta_info", "5", "-1", "00007", "\u0665", "\ud800",
)  # fmt: skip


def paths(tree: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in the tree, the root first."""
    yield at
    inner: Any = ()
    if isinstance(tree, dict):
        inner = tree.items()
    elif isinstance(tree, list):
        inner = enumerate(tree)
    for key, value in inner:
        yield from paths(value, (*at, key))


def value_at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _put(tree: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    value_at(tree, path[:-1])[path[-1]] = value
    return tree


def _drop(tree: Any, path: Path) -> Any:
    if path:
        del value_at(tree, path[:-1])[path[-1]]
    return tree


def _renamed(tree: Any, path: Path, name: str) -> Any:
    if path and isinstance(path[-1], str):
        home = value_at(tree, path[:-1])
        home[name] = home.pop(path[-1])
    return tree


def _grown(tree: Any, path: Path, value: Any) -> Any:
    home = value_at(tree, path)
    if isinstance(home, list):
        home.insert(0 if value in (None, True) else len(home), value)
    elif isinstance(home, dict):
        home["error" if value == {"message": "boom"} else "extra"] = value
    return tree


def _turned(tree: Any, path: Path) -> Any:
    """Lists backwards, objects in another order, numbers as strings."""
    home = value_at(tree, path)
    if isinstance(home, list):
        return _put(tree, path, home[::-1])
    if isinstance(home, dict):
        return _put(tree, path, dict(reversed(home.items())))
    return _put(tree, path, str(home))


def _doubled(tree: Any, path: Path) -> Any:
    home = value_at(tree, path)
    if isinstance(home, list) and home:
        home.extend(copy.deepcopy(home))
    elif isinstance(home, (int, float)) and not isinstance(home, bool):
        return _put(tree, path, home * 2)
    return tree


@st.composite
def neighbour(draw: st.DrawFn, tree: Any) -> Any:
    """The tree after one to three changes."""
    tree = copy.deepcopy(tree)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(paths(tree))))
        change = draw(
            st.sampled_from(
                ["drop", "put", "put", "put", "wrap", "rename", "grow", "turn", "double", "move"]
            )
        )
        if change == "drop":
            tree = _drop(tree, path)
        elif change == "put":
            tree = _put(tree, path, copy.deepcopy(draw(st.sampled_from(HOSTILE))))
        elif change == "wrap":
            inner = value_at(tree, path)
            tree = _put(tree, path, draw(st.sampled_from([[inner], {"message": inner}, [[inner]]])))
        elif change == "rename":
            tree = _renamed(tree, path, draw(st.sampled_from(_NAMES)))
        elif change == "grow":
            tree = _grown(tree, path, copy.deepcopy(draw(st.sampled_from(HOSTILE))))
        elif change == "turn":
            tree = _turned(tree, path)
        elif change == "double":
            tree = _doubled(tree, path)
        else:
            other = draw(st.sampled_from(list(paths(tree))))
            tree = _put(tree, path, copy.deepcopy(value_at(tree, other)))
    return tree


@st.composite
def spelled(draw: st.DrawFn, tree: Any) -> bytes:
    """The tree as bytes: mostly as Python spells it, at times as nobody should."""
    text = json.dumps(tree)
    how = draw(
        st.sampled_from(["plain"] * 12 + ["twice", "cut", "after", "utf-16", "mark", "stream"])
    )
    if how == "twice":  # every object's first name once more, with another value
        name = draw(st.sampled_from(_NAMES))
        return text.replace("{", f'{{"{name}": 7, ' if "\ud800" not in name else "{").encode()
    if how == "cut":
        return text.encode()[: draw(st.integers(0, len(text)))]
    if how == "after":
        return text.encode() + draw(st.sampled_from([b"\n", b"x", b"{}", b"\xff", b"\x00"]))
    if how == "utf-16":
        return text.encode("utf-16")
    if how == "mark":
        return b"\xef\xbb\xbf" + text.encode()
    if how == "stream":
        return f"data: {text}\n\ndata: [DONE]\n\n".encode()
    return text.encode()
