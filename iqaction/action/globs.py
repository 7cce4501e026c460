r"""The ``paths`` input: GitHub's path filters. Knows patterns and strings, no files and no diff.

As GitHub documents them for ``on.push.paths``: a pattern matches the whole path from the
repository's root; ``*`` matches within a folder, ``**`` over folders (``**/`` none of them too),
``?`` zero or one and ``+`` one or more of the character before, ``[0-9a-f]`` one of these. ``!``
in front takes back what earlier patterns matched; the last pattern that matches a path decides.

Where nothing matches, the action goes green without asking the model. So a pattern that cannot
match what its author meant (``./src``, ``- src/**``, ``*.{yml,yaml}``) is an error, not silence.

Patterns run as an automaton over all their states at once: no pattern makes a path slow.
"""

from __future__ import annotations

import re
from functools import lru_cache

from iqaction.errors import ConfigError

MAX_PATTERN = 1024
MAX_PATTERNS = 256
_KNOWN_STEPS = 2_000  # steps of the automaton remembered per pattern

_ALTERNATIVES = re.compile(r"(?<!\\)\{[^{}]*,[^{}]*\}")
_RANGES = (("a", "z"), ("A", "Z"), ("0", "9"))
_SYNTAX = "the path filters of GitHub workflows: one pattern a line, with * ** ? + [a-z] and !"


def parse(text: str) -> tuple[str, ...]:
    """The patterns of a multi-line input, one a line; blank lines and ``#`` comments dropped.

    Raises
    ------
    ConfigError
        A pattern can match nothing, or there are only negations.
    """
    lines = (line.strip() for line in text.splitlines())
    patterns = tuple(line for line in lines if line and not line.startswith("#"))
    if patterns:
        _compiled(patterns)
    return patterns


def matches(path: str, patterns: tuple[str, ...]) -> bool:
    """True when the last pattern that matches the path is no negation, and without patterns.

    Raises
    ------
    ConfigError
        As :func:`parse`.
    """
    if not patterns:
        return True
    for pattern in reversed(_compiled(patterns)):
        if pattern.matches(path):
            return not pattern.negates
    return False


def touches(path: str, patterns: tuple[str, ...]) -> bool:
    """As :func:`matches`, and True for a path above what a pattern can match: there stands a
    submodule or a link for all that is in it.

    Above ``**`` any path would stand, so only the folders before it count.
    """
    return matches(path, patterns) or any(
        _is_above(path, pattern) for pattern in patterns if not pattern.startswith("!")
    )


def _is_above(path: str, pattern: str) -> bool:
    depth = path.count("/") + 1
    folders = pattern.split("/")
    above = "/".join(folders[:depth])
    if depth >= len(folders) or "**" in above:
        return False
    found = _cut(above)
    return found is None or found.matches(path)


@lru_cache(maxsize=1024)
def _cut(pattern: str) -> _Pattern | None:
    try:
        return _Pattern(pattern)
    except ConfigError:  # cut within an escape: what cannot be told is relevant
        return None


class _Pattern:
    """One pattern as an automaton; its states are the bits of one integer."""

    def __init__(self, text: str) -> None:
        self.negates = text.startswith("!")
        self._literals: dict[str, int] = {}  # character -> the states that it leaves
        self._any = 0  # states left by every character
        self._within = 0  # states left by all but the slash
        self._loops = 0  # states that a character leads back to
        self._free: list[tuple[int, int]] = []  # state, and what it reaches without a character
        self._size = 0
        self._steps: dict[tuple[int, str], int] = {}
        _Reader(text, self).read(1 if self.negates else 0)
        self._start = self._reach(1)

    def matches(self, path: str) -> bool:
        states = self._start
        for character in path:
            if not states:
                return False
            key = (states, character)
            known = self._steps.get(key)
            if known is None:
                known = self._step(states, character)
                if len(self._steps) < _KNOWN_STEPS:
                    self._steps[key] = known
            states = known
        return bool(states >> self._size & 1)

    def _step(self, states: int, character: str) -> int:
        leaving = self._literals.get(character, 0) | self._any
        if character != "/":
            leaving |= self._within
        leaving &= states
        return self._reach((leaving & ~self._loops) << 1 | leaving & self._loops)

    def _reach(self, states: int) -> int:
        for state, reached in self._free:  # in ascending order, and they lead forward only
            if states >> state & 1:
                states |= reached
        return states

    def one(self, characters: str) -> None:
        """A state left by any of these characters."""
        for character in characters:
            self._literals[character] = self._literals.get(character, 0) | 1 << self._size
        self._size += 1

    def none_or_more(self, characters: str) -> None:
        """A state that these characters lead back to."""
        self._loops |= 1 << self._size
        self.none_or_one(characters)

    def none_or_one(self, characters: str) -> None:
        self._free.append((self._size, 2 << self._size))
        self.one(characters)

    def stars(self, *, within: bool) -> None:
        """Any characters; ``within``: of one folder."""
        if within:
            self._within |= 1 << self._size
        else:
            self._any |= 1 << self._size
        self.none_or_more("")

    def folders(self) -> None:
        """``**/``: nothing, or characters and a slash."""
        self._free.append((self._size, (2 | 8) << self._size))
        self._size += 1
        self.stars(within=False)
        self.one("/")


