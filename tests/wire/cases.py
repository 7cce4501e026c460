"""The cases of `cases.jsonl`, and what checks them: every check names the cases that it is of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wire.replay import Script, answer, chat, engine, run, tokenize

from iqaction import engines
from iqaction.calls import Call, Failure, Force, Generation
from iqaction.engines._base import WireReply

LINES = (Path(__file__).parent / "cases.jsonl").read_text(encoding="utf-8").splitlines()
CASES: dict[str, dict[str, Any]] = {c["id"]: c for c in map(json.loads, LINES)}
Check = Callable[[dict[str, Any]], None]
CHECKS: dict[str, Check] = {}

GOOD = {
    "choices": [
        {"index": 0, "message": {"content": "4"}, "logprobs": None, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 1},
}


def case(*ids: str) -> Callable[[Check], Check]:
    """The decorated function checks those cases."""

    def add(check: Check) -> Check:
        # One file may be imported under two names.
        others = {CHECKS[i].__name__ for i in ids if i in CHECKS} - {check.__name__}
        assert not others, f"{ids} are checked already: {others}"
        CHECKS.update(dict.fromkeys(ids, check))
        return check

    return add


def of(module: str) -> list[str]:
    """The cases that the checks of a test module are of."""
    last = module.rpartition(".")[2]
    return [n for n, check in CHECKS.items() if check.__module__.rpartition(".")[2] == last]


def reply_of(c: dict[str, Any]) -> WireReply:
    body, text = c["response"], ""
    if isinstance(body, str):
        body, text = None, body
    headers = {k.lower().replace("-", "_"): v for k, v in c.get("headers", {}).items()}
    return answer(c.get("status", 200), body, text, **headers)


def ask(
    c: dict[str, Any], dialect: str = "openai", call: Call | None = None, **changes: Any
) -> Any:
    """The answer, and the script that gave it: first the case's reply, then a good one."""
    script = Script(reply_of(c), answer(200, GOOD))
    asked = call or chat(**changes)
    result = run(engines.load(dialect).speak(asked, engine(dialect)), script)
    return result, script


def generation(c: dict[str, Any], dialect: str = "openai", **changes: Any) -> Generation:
    result, _ = ask(c, dialect, **changes)
    assert isinstance(result, Generation)
    return result


def failure(c: dict[str, Any], dialect: str = "openai", call: Call | None = None) -> Failure:
    result, _ = ask(c, dialect, call)
    assert isinstance(result, Failure)
    return result


def forced(prompt: list[int], k: int = 1) -> Force:
    return Force(tokenize("x").tag, tuple(prompt[:1]), tuple(prompt[1:]), k)
