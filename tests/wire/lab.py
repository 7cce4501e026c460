"""An engine in memory behind the real client: bytes in, what dialects and stages make of them out.

    lab = Lab(Said(500, b"boom"), Said(200, good))
    observation = lab.call(chat(), "vllm")

The client's transport is replaced below `requests`: everything that reads a body, maps an error,
tries again or waits is the product's own.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import requests
import urllib3
from requests.adapters import BaseAdapter
from wire.replay import engine

from iqaction import engines, http
from iqaction.calls import Call, EngineInfo, Observation


@dataclass(frozen=True)
class Said:
    """One answer of the server: status, the bytes of its body, headers."""

    status: int = 200
    data: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def json_of(body: object, status: int = 200, **headers: str) -> Said:
    return Said(status, json.dumps(body).encode(), headers)


def said(case: Mapping[str, Any]) -> Said:
    """What the server of a recorded case answers."""
    body = case["response"]
    data = body if isinstance(body, str) else json.dumps(body)
    return Said(case.get("status") or 200, data.encode(), case.get("headers", {}))


class Lab(BaseAdapter):
    """Gives its answers in order, the last one again and again; an exception is raised."""

    def __init__(self, *answers: Said | Exception) -> None:
        super().__init__()
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.slept: list[float] = []
        session = requests.Session()
        session.mount("http://", self)
        self.wire = http.Wire("http://engine:8000", session=session, sleep=self.slept.append)

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]
        self.paths.append(request.path_url)
        self.bodies.append(json.loads(request.body) if request.body else {})
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        response = requests.Response()
        response.status_code = answer.status
        response.headers.update(answer.headers)
        response.raw = urllib3.HTTPResponse(
            io.BytesIO(answer.data), dict(answer.headers), answer.status, preload_content=False
        )
        return response

    def close(self) -> None:
        pass

    def call(self, call: Call, dialect: str, info: EngineInfo | None = None) -> Observation:
        """The observation that a run would keep."""
        return http.call(self.wire, engines.load(dialect), info or engine(dialect), call)
