"""What is never shown: what a name calls a secret, of variables, flags and commands. Pure.

Knows names and texts; not where a text comes from, nor where it goes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from iqaction.json_value import JSON

SECRET = re.compile(
    r"TOKEN(?!IZ)|KEY|SECRET|PASS|CREDENTIAL|PRIVATE|AUTH|COOKIE|DSN", re.IGNORECASE
)
USERINFO = re.compile(r"(?<=://)[^/\s@]+@")
_COUNT = re.compile(r"[0-9]{1,12}")
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s;|&()<>"'])+""")  # as bash has them, nearly
_BEARER = re.compile(r"(?i)\bbearer\s+([^\s\"']+)")
_LONG_LINE = 16  # characters: a shorter one ("done") is part of other words
FLAG = re.compile(r"--?[A-Za-z][\w-]*")
_SHORTEST = 4  # characters of a secret: a shorter one would be "found" everywhere
_ENDS = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASS(?:WORD|WD|PHRASE)?|_PWD|CREDENTIALS?|COOKIE|DSN)(?:_?[0-9]+)?\Z",
    re.IGNORECASE,
)
_LEAST = 8  # characters of a variable's value: a shorter one ("true") is in other words, too


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables whose name speaks of a secret."""
    return tuple(value for name, value in environ.items() if hides(name, value))


def secret_words(command: str) -> tuple[str, ...]:
    """What of a shell command is never shown, should its log quote it, as with ``set -x`` and
    ``set -v``. Its longer lines as a whole, and every word that a name or flag calls a secret."""
    words = _WORD.findall(command)
    found = [w.strip() for w in command.split("\n") if len(w.strip()) >= _LONG_LINE]
    for before, word in zip(("", *words), words, strict=False):
        name, equals, value = word.partition("=")
        follows = FLAG.fullmatch(before) is not None and SECRET.search(before) is not None
        if equals and hides(name, value):
            found.append(value.strip("\"'"))
        elif follows and FLAG.fullmatch(word) is None and not _COUNT.fullmatch(word):
            found.append(word.strip("\"'"))
    found += [quoted.rstrip("@") for quoted in USERINFO.findall(command)]
    return tuple(found + _BEARER.findall(command))


def of_environment(environ: Mapping[str, str]) -> tuple[str, ...]:
    """What a program that inherits these variables may print and nobody may read: the values of
    those whose names end as a secret's do, and what stands before the host of an address."""
    named = [value for name, value in environ.items() if _ENDS.search(name)]
    users = [x.rstrip("@") for value in environ.values() for x in USERINFO.findall(value)]
    return tuple(dict.fromkeys(x for x in (*named, *users) if len(x) >= _LEAST))


def hides(name: str, value: JSON) -> bool:
    """Whether a value is hidden for its name's sake. ``MAX_TOKENS: 4096`` is none."""
    if name == "content":  # a config or secret written into the file itself
        return isinstance(value, str)
    if SECRET.search(name) is None or isinstance(value, (dict, list, bool)) or value is None:
        return False
    counts = name.upper().endswith(("TOKENS", "TOKENS_PER_BATCH"))
    return not (counts and _COUNT.fullmatch(str(value)))


def spelled(secrets: Sequence[str]) -> tuple[str, ...]:
    """The texts to look for: each secret, and each line of one that has several."""
    texts = {text for s in secrets for text in (s, s.strip(), *s.split("\n"))}
    return tuple(sorted((t for t in texts if len(t) >= _SHORTEST), key=len, reverse=True))


def mask(text: str, secrets: Sequence[str]) -> str:
    """``text`` with each secret (see :func:`spelled`) as ``***``."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
