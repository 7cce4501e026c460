"""Reads what tokenizer endpoints answer. Knows their shapes, and sends nothing."""

from __future__ import annotations

from iqaction.calls import Failure, FailureKind, TokenIds
from iqaction.engines import _errors
from iqaction.engines._base import WireReply
from iqaction.engines._reading import as_count, as_id, as_ids, as_map
from iqaction.json_value import JSON


def read_ids(body: JSON) -> tuple[int, ...] | None:
    """The token ids of one text; None where the answer holds none or those of several texts.

    Shapes: ``{"tokens": [1, 2]}``, llama.cpp's ``{"tokens": [{"id": 1, "piece": ...}]}``, TGI's
    bare list of objects, and SGLang's list of lists where one text was asked for.
    """
    tokens = body if isinstance(body, list) else as_map(body).get("tokens")
    if not isinstance(tokens, list):
        return None
    if len(tokens) == 1 and isinstance(tokens[0], list):
        tokens = tokens[0]
    if tokens and isinstance(tokens[0], dict):
        ids = tuple(as_id(as_map(t).get("id")) for t in tokens)
        return tuple(i for i in ids if i is not None) if None not in ids else None
    return as_ids(tokens)


def token_ids(reply: WireReply, empty_allowed: bool) -> TokenIds | Failure:
    """The answer to a Tokenize.

    No ids for a text that is not empty is no answer: llama.cpp says so to any request whose
    field it does not know.
    """
    if reply.failure is not None or reply.status != 200:
        if _errors.is_missing(reply):
            return Failure(
                FailureKind.UNSUPPORTED, "tokenize: the server has no such endpoint", reply.status
            )
        return _errors.failure(reply, "tokenize")
    ids = read_ids(reply.body)
    if ids is None:
        return Failure(FailureKind.MALFORMED, "tokenize: no list of token ids in the answer", 200)
    told = as_count(as_map(reply.body).get("count"))
    if told is not None and told != len(ids):
        said = f"{len(ids)} token ids, counted as {told}"
        return Failure(FailureKind.MALFORMED, f"tokenize: {said}", 200)
    if not ids and not empty_allowed:
        return Failure(FailureKind.MALFORMED, "tokenize: no token ids for a text", 200)
    return TokenIds(ids)
