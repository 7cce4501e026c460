"""Baselines looked at: what one holds, whether it can be used, and which one is pinned."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.test_session import stored
from world import ENGINE, World, answering, noisy

from iqaction import anchor, baseline, cli, given_baseline, inputs, session, sources
from iqaction.baseline import PinOptions
from iqaction.errors import ConfigError, EvidenceError
from iqaction.evidence import bundle
from iqaction.evidence.store import Folder, load_baseline
from iqaction.progress import Quiet
from iqaction.session import RunOptions
from iqaction.stages._score_metrics import TITLES

WORLD = World(units=64, length=6)
NOBODY = {"endpoint": "", "model": "", "dialect": "", "api_key_env": ""}
TODAY = "2026-12-01"


class Home:
    """A reference that is packed, a candidate of another engine, and a capture of that engine."""

    def __init__(self, home: Path) -> None:
        self.home = home
        captured = WORLD.capture(launches=5)
        session.judge(stored(home / "reference", captured))
        self.root = load_baseline(home / "reference").root
        self.packed = home / "baseline.tar.gz"
        bundle.pack(home / "reference", self.packed)
        moved = replace(ENGINE, version="2.0")
        compared = WORLD.compare(captured, noisy(0.3))
        self.candidate = stored(home / "candidate", compared, self.root, home / "reference")
        session.judge(self.candidate)
        engines = dict.fromkeys(captured.engines, moved)
        self.next = stored(home / "next", replace(captured, engines=engines))
        session.judge(self.next)
        self.next_root = load_baseline(self.next).root


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("baseline"))


# --- show -----------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["packed", "folder"])
def test_held(home: Home, which: str) -> None:
    """A packed baseline and its folder hold the same; only the packed one has a size."""
    path = home.packed if which == "packed" else home.home / "reference"
    with baseline.held(path, home.root) as one:
        found = (one.root, one.engine, len(one.day), one.observed.launches)
        size = (one.size, one.sha256)

    assert found == (home.root, ENGINE, 10, (1, 2, 3, 4, 5))
    packed = (home.packed.stat().st_size, bundle.digest(home.packed))
    assert size == (packed if which == "packed" else (0, ""))


def test_held__leaves_nothing(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was unpacked to be looked at is removed again."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with baseline.held(home.packed):
        assert len(list(tmp_path.iterdir())) == 1

    assert list(tmp_path.iterdir()) == []


def test_held__comparison(home: Home) -> None:
    """A candidate's evidence is no baseline."""
    with pytest.raises(EvidenceError, match="is no baseline"):
        baseline.held(home.candidate).__enter__()


