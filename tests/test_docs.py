"""What the documents say is true of the code: names, commands, versions, worked examples."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import iqaction
from iqaction import engines, stages
from iqaction.calls import (
    Arm,
    Capability,
    Chat,
    Failure,
    FailureKind,
    Force,
    Generation,
    Message,
    Observation,
    Tag,
    digest,
)
from iqaction.engines._base import Dialect, WireReply
from iqaction.plan import Plan, StageSpec
from iqaction.prompts import Prompt
from iqaction.report import Report
from iqaction.stages._base import Context, Stage
from iqaction.surfaces._base import WriteFile
from iqaction.verdict import EXIT_CODE, Verdict

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COMMANDS = sorted(
    p.stem for p in (ROOT / "iqaction" / "commands").glob("*.py") if not p.stem.startswith("_")
)


def tracked() -> list[Path]:
    """Every file that git knows or would take."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, check=True)
    paths = [ROOT / name for name in done.stdout.decode().split("\0") if name]
    return [p for p in paths if p.is_file()]


def example(path: str) -> ModuleType:
    """The worked example of CONTRIBUTING that is introduced with this path, as a module."""
    found = re.search(rf"`{re.escape(path)}`.*?```python\n(.*?)```", CONTRIBUTING, re.DOTALL)
    assert found is not None, f"no example for {path}"
    name = Path(path).stem
    spec = importlib.util.spec_from_loader(f"example_{name}", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(found[1], path, "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("name", stages.names())
def test_readme__names_every_stage(name):
    """Each stage has a row in README's table."""
    assert f"| `{name}` |" in README


@pytest.mark.parametrize("verdict", list(Verdict))
def test_readme__verdicts_and_exit_codes(verdict):
    """Each verdict has a row, with the exit code that the program uses."""
    assert re.search(rf"^\| {verdict.value} \| .* \| {EXIT_CODE[verdict]} \|$", README, re.M)


@pytest.mark.parametrize("code", ["4", "70", "130", "143"])
def test_readme__other_exit_codes(code):
    """The exit codes that are no verdict are explained."""
    assert re.search(rf"\b{code}\b", README)


@pytest.mark.parametrize("name", COMMANDS)
def test_readme__names_every_command(name):
    """Each command has a row in README's table."""
    assert f"| `iqaction {name}" in README


def test_readme__names_no_other_command():
    """README shows no command that is not there."""
    shown = set(re.findall(r"iqaction ([a-z]+)\b", README))

    assert shown == set(COMMANDS)


def test_readme__first_command_is_the_demo():
    """A newcomer copies one line, and its parts exist: the extra, the program, the flag."""
    blocks = re.findall(r"```\n(.*?)```", README, re.DOTALL)

    assert blocks[0].strip() == (
        "python3 -m venv .venv && .venv/bin/pip install -q '.[demo]' "
        "&& .venv/bin/iqaction demo --out demo"
    )
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r"^demo = \[", pyproject, re.M)
    assert 'iqaction = "iqaction.__main__:main"' in pyproject


def test_readme__second_command_runs_the_tests():
    """The command shown is one that .ci/run has."""
    assert "\nbash .ci/run test\n" in README
    assert "check | test | all | full)" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_readme__has_a_picture():
    """The comment is shown as text, from a real run."""
    assert "TO BE FILLED IN" not in README


@pytest.mark.parametrize("flag", sorted(set(re.findall(r"--[a-z]+(?:-[a-z0-9]+)*", README))))
def test_readme__flags_exist(flag):
    """Each flag that README shows is one that the program has."""
    if flag in ("--help",):
        return
    sources = "".join(
        p.read_text(encoding="utf-8")
        for p in [*(ROOT / "iqaction" / "commands").glob("*.py"), ROOT / "iqaction" / "cli.py"]
    )

    assert f'"{flag}"' in sources


def test_readme__links_lead_somewhere():
    """Relative links name files of the repository."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README + CONTRIBUTING):
        assert (ROOT / target).exists(), target


def test_changelog__top_entry_is_this_version():
    """The newest entry is the version that the program says it is."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"^## \[([^\]]+)\]", text, re.M)

    assert first is not None
    assert first[1] == iqaction.__version__


def test_files__name_no_machine_and_no_registry():
    """Nothing in the repository points at one machine or at one package index."""
    words = ("/wo" + "rk/", "/tmp/" + "dev", "pypi" + ".org", "python" + "hosted", "/ho" + "me/")
    found = []
    for path in tracked():
        data = path.read_bytes()
        if b"\0" in data[:8000] or path.suffix == ".gz" or "recordings" in path.parts:
            continue  # verbatim answers of servers keep the paths of where they ran
        text = data.decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {word}" for word in words if word in text]

    assert found == []


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_lock__is_hashed_and_names_no_index(name):
    """Every pinned line has hashes, and the installer's own settings say where from."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [x for x in text.splitlines() if x.strip() and not x.lstrip().startswith("#")]

    assert len(lines) > 10
    for line in lines:
        assert re.match(r"[a-z0-9-]+==\S+ ", line), line
        assert "--hash=sha256:" in line
    assert "://" not in text
    assert "--index" not in text


def test_lock__development_has_what_users_have():
    """CI runs the versions that users get."""

    def pins(name: str) -> set[str]:
        text = (ROOT / name).read_text(encoding="utf-8")
        return set(re.findall(r"^[a-z0-9-]+==[^\\\s;]+", text, re.M))

    assert pins("requirements.lock") <= pins("requirements-dev.lock")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "iqaction").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_docstrings__every_module_and_public_function(path):
    """Modules, and functions that others call, say what they are for."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = [
        node.name
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and not node.name.startswith("_")
        and not path.name.startswith("_")
        and ast.get_docstring(node) is None
    ]

    assert ast.get_docstring(tree)
    assert bare == []


