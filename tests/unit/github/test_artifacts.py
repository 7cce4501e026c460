"""Artifacts: unpacked within bounds as plain files, or not at all."""

from __future__ import annotations

import base64
import io
import os
import stat
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import SHA, Fault
from hypothesis import given
from hypothesis import strategies as st
from unit.github.conftest import Connect

from iqaction.errors import EvidenceError, GithubError
from iqaction.github import artifacts
from iqaction.github.artifacts import Bounds, unpack

REPO = "acme/serve"
GOOD = {"report.json": b"{}", "rows/a.bin": b"\x00" * 1000}


def packed(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice: wanted here
        with zipfile.ZipFile(out, "w", method) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    return out.getvalue()


def entry(name: str, mode: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, "/etc/passwd")
    return out.getvalue()


def artifact(number: int = 9, data: bytes | None = None, **more: Any) -> dict[str, Any]:
    zipped = base64.b64encode(packed(GOOD) if data is None else data).decode()
    return {"id": number, "name": "iq", "run_id": 5, "zip": zipped, **more}


def test_fetch(fake: FakeGithub, connect: Connect, tmp_path: Path) -> None:
    """An artifact of a run is found, downloaded without the token, and unpacked."""
    fake.state.artifacts = [artifact(), {**artifact(10), "name": "other", "run_id": 6}]
    (found,) = artifacts.of_run(connect(), REPO, "5")
    names = artifacts.fetch(connect(), REPO, found, tmp_path / "new" / "folder")

    assert names == ("report.json", "rows/a.bin")
    assert {n: (tmp_path / "new" / "folder" / n).read_bytes() for n in names} == GOOD
    assert (found.run_id, found.expired, found.same_repository) == ("5", False, True)


def test_fetch__another_than_github_says(
    fake: FakeGithub, connect: Connect, tmp_path: Path
) -> None:
    """Bytes that are not those GitHub has the digest of are refused."""
    fake.state.artifacts = [artifact(digest=f"sha256:{'0' * 64}")]
    (found,) = artifacts.of_run(connect(), REPO, "5")

    with pytest.raises(GithubError, match="not what GitHub says"):
        artifacts.fetch(connect(), REPO, found, tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("fault", [{"expired": True}, {}])
def test_fetch__gone(
    fake: FakeGithub, connect: Connect, tmp_path: Path, fault: dict[str, Any]
) -> None:
    """An expired artifact is an error of one sentence; so is one over the bound."""
    fake.state.artifacts = [artifact(**fault)]
    (found,) = artifacts.of_run(connect(), REPO, "5")

    with pytest.raises(GithubError, match=r"410|more than 50 bytes"):
        artifacts.fetch(connect(), REPO, found, tmp_path / "x", Bounds(packed=50))


def test_named__own_commits_only(fake: FakeGithub, connect: Connect) -> None:
    """What a fork's commit made, what has expired and what GitHub does not vouch for is left
    out; the newest comes first."""
    fake.state.artifacts = [
        artifact(1),
        artifact(2, workflow_run={"head_repository_id": 666}),
        artifact(3, expired=True),
        artifact(4, workflow_run={"repository_id": 0, "head_repository_id": 0}),
        artifact(5),
    ]

    assert [a.id for a in artifacts.named(connect(), REPO, "iq")] == [5, 1]
    assert artifacts.named(connect(), REPO, "none") == ()


def test_named__pages(fake: FakeGithub, connect: Connect) -> None:
    """Several pages are looked through, and not all there are."""
    fake.state.artifacts = [artifact(i, b"") for i in range(1, 450)]

    assert len(artifacts.named(connect(), REPO, "iq")) == 300


def test_run(fake: FakeGithub, connect: Connect) -> None:
    """A run tells by which event it was started and how it ended."""
    fake.state.runs = {5: {"event": "push", "conclusion": "failure", "head_sha": SHA}}
    found = artifacts.run(connect(), REPO, "5")

    assert (found.id, found.event, found.conclusion, found.head_sha) == (
        "5",
        "push",
        "failure",
        SHA,
    )
    assert found.path == ".github/workflows/build.yml"
    assert found.branch == "main"
    assert found.started_at.endswith("Z")


@pytest.mark.parametrize("run_id", ["", "5/../6", "x"])
def test_run__no_number(connect: Connect, run_id: str) -> None:
    """Nothing but a number becomes part of a URL."""
    with pytest.raises(GithubError, match="without its number"):
        artifacts.of_run(connect(), REPO, run_id)


def test_of_run__failed(fake: FakeGithub, connect: Connect) -> None:
    """A list that could not be read is an error, not an empty one."""
    fake.state.faults = [Fault(status=200, body={"artifacts": None})]

    with pytest.raises(GithubError, match="no list"):
        artifacts.of_run(connect(), REPO, "5")


HOSTILE = [
    "../evil",
    "a/../../evil",
    "/etc/evil",
    "C:/evil",
    "a\\..\\evil",
    "a//b",
    "./a",
    "con",
    "NUL.txt",
    "a/aux.log/b",
    "a.",
    "a ",
    "a\x1b[31m",
    "a\n",
    "\u202eexe",
    "x" * 201,
    "/".join("abcdefghijklmno"),
    "a:b",
    "a*",
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_unpack__names_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    """One bad name, and nothing of the archive is written."""
    with pytest.raises(EvidenceError, match="name that leads elsewhere"):
        unpack(packed({"good": b"x", name: b"evil"}), tmp_path / "new")
    assert os.listdir(tmp_path) == []


def test_unpack__nul_in_a_name(tmp_path: Path) -> None:
    """A name that a reader would cut at a NUL is refused."""
    data = packed({"abc.txt": b"x"}).replace(b"abc.txt", b"a\0c.txt")

    with pytest.raises(EvidenceError):
        unpack(data, tmp_path / "new")


@pytest.mark.parametrize(
    "mode", [stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o600, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK]
)
def test_unpack__only_files(tmp_path: Path, mode: int) -> None:
    """Links, pipes and devices are refused."""
    with pytest.raises(EvidenceError, match="neither a file nor a folder"):
        unpack(entry("x", mode), tmp_path / "new")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("other", ["a.txt", "A.TXT", "\u0041.txt"])
def test_unpack__a_file_twice(tmp_path: Path, other: str) -> None:
    """The same name twice, under any spelling that some file system takes for the same."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("a.txt", "1")
            archive.writestr(other, "2")

    with pytest.raises(EvidenceError, match="twice"):
        unpack(out.getvalue(), tmp_path / "new")


def test_unpack__file_and_folder_of_one_name(tmp_path: Path) -> None:
    """An archive that cannot be written whole leaves nothing behind."""
    with pytest.raises(EvidenceError, match="cannot be written"):
        unpack(packed({"a": b"1", "a/b": b"2"}), tmp_path / "new")
    assert os.listdir(tmp_path) == []


def test_unpack__bomb(tmp_path: Path) -> None:
    """What says that it unpacks to too much is not unpacked."""
    with pytest.raises(EvidenceError, match="more than 1,000,000 bytes"):
        unpack(packed({"a": b"\0" * 1_000_001}), tmp_path / "new", Bounds(unpacked=1_000_000))
    with pytest.raises(EvidenceError, match="more than 10"):
        unpack(packed({str(i): b"" for i in range(11)}), tmp_path / "new", Bounds(files=10))
    assert os.listdir(tmp_path) == []


def test_unpack__bomb_that_lies_about_its_size(tmp_path: Path) -> None:
    """A size that is declared too small does not let more out."""
    data = packed({"a": b"\0" * 1_000_000})
    lying = data.replace(struct.pack("<I", 1_000_000), struct.pack("<I", 10))

    with pytest.raises(EvidenceError):
        unpack(lying, tmp_path / "new", Bounds(unpacked=1000))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK",
        b"<html>",
        packed(GOOD)[:-30],
        packed(GOOD, zipfile.ZIP_BZIP2),
        packed(GOOD).replace(b"\x00\x00\x08\x00", b"\x01\x00\x08\x00"),  # the mark of encryption
    ],
    ids=["empty", "start", "html", "cut", "bzip2", "encrypted"],
)
def test_unpack__no_archive(tmp_path: Path, data: bytes) -> None:
    """What is no whole plain archive is refused with a sentence."""
    with pytest.raises(EvidenceError, match="not unpacked"):
        unpack(data, tmp_path / "new")
    assert os.listdir(tmp_path) == []


def test_unpack__damaged(tmp_path: Path) -> None:
    """A file whose content does not fit its checksum is refused, with all others."""
    data = bytearray(packed({"a": b"1" * 100, "b": b"2" * 100}, zipfile.ZIP_STORED))
    data[data.index(b"2" * 100)] = ord("3")

    with pytest.raises(EvidenceError, match="no whole archive"):
        unpack(bytes(data), tmp_path / "new")
    assert os.listdir(tmp_path) == []


def test_unpack__only_into_a_new_folder(tmp_path: Path) -> None:
    """A folder that is there is left as it is."""
    (tmp_path / "mine").write_text("mine")

    with pytest.raises(EvidenceError, match="cannot be made"):
        unpack(packed(GOOD), tmp_path)
    assert os.listdir(tmp_path) == ["mine"]


@given(st.binary(max_size=300), st.integers(0, 400))
def test_unpack__any_damage(tmp_path_factory: Any, noise: bytes, at: int) -> None:
    """Whatever bytes are in an archive, it is unpacked inside its folder or refused."""
    home = tmp_path_factory.mktemp("zip")
    whole = packed({"a/b": b"x" * 50, "c": b"y"})
    try:
        names = unpack(whole[:at] + noise + whole[at + len(noise) :], home / "new")
    except EvidenceError:
        assert os.listdir(home) == []
        return

    assert all((home / "new" / n).is_file() for n in names)
