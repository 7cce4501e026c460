"""A stateful stand-in for GitHub's REST API on loopback, held to GitHub's own description.

Every request is matched to an operation and judged by the contract, and so is every answer of
the stand-in itself. On top come rules that GitHub enforces and the description does not hold
(:func:`_prose`). Artifacts lie on a second server, as at GitHub, and a request there that
carries credentials is a violation.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

from fake_github.contract import Operation, contract
from fake_github.operations import OPERATIONS, Asked, Reply
from fake_github.state import TOKENS, Fault, State

COMMENT_CHARACTERS = 65_536
OUTPUT_BYTES = 65_535  # of a check run's summary, and of its text
ANNOTATION_BYTES = 64 * 1024
_READ_ONLY = "Resource not accessible by integration"
_AGENTLESS = "Request forbidden by administrative rules. Your request has no User-Agent header"
_MINIMIZE = re.compile(r"minimizeComment")


class FakeGithub:
    """A running stand-in. Use it as a context manager; ``url`` is its GITHUB_API_URL.

    Parameters
    ----------
    base
        "" as at github.com, "/api/v3" as on GHES.
    """

    def __init__(self, base: str = "", port: int = 0) -> None:
        self.base = base.rstrip("/")
        self.state = State()
        self._lock = threading.RLock()
        self._api = _server(port, self._handle)
        self._blobs = _server(0, self._serve_blob)
        self.url = f"http://127.0.0.1:{self._api.server_address[1]}{self.base}"
        self.blobs_url = f"http://127.0.0.1:{self._blobs.server_address[1]}"

    def __enter__(self) -> FakeGithub:
        for server in (self._api, self._blobs):
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in (self._api, self._blobs):
            server.shutdown()
            server.server_close()

    @property
    def graphql_url(self) -> str:
        """Where GitHub's GraphQL is: beside REST on github.com, one level up on GHES."""
        return self.url.removesuffix("/v3") + "/graphql"

    # --- plumbing ---

    def _handle(self, http: BaseHTTPRequestHandler) -> None:
        raw = http.rfile.read(int(http.headers.get("Content-Length") or 0))
        url = urlsplit(http.path)
        with self._lock:
            if url.path.startswith("/_fake/"):
                _send(http, self._control(url.path, raw))
                return
            reply, drop = self._faulted(http, url, raw)
            kept = {"method": http.command, "path": http.path, "status": reply.status}
            self.state.log.append(
                {**kept, "bytes": len(raw), "dropped": drop, "body": raw.decode("utf-8", "replace")}
            )
        if drop:
            http.close_connection = True
            http.connection.close()
            return
        _send(http, reply)

    def _control(self, path: str, raw: bytes) -> Reply:
        what = path.removeprefix("/_fake/")
        if what == "state":
            return Reply(200, self.state.shown())
        if what == "reset":
            self.state = State()
            return Reply(200, {"ok": True})
        try:
            self.state.set(what, json.loads(raw))
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            return Reply(400, {"message": f"{what}: {exc!r}"})
        return Reply(200, {"ok": True})

    def _serve_blob(self, http: BaseHTTPRequestHandler) -> None:
        with self._lock:
            if http.headers.get("Authorization"):
                self._violate(http, ["the token was sent to the host of artifacts"])
            number = urlsplit(http.path).path.rpartition("/")[2]
            found = [a for a in self.state.artifacts if str(a["id"]) == number]
        data = base64.b64decode(found[0]["zip"]) if found else b""
        _send(http, Reply(200 if found else 404, data))

    def _violate(self, http: BaseHTTPRequestHandler, why: list[str]) -> None:
        self.state.violations.append({"method": http.command, "path": http.path, "why": why})

    # --- answering ---

    def _faulted(
        self, http: BaseHTTPRequestHandler, url: SplitResult, raw: bytes
    ) -> tuple[Reply, bool]:
        fault = self._fault(http)
        if fault is None:
            return self._answer(http, url, raw), False
        if fault.after:
            self._answer(http, url, raw)
        return Reply(fault.status, fault.body, fault.headers), fault.drop

    def _fault(self, http: BaseHTTPRequestHandler) -> Fault | None:
        for fault in self.state.faults:
            fits = fault.method in ("", http.command) and re.search(fault.path_re, http.path)
            if fits and fault.skip > 0:
                fault.skip -= 1
            elif fits and fault.times > 0:
                fault.times -= 1
                return fault
        return None

    def _answer(self, http: BaseHTTPRequestHandler, url: SplitResult, raw: bytes) -> Reply:
        if url.path == urlsplit(self.graphql_url).path:
            return self._graphql(http, raw)
        if not url.path.startswith(f"{self.base}/"):
            self._violate(http, [f"the path lacks the base {self.base}"])
            return _refused(404, "Not Found")
        path = url.path.removeprefix(self.base)
        refusal = self._unfit_headers(http)
        if refusal:
            return refusal
        operation = contract().match(http.command, path)
        if operation is None:
            self._violate(http, [f"no such operation: {http.command} {path}"])
            return _refused(404, "Not Found")
        refusal = _forbidden(http, operation)
        if refusal:
            return refusal
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            self._violate(http, ["the body is no JSON"])
            return _refused(400, "Problems parsing JSON")
        return self._obey(http, operation, url, body)

    def _obey(
        self, http: BaseHTTPRequestHandler, operation: Operation, url: SplitResult, body: Any
    ) -> Reply:
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        errors = contract().request_errors(operation, query, body)
        refused = _prose(operation, body)
        if errors:
            self._violate(http, errors)
        if errors or refused:
            return _invalid([*errors, *refused])
        asked = Asked(
            operation.parameters,
            query,
            body,
            self.url,
            url.path.removeprefix(self.base),
            http.headers.get("Accept") or "",
            self.blobs_url,
        )
        owner = f"{operation.parameters.get('owner')}/{operation.parameters.get('repo')}"
        if "owner" in operation.parameters and owner != self.state.repository:
            return _refused(404, "Not Found")
        try:
            reply = OPERATIONS[operation.name](self.state, asked)
        except LookupError:
            return _refused(404, "Not Found")
        if reply.status < 300 and not isinstance(reply.body, bytes):
            wrong = contract().response_errors(operation, reply.status, reply.body)
            if wrong:
                self._violate(http, [f"the stand-in's own answer: {w}" for w in wrong])
        return reply

    def _unfit_headers(self, http: BaseHTTPRequestHandler) -> Reply | None:
        if not http.headers.get("User-Agent"):
            self._violate(http, ["no User-Agent"])
            return _refused(403, _AGENTLESS)
        if http.headers.get("X-GitHub-Api-Version") != "2022-11-28":
            self._violate(http, ["X-GitHub-Api-Version is not 2022-11-28"])
        if "application/vnd.github" not in (http.headers.get("Accept") or ""):
            self._violate(http, ["Accept is no media type of GitHub's"])
        body = int(http.headers.get("Content-Length") or 0)
        if body and "json" not in (http.headers.get("Content-Type") or ""):
            self._violate(http, ["Content-Type is not JSON"])
        return None if _token(http) else _refused(401, "Bad credentials")

    def _graphql(self, http: BaseHTTPRequestHandler, raw: bytes) -> Reply:
        """One mutation alone, which REST does not have. Outside of the contract."""
        kind, write = _token(http) or ("", False)
        if not kind:
            return _refused(401, "Bad credentials")
        asked = json.loads(raw)
        number = asked.get("variables", {}).get("id")
        known = {c["node_id"] for c in self.state.comments.values()}
        if not _MINIMIZE.search(asked.get("query", "")) or not write or number not in known:
            return Reply(200, {"data": None, "errors": [{"type": "FORBIDDEN", "message": "no"}]})
        self.state.minimized.append(number)
        return Reply(200, {"data": {"minimizeComment": {"minimizedComment": {}}}})


