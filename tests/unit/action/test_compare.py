"""What a pull request changes, in lines that are what they look like."""

from __future__ import annotations

from iqaction.action import _compare


def test_folder__a_name_that_holds_lines() -> None:
    """A file's name cannot add lines of its own to what is told."""
    evil = "a\n! prompts.jsonl (1 bytes, other content)"
    told = _compare.folder({"b": b"x"}, {evil: 3, "b": 1}, lambda name: "")

    assert len(told.splitlines()) == 2
    assert told.splitlines()[0] == r"+ a\n! prompts.jsonl (1 bytes, other content) (3 bytes)"
    assert told.splitlines()[1] == "! b (1 bytes, other content)"
