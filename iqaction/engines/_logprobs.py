"""Reads the log-probabilities of an OpenAI-style answer, in every shape seen. Sends nothing.

Shapes: the chat form (``content``: entries with ``token``, ``logprob``, ``bytes``,
``top_logprobs``, at llama.cpp also ``id``), the completions form (``tokens``,
``token_logprobs``, ``top_logprobs`` as objects), and vLLM's ``token_id:N`` strings.

Values are passed on as they came: :func:`iqaction.rows.pack` judges them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from iqaction.engines._reading import (
    as_bytes,
    as_id,
    as_int,
    as_list,
    as_map,
    as_number,
    as_text,
)
from iqaction.json_value import JSON
from iqaction.rows import Position, Token, value_fault

_PLACEHOLDER = re.compile(r"token_id:([0-9]{1,10})\Z")
_UNREAD = Position(Token("", None))
_OTHERS = re.compile(rb"[^A-Za-z0-9]+")
_FEWEST_LETTERS = 8


@dataclass(frozen=True)
class Asked:
    """What the request asked for, and what else the answer tells about its tokens.

    Attributes
    ----------
    id_strings
        ``return_tokens_as_token_ids`` was sent and not refused. Only then is the string
        "token_id:5" an id: a model may also write these very characters.
    token_ids
        The generated ids, where the answer lists them apart from the log-probabilities.
    text
        The whole generated text as the answer gives it; it decides how token strings are read.
    """

    id_strings: bool = False
    token_ids: tuple[int, ...] | None = None
    text: str = ""


@dataclass(frozen=True)
class Listed:
    """Positions in order, and whether two accounts of their ids disagree."""

    positions: tuple[Position, ...]
    ids_disagree: bool = False


def read(logprobs: JSON, asked: Asked) -> Listed | None:
    """The positions of one choice's ``logprobs``; None where it lists none."""
    positions = _positions(logprobs, asked.id_strings)
    if not positions:
        return None
    positions, disagree = _with_ids(positions, asked.token_ids)
    positions = _with_names(_spelled_out(positions, asked.text))
    return Listed(positions, disagree)


def _positions(logprobs: JSON, id_strings: bool) -> tuple[Position, ...]:
    parts = as_map(logprobs)
    content = parts.get("content")
    if isinstance(content, list):
        return tuple(_chat_entry(entry, id_strings) for entry in content)
    tokens, values = as_list(parts.get("tokens")), as_list(parts.get("token_logprobs"))
    tops = as_list(parts.get("top_logprobs"))
    return tuple(
        Position(
            _token(token, values[i] if i < len(values) else None, id_strings),
            _top(tops[i], id_strings) if i < len(tops) else (),
        )
        for i, token in enumerate(tokens)
    )


def _chat_entry(entry: JSON, id_strings: bool) -> Position:
    if not isinstance(entry, dict):
        return _UNREAD
    chosen = _entry_token(entry, id_strings)
    if id_strings and chosen.id is not None:
        # vLLM keeps the true bytes here, and only here: in the list they spell "token_id:N".
        data = as_bytes(entry.get("bytes"))
        chosen = dataclasses.replace(chosen, data=data, text=_shown("", data))
    return Position(chosen, _top(entry.get("top_logprobs"), id_strings))


def _top(listed: JSON, id_strings: bool) -> tuple[Token, ...]:
    if isinstance(listed, dict):
        return tuple(_token(text, value, id_strings) for text, value in listed.items())
    # An entry that is none keeps its place, without a value: a list with a hole is no measurement.
    return tuple(
        _entry_token(entry, id_strings) if isinstance(entry, dict) else _UNREAD.chosen
        for entry in as_list(listed)
    )


def _entry_token(entry: Mapping[str, JSON], id_strings: bool) -> Token:
    if id_strings:
        token = _token(entry.get("token"), entry.get("logprob"), id_strings)
        if token.id is not None:
            return token
    data = as_bytes(entry.get("bytes"))
    text = _shown(as_text(entry.get("token")) or "", data)
    return Token(text, as_number(entry.get("logprob")), as_id(entry.get("id")), data)


def _token(text: JSON, logprob: JSON, id_strings: bool) -> Token:
    string = as_text(text) or ""
    found = _PLACEHOLDER.match(string) if id_strings else None
    token_id = as_id(int(found.group(1))) if found else None
    if token_id is not None:
        return Token("", as_number(logprob), token_id)
    return Token(string, as_number(logprob))


def _shown(text: str, data: bytes | None) -> str:
    """The text to display: bytes win, since some engines spell a token as an escape of them."""
    return data.decode("utf-8", "replace") if data else text


