"""What may come out of an archive: the names, the sizes, and nothing left of a refused one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from iqaction.archives import Bounds, Names, Written, unpacking
from iqaction.errors import EvidenceError


def refused(why: str) -> EvidenceError:
    return EvidenceError(why)


@pytest.mark.parametrize("name", ["plan.json", "records/a.json", "a b", "ä.json", "x" * 200])
def test_names__fine(name: str) -> None:
    """Plain relative names are taken as they are."""
    assert Names(Bounds(), refused).take(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "/x",
            "../x",
            "a/../b",
            "a//b",
            "./a",
            "a/.",
            "a\\b",
            "C:x",
            "a\x00b",
            "a\nb",
            "a\u202eb",
        ),
        *("con", "NUL.txt", "a/com1.json", "x.", "x ", "x" * 201, "/".join("x" * 13)),
    ],
)
def test_names__refused(name: str) -> None:
    """Names that lead elsewhere, or that some system cannot store, are refused."""
    with pytest.raises(EvidenceError, match="leads elsewhere"):
        Names(Bounds(), refused).take(name)


@pytest.mark.parametrize("again", ["a/b", "A/B", "a/B"])
def test_names__twice(again: str) -> None:
    """A name is taken once, in any spelling that some file system holds to be the same."""
    names = Names(Bounds(), refused)
    names.take("a/b")
    with pytest.raises(EvidenceError, match="twice"):
        names.take(again)


def test_names__composed_and_decomposed() -> None:
    """An accent is the same file whether it is one character or two."""
    names = Names(Bounds(), refused)
    names.take("\u00e9")
    with pytest.raises(EvidenceError, match="twice"):
        names.take("e\u0301")


def test_unpacking__writes(tmp_path: Path) -> None:
    """Files are written below the new folder, and what was written is told."""
    with unpacking(tmp_path / "a" / "new", Bounds(), refused) as out:
        written = out.write("x/y", iter([b"ab", b"c"]))

    assert (tmp_path / "a" / "new" / "x" / "y").read_bytes() == b"abc"
    assert written == Written(hashlib.sha256(b"abc").hexdigest(), 3)


def fill(folder: Path, *contents: bytes) -> None:
    """Unpack these files, at most 4 bytes of all."""
    with unpacking(folder, Bounds(unpacked=4), refused) as out:
        for number, data in enumerate(contents):
            out.write(f"f{number}", iter([data]))


def test_unpacking__counts_all_files(tmp_path: Path) -> None:
    """The cap is of all files together, exactly; beyond it nothing is left."""
    fill(tmp_path / "fits", b"ab", b"cd")
    with pytest.raises(EvidenceError, match="more than 4 bytes"):
        fill(tmp_path / "not", b"ab", b"cde")

    assert [p.name for p in tmp_path.iterdir()] == ["fits"]


def test_unpacking__any_error_leaves_nothing(tmp_path: Path) -> None:
    """Also what has nothing to do with the archive, as Ctrl-C, leaves no half of it."""

    def stopped() -> Iterator[bytes]:
        yield b"ab"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), unpacking(tmp_path / "x", Bounds(), refused) as out:
        out.write("a", stopped())

    assert list(tmp_path.iterdir()) == []
