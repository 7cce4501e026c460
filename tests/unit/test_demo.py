"""The demo asks in the right order, goes on where it stopped, and calls no wrong verdict right.

Servers and sessions are doubles here; tests/integration/test_demo.py runs the real ones.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from iqaction import demo, demo_view
from iqaction.errors import ConfigError, EngineError
from iqaction.progress import Quiet
from iqaction.report import Check, Coverage, Divergence, Report, StageResult
from iqaction.session import Outcome
from iqaction.verdict import Verdict


def report(verdict: Verdict, *divergences: Divergence) -> Report:
    check = Check("reference.kl", "reference leg: KL (>=)", verdict, f"why it is {verdict.value}")
    stage = StageResult("score", verdict, (check,), Coverage(64, 64), divergences=divergences)
    return Report(verdict, (stage,), f"headline of {verdict.value}")


def divergence(unit: str, kind: str = "real", gap: float | None = 2.1) -> Divergence:
    return Divergence(
        unit, "code", 38, kind, gap, " sorted", " sort", "return", " sorted(rows)", "\x1b[2J(rows)"
    )


class World:
    """Doubles for servers, weights and sessions; keeps what was asked of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str, int, str]] = []
        self.running = 0
        self.launches: list[demo.Launch] = []
        self.verdicts = {"healthy": Verdict.PASS, "degraded": Verdict.FAIL}
        self.stop_at = ""
        self.incomplete_at = ""
        monkeypatch.setattr(demo, "LlamaServer", self.server)
        monkeypatch.setattr(demo, "best_threads", lambda model, most: most)
        monkeypatch.setattr(demo.demo_weights, "weights", self.weights)
        monkeypatch.setattr(demo.session, "run", self.run)
        monkeypatch.setattr(demo.session, "observe", self.run)

    def weights(self, cache, source, quant, note):
        return Path(f"/{quant}.gguf")

    def server(self, launch, log):
        self.launches.append(launch)
        world = self

        class Server:
            url = f"http://127.0.0.1:{len(world.launches)}"

            def __enter__(self):
                world.running += 1
                return self

            def __exit__(self, *exc):
                world.running -= 1

        return Server()

    def run(self, options, *, progress):
        name = options.evidence.name
        weights = self.launches[-1].model.stem
        assert self.running == 1
        assert options.endpoint == f"http://127.0.0.1:{len(self.launches)}"
        self.asked.append((name, weights, options.launch, Path(options.baseline).name))
        if self.stop_at == name:
            raise KeyboardInterrupt
        options.evidence.mkdir(parents=True, exist_ok=True)
        verdict = self.verdicts.get(name, Verdict.UNPROVEN)
        complete = self.incomplete_at != name
        return Outcome(report(verdict), options.evidence, "ab" * 32, complete, "it went away")


@pytest.fixture
def world(monkeypatch, tmp_path):
    monkeypatch.setenv("IQACTION_CACHE", str(tmp_path / "cache"))
    return World(monkeypatch)


def test_main__order(world, tmp_path):
    """A capture, three relaunches, then each candidate against it, one server at a time."""
    shown: list[str] = []

    status = demo.main(tmp_path / "out", None, Quiet(), show=shown.append)

    assert status == 0
    assert world.running == 0
    assert world.asked == [
        ("reference", "F16", 0, ""),
        ("reference", "F16", 1, ""),
        ("reference", "F16", 2, ""),
        ("reference", "F16", 3, ""),
        ("healthy", "F16", 0, "reference"),
        ("degraded", "Q4_0", 0, "reference"),
    ]
    assert "healthy: PASS" in shown[0]
    assert "degraded: FAIL" in shown[0]
    assert "Both verdicts are right." in shown[0]
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        *("reference", "healthy", "degraded", "demo.json"),
    }


def test_main__demo_json(world, tmp_path):
    """The machine's account names both verdicts, what was right, and the times."""
    out = tmp_path / "out"

    demo.main(out, None, Quiet(), show=lambda text: None)

    body = json.loads((out / "demo.json").read_text())
    assert body["right"] is True
    assert body["prompts"] == 64
    assert body["candidates"]["degraded"]["verdict"] == "FAIL"
    assert body["candidates"]["healthy"]["expected"] == "PASS"
    assert set(body["seconds"]) == {
        *("set-up", "reference", "relaunch 1", "relaunch 2", "relaunch 3"),
        *("healthy", "degraded"),
    }


@pytest.mark.parametrize(
    ("healthy", "degraded"),
    [(h, d) for h in Verdict for d in Verdict if (h, d) != (Verdict.PASS, Verdict.FAIL)],
)
def test_main__any_other_verdict_is_not_right(world, tmp_path, healthy, degraded):
    """Exit 0 means exactly PASS and FAIL; anything else is 1 and said so."""
    world.verdicts = {"healthy": healthy, "degraded": degraded}
    shown: list[str] = []

    assert demo.main(tmp_path / "out", None, Quiet(), show=shown.append) == 1
    assert "should be" in shown[0]
    assert "NOT what this demo must show" in shown[0]


