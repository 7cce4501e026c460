"""Nothing in a folder leads out of it, and a write is whole or not there."""

from __future__ import annotations

import os
import socket

import pytest
from evidence_factory import file_limit

from iqaction.errors import EvidenceError
from iqaction.evidence.tree import STAGED, Tree


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "root").mkdir()
    return Tree(tmp_path / "root")


def test_write__round_trip_in_new_folders(tree):
    """Folders are made as needed; nothing staged stays."""
    tree.write("a/b.json", b"1")
    tree.write("a/b.json", b"22")

    assert tree.read("a/b.json") == b"22"
    assert tree.digest("a/b.json")[1] == 2
    assert [e.name for e in tree.entries()] == ["a/b.json"]


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/etc/passwd", "", "a//b", "a/", ".", "a/./b", "é", "a\0b", "a\n"]
)
@pytest.mark.parametrize("act", ["read", "has", "digest", "write", "remove"])
def test_names__that_lead_out_are_refused(tree, name, act):
    """Reading, looking and writing alike."""
    more = (b"x",) if act == "write" else ()
    with pytest.raises(EvidenceError, match="not the name of an evidence file"):
        getattr(tree, act)(name, *more)


def test_read__refuses_links_wherever_they_stand(tree, tmp_path):
    """A link as the file, as a folder on the way, or dangling: none is followed."""
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_bytes(b"secret")
    (tree.root / "file").symlink_to(tmp_path / "secret")
    (tree.root / "folder").symlink_to(tmp_path / "out")
    (tree.root / "loose").symlink_to(tmp_path / "nothing")

    for name in ("file", "folder/x", "loose"):
        with pytest.raises(EvidenceError, match=f"cannot read {name}"):
            tree.read(name)


def test_write__through_a_linked_folder_is_refused(tree, tmp_path):
    """A folder that points elsewhere is not written into; a linked file is replaced."""
    (tmp_path / "out").mkdir()
    (tmp_path / "mine").write_bytes(b"mine")
    (tree.root / "folder").symlink_to(tmp_path / "out")
    (tree.root / "file").symlink_to(tmp_path / "mine")

    with pytest.raises(EvidenceError, match="cannot write"):
        tree.write("folder/x", b"1")
    tree.write("file", b"ours")

    assert list((tmp_path / "out").iterdir()) == []
    assert (tmp_path / "mine").read_bytes() == b"mine"
    assert not (tree.root / "file").is_symlink()


def test_read__refuses_what_is_no_plain_file(tree):
    """A pipe does not block, a folder and a socket are no files."""
    os.mkfifo(tree.root / "pipe")
    (tree.root / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind(str(tree.root / "socket"))

    for name in ("pipe", "folder", "socket"):
        with pytest.raises(EvidenceError):
            tree.read(name)
    assert {(e.name, e.plain) for e in tree.entries()} == {("pipe", False), ("socket", False)}


def test_read__caps_hold(tree):
    """A file larger than allowed is not read."""
    tree.write("x", b"12345")

    assert tree.read("x", 5) == b"12345"
    with pytest.raises(EvidenceError, match="at most 4 bytes"):
        tree.read("x", 4)


def test_read__an_absent_file_says_what_to_do(tree):
    """What happened, what was expected, what next."""
    with pytest.raises(EvidenceError) as caught:
        tree.read("x")

    assert caught.value.happened == "cannot read x: No such file or directory"
    assert caught.value.expected
    assert caught.value.next_step


def test_staging__is_not_there_until_it_settles(tree):
    """Whoever looks in between sees the old file."""
    tree.write("x", b"old")
    with tree.staging("x") as file:
        file.write(b"new")

    assert tree.read("x") == b"old"
    tree.settle("x")
    assert tree.read("x") == b"new"


def test_staging__a_failed_write_leaves_nothing(tree):
    """The old file stays and nothing lies about."""
    tree.write("x", b"old")
    with file_limit(1000), pytest.raises(EvidenceError, match="File too large"):
        tree.write("x", b"x" * 2000)

    assert [e.name for e in tree.entries()] == ["x"]
    assert tree.read("x") == b"old"


def test_sweep__removes_what_was_left_staged(tree):
    """And only that."""
    tree.write("a/x", b"1")
    (tree.root / "a" / f"{STAGED}x").write_bytes(b"2")
    (tree.root / f"{STAGED}folder").mkdir()
    (tree.root / f"{STAGED}folder" / "y").write_bytes(b"3")
    tree.sweep()

    assert [e.name for e in tree.entries()] == ["a/x"]


def test_sub__is_a_tree_of_its_own(tree, tmp_path):
    """Names count from the subfolder, and a linked subfolder is refused."""
    tree.write("in/a/x", b"1")
    (tmp_path / "out").mkdir()
    (tree.root / "link").symlink_to(tmp_path / "out")

    assert tree.sub("in").read("a/x") == b"1"
    assert [e.name for e in tree.sub("in").entries()] == ["a/x"]
    with pytest.raises(EvidenceError):
        list(tree.sub("link").entries())
    with pytest.raises(EvidenceError):
        tree.sub("..").read("x")


def test_remove__nothing_is_nothing(tree):
    """Removing twice is no error; removing in a folder that is not there is none."""
    tree.write("a/x", b"1")
    tree.remove("a/x")
    tree.remove("a/x")
    tree.remove("b/x")

    assert not tree.has("a/x")


def test_entries__foreign_names_can_be_listed(tree):
    """Names that are no UTF-8, and folders deeper than ours, are told and not followed."""
    (tree.root / "a/b/c/d").mkdir(parents=True)
    (tree.root / "a/b/c/d/x").write_bytes(b"")
    with open(os.fsencode(tree.root) + b"/\xff", "wb"):
        pass

    assert {(e.name, e.plain) for e in tree.entries()} == {("a/b/c", False), ("\udcff", True)}


def test_entries__a_missing_root_is_an_error(tmp_path):
    """Not a traceback."""
    with pytest.raises(EvidenceError, match="cannot list"):
        list(Tree(tmp_path / "no").entries())
