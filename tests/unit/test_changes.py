"""What differs between two arms' engines and how they were started."""

from __future__ import annotations

from dataclasses import replace

from world import ENGINE

from iqaction import changes
from iqaction.report import Change


def test_engines__names_then_details() -> None:
    """Whatever they tell of themselves and differs, in a fixed order."""
    now = replace(ENGINE, dialect="sglang", model="n", details={"kv": "fp8", "tp": "2"})

    assert changes.engines(replace(ENGINE, details={"tp": "2"}), now) == (
        Change("engine", "vllm", "sglang"),
        Change("model", "m", "n"),
        Change("kv", "", "fp8"),
    )
    assert changes.engines(now, now) == ()


def test_starts__image_and_command() -> None:
    """Images and commands by service; other facts of a machine are no change of the engine."""
    before = {"image a": "v1", "command a": "serve --x 1", "cpu": "x", "digest a": "sha256:1"}
    now = {"image a": "v2", "command a": "serve --x 2", "cpu": "y", "digest a": "sha256:2"}

    assert changes.starts(before, now) == (
        Change("command a", "serve --x 1", "serve --x 2"),
        Change("image a", "v1", "v2"),
    )


def test_starts__a_tag_that_moved() -> None:
    """The digest is told where the image is called the same."""
    before = {"image a": "v1", "digest a": "sha256:1"}

    assert changes.starts(before, {**before, "digest a": "sha256:2"}) == (
        Change("digest a", "sha256:1", "sha256:2"),
    )
    assert changes.starts(before, {"image a": "v1"}) == ()


def test_starts__one_side_not_known() -> None:
    """What is known of one arm alone is no difference."""
    known = {"image a": "v1", "command a": "serve"}

    assert changes.starts({}, known) == ()
    assert changes.starts(known, {"cpu": "x"}) == ()
