"""The judge's files come from the merge-base, and what the pull request changes is told."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from iqaction.action import _compare, _head, _lfs
from iqaction.action.collecting import Base
from iqaction.action.protected import INLINE, Protected, Wanted, as_it_is, collect
from iqaction.errors import ConfigError, GithubError
from iqaction.report import Acceptance

PLAN = "stages:\n  - trajectory: {{prompts: {}}}\n  - score\n"
DEFAULT = PLAN.format("default")
ACCEPT = """\
accept:
  - {suite: s, field: plan, plan: 3f2a9c0d1e2b, expires: 2027-01-31, reason: r, author: a}
"""
ACCEPTED = (Acceptance("s", "", "plan", "3f2a9c0d1e2b", "2027-01-31", "r", "a"),)


@dataclass
class Case:
    """A merge-base, a workspace, and what is collected from them. A base file that is an
    exception is raised."""

    root: Path
    base: dict[str, str | bytes | Exception] = field(default_factory=dict)
    changed: frozenset[str] | None = None
    tip: Callable[[str], bytes | None] | None = None
    is_ours: bool = True

    def __post_init__(self) -> None:
        self.workspace.mkdir()
        self.into.mkdir()

    @property
    def workspace(self) -> Path:
        return self.root / "work space"

    @property
    def into(self) -> Path:
        return self.root / "into"

    def head(self, **files: str | bytes) -> Case:
        return self.put({k.replace("__", "/") + ".yml": v for k, v in files.items()})

    def put(self, files: Mapping[str, str | bytes]) -> Case:
        for name, content in files.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return self

    def read(self, path: str) -> bytes | None:
        found = self.base.get(path)
        if isinstance(found, Exception):
            raise found
        return found.encode() if isinstance(found, str) else found

    def folder(self, path: str) -> dict[str, bytes] | None:
        if isinstance(self.base.get(path), Exception):
            raise self.base[path]
        below = path + "/"
        return {
            k.removeprefix(below): self.read(k) or b"" for k in self.base if k.startswith(below)
        } or None

    def collect(
        self, plan: str = "", inline: str = "", baseline: str = "", **more: str
    ) -> Protected:
        asked = Wanted(plan, inline, baseline, **{"search": False, **more})
        base = Base(self.read, self.folder, self.tip, self.is_ours)
        return collect(asked, base, self.workspace, self.into, self.changed)

    def as_it_is(
        self, plan: str = "", inline: str = "", baseline: str = "", **more: str
    ) -> Protected:
        asked = Wanted(plan, inline, baseline, **{"search": False, **more})
        return as_it_is(asked, self.workspace, self.into)

    def refused(self, *arguments: str, **more: str) -> str:
        with pytest.raises(ConfigError) as caught:
            self.collect(*arguments, **more)
        return str(caught.value)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def told(found: Protected) -> list[tuple[str, str]]:
    return [(d.field, d.path) for d in found.differences]


# --- plan and prompts -----------------------------------------------------------------------


def test_collect__same(case: Case) -> None:
    """Where nothing differs, the merge-base's copy is used and nothing is told."""
    files = {"ci/plan.yml": PLAN.format("../p/dev.jsonl"), "p/dev.jsonl": "{}\n"}
    case.base |= files
    case.put(files)

    found = case.collect("ci/plan.yml")

    assert found == Protected(case.into / "ci/plan.yml")
    assert (case.into / "ci/../p/dev.jsonl").read_text() == "{}\n"


def test_collect__changed(case: Case) -> None:
    """A plan and prompts that the pull request changes are not used, and the diff is shown."""
    case.base |= {"plan.yml": PLAN.format("dev.jsonl"), "dev.jsonl": "1\n2\n"}
    case.put({"plan.yml": PLAN.format("dev.jsonl") + "seed: 1\n", "dev.jsonl": "1\n3\n"})

    found = case.collect("plan.yml")

    assert (case.into / "plan.yml").read_text() == PLAN.format("dev.jsonl")
    assert (case.into / "dev.jsonl").read_text() == "1\n2\n"
    assert told(found) == [("plan", "plan.yml"), ("prompts", "dev.jsonl")]
    assert found.differences[0].detail.splitlines()[-2:] == ["+seed: 1", " "]
    assert "-2\n+3" in found.differences[1].detail