def _token(http: BaseHTTPRequestHandler) -> tuple[str, bool] | None:
    found = re.fullmatch(r"(?i)(?:bearer|token) (\S+)", http.headers.get("Authorization") or "")
    return TOKENS.get(found[1]) if found else None


def _forbidden(http: BaseHTTPRequestHandler, operation: Operation) -> Reply | None:
    kind, write = _token(http) or ("", False)
    if http.command == "GET":
        return None
    if "/check-runs" in operation.template and kind != "app":
        return _refused(403, "You must authenticate via a GitHub App.")
    return None if write else _refused(403, _READ_ONLY)


def _refused(status: int, message: str) -> Reply:
    body = {"message": message, "documentation_url": "https://docs.github.com/rest"}
    return Reply(status, {**body, "status": str(status)})


def _invalid(errors: list[str]) -> Reply:
    told = [
        {"resource": "Fake", "code": "custom", "field": e.partition(":")[0], "message": e}
        for e in errors
    ]
    reply = _refused(422, "Validation Failed")
    return Reply(422, {**reply.body, "errors": told})


def _prose(operation: Operation, body: Any) -> list[str]:
    """What GitHub refuses although its description allows it: lengths, and what depends on
    another field."""
    if not isinstance(body, dict):
        return []
    errors = []
    if "comment" in operation.name and len(str(body.get("body", ""))) > COMMENT_CHARACTERS:
        errors.append(f"body: Body is too long (maximum is {COMMENT_CHARACTERS} characters)")
    if "comment" in operation.name and not str(body.get("body", "")).strip():
        errors.append("body: Body cannot be blank")
    if not operation.name.startswith("checks/"):
        return errors
    completed = body.get("status") == "completed" or "completed_at" in body
    if completed and not body.get("conclusion"):
        errors.append("conclusion: is required when completed")
    if body.get("status", "completed") != "completed" and body.get("conclusion"):
        errors.append("status: a conclusion makes it completed")
    output = body.get("output") or {}
    if output and operation.method == "patch" and not output.get("title"):
        errors.append("output/title: is required")
    for key in ("summary", "text"):
        if len(str(output.get(key) or "").encode()) > OUTPUT_BYTES:
            errors.append(f"{key}: exceeds a maximum bytesize of {OUTPUT_BYTES}")
    for i, note in enumerate(output.get("annotations", [])):
        errors += [f"annotations/{i}: {e}" for e in _bad_annotation(note)]
    return errors


