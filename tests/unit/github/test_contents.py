"""Files of a commit: as they are, absent only where the commit is there and lacks them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import BASE_SHA, Fault
from unit.github.conftest import Connect

from iqaction.errors import ConfigError, GithubError
from iqaction.github.contents import Bounds, folder, read

REPO = "acme/serve"
BINARY = bytes(range(256)) * 8


@pytest.fixture
def stored(fake: FakeGithub) -> FakeGithub:
    fake.state.contents = {
        BASE_SHA: {
            "plan.yml": "stages: {}\n",
            "empty": "",
            ".inferquality/base/manifest.json": "{}",
            ".inferquality/base/rows/a b.bin": {"base64": base64.b64encode(BINARY).decode()},
            "big": "x" * (1024 * 1024 + 1),
            "link": {"symlink": "plan.yml"},
            "linked/l": {"symlink": "../plan.yml"},
            "module/m": {"submodule": "f" * 40},
        }
    }
    return fake


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("plan.yml", b"stages: {}\n"),
        ("empty", b""),
        (".inferquality/base/rows/a b.bin", BINARY),
        ("big", b"x" * (1024 * 1024 + 1)),
    ],
)
def test_read(stored: FakeGithub, connect: Connect, path: str, data: bytes) -> None:
    """A file comes byte for byte, also where GitHub leaves the content out for its size."""
    assert read(connect(), REPO, path, BASE_SHA, 2 << 20) == data


def test_read__absent(stored: FakeGithub, connect: Connect) -> None:
    """A file that the commit lacks is None."""
    assert read(connect(), REPO, "no/such.yml", BASE_SHA, 100) is None


@pytest.mark.parametrize(
    ("path", "ref", "said"),
    [
        ("plan.yml", "f" * 40, "404"),  # the commit itself is not there
        ("plan.yml", "main", "without its name"),
        ("linked", BASE_SHA, "no file"),
        ("link", BASE_SHA, "no file"),
        ("big", BASE_SHA, "at most 1,000"),
    ],
)
def test_read__not_told(
    stored: FakeGithub, connect: Connect, path: str, ref: str, said: str
) -> None:
    """What cannot be told is an error, never an absent file."""
    with pytest.raises(GithubError, match=said):
        read(connect(), REPO, path, ref, 1000)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"type": "file"},
        {"type": "file", "encoding": "base64", "size": 3, "content": "!"},
        {"type": "file", "encoding": "base64", "size": 3, "content": "YQ=="},
        {"type": "file", "encoding": "none", "size": 3, "sha": "../.."},
        [],
        None,
    ],
)
def test_read__nonsense(stored: FakeGithub, connect: Connect, body: Any) -> None:
    """An answer that is no whole file is an error."""
    stored.state.faults = [Fault(status=200, body=body)]

    with pytest.raises(GithubError):
        read(connect(), REPO, "plan.yml", BASE_SHA, 1000)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../b", "a//b", "a\\b", "a\nb", "."])
def test_read__only_inside(connect: Connect, path: str) -> None:
    """A path that leads out of the repository is a mistake, and nothing is asked."""
    with pytest.raises(ConfigError, match="no path within"):
        read(connect(), REPO, path, BASE_SHA, 10)


def test_folder(stored: FakeGithub, connect: Connect) -> None:
    """A folder comes with all that is below it."""
    assert folder(connect(), REPO, ".inferquality/base", BASE_SHA) == {
        "manifest.json": b"{}",
        "rows/a b.bin": BINARY,
    }


@pytest.mark.parametrize("path", ["none", ".inferquality/none", ".inferquality/base/x/y"])
def test_folder__absent(stored: FakeGithub, connect: Connect, path: str) -> None:
    """A folder that the commit lacks is None."""
    assert folder(connect(), REPO, path, BASE_SHA) is None


@pytest.mark.parametrize(
    ("path", "bounds", "said"),
    [
        ("linked", Bounds(), "link"),
        ("module", Bounds(), "submodule"),
        ("plan.yml", Bounds(), "no folder"),
        (".inferquality/base", Bounds(files=1), "too large"),
        (".inferquality/base", Bounds(total_bytes=2000), "too large"),
        (".inferquality/base", Bounds(file_bytes=2000), "more than 2,000 bytes"),
    ],
)
def test_folder__refused(
    stored: FakeGithub, connect: Connect, path: str, bounds: Bounds, said: str
) -> None:
    """Links, submodules and more than was asked for are refused."""
    with pytest.raises(GithubError, match=said):
        folder(connect(), REPO, path, BASE_SHA, bounds)


def test_folder__truncated(stored: FakeGithub, connect: Connect) -> None:
    """A list of files that GitHub cut is not taken for the whole."""
    stored.state.faults = [Fault(status=200, body={"truncated": True, "tree": []})]

    with pytest.raises(GithubError, match="only a part"):
        folder(connect(), REPO, "none", BASE_SHA)


def test_folder__altered(stored: FakeGithub, connect: Connect) -> None:
    """Content that is not what its name in git says is refused."""
    stored.state.faults = [Fault(path_re="/blobs/", status=200, body="other")]

    with pytest.raises(GithubError, match="not whole"):
        folder(connect(), REPO, ".inferquality/base", BASE_SHA)


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a\\..\\x", ""])
def test_folder__hostile_names(stored: FakeGithub, connect: Connect, name: str) -> None:
    """A name in GitHub's list that leads elsewhere is refused."""
    entry = {"path": name, "mode": "100644", "type": "blob", "sha": "a" * 40, "size": 1}
    body = {"truncated": False, "sha": "a" * 40, "tree": [entry]}
    stored.state.faults = [Fault(path_re="recursive", status=200, body=body)]

    with pytest.raises(GithubError, match="impossible name"):
        folder(connect(), REPO, ".inferquality/base", BASE_SHA)
