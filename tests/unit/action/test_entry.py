"""The way in: what the workspace holds is never run, whatever the Python."""

from __future__ import annotations

import ast
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from iqaction.action import bootstrap
from iqaction.action._environment import COMPLETE, key_of

ENTRY = Path(__file__).parents[3] / "iqaction" / "_entry" / "__main__.py"
STEP = """
import json
import sys

def main(step):
    import requests
    print(json.dumps([step, sys.path[0], requests.__file__]))
    return 17
"""
OLD = ("python3.6", "python3.7", "python3.8", "python3.9")


@pytest.fixture
def action(tmp_path: Path) -> Path:
    """An action of one step, reached through the real entry."""
    root = tmp_path / "_actions" / "in ferquality"
    (root / "iqaction" / "_entry").mkdir(parents=True)
    (root / "iqaction" / "action").mkdir()
    shutil.copy(ENTRY, root / "iqaction" / "_entry")
    (root / "iqaction" / "__init__.py").touch()
    (root / "iqaction" / "action" / "__init__.py").write_text(STEP)
    return root


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A checkout, and a home, full of files that Python likes to run."""
    here = tmp_path / "checkout"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = tmp_path / "home" / ".local" / "lib" / version / "site-packages"
    trap = f"open({str(tmp_path / 'RUN')!r}, 'a').write(__name__ + '\\n')\n"
    for folder in (here, here / "iqaction", site):
        folder.mkdir(parents=True)
        (folder / "evil.pth").write_text(f"import os; {trap}")
    names = ("requests", "sitecustomize", "usercustomize", "json", "os", "numpy", "venv", "pip")
    for name in (*names, "ensurepip", "iqaction/__init__", "__main__", "encodings"):
        (here / f"{name}.py").write_text(trap)
    for name in ("sitecustomize", "usercustomize", "requests"):
        (site / f"{name}.py").write_text(trap)
    (here / "pyproject.toml").write_text("[tool.uv]\nindex-url = 'http://127.0.0.1:9/'\n")
    (here / "uv.toml").write_text("index-url = 'http://127.0.0.1:9/'\n")
    (here / "pip.conf").write_text("[global]\nindex-url = http://127.0.0.1:9/\n")
    return here


def enter(
    root: Path, cwd: Path, *arguments: str, flags: str = "-IB", **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run the entry as action.yml does, in a workspace whose folder every variable names."""
    ours = {"PATH": "/usr/bin:/bin", "HOME": str(cwd.parent / "home"), "PYTHONPATH": str(cwd)}
    command = [sys.executable, flags, str(root / "iqaction" / "_entry"), *arguments]
    return subprocess.run(
        command, cwd=cwd, env={**ours, "PYTHONSTARTUP": str(cwd / "os.py"), **environ},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_entry(action: Path, hostile: Path) -> None:
    """The step is the action's, its packages are the environment's, its status is the exit's."""
    done = enter(action, hostile, "observe")
    step, first, requests = ast.literal_eval(done.stdout)

    assert (done.returncode, done.stderr) == (17, "")
    assert (step, first) == ("observe", str(action))
    assert Path(requests).is_relative_to(sys.prefix)
    assert not (hostile.parent / "RUN").exists()


def test_entry__writes_nothing_into_the_action(action: Path, hostile: Path) -> None:
    """The action's folder is shared by jobs: no bytecode is left there."""
    enter(action, hostile, "observe")

    assert list(action.rglob("*.pyc")) == []


def test_entry__setup(hostile: Path, tmp_path: Path) -> None:
    """The real first step, in a hostile checkout, with an environment that is already there."""
    root = ENTRY.parents[2]
    key = key_of((root / "requirements.lock").read_bytes())
    folder = tmp_path / "cache" / "inferquality" / "env" / key
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "python").symlink_to(sys.executable)
    (folder / COMPLETE).write_text(key)
    done = enter(
        root, hostile, "setup",
        RUNNER_TOOL_CACHE=str(tmp_path / "cache"), RUNNER_TEMP=str(tmp_path),
        GITHUB_WORKSPACE=str(hostile), GITHUB_OUTPUT=str(tmp_path / "out"),
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert str(folder / "venv" / "bin" / "python") in (tmp_path / "out").read_text()
    assert not (tmp_path / "RUN").exists()


def test_entry__setup_installs_from_outside_the_checkout(hostile: Path, tmp_path: Path) -> None:
    """Neither the checkout's modules nor its settings reach the installer."""
    work = tmp_path / "scratch"
    work.mkdir()
    code = "import json, os, requests, sys; print(os.getcwd(), requests.__file__)"
    done = subprocess.run(
        [sys.executable, "-IB", "-c", CHILD, str(ENTRY.parents[2]), str(work), code],
        cwd=hostile, env={"PATH": "/usr/bin", "PYTHONPATH": str(hostile)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout.startswith(f"0 {work} {sys.prefix}")
    assert not (tmp_path / "RUN").exists()


CHILD = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from iqaction.action import _installer
scratch = Path(sys.argv[2])
made = _installer.Installation(scratch / "venv", scratch, scratch / "lock", os.environ)
command = (sys.executable, "-c", sys.argv[3])
print(*_installer.run(command, _installer.child_environ(made), scratch, 60))
"""


def test_entry__python_too_old(action: Path, hostile: Path) -> None:
    """An old Python gets a sentence and exit 3; here all Pythons are made too old."""
    entry = action / "iqaction" / "_entry" / "__main__.py"
    entry.write_text(entry.read_text().replace("OLDEST = (3, 10)", "OLDEST = (3, 99)"))
    done = enter(action, hostile, "observe")

    assert done.returncode == 3
    assert done.stdout.startswith("::error title=inferquality::Python >= 3.99 is needed, found 3.")
    assert done.stdout.rstrip().endswith("set the input `python`")
    assert done.stderr == ""


def test_entry__parses_on_old_pythons() -> None:
    """The file that refuses an old Python must be readable by it."""
    ast.parse(ENTRY.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("name", OLD)
def test_entry__on_a_really_old_python(action: Path, name: str) -> None:
    """Where an old Python is at hand, it says what is wrong and shows no traceback."""
    probe = shutil.which(name)
    if not probe or subprocess.run([probe, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"no {name} here")
    command = [probe, "-I", str(action / "iqaction" / "_entry"), "setup"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (3, "")
    assert "Python >= 3.10 is needed, found 3." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "flags", "status"),
    [((), "-IB", 4), (("a", "b"), "-IB", 4), (("observe",), "-B", 70)],
)
def test_entry__misused(
    action: Path, tmp_path: Path, arguments: tuple[str, ...], flags: str, status: int
) -> None:
    """No step, two steps, or a Python that has read the workspace: refused in one line."""
    (tmp_path / "empty").mkdir()
    done = enter(action, tmp_path / "empty", *arguments, flags=flags)

    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout.startswith("::error title=inferquality::")


@pytest.mark.parametrize("shell", ["", 'trap "" INT; '])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_setup__cancelled(
    hostile: Path, tmp_path: Path, number: int, status: int, shell: str
) -> None:
    """A cancelled job ends the step at once, in the exit status that says so; also on a runner
    that was started in the background and ignores Ctrl-C itself."""
    home = tmp_path / "inferquality" / "env"
    home.mkdir(parents=True)
    key = key_of((bootstrap.ACTION / "requirements.lock").read_bytes())
    with (home / f"{key}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        step = subprocess.Popen(
            ["bash", "-c", shell + 'exec "$@"', "-", sys.executable, "-IB", ENTRY.parent, "setup"],
            cwd=hostile, env={"RUNNER_TEMP": str(tmp_path)}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert step.stdout is not None
        with step.stdout as said:
            assert "waiting" in said.readline()
            step.send_signal(number)
            assert step.wait(timeout=30) == status
            assert said.read() == ""


def test_setup__is_warm_in_a_fifth_of_a_second(tmp_path: Path) -> None:
    """What every job pays for the step; the best of three, since the machine may be busy."""
    took = []
    key = key_of((bootstrap.ACTION / "requirements.lock").read_bytes())
    folder = tmp_path / "inferquality" / "env" / key
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "python").symlink_to(sys.executable)
    (folder / COMPLETE).write_text(key)
    for _ in range(3):
        before = os.times()
        done = enter(bootstrap.ACTION, tmp_path, "setup", RUNNER_TEMP=str(tmp_path))
        after = os.times()
        assert done.returncode == 0
        took.append(after.children_user + after.children_system
                    - before.children_user - before.children_system)  # fmt: skip

    assert min(took) < 0.2