def test_collect__data_of_a_stage(case: Case) -> None:
    """The questions of a stage of its own are protected as prompts are."""
    plan = "stages:\n  - gsm8k: {data: own.jsonl}\n"
    case.base |= {"ci/plan.yml": plan, "ci/own.jsonl": "1\n"}
    case.put({"ci/plan.yml": plan, "ci/own.jsonl": "2\n"})

    found = case.collect("ci/plan.yml")

    assert (case.into / "ci/own.jsonl").read_text() == "1\n"
    assert told(found) == [("prompts", "ci/own.jsonl")]


def test_collect__prompts_of_the_base_plan(case: Case) -> None:
    """Which prompts are asked is the merge-base's plan to say, whatever the head's names."""
    case.base |= {"plan.yml": PLAN.format("old.jsonl"), "old.jsonl": "1"}
    case.put({"plan.yml": PLAN.format("new.jsonl"), "old.jsonl": "1", "new.jsonl": "2"})

    assert told(case.collect("plan.yml")) == [("plan", "plan.yml")]
    assert sorted(p.name for p in case.into.iterdir()) == ["old.jsonl", "plan.yml"]


def test_collect__brought(case: Case) -> None:
    """A plan that the merge-base lacks is used, told as the pull request's own, and shown."""
    found = case.head(plan=DEFAULT).collect("plan.yml")

    assert found.plan == case.into / "plan.yml"
    assert found.plan.read_text() == DEFAULT
    assert told(found) == [("plan", "plan.yml")]
    assert "brings its own" in found.differences[0].detail
    assert "+  - score" in found.differences[0].detail


def test_collect__deleted(case: Case) -> None:
    """A plan that the pull request deletes is used all the same."""
    case.base |= {"plan.yml": DEFAULT}

    found = case.collect("plan.yml")

    assert found.plan is not None
    assert found.plan.read_text() == DEFAULT
    assert "is deleted" in found.differences[0].detail


def test_collect__github_does_not_answer(case: Case) -> None:
    """What could not be compared is used and told: that is no PASS."""
    case.base |= {"plan.yml": GithubError("503 from the API")}

    found = case.head(plan=DEFAULT).collect("plan.yml")

    assert found.plan is not None
    assert found.plan.read_text() == DEFAULT
    assert "could not be compared" in found.differences[0].detail
    assert "503 from the API" in found.differences[0].detail


def test_collect__not_the_pull_requests_doing(case: Case) -> None:
    """What differs on a path that the pull request leaves alone is no difference of its own."""
    case.base |= {"plan.yml": DEFAULT}
    case.changed = frozenset({"compose.yml", "plan.yml.bak", "pla"})
    case.head(plan=DEFAULT + "seed: 1\n", new=DEFAULT)

    found = case.collect("plan.yml")
    assert found.differences == ()
    assert found.plan is not None
    assert found.plan.read_text() == DEFAULT
    assert "the workspace's differs" in found.notes[0]
    assert case.collect("new.yml").differences == ()

    case.changed = frozenset({"plan.yml"})
    assert told(case.collect("plan.yml")) == [("plan", "plan.yml")]


@pytest.mark.parametrize("touched", ["ci", "ci/plan.yml", "ci/plan.yml/x"])
def test_collect__path_above_or_below_is_touched(case: Case, touched: str) -> None:
    """A link or submodule in a folder's place, or a folder in a file's, is a change of it."""
    case.base |= {"ci/plan.yml": DEFAULT}
    case.changed = frozenset({touched})

    assert told(case.collect("ci/plan.yml")) == [("plan", "ci/plan.yml")]


def test_collect__nowhere(case: Case) -> None:
    """A plan or prompt file that is nowhere is a mistake in the workflow."""
    assert "plan.yml: no such file" in case.refused("plan.yml")
    case.base |= {"plan.yml": PLAN.format("dev.jsonl")}
    assert "dev.jsonl: no such file" in case.refused("plan.yml")


def test_collect__nothing_named(case: Case) -> None:
    """Without plan and stages it is the plan of the package, which nobody's commit changes."""
    assert case.collect() == Protected()
    assert case.as_it_is() == Protected()


