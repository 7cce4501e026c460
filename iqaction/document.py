"""A YAML file as nodes that know their line. Knows no key of ours and builds no object.

Scalars keep the text that was written: ``off``, ``1e-3`` and ``012`` mean what the reader of a
key says, not what YAML 1.1 makes of them (false, a text, ten). Tags are refused, and what
anchors repeat is counted as often as it is repeated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Union

import yaml

from iqaction.errors import ConfigError

MAX_CHARACTERS = 1024 * 1024
_MAX_NODES = 20_000  # with everything that aliases repeat
_MAX_DEPTH = 16
_SHOWN = 60  # characters of a foreign value in an error
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?\Z")
_UNBOUNDED = re.compile(r"[-+]?\.?(inf|infinity|nan)\Z", re.IGNORECASE)
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))


@dataclass(frozen=True)
class Scalar:
    """``plain`` is False for what stands in quotes: it is text, whatever it looks like."""

    text: str
    plain: bool
    line: int


@dataclass(frozen=True)
class Listing:
    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True)
class Table:
    """``entries`` in the order of the file; the keys are unique."""

    entries: tuple[Entry, ...]
    line: int

    def get(self, key: str) -> Entry | None:
        return next((e for e in self.entries if e.key == key), None)


@dataclass(frozen=True)
class Entry:
    key: str
    value: Node
    line: int


Node = Union[Scalar, Listing, Table]  # noqa: UP007 - a string in `|` is no type at run time on 3.10


class _Loader(yaml.BaseLoader):
    """Composes nodes without resolving scalars, and stops at a depth."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call] # untyped in the stubs
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def parse(text: str, name: str) -> Node | None:
    """The document's root; None for an empty one.

    Raises
    ------
    ConfigError
        Naming the file and the line: no YAML, more than one document, a tag, a key that is there
        twice or is no text, too large, too deep, or an alias bomb.
    """
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(
            f"{name}: {len(text)} characters", expected=f"at most {MAX_CHARACTERS} characters"
        )
    try:
        root = yaml.compose(text.removeprefix("\ufeff"), Loader=_Loader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        place = f"{name}:{mark.line + 1}" if mark else name
        said = ", ".join(x for x in (exc.context, exc.problem) if x)
        raise ConfigError(f"{place}: not YAML: {said}", expected="a YAML file") from exc
    except yaml.YAMLError as exc:  # characters that YAML forbids
        said = str(exc).partition("\n")[0]
        raise ConfigError(f"{name}: not YAML: {said}", expected="a YAML file") from exc
    if root is None:
        return None
    return _Reading(name).node(root, 0)


class _Reading:
    """One conversion, with the count of what it has built."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def node(self, node: yaml.Node, depth: int) -> Node:
        line = node.start_mark.line + 1
        self._count += 1
        if self._count > _MAX_NODES or depth > _MAX_DEPTH:
            raise ConfigError(
                f"{self._name}:{line}: too much of it, counting what aliases repeat",
                expected=f"at most {_MAX_NODES} values, nested {_MAX_DEPTH} deep",
            )
        if node.tag not in _PLAIN_TAGS:
            raise ConfigError(
                f"{self._name}:{line}: the tag {node.tag[:_SHOWN]!r}", expected="no tags"
            )
        if isinstance(node, yaml.MappingNode):
            return self._table(node, depth, line)
        if isinstance(node, yaml.SequenceNode):
            return Listing(tuple(self.node(n, depth + 1) for n in node.value), line)
        assert isinstance(node, yaml.ScalarNode)  # there is no fourth kind
        return Scalar(node.value, node.style is None, line)

    def _table(self, node: yaml.MappingNode, depth: int, line: int) -> Table:
        entries: list[Entry] = []
        lines: dict[str, int] = {}
        for key, value in node.value:
            at = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"{self._name}:{at}: a key that is no name", expected="a name")
            if key.value in lines:
                raise ConfigError(
                    f"{self._name}:{at}: {key.value[:_SHOWN]}: the key is there twice "
                    f"(first on line {lines[key.value]})",
                    expected="each key once",
                )
            lines[key.value] = at
            entries.append(Entry(key.value, self.node(value, depth + 1), at))
        return Table(tuple(entries), line)


def scalar(node: Scalar) -> bool | int | float | str | None:
    """What an unquoted scalar is in YAML's core schema; text where it is nothing else.

    ``yes``, ``off`` and dates are text. Numbers that do not fit are text too, so that a reader
    who wants a number refuses them; ``.inf`` and ``.nan`` likewise.
    """
    text = node.text
    if not node.plain:
        return text
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    if _INTEGER.match(text):
        return int(text)
    if _NUMBER.match(text):
        value = float(text)
        return text if value in (float("inf"), float("-inf")) else value
    return text


def is_unbounded(node: Scalar) -> bool:
    """True for an unquoted NaN or infinity, in any spelling of it."""
    return node.plain and bool(_UNBOUNDED.match(node.text))


def describe(node: Node | None) -> str:
    """A value in an error message: what kind it is, and its beginning."""
    if node is None:
        return "nothing"
    if isinstance(node, Listing):
        return "a list"
    if isinstance(node, Table):
        return "a table of keys"
    value = scalar(node)
    shown = f"{node.text[:_SHOWN]!r}" + ("..." if len(node.text) > _SHOWN else "")
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the truth value {node.text}"
    if isinstance(value, (int, float)):
        return f"the number {node.text[:_SHOWN]}"
    return f"the text {shown}"