def shown(*argv: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    status = cli.main(["baseline", *map(str, argv), "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_show(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what is held, and per metric the floor, the smallest margin and whether the plan's
    margin can be decided."""
    status, said = shown("show", home.packed, capsys=capsys)
    metrics = {m["metric"]: m for m in said["floor"]["metrics"]}

    assert (status, said["root"], said["relaunches"], said["refused"]) == (0, home.root, 5, [])
    assert said["size"] == home.packed.stat().st_size
    assert (said["floor"]["prompts"], said["floor"]["why_not"]) == (64, "")
    assert [m["margin"] for m in metrics.values()] == [0.02, 0.005, 0.05, None, None]
    assert 0 < metrics["kl"]["smallest_margin"] < metrics["kl"]["margin"]
    assert (metrics["kl"]["decides"], metrics["agreement"]["decides"]) == (True, None)

    assert cli.main(["baseline", "show", str(home.packed)]) == 0
    page = capsys.readouterr().out
    for word in (home.root, "vllm 1.0", "smallest margin", *TITLES.values(), "1 and 5 relaunches"):
        assert word in page  # no title is cut
    assert "of the NLL its level" in " ".join(page.split())
    assert "–: not known" in page
    assert "A candidate can be compared with it" in page


def test_show__damaged(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A truncated bundle is an error with exit status 3, and no traceback."""
    (tmp_path / "x.tar.gz").write_bytes(home.packed.read_bytes()[:-100])
    status, said = shown("show", tmp_path / "x.tar.gz", capsys=capsys)

    assert (status, said["exit_code"]) == (3, 3)
    assert "no whole .tar.gz file" in said["error"]["happened"]


# --- check ----------------------------------------------------------------------------------


def plan(home: Home, text: str, name: str = "plan.yml") -> Path:
    """A plan beside the prompts that the world was captured with."""
    (home.home / "prompts.jsonl").write_bytes((home.home / "reference/prompts.jsonl").read_bytes())
    (home.home / name).write_text(text)
    return home.home / name


PLAN = """\
stages:
  - trajectory: {prompts: prompts.jsonl, limit: 64, max_tokens: 6, top_logprobs: 20}
  - score: {legs: [reference, self]}
"""


def test_check__whole(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """A whole baseline is usable; with a pin it is that one."""
    assert shown("check", home.packed, capsys=capsys)[0] == 0
    assert shown("check", home.packed, "--sha256", home.root, capsys=capsys)[0] == 0
    assert shown("check", home.packed, "--sha256", "0" * 64, capsys=capsys)[0] == 3


def test_check__plan(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """It says against which plan it is usable, and what of another plan it does not answer."""
    fits = shown("check", home.packed, "--plan", plan(home, PLAN), capsys=capsys)
    longer = plan(home, PLAN.replace("max_tokens: 6", "max_tokens: 32"), "longer.yml")
    other = shown("check", home.packed, "--plan", longer, capsys=capsys)
    wrong = shown("check", home.packed, "--plan", plan(home, "stage: []", "x.yml"), capsys=capsys)

    assert (fits[0], fits[1]["problems"]) == (0, [])
    assert other[0] == 2
    assert [p for p in other[1]["problems"] if "max_tokens: 32 now, 6 in" in p]
    assert wrong[0] == 4


@pytest.mark.parametrize(
    ("launches", "restarted", "score", "said"),
    [
        (5, True, "", ""),
        (5, False, "", "was not restarted between launches"),
        (2, True, "", "2 relaunches of at least 3"),
        (2, False, "floor: single", ""),
        (2, False, "required: false", ""),
    ],
)
def test_floorless(launches: int, restarted: bool, score: str, said: str) -> None:
    """Launches that `score` cannot PASS against are told before anything is compared with them,
    unless the plan does without."""
    capture = World(units=4, length=3).capture(launches=launches)
    engines = {
        (arm, n): replace(e, not_restarted=bool(n) and not restarted)
        for (arm, n), e in capture.engines.items()
    }
    asked = inputs.read_request(f"stages:\n  - trajectory\n  - score: {{{score}}}\n", "plan.yml")
    found = baseline.floorless(replace(capture, engines=engines), asked.stages)

    assert len(found) == bool(said)
    assert said in " ".join(found)


@pytest.mark.parametrize("bundle_", ["../b.tar.gz", "artifact"])
def test_pinned__at_a_desk(tmp_path: Path, bundle_: str) -> None:
    """Where a plan names its anchor and no baseline, the pinned one is taken, from the anchor's
    folder; one that is an artifact has to be given."""
    (tmp_path / "pins").mkdir()
    pin = anchor.Pin("a" * 64, "2026-12-01", "the first")
    (tmp_path / "pins/baseline.yml").write_text(anchor.to_text(anchor.Anchor((pin,), bundle_)))
    asked = inputs.read_request("anchor: pins/baseline.yml\n" + PLAN, "plan.yml")
    if bundle_ == "artifact":
        with pytest.raises(ConfigError, match="which is an artifact"):
            given_baseline.pinned(asked, tmp_path / "plan.yml")
        return
    found = given_baseline.pinned(asked, tmp_path / "plan.yml")
    named = replace(asked, baseline="other")

    assert (tmp_path / "b.tar.gz").resolve() == Path(found.baseline).resolve()
    assert named == given_baseline.pinned(named, tmp_path / "plan.yml")


def test_check__anchor(home: Home, tmp_path: Path) -> None:
    """A plan whose anchor is another baseline cannot use this one."""
    pin(home, home.home / "next", home.home / "other.yml")
    anchored = plan(home, PLAN + "anchor: other.yml\n", "anchored.yml")
    found = baseline.check(home.packed, anchored, NOBODY)

    assert found.problems == ("it is not the baseline that other.yml pins",)


def test_check__altered(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that was edited is damaged, whatever it is to be used for."""
    folder = tmp_path / "b"
    bundle.opened(home.packed, folder)
    (folder / "prompts.jsonl").write_bytes(b"{}\n")
    status, said = shown("check", folder, "--plan", plan(home, PLAN), capsys=capsys)

    assert status == 3
    assert "prompts.jsonl: sha256 differs from the manifest" in said["damage"]


def test_check__refused_capture(tmp_path: Path) -> None:
    """A reference that disagrees with itself is whole, and usable for nothing."""
    broken = WORLD.capture(launches=3)

    def shifted(tag: Any, answer: Any) -> Any:
        if tag.leg != "self":
            return answer
        rows = replace(answer.rows, logprob=answer.rows.logprob - 3)
        return replace(answer, rows=rows)

    session.judge(stored(tmp_path / "b", answering(broken, "score", shifted)))
    found = baseline.check(tmp_path / "b", None, NOBODY)

    assert found.damage == ()
    assert found.problems == ("this reference disagrees with itself and is refused",)


# --- pin ------------------------------------------------------------------------------------


def pin(home: Home, path: Path, file: Path, **more: Any) -> baseline.Pinned:
    return baseline.pin(PinOptions(path, file, TODAY, **more))


def test_pin__first(home: Home, tmp_path: Path) -> None:
    """The first anchor has nothing to drift from, and says where it is from where the file is."""
    done = pin(home, home.packed, tmp_path / "new" / "baseline.yml")
    text = (tmp_path / "new" / "baseline.yml").read_text()

    assert (done.anchor.root, done.step, len(done.anchor.pins)) == (home.root, None, 1)
    assert sources.anchor_at(tmp_path / "new" / "baseline.yml") == done.anchor
    assert (tmp_path / "new" / done.anchor.bundle).resolve() == home.packed.resolve()
    assert text.startswith("# The baseline that changes are judged against.")


def test_pin__step_measured(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next pin's drift is what the candidate was worse by; the sum since the first is held
    against the margins."""
    file = tmp_path / "b.yml"
    pin(home, home.packed, file, artifact=True)
    status, said = shown(
        *("pin", home.next, "--file", file, "--candidate", home.candidate),
        *("--reason", "moved on", "--artifact"),
        capsys=capsys,
    )
    report = session.judge(home.candidate, write=False).report
    worse = {
        c.metric.partition(".")[2]: c.estimate.value
        for s in report.stages
        for c in s.checks
        if c.metric.startswith("reference.") and c.estimate
    }
    kept = sources.anchor_at(file)

    assert (status, said["pins"], said["first_root"]) == (0, 2, home.root)
    assert said["step"] == pytest.approx({m: worse[m] for m in ("kl", "decisive", "nll")})
    assert said["since_first"]["kl"] == pytest.approx(worse["kl"])
    assert worse["kl"] > 0.02
    assert "kl" in said["beyond"]
    assert (kept.root, kept.bundle, kept.pins[1].reason) == (home.next_root, "artifact", "moved on")
    assert kept.pins[1].drift == pytest.approx(said["step"], abs=1e-8)


def test_pin__page(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """People read this step, the sum, the margin, and a warning where the sum is beyond it."""
    file = tmp_path / "b.yml"
    first = ["baseline", "pin", str(home.packed), "--file", str(file)]
    assert cli.main(first) == 0
    assert "It is the first anchor" in capsys.readouterr().out
    more = ["--candidate", str(home.candidate), "--reason", "moved on"]
    assert cli.main(["baseline", "pin", str(home.next), "--file", str(file), *more]) == 0
    page = capsys.readouterr().out

    assert "since the first anchor" in page
    assert "WARNING kl: the steps since the first anchor add up to" in page


def test_pin__unmeasured(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A step that nobody measured is refused, unless that is said; then it is not known."""
    file = tmp_path / "b.yml"
    pin(home, home.packed, file)
    before = file.read_bytes()
    with pytest.raises(ConfigError, match="how far the new baseline lies"):
        pin(home, home.next, file, reason="x")
    assert file.read_bytes() == before
    argv = ["baseline", "pin", str(home.next), "--file", str(file), "--reason", "x"]

    assert cli.main([*argv, "--unmeasured"]) == 0
    assert "the sum since the first anchor is not known" in capsys.readouterr().out
    assert sources.anchor_at(file).since_first("kl") is None
    assert "drift: unknown" in file.read_text()


def test_pin__refused(home: Home, tmp_path: Path) -> None:
    """Not without a reason, not with another candidate's figures, not what is pinned already."""
    file = tmp_path / "b.yml"
    pin(home, home.packed, file)
    before = file.read_bytes()
    cases: list[tuple[Path, dict[str, Any], str]] = [
        (home.next, {"candidate": home.candidate}, "nothing says why"),
        (home.next, {"candidate": home.next, "reason": "x"}, "was compared with nothing"),
        (home.home / "reference", {"candidate": home.candidate, "reason": "x"}, "another engine"),
        (home.packed, {"unmeasured": True, "reason": "x"}, "pinned already"),
        (home.next, {"unmeasured": True, "reason": "a\nb"}, "--reason"),
    ]
    for path, more, why in cases:
        with pytest.raises(ConfigError, match=why):
            pin(home, path, file, **more)

    assert file.read_bytes() == before


def test_pin__candidate_is_not_whole(home: Home, tmp_path: Path) -> None:
    """Figures of a run that did not come to its end are no measured step."""
    report = session.judge(home.candidate, write=False).report
    first, score = report.stages
    partial = replace(score, coverage=replace(score.coverage, missing=("p-001",)))
    options = PinOptions(home.next, tmp_path / "b.yml", TODAY, candidate=home.candidate)

    assert set(baseline._drift(report, options)) == {"kl", "decisive", "nll"}
    with pytest.raises(ConfigError, match="is not whole"):
        baseline._drift(replace(report, stages=(first, partial)), options)


def test_pin__candidate_of_another_anchor(home: Home, tmp_path: Path) -> None:
    """A candidate that was compared with another baseline says nothing of this step."""
    pin(home, home.next, tmp_path / "b.yml")
    with pytest.raises(ConfigError, match=f"was compared with {home.root[:12]}"):
        pin(home, home.packed, tmp_path / "b.yml", candidate=home.candidate, reason="x")


def test_pin__not_whole(home: Home, tmp_path: Path) -> None:
    """Altered evidence is neither pinned nor believed."""
    folder = tmp_path / "b"
    bundle.opened(home.packed, folder)
    (folder / "prompts.jsonl").write_bytes(b"{}\n")
    with pytest.raises(EvidenceError, match="is not pinned"):
        pin(home, folder, tmp_path / "b.yml")

    assert not (tmp_path / "b.yml").exists()


# --- a run that names one -------------------------------------------------------------------


def options(home: Home, **more: Any) -> RunOptions:
    asked = {"endpoint": "http://127.0.0.1:9/v1", "plan": plan(home, PLAN), **more}
    return RunOptions(home.home / "evidence", **asked)


@pytest.mark.parametrize("which", ["root", "sha256"])
def test_run__packed_baseline(home: Home, which: str) -> None:
    """`--baseline` takes a packed capture, pinned by its root or by the file's own sha256."""
    sha256 = home.root if which == "root" else bundle.digest(home.packed)
    made = session.planned(options(home, baseline=str(home.packed), baseline_sha256=sha256))

    assert made.baseline_root == home.root


def test_run__keeps_its_own_copy(home: Home, tmp_path: Path) -> None:
    """The candidate's folder holds the baseline; the packed file can go."""
    run = replace(options(home, baseline=str(home.packed)), evidence=tmp_path / "e")
    outcome = session.run(run, progress=Quiet())
    with Folder.open(tmp_path / "e") as folder:
        observed = folder.load()

    assert outcome.report.verdict.value == "NOT RUN"  # nobody is there
    assert observed.baseline is not None
    assert observed.baseline.root == home.root


@pytest.mark.parametrize("where", ["packed", "folder"])
def test_run__other_than_pinned(home: Home, where: str) -> None:
    """Another baseline than the pinned one is refused before anybody is asked."""
    path = home.packed if where == "packed" else home.home / "reference"
    with pytest.raises(EvidenceError, match="not the baseline that was pinned"):
        session.planned(options(home, baseline=str(path), baseline_sha256="0" * 64))


def test_run__pin_without_a_baseline(home: Home) -> None:
    """A pin of nothing is a mistake."""
    with pytest.raises(ConfigError, match="there is no baseline"):
        session.planned(options(home, baseline_sha256="0" * 64))


def test_run__anchor(home: Home) -> None:
    """With an anchor in the plan, the baseline is the pinned one or the run is refused, and both
    are named; a capture is held to none."""
    pin(home, home.packed, home.home / "anchor.yml")
    anchored = plan(home, PLAN + "anchor: anchor.yml\n", "with-anchor.yml")
    made = session.planned(options(home, plan=anchored, baseline=str(home.packed)))
    with pytest.raises(ConfigError) as caught:
        session.planned(options(home, plan=anchored, baseline=str(home.next)))
    bare = session.planned(options(home, plan=anchored, capture=True))

    assert made.baseline_root == home.root
    assert home.next_root in caught.value.happened
    assert home.root in caught.value.expected
    assert bare.is_capture


def test_run__anchor_is_not_there(home: Home) -> None:
    """An anchor that is missing is told as that."""
    anchored = plan(home, PLAN + "anchor: gone.yml\n", "gone-anchor.yml")
    with pytest.raises(ConfigError, match=r"gone\.yml: no such file"):
        session.planned(options(home, plan=anchored, baseline=str(home.packed)))
