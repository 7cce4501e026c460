"""Observations, engines and concurrency as one JSON object each, and back. Pure.

Knows :mod:`iqaction.calls` and the schema ``observation``; knows no file. Every field survives;
``observed_at`` is stored beside them and is never read back, so that no judgement can hang on
the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iqaction.calls import (
    Answer,
    Arm,
    Capability,
    Drawn,
    EngineInfo,
    Evaluated,
    Failure,
    FailureKind,
    Generation,
    Observation,
    Scored,
    Tag,
    TokenIds,
)
from iqaction.errors import EvidenceError
from iqaction.evidence import canon, dataclass_json, schema
from iqaction.evidence.rows_codec import decode_rows, encode_rows
from iqaction.json_value import JSON
from iqaction.rows import Rows

SCHEMA = "https://inferquality.dev/schemas/observation/v1"
MAX_IDS = 2_000_000
_ID_LIMIT = 2**62
_ODD = "written by another version of the tool?"


def observation_to_json(stage: str, observation: Observation, observed_at: str) -> dict[str, JSON]:
    """One observation of ``stage``; ``observed_at`` is UTC, ISO 8601 with a ``Z``.

    Raises
    ------
    EvidenceError
        Where it is not what the schema allows.
    """
    tag = observation.tag
    body = _head("observation", observed_at)
    body |= {
        "stage": stage,
        "tag": {
            "arm": tag.arm.value,
            "leg": tag.leg,
            "unit": tag.unit,
            "launch": tag.launch,
            "attempt": tag.attempt,
        },
        "call_sha256": observation.call_sha256,
        "attempts": observation.attempts,
        "elapsed_s": observation.elapsed_s,
        "answer": _answer_to_json(observation.answer),
    }
    schema.validate("observation", body, "observation")
    return body


def observation_from_json(body: Mapping[str, JSON]) -> tuple[str, Observation]:
    """Stage and observation of what :func:`observation_to_json` wrote.

    Raises
    ------
    EvidenceError
        Not as the schema says, or numbers that are none (see ``rows_codec``).
    """
    schema.validate("observation", body, "observation")
    return observation_from_checked(body)


def observation_from_checked(body: Mapping[str, JSON]) -> tuple[str, Observation]:
    """The same for a body that has passed the schema already."""
    match body:
        case {
            "kind": "observation",
            "stage": str(stage),
            "tag": dict(tag),
            "call_sha256": str(call),
            "attempts": int(attempts),
            "elapsed_s": int() | float() as elapsed,
            "answer": dict(answer),
        }:
            return stage, Observation(
                tag_from_json(tag), call, _answer_from_json(answer), attempts, canon.real(elapsed)
            )
    raise EvidenceError("not an observation", expected=_ODD)


def engine_to_json(arm: Arm, launch: int, info: EngineInfo, observed_at: str) -> dict[str, JSON]:
    """Who answered for an arm and launch; raises as :func:`observation_to_json`."""
    body = _head("engine", observed_at)
    body |= {
        "arm": arm.value,
        "launch": launch,
        "info": {
            "dialect": info.dialect,
            "version": info.version,
            "model": info.model,
            "models": _list(info.models),
            "capabilities": _list(sorted(c.value for c in info.capabilities)),
            "fingerprint": info.fingerprint,
            "slots": info.slots,
            "max_model_len": info.max_model_len,
            "eos_id": info.eos_id,
            "base_url": info.base_url,
            "details": dict(info.details),
            "limitations": _list(info.limitations),
            "filters": _list(info.filters),
            **({"not_restarted": True} if info.not_restarted else {}),
            "tokenizer_sha256": info.tokenizer_sha256,
            "template_sha256": info.template_sha256,
        },
    }
    schema.validate("observation", body, "engine")
    return body


def engine_from_json(body: Mapping[str, JSON]) -> tuple[Arm, int, EngineInfo]:
    """Arm, launch and engine of what :func:`engine_to_json` wrote; raises likewise."""
    schema.validate("observation", body, "engine")
    return engine_from_checked(body)


def engine_from_checked(body: Mapping[str, JSON]) -> tuple[Arm, int, EngineInfo]:
    """The same for a body that has passed the schema already."""
    match body:
        case {"kind": "engine", "arm": str(arm), "launch": int(launch), "info": dict(info)}:
            return Arm(arm), launch, _engine(info)
    raise EvidenceError("not an engine", expected=_ODD)


def concurrency_to_json(
    arm: Arm, launch: int, value: int, source: str, observed_at: str
) -> dict[str, JSON]:
    """How many requests were in flight, and where the number comes from."""
    body = _head("concurrency", observed_at)
    body |= {"arm": arm.value, "launch": launch, "value": value, "source": source}
    schema.validate("observation", body, "concurrency")
    return body


def concurrency_from_json(body: Mapping[str, JSON]) -> tuple[Arm, int, int, str]:
    """Arm, launch, value and source of what :func:`concurrency_to_json` wrote."""
    schema.validate("observation", body, "concurrency")
    return concurrency_from_checked(body)


def concurrency_from_checked(body: Mapping[str, JSON]) -> tuple[Arm, int, int, str]:
    """The same for a body that has passed the schema already."""
    match body:
        case {
            "kind": "concurrency",
            "arm": str(arm),
            "launch": int(launch),
            "value": int(value),
            "source": str(source),
        }:
            return Arm(arm), launch, value, source
    raise EvidenceError("not a concurrency", expected=_ODD)


def _head(kind: str, observed_at: str) -> dict[str, JSON]:
    return {"$schema": SCHEMA, "kind": kind, "observed_at": observed_at}


def _list(texts: Iterable[str]) -> list[JSON]:
    return [*texts]


def _answer_to_json(answer: Answer) -> dict[str, JSON]:
    match answer:
        case Generation():
            return {
                "kind": "generation",
                "text": answer.text,
                "finish_reason": answer.finish_reason,
                "rows": None if answer.rows is None else encode_rows(answer.rows),
                "rows_complete": answer.rows_complete,
                "reasoning": answer.reasoning,
                "prompt_ids": None if answer.prompt_ids is None else list(answer.prompt_ids),
                "prompt_tokens": answer.prompt_tokens,
                "completion_tokens": answer.completion_tokens,
                "top_logprobs": answer.top_logprobs,
                "eos_id": answer.eos_id,
                "model": answer.model,
                "fingerprint": answer.fingerprint,
                "flags": list(answer.flags),
            }
        case Scored():
            rows = encode_rows(answer.rows)
            return {
                "kind": "scored",
                "rows": rows,
                "method": answer.method,
                "flags": list(answer.flags),
            }
        case Drawn():
            return {
                "kind": "drawn",
                "rows": encode_rows(answer.rows),
                "lengths": list(answer.lengths),
                "finish_reasons": list(answer.finish_reasons),
                "completion_tokens": answer.completion_tokens,
                "top_logprobs": answer.top_logprobs,
                "eos_id": answer.eos_id,
                "flags": list(answer.flags),
            }
        case TokenIds():
            return {"kind": "token_ids", "ids": list(answer.ids)}
        case Evaluated():
            return {"kind": "evaluated", **dataclass_json.to_json(answer)}
        case Failure():
            return {
                "kind": "failure",
                "failure": answer.kind.value,
                "message": answer.message,
                "status": answer.status,
            }


def _answer_from_json(body: Mapping[str, JSON]) -> Answer:
    match body["kind"]:
        case "generation":
            return _generation(body)
        case "scored":
            rows = _rows(body["rows"])
            assert rows is not None  # by the schema
            return Scored(rows, str(body["method"]), _texts(body["flags"]))
        case "drawn":
            return _drawn(body)
        case "token_ids":
            return TokenIds(_ids(body["ids"]))
        case "evaluated":
            return dataclass_json.from_json(body, Evaluated)
        case _:
            return Failure(
                FailureKind(body["failure"]), str(body["message"]), _count(body["status"])
            )


def _generation(body: Mapping[str, JSON]) -> Generation:
    ids = body["prompt_ids"]
    return Generation(
        text=str(body["text"]),
        finish_reason=str(body["finish_reason"]),
        rows=_rows(body["rows"]),
        rows_complete=body["rows_complete"] is True,
        reasoning=str(body["reasoning"]),
        prompt_ids=None if ids is None else _ids(ids),
        prompt_tokens=_count(body["prompt_tokens"]),
        completion_tokens=_count(body["completion_tokens"]),
        top_logprobs=_count(body["top_logprobs"]) or 0,
        eos_id=_count(body["eos_id"]),
        model=str(body["model"]),
        fingerprint=str(body["fingerprint"]),
        flags=_texts(body["flags"]),
    )


def _drawn(body: Mapping[str, JSON]) -> Drawn:
    rows, lengths = _rows(body["rows"]), body["lengths"]
    finished = _texts(body["finish_reasons"])
    assert rows is not None and isinstance(lengths, list)  # by the schema
    each = tuple(x for x in lengths if type(x) is int)
    if len(each) != len(lengths) or len(each) != len(finished) or sum(each) != len(rows):
        raise EvidenceError(
            "the sequences of a draw are not as long as its rows", expected="lengths that add up"
        )
    return Drawn(
        rows,
        each,
        finished,
        _count(body["completion_tokens"]),
        _count(body["top_logprobs"]) or 0,
        _count(body["eos_id"]),
        _texts(body["flags"]),
    )


def _engine(info: Mapping[str, JSON]) -> EngineInfo:
    details, capabilities = info["details"], info["capabilities"]
    assert isinstance(details, dict) and isinstance(capabilities, list)  # by the schema
    return EngineInfo(
        dialect=str(info["dialect"]),
        version=str(info["version"]),
        model=str(info["model"]),
        models=_texts(info["models"]),
        capabilities=frozenset(Capability(c) for c in capabilities),
        fingerprint=str(info["fingerprint"]),
        slots=_count(info["slots"]),
        max_model_len=_count(info["max_model_len"]),
        eos_id=_count(info["eos_id"]),
        base_url=str(info["base_url"]),
        details={k: str(v) for k, v in details.items()},
        limitations=_texts(info["limitations"]),
        filters=_texts(info.get("filters")),
        not_restarted=info.get("not_restarted") is True,
        tokenizer_sha256=str(info.get("tokenizer_sha256", "")),
        template_sha256=str(info.get("template_sha256", "")),
    )


def tag_from_json(body: Mapping[str, JSON]) -> Tag:
    """The tag of a schema-checked observation."""
    match body:
        case {
            "arm": str(arm),
            "leg": str(leg),
            "unit": str(unit),
            "launch": int(launch),
            "attempt": int(attempt),
        }:
            return Tag(Arm(arm), leg, unit, launch, attempt)
    raise EvidenceError("not a tag", expected=_ODD)


def _rows(body: JSON) -> Rows | None:
    return decode_rows(body) if isinstance(body, dict) else None


def _count(value: JSON) -> int | None:
    """A whole number or None; 3.0, which JSON Schema calls an integer too, is read as 3."""
    return None if value is None or isinstance(value, (str, list, dict)) else int(value)


def _texts(value: JSON) -> tuple[str, ...]:
    return tuple(str(x) for x in value) if isinstance(value, list) else ()


def _ids(value: JSON) -> tuple[int, ...]:
    """Token ids, checked here: the schema would take far longer than all the rest."""
    if not isinstance(value, list) or len(value) > MAX_IDS:
        raise EvidenceError("token ids are no list of a usable length", expected="whole numbers")
    ids = tuple(x for x in value if type(x) is int and 0 <= x < _ID_LIMIT)
    if len(ids) != len(value):
        raise EvidenceError("a token id is no whole number from 0", expected="token ids")
    return ids
