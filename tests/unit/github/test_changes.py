"""Changed files: all of them, or unknown with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import BASE_SHA, SHA, Fault
from hypothesis import given
from hypothesis import strategies as st
from unit.github.conftest import Connect
from unit.github.factory import event

from iqaction.errors import GithubError
from iqaction.github.changes import Changes, _added, changes, merge_base
from iqaction.report import ChangedLine

PATCH = (
    "@@ -1,3 +1,4 @@\n a\n-b\n+c\n+d\n e\n\\ No newline at end of file\n@@ -9 +11 @@ def\n-x\n+y"
)
PAIR = f"{BASE_SHA}...{SHA}"


def files(count: int) -> list[dict[str, Any]]:
    return [{"filename": f"f{i}"} for i in range(count)]


def test_changes__pull_request(fake: FakeGithub, connect: Connect) -> None:
    """Names, former names and added lines with their numbers in the new file."""
    fake.state.files = {
        7: [
            {"filename": "compose.yml", "patch": PATCH},
            {"filename": "new.bin", "status": "renamed", "previous_filename": "old.bin"},
        ]
    }
    found = changes(connect(), event())

    assert found.known
    assert [f.path for f in found.files] == ["compose.yml", "new.bin"]
    assert found.files[1].previous_path == "old.bin"
    assert found.files[0].added == (
        ChangedLine("compose.yml", 2, "c"),
        ChangedLine("compose.yml", 3, "d"),
        ChangedLine("compose.yml", 11, "y"),
    )


def test_changes__pages(fake: FakeGithub, connect: Connect) -> None:
    """A list over several pages is read to its end."""
    fake.state.files = {7: files(250)}

    assert len(changes(connect(), event()).files) == 250


@pytest.mark.parametrize("count", [3500])
def test_changes__as_many_as_github_lists(fake: FakeGithub, connect: Connect, count: int) -> None:
    """A list of 3,000 may have been cut: unknown."""
    fake.state.files = {7: files(count)}

    assert changes(connect(), event()) == Changes(
        False, reason="3,000 files changed, and GitHub lists no more"
    )


@pytest.mark.parametrize(
    ("pull", "said"),
    [
        ({"changed_files": 3}, "counts 3 changed files and lists 2"),
        ({"head_sha": "d" * 40}, "a newer commit"),
    ],
)
def test_changes__another_list(
    fake: FakeGithub, connect: Connect, pull: dict[str, Any], said: str
) -> None:
    """A list that is not that of this run's commit, or not whole, is unknown."""
    fake.state.files = {7: files(2)}
    fake.state.pulls = {7: pull}
    found = changes(connect(), event())

    assert not found.known
    assert said in found.reason


@pytest.mark.parametrize(
    "fault",
    [
        Fault(path_re="files", status=500, times=99),
        Fault(path_re="files", status=403),
        Fault(path_re="files", status=200, body={}),
        Fault(path_re="files", status=200, body=[{"sha": "x"}]),
        Fault(path_re="files", status=200, body=[None, 1]),
        Fault(path_re=r"pulls/7$", status=404),
        Fault(path_re=r"page=2", status=502, times=99),
    ],
)
def test_changes__failed(fake: FakeGithub, connect: Connect, fault: Fault) -> None:
    """A list that could not be read is unknown, and says why. It is never "nothing changed"."""
    fake.state.files = {7: files(150)}
    fake.state.faults = [replace(fault)]
    found = changes(connect(), event())

    assert not found.known
    assert found.reason
    assert found.files == ()


@pytest.mark.parametrize("name", ["push", "merge_group"])
def test_changes__compared(fake: FakeGithub, connect: Connect, name: str) -> None:
    """A push and a merge group are compared with where they start from."""
    fake.state.compares = {PAIR: {"files": [{"filename": "compose.yml", "patch": PATCH}]}}
    found = changes(connect(), replace(event(), name=name, number=None))

    assert found.known
    assert [len(f.added) for f in found.files] == [3]


@pytest.mark.parametrize(
    ("compared", "said"),
    [
        ({"files": files(300)}, "300 files changed"),
        ({"status": "diverged"}, "pushed anew"),
        ({"status": "behind"}, "pushed anew"),
    ],
)
def test_changes__not_compared(
    fake: FakeGithub, connect: Connect, compared: dict[str, Any], said: str
) -> None:
    """300 files may have been more, and a forced push changes more than a comparison shows."""
    fake.state.compares = {PAIR: compared}
    found = changes(connect(), replace(event(), name="push", number=None))

    assert not found.known
    assert said in found.reason


@pytest.mark.parametrize(
    ("name", "base", "said"),
    [("schedule", "", "schedule event"), ("push", "", "new"), ("push", BASE_SHA, "404")],
)
def test_changes__nothing_to_compare(connect: Connect, name: str, base: str, said: str) -> None:
    """Events without a start, and commits that GitHub no longer has, are unknown."""
    found = changes(connect(), replace(event(), name=name, base_sha=base, number=None))

    assert not found.known
    assert said in found.reason


def test_merge_base(fake: FakeGithub, connect: Connect) -> None:
    """The merge-base is what GitHub says, not the base branch's tip."""
    fake.state.compares = {PAIR: {"status": "diverged", "merge_base": "e" * 40}}

    assert merge_base(connect(), event()) == "e" * 40


@pytest.mark.parametrize("body", [{}, {"merge_base_commit": {"sha": "$(id)"}}, []])
def test_merge_base__unknown(fake: FakeGithub, connect: Connect, body: Any) -> None:
    """A merge-base that is no commit's name is an error."""
    fake.state.faults = [Fault(status=200, body=body)]

    with pytest.raises(GithubError, match="no merge-base"):
        merge_base(connect(), event())


def test_merge_base__of_a_schedule(connect: Connect) -> None:
    """What starts from nothing has none."""
    with pytest.raises(GithubError, match="no commit that it starts from"):
        merge_base(connect(), replace(event(), name="schedule", base_sha=""))


LINES = st.lists(st.tuples(st.sampled_from("+- "), st.text("ab @", max_size=5)), max_size=30)


@given(LINES, st.integers(1, 999))
def test_added__numbers(lines: list[tuple[str, str]], start: int) -> None:
    """The numbers are those of the new file, whatever was removed in between."""
    patch = "\n".join([f"@@ -1,9 +{start},9 @@", *(kind + text for kind, text in lines)])
    new = [(kind, text) for kind, text in lines if kind != "-"]
    expected = [
        ChangedLine("f", start + i, text) for i, (kind, text) in enumerate(new) if kind == "+"
    ]

    assert list(_added("f", patch)) == expected


@given(st.text("@+- 1,\n", max_size=200))
def test_added__any_text(patch: str) -> None:
    """Whatever stands in a patch, lines count from 1 and grow... or there are none."""
    assert all(x.line >= 0 and "\n" not in x.text for x in _added("f", patch))
