"""A Hugging Face tokenizer in place of an endpoint that cannot tokenize (extra ``hf``). I/O.

Only the live direction uses it: a reference server without a tokenizer endpoint still has a
tokenizer, and its owner can name it.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from iqaction.calls import Call, Failure, FailureKind, Observation, TokenIds, Tokenize, digest
from iqaction.errors import ConfigError


def with_tokenizer(name: str, ask: Callable[[Call], Observation]) -> Callable[[Call], Observation]:
    """``ask``, with Tokenize calls answered by the tokenizer ``name`` (a folder or a model name).

    Raises
    ------
    ConfigError
        Where the extra is not installed or the tokenizer cannot be loaded.
    """
    try:
        from transformers import AutoTokenizer  # noqa: PLC0415 - heavy, and an extra
    except ImportError as exc:
        raise ConfigError(
            "`tokenizer` is set and transformers is not installed",
            next_step="pip install 'iqaction[hf]'",
        ) from exc
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as exc:
        raise ConfigError(
            f"the tokenizer {name!r} cannot be loaded: {str(exc)[:200]}",
            expected="a folder with tokenizer files, or a model name that is cached or reachable",
        ) from exc

    def answer(call: Call) -> Observation:
        if not isinstance(call, Tokenize):
            return ask(call)
        try:
            if call.text is not None:
                ids = tokenizer.encode(call.text, add_special_tokens=False)
            else:
                ids = tokenizer.apply_chat_template(
                    [{"role": m.role, "content": m.content} for m in call.messages],
                    add_generation_prompt=True,
                    tokenize=True,
                    return_dict=False,
                    **(json.loads(call.template_kwargs) if call.template_kwargs else {}),
                )
        except Exception as exc:
            failure = Failure(FailureKind.UNSUPPORTED, f"tokenizer: {str(exc)[:200]}")
            return Observation(call.tag, digest(call), failure)
        return Observation(call.tag, digest(call), TokenIds(tuple(int(i) for i in ids)))

    return answer
