"""Who answers at an endpoint, and what is said where nobody usable does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire.replay import answer, load, reply_of, run

from iqaction import engines
from iqaction.calls import Capability, FailureKind
from iqaction.engines import _models
from iqaction.engines._base import WireReply, WireRequest
from iqaction.engines._detect import discover
from iqaction.errors import EngineError

NOT_FOUND = answer(404, {"detail": "Not Found"})
Answers = Callable[[WireRequest], WireReply]


def server(**by_path: WireReply) -> Answers:
    """``server(v1_models=..., props=...)`` answers those paths, and 404 to others."""
    return lambda request: by_path.get(request.path.strip("/").replace("/", "_"), NOT_FOUND)


def models(*entries: Any, owner: str = "someone") -> WireReply:
    listed = [e if isinstance(e, dict) else {"id": e, "owned_by": owner} for e in entries]
    return answer(200, {"object": "list", "data": listed})


@pytest.mark.parametrize("owner", ["vllm", "sglang", "llamacpp"])
def test_discover__by_the_owner(owner: str) -> None:
    """An engine's own word about itself decides."""
    info = run(discover("", "auto"), server(v1_models=models("m", owner=owner)))

    assert (info.dialect, info.model) == (owner, "m")
    assert Capability.FORCE in info.capabilities


def test_discover__llamacpp_by_its_props() -> None:
    """Behind a proxy that lists models itself, /props still tells."""
    props = reply_of(load("llama.cpp-b11549/get_props"))
    info = run(discover("", "auto"), server(v1_models=models("m"), props=props))

    assert (info.dialect, info.slots, info.max_model_len) == ("llamacpp", 1, 4096)


def test_discover__anything_else_is_openai() -> None:
    """Forcing and tokenizing are not claimed for a server of unknown kind."""
    info = run(discover("", "auto"), server(v1_models=models("m")))

    assert info.dialect == "openai"
    assert info.capabilities == {Capability.CHAT, Capability.TOP_LOGPROBS}
    assert info.limitations


def test_discover__a_named_dialect_is_believed() -> None:
    """A gateway may hide the engine; that nobody confirmed it is recorded."""
    info = run(discover("", "vllm"), server(v1_models=models("m", owner="gateway")))

    assert (info.dialect, info.model) == ("vllm", "m")
    assert info.capabilities == frozenset(Capability)
    assert "does not say" in info.limitations[0]


def test_discover__a_server_without_a_listing_needs_a_name() -> None:
    """A chat-only gateway is used under the given name, unchecked and said so."""
    info = run(discover("m", "auto"), server())

    assert (info.dialect, info.model) == ("openai", "m")
    assert any("could not be checked" in x for x in info.limitations)
    with pytest.raises(EngineError):
        run(discover("", "auto"), server())


@pytest.mark.parametrize("dialect", ["auto", "openai", "vllm", "llamacpp", "sglang"])
def test_discover__a_wrong_model_name(dialect: str) -> None:
    """llama.cpp would answer any name with what it has: it is checked before."""
    owner = dialect if dialect not in ("auto", "openai") else "llamacpp"
    with pytest.raises(EngineError) as caught:
        run(discover("wrong", dialect), server(v1_models=models("right", owner=owner)))

    assert "'wrong'" in str(caught.value)
    assert "'right'" in str(caught.value)


def test_choose__a_name_without_its_tag() -> None:
    """Ollama lists "m:latest" and knows it as "m" as well."""
    served = _models.read({"data": [{"id": "m:latest"}, {"id": "m:8b"}]})

    assert _models.choose("m", served).name == "m:latest"
    assert _models.choose("m:8b", served).name == "m:8b"


def test_read__a_bare_list() -> None:
    """Some gateways answer without `data`."""
    assert [m.name for m in _models.read([{"id": "a"}, 5, {"id": "b"}])] == ["a", "b"]