@pytest.mark.parametrize(
    "inline", ["- trajectory: {prompts: p/d.jsonl}\n- score\n", PLAN.format("p/d.jsonl")]
)
def test_collect__inline(case: Case, inline: str) -> None:
    """Inline stages, whole or as a list, find their prompts in the workspace's place."""
    case.base |= {"p/d.jsonl": "1"}
    found = case.put({"p/d.jsonl": "2"}).collect("", inline)

    assert found.plan == case.into / INLINE
    assert found.plan.read_text().startswith("stages:\n")
    assert (found.plan.parent / "p/d.jsonl").read_text() == "1"
    assert told(found) == [("prompts", "p/d.jsonl")]


@pytest.mark.parametrize("prompts", ["demo", "default"])
def test_collect__built_in_prompts(case: Case, prompts: str) -> None:
    """Built-in prompts are no files."""
    case.base |= {"plan.yml": PLAN.format(prompts)}

    assert told(case.head(plan=PLAN.format(prompts)).collect("plan.yml")) == []


def test_collect__mistakes(case: Case) -> None:
    """Mistakes are told with the name that the file has in the repository."""
    case.base |= {"a.yml": "stages: [scor]\n", "b.yml": b"\xff", "c.yml": "x" * (4 << 20) + "y"}

    assert case.refused("a.yml").startswith("a.yml:1: unknown stage 'scor'; did you mean 'score'?")
    assert "b.yml:1: not UTF-8" in case.refused("b.yml")
    assert "c.yml at the merge-base: larger" in case.refused("c.yml")
    assert "the input `stages`:1" in case.refused("", "- scor\n").replace(":2", ":1")
    assert "both `plan` and `stages`" in case.refused("a.yml", "- score\n")


# --- what is not a plain file of the repository ---------------------------------------------


LEADING_OUT = ("../plan.yml", "ci/../../plan.yml", "..", ".", ".git/config", "sub/.GIT/config")


@pytest.mark.parametrize("path", [*LEADING_OUT, "a\nb", "a\x00b", "ci/../.git/config"])
def test_collect__paths_refused(case: Case, path: str) -> None:
    """No relative path leads out of the workspace, or into git's own folder."""
    (case.root / "plan.yml").write_text(DEFAULT)

    for key in ("plan", "baseline", "accept"):
        assert case.refused(**{key: path}).startswith(key)
    case.base |= {"p.yml": f'stages:\n  - trajectory: {{prompts: "{path}"}}\n'}
    if path.isprintable():
        assert "trajectory.prompts" in case.refused("p.yml")


def test_collect__outside(case: Case) -> None:
    """Files that the runner holds outside the workspace are nobody's pull request."""
    (case.root / "plan.yml").write_text(PLAN.format("dev.jsonl"))
    (case.root / "accept.yml").write_text(ACCEPT)

    found = case.collect(
        str(case.root / "plan.yml"),
        baseline=str(case.root / "baseline"),
        accept=str(case.root / "accept.yml"),
    )

    outside = str(case.root / "baseline")
    assert found == Protected(
        case.root / "plan.yml", case.root / "baseline", ACCEPTED, named=outside
    )
    assert "no such file" in case.refused(str(case.root / "none.yml"))


def test_collect__absolute_path_into_the_workspace(case: Case) -> None:
    """An absolute path is no way around: into the workspace it is the same as a relative one."""
    case.base |= {"plan.yml": DEFAULT}
    case.head(plan=DEFAULT + "seed: 1\n")
    (case.root / "link").symlink_to(case.workspace)

    for root in (case.workspace, case.root / "link", case.root / "into" / ".." / "work space"):
        found = case.collect(str(root / "plan.yml"))
        assert found.plan == case.into / "plan.yml"
        assert told(found) == [("plan", "plan.yml")]


def test_collect__prompts_by_absolute_path(case: Case) -> None:
    """Prompts outside are used as they are; an absolute path into the workspace is refused."""
    for where, refused in ((case.root, False), (case.workspace, True)):
        (where / "dev.jsonl").write_text("{}")
        case.base["plan.yml"] = PLAN.format(f'"{where}/dev.jsonl"')
        case.head(plan=case.base["plan.yml"])
        if refused:
            assert "absolute path into the workspace" in case.refused("plan.yml")
        else:
            assert told(case.collect("plan.yml")) == []


