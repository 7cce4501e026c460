"""action.yml and the code that it starts agree, and no expression reaches a shell."""

from __future__ import annotations

import dataclasses
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from iqaction.action import settings, steps
from iqaction.action.settings import Settings

ROOT = Path(__file__).parents[3]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
BY_ID = {s["id"]: s for s in STEPS}
RUNS = [s for s in STEPS if "run" in s]
PREFIX = "IQ_INPUT_"
BEYOND_SETTINGS = {"github_token", "python"}
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


class Asked(dict[str, str]):
    """Inputs that note which of them are read."""

    def __init__(self, texts: dict[str, str]) -> None:
        super().__init__(texts)
        self.names: set[str] = set()

    def get(self, name: str, default: str = "") -> str:  # type: ignore[override]
        self.names.add(name)
        return super().get(name, default)


def test_inputs__are_those_that_are_read():
    """Every input is known to the code, and the code knows none that nobody can give."""
    asked = Asked({"endpoint": "http://127.0.0.1:8000"})

    settings.read(asked)

    assert set(ACTION["inputs"]) - BEYOND_SETTINGS == asked.names


def test_inputs__defaults_are_those_of_the_code():
    """A workflow that says nothing means the same as code that is given nothing."""
    texts = {n: x.get("default", "") for n, x in ACTION["inputs"].items() if n != "github_token"}

    found = settings.read({**texts, "endpoint": "http://127.0.0.1:8000"})

    assert Settings(endpoint="http://127.0.0.1:8000") == found
    assert found == settings.read({"endpoint": "http://127.0.0.1:8000"})


def test_inputs__are_explained():
    """Each input and output says what it is; none is required, for GitHub does not check it."""
    for name, said in {**ACTION["inputs"], **ACTION["outputs"]}.items():
        assert said["description"], name
        assert not said.get("required"), name
    assert all("default" in said for said in ACTION["inputs"].values())


def test_inputs__reach_the_set_up_step_and_no_other():
    """Inputs go through the environment, under one prefix, into one step; the token into none of
    it."""
    wanted = {
        f"{PREFIX}{n.upper()}": f"${{{{ inputs.{n} }}}}"
        for n in ACTION["inputs"]
        if n != "github_token"
    }

    assert wanted == BY_ID["setup"]["env"]
    for step in STEPS:
        names = [n for n in step.get("env", {}) if n.startswith(PREFIX)]
        assert not names or step["id"] == "setup"


def test_token__reaches_the_two_steps_that_need_it():
    """What starts the pull request's code, and what follows it, never holds the token."""
    holding = {s["id"] for s in STEPS if "github_token" in str(s) or "github.token" in str(s)}

    assert holding == {"prepare", "publish"}
    assert holding == {s["id"] for s in STEPS if "IQ_TOKEN" in s.get("env", {})}
    assert "secrets." not in (ROOT / "action.yml").read_text()


@pytest.mark.parametrize("step", RUNS, ids=lambda s: s["id"])
def test_run__no_expression_and_a_named_shell(step):
    """What is between the braces is put into a script before a shell reads it."""
    assert step["shell"] == "bash"
    assert "${{" not in step["run"]


@pytest.mark.parametrize("step", RUNS, ids=lambda s: s["id"])
def test_run__hands_over(step):
    """A signal reaches the program, not a shell in front of it, and the program is ours."""
    lines = [x.strip() for x in step["run"].splitlines()]
    started = [x for x in lines if "_entry" in x]
    name = step["id"]

    assert len(started) == 1
    handed = re.search(
        r'exec "\$(?:py|IQ_PY)" -I -B "\$GITHUB_ACTION_PATH/iqaction/_entry" (\w+)', started[0]
    )
    assert handed is not None
    assert name == handed[1]
    if name not in ("setup", "gate"):
        assert started == lines
    else:  # what no Python can say
        assert lines[-1] == "exit 3"
        assert lines[-2].startswith('echo "::error title=inferquality::NOT RUN: ')


def test_run__names_steps_that_there_are():
    """Each step of the code is one of action.yml, and the other way round."""
    known = {m.name for m in pkgutil.iter_modules(steps.__path__) if not m.name.startswith("_")}

    assert known | {"setup"} == {s["id"] for s in RUNS}


def test_run__private_folder_and_python_come_from_the_set_up():
    """All steps but the first find both where that one has put them."""
    for step in RUNS:
        if step["id"] != "setup":
            assert step["env"]["IQ_PY"] == "${{ steps.setup.outputs.python }}"
            assert step["env"]["IQ_WORK"] == "${{ steps.setup.outputs.work }}"


def test_conditions():
    """What must be said or stopped is, also of a run that failed or was cancelled; what runs code
    of a pull request is not."""
    always = {i for i, s in BY_ID.items() if "always()" in s.get("if", "")}

    assert {"upload", "publish", "stop", "gate"} == always
    assert BY_ID["gate"]["if"] == "${{ always() }}"
    assert STEPS[-1]["id"] == "gate"
    assert "continue-on-error" not in str([s for s in STEPS if s["id"] != "upload"])


def test_conditions__are_outputs_of_prepare():
    """Every condition asks for an output that the step sets, spelled as it is set."""
    conditions = " ".join(s.get("if", "") for s in STEPS)
    source = (ROOT / "iqaction/action/steps/prepare.py").read_text()

    asked = set(re.findall(r"steps\.prepare\.outputs\.(\w+)", str(STEPS)))
    assert asked == set(re.findall(r'log\.output\("(\w+)"', source))
    assert set(re.findall(r"outputs\.\w+ == '(\w+)'", conditions)) == {"true"}


def test_uses__are_pinned():
    """An action of others is named by its commit, with the version for people."""
    lines = [x for x in (ROOT / "action.yml").read_text().splitlines() if "uses:" in x]

    assert lines
    for line in lines:
        assert re.search(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_outputs__are_set_by_the_steps_named():
    """An output that no step sets is silently empty."""
    for name, said in ACTION["outputs"].items():
        found = EXPRESSION.fullmatch(said["value"])
        assert found is not None
        step = re.fullmatch(rf"steps\.(\w+)\.outputs\.{name}", found[1])
        assert step is not None
        source = (ROOT / f"iqaction/action/steps/{step[1]}.py").read_text()
        assert re.search(rf'output\("{name}"|"{name}"', source), name


def test_expressions__are_few_and_plain():
    """Nothing of an event, which anybody may have written, is put anywhere."""
    for found in EXPRESSION.findall((ROOT / "action.yml").read_text()):
        assert re.fullmatch(
            r"(?:inputs|steps)\.[\w.-]+(?: \|\| steps\.[\w.-]+)?|github\.token"
            r"|always\(\)(?: && [\w. ='!]+)*|[\w. ='!&|]+",
            found,
        ), found
        assert "github.event" not in found
        assert "github.head_ref" not in found


def test_settings__every_field_is_an_input():
    """No setting is out of a workflow's reach."""
    renamed = {"ready_timeout_s": "ready_timeout", "warn_unproven": "on_unproven"}
    renamed["shards"] = "shard"
    fields = {renamed.get(f.name, f.name) for f in dataclasses.fields(Settings)}

    assert fields == set(ACTION["inputs"]) - BEYOND_SETTINGS