def _with_ids(
    positions: tuple[Position, ...], ids: tuple[int, ...] | None
) -> tuple[tuple[Position, ...], bool]:
    """Give each chosen token its id from the list of generated ids, where both are as long."""
    if ids is None or len(ids) != len(positions):
        return positions, False
    disagree = any(
        p.chosen.id is not None and p.chosen.id != i for p, i in zip(positions, ids, strict=True)
    )
    named = tuple(
        dataclasses.replace(p, chosen=dataclasses.replace(p.chosen, id=i))
        for p, i in zip(positions, ids, strict=True)
    )
    return named, disagree


def _with_names(positions: tuple[Position, ...]) -> tuple[Position, ...]:
    """Give listed ids without a text the one they have elsewhere in the answer."""
    names = known_names(positions)
    if not names:
        return positions
    return tuple(
        dataclasses.replace(p, top=tuple(named(t, names) for t in p.top)) for p in positions
    )


def known_names(positions: Iterable[Position]) -> dict[int, str]:
    """Display text by id, of the chosen tokens."""
    return {p.chosen.id: p.chosen.text for p in positions if p.chosen.id is not None}


def named(token: Token, names: Mapping[int, str]) -> Token:
    """``token`` with a text to display: its own, the known one, else its id in brackets."""
    if token.text or token.data or token.id is None:
        return token
    return Token(names.get(token.id) or f"<{token.id}>", token.logprob, token.id, token.data)


def _byte_alphabet() -> dict[str, int]:
    """The printable characters that byte-level BPE vocabularies use for bytes (GPT-2's table).

    Bytes that print stand for themselves; the others follow from U+0100 on, in order.
    """
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(b): b for b in plain}
    others = (b for b in range(256) if b not in set(plain))
    return table | {chr(256 + i): b for i, b in enumerate(others)}


_ALPHABET = _byte_alphabet()


def _spelled_out(positions: tuple[Position, ...], text: str) -> tuple[Position, ...]:
    """Read byte-level BPE strings ("Ġthere") as the text they stand for (" there").

    LMDeploy lists raw vocabulary strings, whose bytes then are those of the string. The whole
    text decides: it is done where the raw strings do not give the text and the read ones do.
    """
    raw = b"".join(_bytes(p.chosen) for p in positions)
    wanted = text.encode()
    if not wanted or wanted in raw:
        return positions
    if wanted not in b"".join(_bytes(_unspelled(p.chosen)) for p in positions):
        return positions
    return tuple(
        Position(_unspelled(p.chosen), tuple(_unspelled(t) for t in p.top)) for p in positions
    )


def _bytes(token: Token) -> bytes:
    return token.data if token.data is not None else token.text.encode()


def _unspelled(token: Token) -> Token:
    if all(c in _ALPHABET for c in token.text):
        data = bytes(_ALPHABET[c] for c in token.text)
    else:
        data = _bytes(token)  # a special token, spelled as itself
    return Token(data.decode("utf-8", "replace"), token.logprob, token.id, data)


def spells(positions: Iterable[Position], text: str) -> bool:
    """False where the chosen tokens are of another text: an engine mixed two requests up.

    Letters and digits of ASCII alone are compared, since engines list blanks, control tokens and
    parts of characters in ways of their own; a text with few of them is not judged.
    """
    wanted = _plain(text.encode())
    told = _plain(b"".join(map(_bytes, (p.chosen for p in positions))))
    return len(wanted) < _FEWEST_LETTERS or not told or wanted in told


def _plain(data: bytes) -> bytes:
    return _OTHERS.sub(b"", data)


def shortened(position: Position, k: int) -> Position:
    """The position with the ``k`` most likely of its list."""
    values = [t.logprob for t in position.top]
    if len(values) <= k or any(value_fault(v) is not None for v in values):
        return position  # a faulty list stays whole: packing then sees the fault
    likely = sorted(position.top, key=lambda t: -(t.logprob or 0.0))[:k]
    return Position(position.chosen, tuple(likely))


def is_beyond_vocabulary(choice: Mapping[str, JSON]) -> bool:
    """True where a whole number that stands for a generated token can be no id."""
    told: list[JSON] = [*as_list(choice.get("token_ids"))]
    told += [as_map(e).get("id") for e in as_list(as_map(choice.get("logprobs")).get("content"))]
    triples = as_list(as_map(choice.get("meta_info")).get("output_token_logprobs"))
    told += [t[1] for t in triples if isinstance(t, list) and len(t) > 1]
    return any(as_int(x) is not None and as_id(x) is None for x in told)


def joined(positions: Sequence[Position]) -> bytes:
    """The bytes that the chosen tokens spell, as far as the answer tells."""
    return b"".join(_bytes(p.chosen) for p in positions)