def test_collect__plan_outside_prompts_inside(case: Case) -> None:
    """A plan outside does not take its prompts from the pull request."""
    (case.root / "plan.yml").write_text(PLAN.format('"work space/dev.jsonl"'))

    assert "its questions are inside" in case.refused(str(case.root / "plan.yml"))


def test_collect__prompts_down_and_up(case: Case) -> None:
    """A prompt path is one that the copy has too."""
    case.base |= {"plan.yml": PLAN.format("a/../dev.jsonl")}

    assert "goes down and up again" in case.refused("plan.yml")


def test_collect__link_that_leads_out(case: Case) -> None:
    """A link to a file of the runner is refused, wherever on the way it stands."""
    (case.root / "secret").mkdir()
    (case.root / "secret" / "plan.yml").write_text(DEFAULT)
    (case.workspace / "ci").symlink_to("../secret")
    (case.workspace / "plan.yml").symlink_to(case.root / "secret" / "plan.yml")
    case.base |= {"plan.yml": DEFAULT}

    for path in ("ci/plan.yml", "plan.yml"):
        assert "leads out of the workspace" in case.refused(path)
    assert "leads out of the workspace" in case.refused(baseline="ci")


def test_collect__link_that_stays_inside(case: Case) -> None:
    """A link is not followed: what a step of the job wrote may be secret, and diffs are shown."""
    case.put({".env": "SECRET=1", "base/x": "SECRET=1"})
    (case.workspace / "plan.yml").symlink_to(".env")
    (case.workspace / "loop").symlink_to("loop")
    (case.workspace / "b").symlink_to("base")

    assert "it is a symbolic link" in case.refused("plan.yml")
    assert "baseline: b is a symbolic link" in case.refused(baseline="b")
    assert "loop" in case.refused("loop")
    case.base |= {"plan.yml": DEFAULT, "b/x": "1"}
    found = case.collect("plan.yml", baseline="b")
    assert [d.detail for d in found.differences] == [
        "is a symbolic link now; the merge-base's is used"
    ] * 2


def test_collect__devices(case: Case) -> None:
    """A pipe, a socket or a device is refused without being opened."""
    os.mkfifo(case.workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(case.workspace / "socket"))
        for name in ("pipe", "socket"):
            case.base[name] = DEFAULT
            assert "a device or a pipe" in case.refused(name)
    assert "a device or a pipe" in case.refused("/dev/zero")


def test_collect__folder_and_size(case: Case) -> None:
    """A folder in the plan's place, or a plan without end, is told and not used."""
    case.base |= {"a": DEFAULT, "b": DEFAULT}
    case.put({"a/x": "1", "b": b"y" * ((4 << 20) + 1), "c/x": "1"})

    assert "is a folder now" in case.collect("a").differences[0].detail
    assert "is larger than 4194304 bytes now" in case.collect("b").differences[0].detail
    assert "it is a folder" in case.refused("c")


