"""Pinned datasets: fetched once, never believed unseen, kept where the cache is."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import requests
import responses

from iqaction import datasets
from iqaction.datasets import PINS, Pin, fetch
from iqaction.errors import ConfigError

BODY = b'{"question": "1?", "answer": "#### 1"}\n'
PIN = Pin("https://example.invalid/test.jsonl", hashlib.sha256(BODY).hexdigest(), len(BODY))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and one small pinned file named `small`."""
    monkeypatch.setenv("IQACTION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(PINS, "small", PIN)
    return tmp_path / "cache"


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@responses.activate
def test_fetch__once(cache: Path) -> None:
    """The second time nothing is asked, and only the dataset lies in the cache."""
    responses.get(PIN.url, BODY)

    assert [fetch("small"), fetch("small")] == [BODY, BODY]
    assert len(responses.calls) == 1
    assert names(cache) == [f"small-{PIN.sha256[:12]}.jsonl"]


@responses.activate
def test_fetch__damaged_cache(cache: Path) -> None:
    """What was altered in the cache is fetched anew."""
    responses.get(PIN.url, BODY)
    fetch("small")
    place = cache / names(cache)[0]
    place.write_bytes(BODY.replace(b"1?", b"2?"))

    assert fetch("small") == BODY
    assert place.read_bytes() == BODY


@responses.activate
@pytest.mark.parametrize("body", [BODY[:-1], BODY + b"\n", b"", BODY * 10_000])
def test_fetch__another_file(cache: Path, body: bytes) -> None:
    """A file that is not the pinned one is refused and never kept."""
    responses.get(PIN.url, body)

    with pytest.raises(ConfigError, match="not the pinned file") as caught:
        fetch("small")
    assert "data: PATH" in caught.value.next_step
    assert names(cache) == []


@responses.activate
@pytest.mark.parametrize(
    "failure",
    [requests.ConnectionError("no way"), requests.Timeout("slow"), requests.HTTPError("404")],
)
def test_fetch__offline(cache: Path, failure: Exception) -> None:
    """Without a way to it the error names the address, and a local file as the way on."""
    responses.get(PIN.url, body=failure)

    with pytest.raises(ConfigError) as caught:
        fetch("small")
    assert PIN.url in str(caught.value)
    assert type(failure).__name__ in str(caught.value)
    assert "data: PATH" in str(caught.value)


@responses.activate
def test_fetch__status(cache: Path) -> None:
    """An error page is no dataset, whatever it says."""
    responses.get(PIN.url, BODY, status=503)

    with pytest.raises(ConfigError, match="cannot be fetched"):
        fetch("small")


@responses.activate
def test_fetch__full_disk(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the cache cannot be written the data are used all the same, and nothing is left."""
    responses.get(PIN.url, BODY)

    def full(*args: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(datasets.os, "replace", full)

    assert fetch("small") == BODY
    assert names(cache) == []


def test_pins() -> None:
    """The pinned split is the one whose figures others report: 1,319 rows, by its sha256."""
    pin = PINS["gsm8k"]

    assert pin.sha256 == "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14"
    assert pin.size == 749_738
    assert "/3101c7d5072418e28b9008a6636bde82a006892c/" in pin.url
