"""Every regular expression of the package, and texts that make a backtracking one take for ever.

``slowest`` repeats what each repetition in a pattern matches, after a text that leads there and
before one that lets the match fail, and compares the time for a text with that for one a quarter
as long: about 4 times where time grows with the text, 16 where it grows with its square.
"""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import iqaction

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    if sys.version_info >= (3, 11):
        from re import _constants as sre  # type: ignore[attr-defined]
        from re import _parser as parser  # type: ignore[attr-defined]
    else:
        import sre_constants as sre
        import sre_parse as parser

ROOT = Path(iqaction.__file__).parent
LENGTHS = (20, 75, 300, 1_200)  # the first is short: where time doubles, 75 would never end
LONGER = (4_800, 19_200)
ENDS = ("", "\x00")
MORE_ENDS = ("!", "\n", " x")
TOLERATED_S = 0.004  # what takes less is not looked at more closely
MOST_GROWTH = 8.0
METHODS = ("match", "fullmatch", "search", "finditer", "findall", "split", "sub", "subn")


@dataclass(frozen=True)
class Found:
    """One pattern, and the methods that it is used with."""

    place: str
    pattern: re.Pattern[str]
    methods: frozenset[str]


def collected() -> list[Found]:
    """All patterns: those at module level, literals in calls of ``re``, and the schemas'."""
    found: dict[tuple[str, str, int], Found] = {}
    for one in (*_of_modules(), *_of_calls(), *_of_schemas()):
        key = (one.place, one.pattern.pattern, one.pattern.flags)
        found.setdefault(key, one)
    return list(found.values())


def _of_modules() -> Iterator[Found]:
    for info in pkgutil.walk_packages([str(ROOT)], "iqaction."):
        if info.name.rpartition(".")[2] in ("__main__", "_llama_server"):
            continue
        module = importlib.import_module(info.name)
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        for name, value in vars(module).items():
            for pattern in _patterns(value):
                yield Found(info.name, pattern, _used(source, name))


def _patterns(value: object) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _patterns(item)
    elif isinstance(value, dict):
        for item in value.items():
            yield from _patterns(item)


def _used(source: str, name: str) -> frozenset[str]:
    """The methods that a module calls on a name; every one where it hands it on."""
    calls = set(re.findall(rf"\b{re.escape(name)}\.([a-z]+)", source))
    uses = len(re.findall(rf"\b{re.escape(name)}\b", source)) - 1
    plain = len(re.findall(rf"\b{re.escape(name)}\.[a-z]+", source))
    return frozenset(calls) if calls and plain == uses else frozenset(METHODS)


def _of_calls() -> Iterator[Found]:
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            is_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
            if is_re and node.func.attr in METHODS and node.args:
                literal = node.args[0]
                if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    yield Found(place, re.compile(literal.value), frozenset({node.func.attr}))


def _of_schemas() -> Iterator[Found]:
    for path in sorted((ROOT.parent / "schemas").glob("*.json")):
        for text in _pattern_texts(json.loads(path.read_text(encoding="utf-8"))):
            yield Found(path.name, re.compile(text), frozenset({"search"}))