def test_collect__unreadable(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be opened is no empty file."""
    case.head(plan=DEFAULT)

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(_head.os, "open", refuse)

    assert "unreadable (Permission denied)" in case.refused("plan.yml")
    assert _head.sha256(case.workspace, "plan.yml") == ""


# --- baseline -------------------------------------------------------------------------------

FOLDER = {"b/manifest.json": "{}", "b/rows/1.npy": b"\x93NUMPY"}


def test_baseline__same(case: Case) -> None:
    """A committed baseline is the merge-base's copy."""
    case.base |= FOLDER
    found = case.put(FOLDER).collect(baseline="b")

    assert found == Protected(baseline=case.into / "b", named="b")
    assert (case.into / "b/rows/1.npy").read_bytes() == b"\x93NUMPY"


def test_baseline__changed(case: Case) -> None:
    """Every file that differs is named once, and none of the pull request's is used."""
    case.base |= {**FOLDER, "b/gone": "x", "b/same": "y", "b/size": "12"}
    case.put({"b/manifest.json": "[]", "b/rows/1.npy": b"\x93NUMPY", "b/new": "1", "b/same": "y",
              "b/size": "123"})  # fmt: skip
    (case.workspace / "b/link").symlink_to("/etc/passwd")
    os.mkfifo(case.workspace / "b/pipe")

    found = case.collect(baseline="b")

    assert told(found) == [("baseline", "b")]
    assert found.differences[0].detail.splitlines() == [
        "- gone (1 bytes)",
        "+ link (a symbolic link)",
        "! manifest.json (2 bytes, other content)",
        "+ new (1 bytes)",
        "+ pipe (no plain file)",
        "! size (2 bytes, now 3 bytes)",
    ]
    assert sorted(p.name for p in (case.into / "b").iterdir()) == [
        *("gone", "manifest.json", "rows", "same", "size")
    ]


def test_baseline__named_by_the_plan(case: Case) -> None:
    """The baseline that the plan itself names is protected as well; the input goes before it."""
    case.base |= {**FOLDER, "plan.yml": DEFAULT + "baseline: b\n", "c/x": "1"}
    case.put({"plan.yml": DEFAULT + "baseline: b\n", "b/manifest.json": "[]", "c/x": "1"})

    found = case.collect("plan.yml")
    assert (found.baseline, told(found)) == (case.into / "b", [("baseline", "b")])
    assert case.collect("plan.yml", baseline="c").baseline == case.into / "c"


def test_baseline__deleted(case: Case) -> None:
    """A baseline that the pull request deletes is used all the same."""
    case.base |= FOLDER
    found = case.collect(baseline="b")

    assert found.baseline == case.into / "b"
    assert "is deleted" in found.differences[0].detail


@pytest.mark.parametrize(
    ("changed", "expected"),
    [(None, "may bring its own"), ({"b/x"}, "brings its own"), ({"b"}, "brings its own")],
)
def test_baseline__brought(case: Case, changed: set[str] | None, expected: str) -> None:
    """A baseline that only the pull request has is told, and its files are named."""
    case.changed = None if changed is None else frozenset(changed)
    found = case.put(FOLDER).collect(baseline="b")

    assert found.baseline == case.workspace / "b"
    assert expected in found.differences[0].detail
    assert "+ rows/1.npy (6 bytes)" in found.differences[0].detail


def test_baseline__of_an_earlier_step(case: Case) -> None:
    """What the job downloaded is used as it is: the pull request is known not to hold it."""
    case.changed = frozenset({"compose.yml", "bb/x"})
    found = case.put(FOLDER).collect(baseline="b")

    assert found == Protected(baseline=case.workspace / "b", named="b")


def test_baseline__base_branch_moved_on(case: Case) -> None:
    """A newer baseline of the base branch is not held against the pull request."""
    case.base |= FOLDER
    case.changed = frozenset({"compose.yml"})
    found = case.put({**FOLDER, "b/manifest.json": "[]"}).collect(baseline="b")

    assert (found.baseline, found.differences) == (case.into / "b", ())
    assert "b: the workspace's differs" in found.notes[0]


def test_baseline__github_does_not_answer(case: Case) -> None:
    """A baseline that could not be compared is used and told; none there is none."""
    case.base |= {"b": GithubError("timeout")}

    nothing = case.collect(baseline="b")
    assert (nothing.baseline, told(nothing)) == (None, [("baseline", "b")])
    found = case.put(FOLDER).collect(baseline="b")
    assert (found.baseline, told(found)) == (case.workspace / "b", [("baseline", "b")])
    assert "timeout" in found.differences[0].detail


@pytest.mark.parametrize("name", ["", "auto", "https://x.example/v1", "nobody"])
def test_baseline__no_folder(case: Case, name: str) -> None:
    """What is no folder here and was none there is not ours to find."""
    named = "" if name == "auto" else name
    assert case.collect(baseline=name) == Protected(named=named)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "a//b", "", "x\x00"])
def test_baseline__hostile_names(case: Case, name: str) -> None:
    """A file name of the merge-base is never a way to write elsewhere."""
    base = Base(case.read, lambda _: {name: b"x"})
    with pytest.raises(ConfigError, match="leads out of the folder"):
        collect(Wanted(baseline="b"), base, case.workspace, case.into)

    assert [p for p in case.root.rglob("*") if p.is_file()] == []


