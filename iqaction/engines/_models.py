"""Reads ``/v1/models`` and finds the model that is meant. Sends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iqaction.engines._reading import as_count, as_list, as_map, as_text
from iqaction.errors import EngineError
from iqaction.json_value import JSON

_SHOWN = 10  # names in an error message


@dataclass(frozen=True)
class Served:
    """One entry of the listing. ``parent`` names the base model of an adapter."""

    name: str
    owner: str = ""
    aliases: tuple[str, ...] = ()
    root: str = ""
    parent: str = ""
    max_model_len: int | None = None


def read(body: JSON, owner: str = "") -> tuple[Served, ...]:
    """The models of a listing; with ``owner``, only those that this engine says are its own.

    Some gateways answer with the bare list.
    """
    listed = body if isinstance(body, list) else as_list(as_map(body).get("data"))
    models = tuple(m for entry in listed if (m := _served(entry)) is not None)
    return tuple(m for m in models if not owner or m.owner == owner)


def _served(entry: JSON) -> Served | None:
    parts = as_map(entry)
    name = as_text(parts.get("id"))
    if not name:
        return None
    return Served(
        name,
        as_text(parts.get("owned_by")) or "",
        tuple(t for a in as_list(parts.get("aliases")) if (t := as_text(a))),
        as_text(parts.get("root")) or "",
        as_text(parts.get("parent")) or "",
        as_count(parts.get("max_model_len")),
    )


def names(served: Sequence[Served]) -> tuple[str, ...]:
    return tuple(m.name for m in served)


def choose(model: str, served: Sequence[Served]) -> Served:
    """The model meant by ``model``, or where it is "" the one that is served.

    Checked here because not every engine does: llama.cpp answers any name with what it has
    loaded. Several names of one model (same root) count as one, adapters do not count.

    Raises
    ------
    EngineError
        When the name is not served, or none was given and there are several models.
    """
    if model:
        for one in served:
            if model == one.name or model in one.aliases:
                return one
        for one in served:  # Ollama's name for a model without a tag
            if one.name == f"{model}:latest":
                return one
        raise EngineError(
            f"the endpoint does not serve the model {model!r}",
            expected=f"one of the names it lists: {_list(served)}",
            next_step="correct the model's name, or start the server with that name",
        )
    bases = [m for m in served if not m.parent] or list(served)
    if len({m.root or m.name for m in bases}) > 1:
        raise EngineError(
            f"the endpoint serves {len(bases)} models and none was named",
            expected=f"a model name, one of {_list(served)}",
            next_step="name the model (`model:` of the endpoint, or --model)",
        )
    return bases[0]


def _list(served: Sequence[Served]) -> str:
    shown = [repr(m.name) for m in served[:_SHOWN]]
    return ", ".join(shown) + (" ..." if len(served) > _SHOWN else "")
