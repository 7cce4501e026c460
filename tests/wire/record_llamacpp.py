"""Records whole conversations with a running llama.cpp server: ``record_llamacpp.py URL``.

Writes recordings/llama.cpp-b11549/conversation_*.json. Folder names in the answers are replaced.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Generator
from typing import Any, TypeVar

from wire.replay import RECORDINGS, TAG, chat

from iqaction import engines
from iqaction.calls import Call, Force, Generation, Tokenize
from iqaction.engines._base import WireReply, WireRequest
from iqaction.engines._detect import discover
from iqaction.http import Wire

T = TypeVar("T")
OUT = RECORDINGS / "llama.cpp-b11549"


def record(
    wire: Wire, name: str, speaking: Generator[WireRequest, WireReply, T], **about: Any
) -> T:
    """Hold the conversation, write it, return its result."""
    exchanges = []
    try:
        request = next(speaking)
        while True:
            reply = wire.send(request)
            exchanges.append(
                {
                    "request": {
                        "method": request.method,
                        "path": request.path,
                        "body": request.body,
                    },
                    "status": reply.status,
                    "headers": {"server": reply.headers.get("server", "")},
                    "body_json": reply.body,
                    "body_text": reply.text or None,
                }
            )
            request = speaking.send(reply)
    except StopIteration as stop:
        result: T = stop.value
    text = json.dumps({**about, "exchanges": exchanges}, ensure_ascii=False, indent=1)
    text = re.sub(r'"(/[^"]*/)([^"/]+\.gguf)"', r'"/models/\2"', text)
    (OUT / f"conversation_{name}.json").write_text(text + "\n", encoding="utf-8")
    return result


def main(url: str) -> None:
    wire = Wire(url)
    engine = record(wire, "detect", discover("", "auto"))
    dialect = engines.load("llamacpp")

    def ask(name: str, call: Call) -> Any:
        about = {"kind": type(call).__name__, "call": dataclasses.asdict(call)}
        return record(wire, name, dialect.speak(call, engine), **about)

    ended = ask("chat_end", chat("Say hi.", max_tokens=40, top_logprobs=5))
    emoji = ask(
        "chat_fragments",
        chat("Repeat exactly: \U0001f600 naïve 東京", max_tokens=24, top_logprobs=3),
    )
    assert isinstance(ended, Generation) and isinstance(emoji, Generation)
    for name, answer, k in (("force_end", ended, 5), ("force_fragments", emoji, 3)):
        assert answer.rows is not None and answer.prompt_ids is not None
        ids = tuple(int(i) for i in answer.rows.chosen)
        ask(name, Force(TAG, answer.prompt_ids, ids[:12] if name == "force_fragments" else ids, k))
    assert ended.prompt_ids is not None
    # <|endoftext|> (0) ends a generation too, and stands where no end is expected.
    ask("force_other_end", Force(TAG, ended.prompt_ids, (19556, 665, 0, 17), 5))
    ask("tokenize_chat", Tokenize(TAG, None, chat().messages))


if __name__ == "__main__":
    main(sys.argv[1])