def test_baseline__too_many_files(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of endless files is refused."""
    monkeypatch.setattr(_head, "MAX_FILES", 3)
    case.put({f"b/{i}": "x" for i in range(5)})

    assert "more than 3 files" in case.refused(baseline="b")


# --- acceptances ----------------------------------------------------------------------------


def test_accept(case: Case) -> None:
    """Acceptances are the merge-base's; the pull request's are noted, and are not a difference."""
    path = ".inferquality/accept.yml"
    noted = (f"{path}: a pull request cannot accept for itself; the base branch's holds",)
    case.base |= {path: ACCEPT}

    assert case.put({path: "accept: nonsense"}).collect() == Protected(
        acceptances=ACCEPTED, notes=noted
    )
    del case.base[path]
    assert case.put({path: ACCEPT}).collect() == Protected(notes=noted)


def test_accept__none(case: Case) -> None:
    """An empty name means none."""
    case.base |= {".inferquality/accept.yml": ACCEPT}

    assert case.collect(accept="") == Protected()


def test_accept__mistakes(case: Case) -> None:
    """A mistake in the merge-base's file is told, not skipped."""
    for text, said in (("acept: []", "accept.yml:1: unknown key"), (b"\xff", "not UTF-8"),
                       ("#" * (1 << 20) + "\n", "larger than")):  # fmt: skip
        case.base["accept.yml"] = text
        assert said in case.refused(accept="accept.yml")


def test_accept__github_does_not_answer(case: Case) -> None:
    """Where they cannot be read nothing is accepted, and that is all."""
    case.base |= {"accept.yml": GithubError("503")}

    found = case.collect(accept="accept.yml")

    assert (found.acceptances, found.differences) == ((), ())
    assert "nothing is accepted" in found.notes[0]


# --- other events ---------------------------------------------------------------------------


def test_as_it_is(case: Case) -> None:
    """On a push everything is the workspace's own, and nothing differs."""
    case.put({"ci/plan.yml": PLAN.format("dev.jsonl"), "ci/dev.jsonl": "1", **FOLDER,
              ".inferquality/accept.yml": ACCEPT})  # fmt: skip

    found = case.as_it_is("ci/plan.yml", baseline="b")

    assert found == Protected(case.into / "ci/plan.yml", case.workspace / "b", ACCEPTED, named="b")
    assert (case.into / "ci/dev.jsonl").read_text() == "1"


def test_as_it_is__the_same_mistakes(case: Case) -> None:
    """What a pull request may not name, a push may not either: it would break there."""
    (case.workspace / "plan.yml").symlink_to("real.yml")
    case.put({"real.yml": DEFAULT})

    for path, said in (("plan.yml", "it is a symbolic link"), ("../x", "leads out"),
                       ("none.yml", "no such file")):  # fmt: skip
        with pytest.raises(ConfigError, match=said):
            case.as_it_is(path)


# --- diffs ----------------------------------------------------------------------------------


def test_change__is_bounded() -> None:
    """Whatever differs, what is shown has at most 60 lines and 8,000 characters."""
    many = "".join(f"{i}\n" for i in range(500)).encode()
    for before, after in ((b"", many), (many, b""), (b"x" * 200_000, b"y" * 200_000),
                          (b"x" * 300_000, b"y"), (b"\x00", b"1"), (b"\xff", b"1"),
                          (b"a\n" * 5000, b"b\n" * 5000)):  # fmt: skip
        found = _compare.change(before, after)
        assert found
        assert len(found) <= _compare.MAX_CHARACTERS
        assert found.count("\n") < _compare.MAX_LINES


def test_change__cut_is_told() -> None:
    """A diff that was cut says so, and how long it is."""
    found = _compare.change(b"", b"".join(b"%d\n" % i for i in range(500)))

    assert found.splitlines()[-1] == "… cut: 504 lines in all"


def test_change__short() -> None:
    """A short diff is whole; line ends and a missing last one are differences too."""
    assert _compare.change(b"a\nb\n", b"a\nc\n").splitlines()[2:] == [
        "@@ -1,3 +1,3 @@",
        " a",
        "-b",
        "+c",
        " ",
    ]
    assert "+a\r" in _compare.change(b"a\n", b"a\r\n")
    assert _compare.change(b"a", b"a\n").endswith("+")


def test_change__binary() -> None:
    """Bytes are told by size and sha256."""
    found = _compare.change(b"\x00", b"")

    assert found.splitlines()[0] == (
        "before: 1 bytes, sha256 6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    )


# --- what cannot be compared ----------------------------------------------------------------


def pointer(content: str, size: int = 1) -> str:
    oid = hashlib.sha256(content.encode()).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"


def test_collect__git_lfs(case: Case) -> None:
    """Where the workspace has the file that a pointer stands for, it is the merge-base's."""
    case.base |= {"plan.yml": pointer(DEFAULT), "b/data": pointer("data"), "b/manifest.json": "{}"}
    case.put({"plan.yml": DEFAULT, "b/data": "data", "b/manifest.json": "{}"})

    found = case.collect("plan.yml", baseline="b")

    assert found == Protected(case.into / "plan.yml", case.into / "b", named="b")
    assert (case.into / "plan.yml").read_text() == DEFAULT
    assert (case.into / "b/data").read_text() == "data"


@pytest.mark.parametrize(
    ("data", "said"),
    [("other", "another file"), (pointer("data"), "only a pointer too"), (None, "no such file")],
)
def test_baseline__git_lfs_elsewhere(case: Case, data: str | None, said: str) -> None:
    """Where it has not, that is told, with what helps; all else is the merge-base's still."""
    case.changed = frozenset()
    case.base |= {"b/data": pointer("data"), "b/manifest.json": "{}"}
    case.put({"b/manifest.json": "[]"} | ({} if data is None else {"b/data": data}))

    found = case.collect(baseline="b")

    assert told(found) == [("baseline", "b")]
    assert "git-lfs" in found.differences[0].detail
    assert "`lfs: true`" in found.differences[0].detail
    assert said in found.differences[0].detail
    assert (case.into / "b/manifest.json").read_text() == "{}"
    there = case.into / "b/data"
    assert data == (there.read_text() if there.exists() else None)


def test_collect__git_lfs_of_another_plan(case: Case) -> None:
    """A plan that cannot be compared is used, and told: it passes nothing by itself."""
    case.base["plan.yml"] = pointer("x")

    found = case.head(plan=DEFAULT).collect("plan.yml")

    assert told(found) == [("plan", "plan.yml")]
    assert "git-lfs" in found.differences[0].detail


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version https://git-lfs.github.com/spec/v1\nsize 3\n",
        pointer("x").replace("v1", "v2"),
        pointer("x") + "x" * 1024,
        " " + pointer("x"),
    ],
)
def test_is_pointer__only_what_is_one(text: str) -> None:
    """Other text is a file like any other."""
    assert _lfs.is_pointer(pointer("x").encode())
    assert not _lfs.is_pointer(text.encode())


