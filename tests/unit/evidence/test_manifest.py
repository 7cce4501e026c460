"""The manifest is one way of writing, and nothing else is a manifest."""

from __future__ import annotations

import pytest

from iqaction.errors import EvidenceError
from iqaction.evidence.manifest import Stored, from_bytes, to_bytes

FILES = {"plan.json": Stored("a" * 64, 3), "observations/score.jsonl.gz": Stored("b" * 64, 0)}


def test_to_bytes__round_trip_is_exact_whatever_the_order():
    """The root depends on the files alone."""
    data = to_bytes(FILES)

    assert from_bytes(data) == FILES
    assert to_bytes(dict(reversed(FILES.items()))) == data


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d + b"\n",
        lambda d: d.replace(b":", b": ", 1),
        lambda d: d.replace(b'"size":3', b'"size":3.0'),
        lambda d: d.replace(b"plan.json", b"../x.json"),
        lambda d: d.replace(b"plan.json", b"/plan.jso"),
        lambda d: d.replace(b"v1", b"v2"),
        lambda d: d[:-9],
        lambda d: b"",
    ],
)
def test_from_bytes__refuses_any_other_writing(change):
    """A blank more would be another root for the same folder."""
    assert change(to_bytes(FILES)) != to_bytes(FILES)
    with pytest.raises(EvidenceError, match=r"manifest\.json"):
        from_bytes(change(to_bytes(FILES)))


@pytest.mark.parametrize("name", ["../x", "a/../b", "/x", ".lock", "a//b", "x\n", "a/b/c/d", ""])
def test_to_bytes__refuses_names_that_lead_out(name):
    """Names are plain and relative."""
    with pytest.raises(EvidenceError):
        to_bytes({name: Stored("a" * 64, 1)})