def test_main__interrupted_goes_on(world, tmp_path):
    """Ctrl-C stops the server, says how to go on, and the same call then does."""
    notes: list[str] = []

    class Notes(Quiet):
        def note(self, text: str) -> None:
            notes.append(text)

    world.stop_at = "healthy"
    out = tmp_path / "a demo"
    with pytest.raises(KeyboardInterrupt):
        demo.main(out, None, Notes(), show=print)
    assert world.running == 0
    assert f"iqaction demo --out '{out}'" in notes[-1]

    world.stop_at = ""
    assert demo.main(out, None, Quiet(), show=lambda text: None) == 0


def test_main__incomplete_is_an_error(world, tmp_path):
    """A run that could not ask everything ends the demo with what went wrong."""
    world.incomplete_at = "reference"

    with pytest.raises(EngineError, match="it went away") as caught:
        demo.main(tmp_path / "out", None, Quiet())

    assert "continues" in caught.value.next_step


def test_main__foreign_folder(world, tmp_path):
    """A folder with other things in it is left alone."""
    (tmp_path / "thesis.tex").write_text("")

    with pytest.raises(ConfigError, match=r"thesis\.tex"):
        demo.main(tmp_path, None, Quiet())

    assert not world.launches


def test_main__finished_demo(world, tmp_path):
    """A finished demo is shown again only when asked to be kept."""
    out = tmp_path / "out"
    demo.main(out, None, Quiet(), show=lambda text: None)

    with pytest.raises(ConfigError, match="finished demo"):
        demo.main(out, None, Quiet())
    assert demo.main(out, None, Quiet(), keep=True, show=lambda text: None) == 0


@pytest.mark.parametrize("out", ["/dev/null", "/dev/null/x", "/proc/nowhere/x"])
def test_main__impossible_folder(world, out):
    """A folder that cannot be made gives one clear error."""
    with pytest.raises(ConfigError, match="cannot be used"):
        demo.main(Path(out), None, Quiet())


def test_plan__ships_with_the_package():
    """The plan that the demo runs is there, and asks the reference leg alone."""
    text = demo.PLAN.read_text(encoding="utf-8")

    assert "legs: [reference]" in text


def result(*candidates: demo_view.Judged) -> demo_view.Result:
    return demo_view.Result(candidates, {"set-up": 9.0, "reference": 61.2}, 64, 3)


def judged(verdict: Verdict, *divergences: Divergence) -> demo_view.Judged:
    return demo_view.Judged(
        "degraded", "Q4_0", Verdict.FAIL, report(verdict, *divergences), "out/degraded", "ab", 3.0
    )


def test_text__first_divergences():
    """The heaviest come first, ties last; model text cannot steer the terminal."""
    many = [divergence(f"tie-{i}", "tie", 0.01) for i in range(20)]
    many += [divergence("real-1", "real", 1.0), divergence("real-2", "real", 3.0)]

    text = demo_view.text(result(judged(Verdict.FAIL, *many)), 100)

    lines = text.split("\n")
    at = next(i for i, line in enumerate(lines) if "Where the texts part" in line)
    assert "22 of 64 prompts" in lines[at]
    assert [x.split()[0] for x in lines[at + 1 : at + 5]] == ["prompt", "real-2", "real-1", "tie-0"]
    assert "return[ sorted](rows)" in lines[at + 2]
    assert "\x1b" not in text
    assert max(map(len, lines)) <= 100


def test_text__nothing_parts():
    """No divergence is said as such, and an unknown gap is a question mark."""
    assert "nowhere" in demo_view.text(result(judged(Verdict.FAIL)), 80)
    shown = demo_view.text(result(judged(Verdict.FAIL, divergence("a", "unknown", None))), 80)
    assert " ? " in shown


def test_text__says_what_it_does_not_decide():
    """Reasons, pages, times, limits and the way on are all there."""
    text = demo_view.text(result(judged(Verdict.FAIL)), 100)

    for words in (
        "score, reference leg: KL (>=): why it is FAIL",
        "out/degraded/report.html",
        "reference 1 min 02 s",
        "decides less than a default run",
        "iqaction observe",
    ):
        assert words in text


def test_text__problems_of_the_evidence():
    """A problem of the evidence is shown before the checks."""
    broken = replace(judged(Verdict.UNPROVEN), report=replace(report(Verdict.UNPROVEN)))
    broken = replace(broken, report=replace(broken.report, problems=("a file was edited",)))

    text = demo_view.text(result(broken), 100)

    assert "a file was edited" in text
    assert "should be FAIL" in text


def test_result__nothing_is_not_right():
    """No candidate at all is not a success."""
    assert not result().is_right