def test_collect__of_another_repository(case: Case) -> None:
    """What the merge-base lacks is not the pull request's own only where it is its repository."""
    case.changed, case.is_ours = frozenset(), False
    case.put({**FOLDER, "plan.yml": DEFAULT})

    found = case.collect("plan.yml", baseline="b")

    assert told(found) == [("plan", "plan.yml"), ("baseline", "b")]
    assert all("cannot be compared" in d.detail for d in found.differences)


def test_acceptances__the_tip_cannot_be_read(case: Case) -> None:
    """Whether a word still stands is not known: it does not."""

    def unreadable(path: str) -> bytes | None:
        raise GithubError("an outage")

    case.base[".inferquality/accept.yml"] = ACCEPT
    case.put({".inferquality/accept.yml": ACCEPT}).tip = unreadable

    found = case.collect()

    assert found.acceptances == ()
    assert "an outage" in found.notes[0]


def test_acceptances__one_read_where_it_is_one_commit(case: Case) -> None:
    """Without another tip the merge-base's stand."""
    case.base[".inferquality/accept.yml"] = ACCEPT

    assert case.put({".inferquality/accept.yml": ACCEPT}).collect().acceptances == ACCEPTED


def test_acceptances__git_lfs(case: Case) -> None:
    """A pointer accepts nothing, and is no mistake that makes every job red."""
    case.base[".inferquality/accept.yml"] = pointer(ACCEPT)

    found = case.put({".inferquality/accept.yml": ACCEPT}).collect()

    assert found.acceptances == ()
    assert "git-lfs" in found.notes[0]