@pytest.mark.parametrize(
    ("offered", "contract"),
    [
        (lambda: example("iqaction/stages/answers.py").STAGE, Stage),
        (lambda: example("iqaction/engines/acme.py").DIALECT, Dialect),
    ],
)
def test_contributing__examples_keep_the_contract(offered, contract):
    """The worked examples have everything that their protocol asks for."""
    wanted = {name for name in vars(contract) if not name.startswith("_")}

    assert wanted - set(dir(offered())) == set()


def observed(call: Chat, answer: Generation | Failure) -> Observation:
    return Observation(call.tag, digest(call), answer)


@pytest.mark.parametrize(
    ("texts", "verdict"),
    [
        (("In a hive.", "So."), Verdict.PASS),
        (("In a hive.", " \n"), Verdict.FAIL),
        (("In a hive.", None), Verdict.UNPROVEN),
        (("In a hive.",), Verdict.UNPROVEN),
    ],
)
def test_contributing__stage_example_works(texts, verdict):
    """The worked stage asks each prompt, and judges answers, failures and gaps."""
    stage = example("iqaction/stages/answers.py").STAGE
    prompts = {i: Prompt(i, "facts", (Message("user", f"about {i}?"),)) for i in ("a", "b")}
    spec = StageSpec("answers", {p.name: p.default for p in stage.params})
    plan = Plan((spec,), "", ("a", "b"), (2,))
    seen: dict[str, dict[Tag, Observation]] = {"answers": {}}
    context = Context(spec, plan, prompts, seen)
    asking = stage.ask(context)

    wanted = next(asking)

    assert [c.tag.unit for c in wanted.calls] == ["a", "b"]
    for call, said in zip(wanted.calls, texts, strict=False):
        answer = (
            Failure(FailureKind.TIMEOUT, "too slow") if said is None else Generation(said, "stop")
        )
        seen["answers"][call.tag] = observed(call, answer)
    with pytest.raises(StopIteration):
        asking.send(list(seen["answers"].values()))
    assert stage.judge(context).verdict is verdict
    assert stage.check(spec, plan) == ""
    assert stage.needs(spec, Arm.CANDIDATE) == {Capability.CHAT}


def test_contributing__dialect_example_works():
    """The worked dialect knows its server, and decodes a chat."""
    dialect = example("iqaction/engines/acme.py").DIALECT
    detecting = dialect.detect("")

    assert next(detecting).path == "/acme/info"
    assert detecting.send(WireReply(200, {"version": "1.2"})).path == "/v1/models"
    with pytest.raises(StopIteration) as found:
        detecting.send(WireReply(200, {"object": "list", "data": [{"id": "m"}]}))
    engine = found.value.value
    assert (engine.dialect, engine.version, engine.model) == ("acme", "1.2", "m")

    call = Chat(Tag(Arm.CANDIDATE, "trajectory", "a"), (Message("user", "Hi"),), 8)
    speaking = dialect.speak(call, engine)
    request = next(speaking)
    assert request.body["top_k"] == 0
    choice = {"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
    with pytest.raises(StopIteration) as said:
        speaking.send(WireReply(200, {"choices": [choice], "usage": {"completion_tokens": 1}}))
    assert said.value.value.text == "Hello"


def test_contributing__dialect_example_refuses():
    """Another server is not taken for Acme's, and what it cannot do is said."""
    dialect = example("iqaction/engines/acme.py").DIALECT
    detecting = dialect.detect("")
    next(detecting)

    with pytest.raises(StopIteration) as found:
        detecting.send(WireReply(404))
    assert found.value.value is None

    force = Force(Tag(Arm.CANDIDATE, "reference", "a"), (1,), (2,))
    with pytest.raises(StopIteration) as said:
        next(dialect.speak(force, engines._base.EngineInfo("acme")))
    assert said.value.value.kind is FailureKind.UNSUPPORTED


def test_contributing__surface_example_works():
    """The worked surface gives one file from a report."""
    render = example("iqaction/surfaces/one_line.py").render

    effects = render(Report(Verdict.UNPROVEN, (), "nothing was observed"))

    assert effects == [WriteFile("one_line.txt", "UNPROVEN default\n")]
