"""An endpoint's address: where requests go, what they carry, and what must never be shown of it.

Knows URLs and secrets, and opens nothing.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, unquote, unquote_plus, urlsplit, urlunsplit

from iqaction import __version__
from iqaction.errors import ConfigError
from iqaction.json_value import JSON

_SHORT_SECRET = 8  # a shorter key would be "found" in ordinary text


def _spelled(secrets: Iterable[str]) -> tuple[str, ...]:
    """Each also as a URL would spell it; long ones first, since one may hold another."""
    found = {form for s in secrets if s for form in (s, quote(s), quote(s, safe=""))}
    return tuple(sorted(found, key=lambda s: (-len(s), s)))


class Address:
    """Where requests go, what they carry, and what of it must never be shown."""

    def __init__(self, base_url: str, api_key: str) -> None:
        try:
            parts = urlsplit(base_url.strip())
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
        if host is None or parts.scheme not in ("http", "https"):
            raise ConfigError(
                "the endpoint is not the URL of an HTTP server",
                expected="a URL like http://127.0.0.1:8000 or https://host/v1",
                next_step="correct the endpoint's url",
            )
        place = parts.netloc.rpartition("@")[2]
        path = parts.path.rstrip("/")
        self.shown = urlunsplit((parts.scheme, place, path, "", ""))
        root = path.removesuffix("/v1")
        self._root, self._query = urlunsplit((parts.scheme, place, root, "", "")), parts.query
        self.headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # packing costs the server more than the wire
            "User-Agent": f"iqaction/{__version__}",
        }
        secrets = [api_key]
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
            pair = base64.b64encode(f"{user}:{password}".encode()).decode()
            self.headers["Authorization"] = f"Basic {pair}"
            # A token may stand where the user does; a user beside a password is a name.
            secrets += [password, pair] if password else [user, pair]
        if api_key:
            if not re.fullmatch(r"[\x21-\x7e]+", api_key):
                raise ConfigError(
                    "the API key holds blanks, line breaks or characters outside ASCII",
                    expected="the key as the provider gave it, without a line break at its end",
                    next_step="correct the environment variable that api_key_env names",
                )
            self.headers["Authorization"] = f"Bearer {api_key}"
        for name, _, value in (p.partition("=") for p in parts.query.split("&")):
            secrets += [value or name, unquote_plus(value or name)]
        self._secrets = _spelled(secrets)

    def url(self, path: str) -> str:
        return f"{self._root}{path}" + (f"?{self._query}" if self._query else "")

    def blot(self, text: str, *, always: bool = False) -> str:
        """``text`` without the secrets; short ones only where ``always``."""
        for secret in self._secrets:
            if always or len(secret) >= _SHORT_SECRET:
                text = text.replace(secret, "***")
        return text

    def blot_json(self, value: JSON, *, always: bool) -> JSON:
        """A parsed answer without the secrets, however its JSON spelled them."""
        if isinstance(value, str):
            return self.blot(value, always=always)
        if isinstance(value, list):
            return [self.blot_json(x, always=always) for x in value]
        if isinstance(value, dict):
            return {
                self.blot(k, always=always): self.blot_json(x, always=always)
                for k, x in value.items()
            }
        return value

    def blot_bytes(self, data: bytes, *, always: bool) -> bytes:
        """As :meth:`blot`, also for a secret as JSON would spell it."""
        for secret in self._secrets:
            if always or len(secret) >= _SHORT_SECRET:
                for spelled in {secret, json.dumps(secret)[1:-1], secret.replace("/", "\\/")}:
                    data = data.replace(spelled.encode(), b"***")
        return data