# --- a baseline that nobody names -----------------------------------------------------------

COMMITTED = {".inferquality/baseline/manifest.json": "{}"}
PACKED = ".inferquality/baseline.tar.gz"


def test_search__committed(case: Case) -> None:
    """The merge-base's folder is taken, and it is said."""
    case.base |= COMMITTED
    found = case.put(COMMITTED).collect(search=True)

    assert (found.baseline, found.named) == (case.into / ".inferquality/baseline", "")
    assert found.differences == ()
    assert found.searched == ("committed: .inferquality/baseline of the merge-base is taken",)


def test_search__changed(case: Case) -> None:
    """What the pull request makes of it is told, as of one that is named."""
    case.base |= COMMITTED
    found = case.put({**COMMITTED, ".inferquality/baseline/x": "1"}).collect(search=True)

    assert told(found) == [("baseline", ".inferquality/baseline")]
    assert not (case.into / ".inferquality/baseline/x").exists()


def test_search__packed(case: Case) -> None:
    """A packed one is looked for second."""
    case.base |= {PACKED: "packed"}
    found = case.put({PACKED: "packed"}).collect(search=True)

    assert found.baseline == case.into / PACKED
    assert (case.into / PACKED).read_bytes() == b"packed"
    assert found.searched == (
        "committed: the merge-base has no .inferquality/baseline",
        f"committed: {PACKED} of the merge-base is taken",
    )


def test_search__the_pull_requests_own(case: Case) -> None:
    """A pull request does not judge itself by what it brings, and its verdict is not capped for
    it: the search goes on."""
    found = case.put({**COMMITTED, PACKED: "x"}).collect(search=True)

    assert (found.baseline, found.differences) == (None, ())
    assert all("brings one, which is not taken" in said for said in found.searched)
    assert len(found.searched) == 2


def test_search__github_does_not_answer(case: Case) -> None:
    """What cannot be read is said, and the search goes on."""
    case.base |= {".inferquality/baseline": GithubError("timeout"), PACKED: GithubError("late")}
    found = case.put(COMMITTED).collect(search=True)

    assert (found.baseline, found.differences) == (None, ())
    assert [said.rpartition(": ")[2] for said in found.searched] == ["timeout", "late"]


def test_search__in_the_checkout(case: Case) -> None:
    """Where no pull request is judged, the checkout's is taken."""
    nothing = case.as_it_is(search=True)
    found = case.put(COMMITTED).as_it_is(search=True)

    assert nothing.baseline is None
    assert nothing.searched[1] == f"committed: there is no {PACKED}"
    assert found.baseline == case.workspace / ".inferquality/baseline"


def test_search__a_link(case: Case) -> None:
    """A link in its place leads nowhere."""
    (case.workspace / ".inferquality").mkdir()
    (case.workspace / ".inferquality/baseline").symlink_to("/etc")

    with pytest.raises(ConfigError, match="symbolic link"):
        case.as_it_is(search=True)


def test_baseline__packed(case: Case) -> None:
    """A packed one that is named is the merge-base's; the pull request's own is told."""
    case.base |= {"b.tar.gz": "old"}
    found = case.put({"b.tar.gz": "new"}).collect(baseline="b.tar.gz")

    assert told(found) == [("baseline", "b.tar.gz")]
    assert found.baseline is not None
    assert found.baseline.read_bytes() == b"old"
    case.base.clear()
    assert told(case.collect(baseline="b.tar.gz")) == [("baseline", "b.tar.gz")]
    assert case.collect(baseline="none.tgz").baseline is None
    case.base |= {"none.tgz": GithubError("timeout")}
    assert told(case.collect(baseline="none.tgz")) == [("baseline", "none.tgz")]