def _pattern_texts(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "pattern" and isinstance(value, str):
                yield value
            if key == "patternProperties" and isinstance(value, dict):
                yield from value
            yield from _pattern_texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from _pattern_texts(value)


def slowest(found: Found, *, thorough: bool = False) -> str:
    """What makes it take more than its share, "" where nothing does."""
    lengths, ends = (LENGTHS + LONGER, ENDS + MORE_ENDS) if thorough else (LENGTHS, ENDS)
    for method in sorted(found.methods & set(METHODS)):
        call = _caller(found.pattern, method)
        for make in texts(found.pattern, ends):
            before = 1e-6
            for n in lengths:
                took = _timed(call, make(n))
                if took > TOLERATED_S and took > MOST_GROWTH * before:
                    return f"{method} of {make(8)!r}, {n} long: {took:.3f} s, before {before:.6f}"
                before = max(took, 1e-6)
    return ""


def _caller(pattern: re.Pattern[str], method: str) -> Callable[[str], object]:
    if isinstance(pattern.pattern, bytes):
        inner = getattr(pattern, method)
        empty = (b"",) if method in ("sub", "subn") else ()
        return lambda text: inner(*empty, text.encode("utf-8"))
    if method in ("sub", "subn"):
        return lambda text: pattern.sub("", text)
    if method == "finditer":
        return lambda text: sum(1 for _ in pattern.finditer(text))
    call: Callable[[str], object] = getattr(pattern, method)
    return call


def _timed(call: Callable[[str], object], text: str) -> float:
    best = float("inf")
    for _ in range(2):
        started = time.process_time()
        call(text)
        best = min(best, time.process_time() - started)
        if best < TOLERATED_S:
            break
    return best


def texts(pattern: re.Pattern[str], ends: Sequence[str]) -> Iterator[Callable[[int], str]]:
    """Makers of texts of about n characters, one for each repetition and each way to end."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    for before, body in [("", "a"), ("", " "), ("", "a "), *_repeats(tree, "")]:
        for end in ends:
            unit = body or "a"
            yield lambda n, b=before, u=unit, e=end: b + u * (n // len(u)) + e


def _repeats(tree: object, before: str) -> Iterator[tuple[str, str]]:
    """(a text that leads there, what is repeated), for every repetition within."""
    lead = before
    for kind, value in tree:  # type: ignore[attr-defined]
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            low, _, inner = value
            sample = _sample(inner)
            yield lead, sample
            yield "", lead + sample
            yield from _repeats(inner, lead)
            lead += sample * low
            continue
        for inner in _inner(kind, value):
            yield from _repeats(inner, lead)
        lead += _one(kind, value)


def _inner(kind: object, value: object) -> list[object]:
    if kind is sre.SUBPATTERN:
        return [value[-1]]  # type: ignore[index]
    if kind is sre.BRANCH:
        return list(value[1])  # type: ignore[index]
    if kind in (sre.ASSERT, sre.ASSERT_NOT):
        return [value[1]]  # type: ignore[index]
    return []


def _sample(tree: object) -> str:
    return "".join(_one(kind, value) for kind, value in tree)  # type: ignore[attr-defined]


def _one(kind: object, value: object) -> str:
    """A text that one node matches, as short as that may be."""
    if kind is sre.LITERAL:
        return chr(value)  # type: ignore[arg-type]
    if kind in (sre.ANY, sre.NOT_LITERAL):
        return "a"
    if kind is sre.IN:
        return _member(value)
    if kind is sre.BRANCH:
        return _sample(value[1][0])  # type: ignore[index]
    if kind is sre.SUBPATTERN:
        return _sample(value[-1])  # type: ignore[index]
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        low, _, inner = value  # type: ignore[misc]
        return _sample(inner) * max(1, min(low, 3))
    return ""


def _member(items: object) -> str:
    """A character of a class; of a negated one some character that is not in it."""
    if items[0][0] is sre.NEGATE:  # type: ignore[index]
        inner = re.compile("[" + "".join(_class(i) for i in items[1:]) + "]")  # type: ignore[index]
        return next((c for c in "a 1-\n_<" if not inner.match(c)), "a")
    kind, value = items[0]  # type: ignore[index]
    if kind is sre.LITERAL:
        return chr(value)
    if kind is sre.RANGE:
        return chr(value[0])
    return {"CATEGORY_SPACE": " ", "CATEGORY_DIGIT": "1", "CATEGORY_WORD": "a"}.get(str(value), "-")


def _class(item: tuple[object, object]) -> str:
    kind, value = item
    if kind is sre.LITERAL:
        return re.escape(chr(value))  # type: ignore[arg-type]
    if kind is sre.RANGE:
        low, high = value  # type: ignore[misc]
        return f"{re.escape(chr(low))}-{re.escape(chr(high))}"
    return {"CATEGORY_SPACE": r"\s", "CATEGORY_DIGIT": r"\d", "CATEGORY_WORD": r"\w"}.get(
        str(value), r"\W"
    )