class _Reader:
    """Reads one pattern into an automaton."""

    def __init__(self, text: str, into: _Pattern) -> None:
        self._text = text
        self._into = into
        self._at = 0

    def read(self, start: int) -> None:
        _check(self._text, self._text[start:])
        self._at = start
        while self._at < len(self._text):
            if self._text.startswith("**", self._at):
                self._double_star(start)
            elif self._text[self._at] == "*":
                self._into.stars(within=True)
                self._at += 1
            else:
                self._character()

    def _double_star(self, start: int) -> None:
        text, at = self._text, self._at
        if text.startswith("**/", at) and (at == start or text[at - 1] == "/"):
            self._into.folders()
            self._at += 3
        else:
            self._into.stars(within=False)
            self._at += 2

    def _character(self) -> None:
        """One character or set, with the ``?`` or ``+`` behind it."""
        characters = self._next()
        sign = self._text[self._at : self._at + 1]
        if sign == "?":
            self._into.none_or_one(characters)
        else:
            self._into.one(characters)
            if sign == "+":
                self._into.none_or_more(characters)
        if sign and sign in "?+":
            self._at += 1

    def _next(self) -> str:
        character = self._text[self._at]
        if character in "?+":
            raise _wrong(self._text, f"`{character}` follows no character and no [set]")
        self._at += 1
        if character == "[":
            return self._set()
        if character == "\\":
            if self._at == len(self._text):
                raise _wrong(self._text, "nothing follows its last `\\`")
            character = self._text[self._at]
            self._at += 1
        return character

    def _set(self) -> str:
        end = self._text.find("]", self._at)
        if end < 0:
            raise _wrong(self._text, "its `[` is not closed")
        inner, self._at = self._text[self._at : end], end + 1
        if not inner:
            raise _wrong(self._text, "its [] is empty")
        return "".join(self._listed(inner))

    def _listed(self, inner: str) -> list[str]:
        listed = []
        at = 0
        while at < len(inner):
            if inner[at + 1 : at + 2] == "-":
                listed.append(self._range(inner[at : at + 3]))
                at += 3
            elif inner[at].isascii() and inner[at].isalnum():
                listed.append(inner[at])
                at += 1
            else:
                raise _wrong(self._text, "a [set] lists letters and digits only")
        return listed

    def _range(self, text: str) -> str:
        first, last = text[0], text[2:]
        if not any(low <= first <= last <= high for low, high in _RANGES):
            raise _wrong(self._text, f"[{text}] is no range within a-z, A-Z or 0-9")
        return "".join(map(chr, range(ord(first), ord(last) + 1)))


def _check(text: str, positive: str) -> None:
    """Refuse what no path of a repository can match."""
    folders = positive.split("/")
    if not positive:
        raise _wrong(text, "it is empty")
    if len(text) > MAX_PATTERN:
        raise _wrong(text, f"it is longer than {MAX_PATTERN} characters")
    if positive.startswith("- ") or positive[0] in "'\"":
        raise _wrong(text, "it is written as in YAML: no dash and no quotes are wanted here")
    if folders[0] in ("", ".", ".."):
        raise _wrong(text, "paths start at the repository's root, without `/` and `./`")
    if not folders[-1]:
        raise _wrong(text, f"it names a folder; what lies in it is {positive}**")
    if any(folder in ("", ".", "..") for folder in folders):
        raise _wrong(text, "it holds an empty folder name, `.` or `..`")
    if _ALTERNATIVES.search(positive):
        raise _wrong(text, "GitHub knows no {a,b}; write one line for each (or `\\{`)")


def _wrong(pattern: str, why: str) -> ConfigError:
    shown = pattern if len(pattern) <= 100 else pattern[:99] + "…"
    return ConfigError(
        f"input `paths`: the pattern {shown!r} can match no path: {why}",
        expected=_SYNTAX,
        next_step="correct the input",
    )


@lru_cache(maxsize=8)
def _compiled(patterns: tuple[str, ...]) -> tuple[_Pattern, ...]:
    if len(patterns) > MAX_PATTERNS:
        raise ConfigError(
            f"input `paths`: {len(patterns)} patterns",
            expected=f"at most {MAX_PATTERNS}",
            next_step="name folders, with `**`",
        )
    compiled = tuple(map(_Pattern, patterns))
    if all(pattern.negates for pattern in compiled):
        raise ConfigError(
            f"input `paths`: the only patterns are negations, {patterns[0]!r} first",
            expected="a pattern that matches something, before those that take back",
            next_step="put `**` on the first line to mean all files",
        )
    return compiled