def _bad_annotation(note: Mapping[str, Any]) -> list[str]:
    errors = []
    if note["end_line"] < note["start_line"] or note["start_line"] < 1:
        errors.append("lines are counted from 1, and end where they start or later")
    if note["path"].startswith("/") or not note["path"]:
        errors.append("the path is not relative")
    if len(note["message"].encode()) > ANNOTATION_BYTES:
        errors.append(f"message over {ANNOTATION_BYTES} bytes")
    return errors


def _server(port: int, handle: Callable[[BaseHTTPRequestHandler], None]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: tests read `state.log`."""

        def _go(self) -> None:
            handle(self)

        do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _go

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    return server


def _send(http: BaseHTTPRequestHandler, reply: Reply) -> None:
    raw = isinstance(reply.body, bytes)
    data = reply.body if raw else b"" if reply.body is None else json.dumps(reply.body).encode()
    headers = {
        "Content-Type": "application/octet-stream" if raw else "application/json; charset=utf-8",
        "Content-Length": str(len(data)),
        "X-GitHub-Request-Id": "FAKE",
        "X-RateLimit-Limit": "1000",
        "X-RateLimit-Remaining": "900",
        "X-RateLimit-Reset": str(int(time.time()) + 3600),
        **reply.headers,
    }
    http.send_response(reply.status)
    for key, value in headers.items():
        http.send_header(key, value)
    http.end_headers()
    http.wfile.write(data)