def test_choose__aliases_count() -> None:
    """llama.cpp lists them beside the id, and vLLM serves one model under several names."""
    listing = models({"id": "a.gguf", "aliases": ["a", "b", 5]}).body
    assert _models.choose("b", _models.read(listing)).name == "a.gguf"
    twins = models({"id": "x", "root": "/m"}, {"id": "y", "root": "/m"}).body
    assert _models.choose("", _models.read(twins)).name == "x"


def test_choose__several_models_and_no_name() -> None:
    """Which one is meant is not guessed; adapters do not count."""
    with pytest.raises(EngineError) as caught:
        _models.choose("", _models.read(models("x", "y").body))

    assert "'x', 'y'" in str(caught.value)
    adapter = models("base", {"id": "lora", "parent": "base"}).body
    assert _models.choose("", _models.read(adapter)).name == "base"


@pytest.mark.parametrize("status", [401, 403])
def test_discover__a_key_is_needed(status: int) -> None:
    """The message names the setting."""
    with pytest.raises(EngineError) as caught:
        run(discover("", "auto"), lambda _: answer(status, {"error": "Unauthorized"}))

    assert "api_key_env" in str(caught.value)
    assert "Unauthorized" in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (WireReply(0, failure=FailureKind.CONNECT, message="refused"), "nobody answers"),
        (WireReply(0, failure=FailureKind.TIMEOUT, message="no answer"), "nobody answers"),
        (answer(503, {"error": {"message": "Loading model"}}), "Loading model"),
        (answer(504, text="<title>504</title>"), "nobody answers"),
        (answer(404, text="<html>nginx</html>"), "no OpenAI-compatible server"),
        (answer(200, text="<html>Welcome</html>"), "no OpenAI-compatible server"),
        (answer(200, {"data": []}), "lists no model"),
        (answer(200, {"object": "list", "data": None}), "lists no model"),
        (answer(200, {"models": []}), "no OpenAI-compatible server"),
        (answer(500, {"error": "boom"}), "boom"),
        (answer(302, {}, location="http://h/"), "nobody answers"),
    ],
)
@pytest.mark.parametrize("dialect", ["auto", "vllm", "openai"])
def test_discover__no_usable_server(reply: WireReply, said: str, dialect: str) -> None:
    """One clear error with what to do next."""
    with pytest.raises(EngineError) as caught:
        run(discover("", dialect), lambda _: reply)

    assert said in str(caught.value)
    assert caught.value.next_step


def test_discover__asks_nothing_twice() -> None:
    """All dialects look at the same answers."""
    asked: list[str] = []

    def answers(request: WireRequest) -> WireReply:
        asked.append(request.path)
        return models("m") if request.path == "/v1/models" else NOT_FOUND

    run(discover("", "auto"), answers)

    assert len(asked) == len(set(asked))


def test_sglang__slots_and_version() -> None:
    """The newer path first, the older one where it is missing; the number in either place."""
    told = {"version": "0.5.2", "internal_states": [{"max_running_requests": 48}], "dtype": "auto"}
    answers = server(v1_models=models("m", owner="sglang"), get_server_info=answer(200, told))
    info = run(discover("", "auto"), answers)

    assert (info.version, info.slots) == ("0.5.2", 48)
    assert info.details == {"dtype": "auto"}


def test_llamacpp__without_props() -> None:
    """A server that guards /props is used; what it did not tell is a limitation."""
    info = run(discover("", "auto"), server(v1_models=models("m", owner="llamacpp")))

    assert (info.slots, info.eos_id, info.max_model_len) == (None, None, None)
    assert len(info.limitations) == 2


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["data", "id", "owned_by", "aliases", "total_slots", "eos_token", "version",
                 "default_generation_settings", "internal_states", "meta", "max_model_len"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON_VALUES, st.sampled_from(engines.names()), st.sampled_from([200, 404, 500]))
def test_detect__whatever_comes(body: Any, dialect: str, status: int) -> None:
    """A hostile server gets an EngineInfo, None or an EngineError, never a traceback."""
    with contextlib.suppress(EngineError):
        info = run(engines.load(dialect).detect(""), lambda _: answer(status, body))
        assert info is None or info.dialect == dialect
