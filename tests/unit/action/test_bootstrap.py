"""The step `setup`: one environment per runner whatever happens, nothing of the user's is run."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from iqaction.action import _installer
from iqaction.action._environment import UNUSED_S, World, key_of
from iqaction.action.bootstrap import setup
from iqaction.errors import IqError

LOCK = b"demo==1.0 --hash=sha256:00\n"


@dataclass
class Installer:
    """Stands in for uv and pip: makes a `python`, or fails as told."""

    output: str = ""  # what a failing one prints
    fails: str = "nothing"  # uv | all
    takes_s: float = 0.0
    dies: type[BaseException] | None = None
    commands: list[tuple[str, ...]] = field(default_factory=list)
    environs: list[Mapping[str, str]] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)

    def __call__(
        self, command: tuple[str, ...], environ: Mapping[str, str], folder: Path, limit_s: float
    ) -> tuple[int, str]:
        self.commands.append(command)
        self.environs.append(environ)
        self.folders.append(folder)
        time.sleep(self.takes_s)
        if self.dies:
            raise self.dies
        if self.fails == "all" or (self.fails == "uv" and Path(command[0]).name == "uv"):
            return 1, self.output
        if "venv" in command:
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.symlink_to(sys.executable)
        return 0, ""


class Host:
    """A runner with a tool cache, a temporary folder and an action of one locked package."""

    def __init__(self, path: Path) -> None:
        self.action, self.cache, self.temp = path / "action", path / "tool cache", path / "te mp"
        for folder in (self.action, self.cache, self.temp):
            folder.mkdir()
        self.lock(LOCK)
        self.sleep_s = 0.0  # what a wait of a fifth of a second takes here
        self.output = path / "output"
        self.environ = {
            "PATH": str(path / "no programs"),  # this machine's uv is none of the tests'
            "RUNNER_TOOL_CACHE": str(self.cache),
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(self.output),
        }

    def lock(self, content: bytes) -> None:
        (self.action / "requirements.lock").write_bytes(content)

    def setup(self, run: _installer.Run, now: float | None = None) -> tuple[int, str]:
        stream = io.StringIO()
        clock = time.time if now is None else lambda: now
        world = World(
            run, lambda text: print(text, file=stream), lambda s: time.sleep(self.sleep_s), clock
        )
        status = setup(self.environ, stream, action=self.action, world=world)
        return status, stream.getvalue()

    def given(self) -> dict[str, Path]:
        """The outputs of the newest run."""
        lines = self.output.read_text().split("\n")
        return {
            line.partition("<<")[0]: Path(lines[i + 1])
            for i, line in enumerate(lines)
            if "<<" in line
        }

    def environments(self) -> list[Path]:
        return sorted(p for p in (self.cache / "inferquality/env").iterdir() if p.is_dir())


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_setup(host: Host) -> None:
    """An environment in the tool cache, a private folder in the temporary one, inputs inside."""
    host.environ |= {"IQ_INPUT_STAGES": "- a:\n  b: ü\n", "IQ_INPUT_PLAN": "", "OTHER": "x"}

    assert host.setup(Installer()) == (0, "")
    given = host.given()
    assert given["python"].is_relative_to(host.cache / "inferquality/env")
    assert os.access(given["python"], os.X_OK)
    assert given["work"].parent == host.temp
    assert given["work"].stat().st_mode & 0o777 == 0o700
    assert json.loads((given["work"] / "inputs.json").read_bytes()) == {
        "stages": "- a:\n  b: ü\n",
        "plan": "",
    }
    assert [p.name for p in host.environments()] == [key_of(LOCK)]
    assert {p.name for p in host.environments()[0].iterdir()} == {".complete", "venv"}


def test_setup__once_per_lock(host: Host) -> None:
    """The second job takes what the first one made; another lock gets another environment."""
    host.setup(Installer())
    first, again, other = host.given(), Installer(), Installer()

    assert host.setup(again) == (0, "")
    assert again.commands == []
    assert host.given()["python"] == first["python"]
    assert host.given()["work"] != first["work"]
    host.lock(LOCK + b"more==1.0 --hash=sha256:11\n")
    assert host.setup(other) == (0, "")
    assert other.commands != []
    assert len(host.environments()) == 2


def uv(path: Path) -> str:
    """A folder that holds a program `uv`."""
    path.mkdir(parents=True)
    shutil.copy(sys.executable, path / "uv")
    return str(path)


@pytest.mark.parametrize("tool", ["uv", "python"])
def test_setup__installs_strictly(host: Host, tool: str) -> None:
    """Hashes and wheels only, from outside the workspace, without tokens and Python's variables."""
    installer = Installer()
    host.environ |= {
        **{"GITHUB_TOKEN": "t", "IQ_INPUT_API_KEY": "t", "PYTHONPATH": "/x", "PYTHONHOME": "/x"},
        **{"PIP_TARGET": "/x", "PIP_USER": "1", "UV_PROJECT": "/x", "VIRTUAL_ENV": "/x"},
        **{"PIP_INDEX_URL": "https://mirror/", "UV_DEFAULT_INDEX": "https://mirror/"},
        **{"https_proxy": "http://proxy", "SSL_CERT_FILE": "/cert", "HOME": "/somewhere/me"},
    }
    if tool == "uv":
        host.environ["PATH"] = uv(host.action.parent / "bin")

    assert host.setup(installer)[0] == 0
    install = installer.commands[-1]
    assert Path(installer.commands[0][0]).name.startswith(tool)
    assert {"--require-hashes", "--only-binary", ":all:", "--no-deps"} <= {*install}
    assert {*installer.environs[-1]} == {
        *("PATH", "HOME", "TMPDIR", "PIP_INDEX_URL", "UV_DEFAULT_INDEX", "https_proxy"),
        *("SSL_CERT_FILE", "UV_PYTHON_DOWNLOADS", "UV_CACHE_DIR", "PIP_CACHE_DIR"),
        *("UV_SYSTEM_CERTS", "UV_NATIVE_TLS"),
    }
    for name in ("TMPDIR", "UV_CACHE_DIR", "PIP_CACHE_DIR"):
        assert Path(installer.environs[-1][name]).is_relative_to(host.cache)
    assert installer.folders[-1].is_relative_to(host.cache)


def test_setup__programs_of_the_workspace(host: Host) -> None:
    """A `uv` in the workspace, or in a relative folder of PATH, is not run."""
    workspace = host.action.parent / "workspace"
    host.environ["GITHUB_WORKSPACE"] = str(workspace)
    host.environ["PATH"] = f"{uv(workspace / 'bin')}:.:bin::/no/programs"
    installer = Installer()

    assert host.setup(installer)[0] == 0
    assert Path(installer.commands[0][0]).name != "uv"
    assert installer.environs[0]["PATH"] == "/no/programs"


def test_setup__pip_after_uv(host: Host) -> None:
    """Where uv fails pip may not: a mirror may be named in pip.conf alone."""
    host.environ["PATH"] = uv(host.action.parent / "bin")
    status, log = host.setup(Installer("no route to https://me:secret@mirror/", fails="uv"))

    assert status == 0
    assert "pip is tried" in log
    assert "https://***@mirror/" in log


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("error: dns error\nNo matching distribution", "the package index cannot be reached"),
        ("Temporary failure in name resolution", "PIP_INDEX_URL"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES", "is not the one"),
        ("No matching distribution found for demo", "no wheel"),
        ("No space left on device", "the disk is full"),
        ("::set-output name=x::\x1b[31msegfault", "segfault"),
        ("", "pip said nothing"),
    ],
)
def test_setup__cannot_be_made(host: Host, output: str, said: str) -> None:
    """Exit 3 with what happened and what to do; nothing half-made and no work folder is left."""
    status, log = host.setup(Installer(output, fails="all"))
    last = log.rstrip("\n").split("\n")[-1]

    assert status == 3
    assert last.startswith("::error title=inferquality::")
    assert said in last
    assert "\x1b" not in last
    assert host.environments() == []
    assert not host.output.exists()
    assert list(host.temp.glob("inferquality-*")) == []


@pytest.mark.parametrize("death", [KeyboardInterrupt, SystemExit])
def test_setup__interrupted(host: Host, death: type[BaseException]) -> None:
    """A cancelled job leaves nothing half-made behind, and the next one makes it."""
    with pytest.raises(death):
        host.setup(Installer(dies=death))

    assert host.environments() == []
    assert host.setup(Installer())[0] == 0


def test_setup__what_a_killed_job_left(host: Host) -> None:
    """Halves are removed: one without its marker, one still being made, one without Python."""
    home = host.cache / "inferquality/env"
    (home / key_of(LOCK) / "venv/bin").mkdir(parents=True)
    (home / f".{key_of(LOCK)}.0123" / "venv").mkdir(parents=True)

    assert host.setup(Installer())[0] == 0
    assert [p.name for p in host.environments()] == [key_of(LOCK)]
    (host.environments()[0] / "venv/bin/python").unlink()
    assert host.setup(Installer())[0] == 0
    assert host.given()["python"].exists()


def test_setup__two_jobs_at_once(host: Host) -> None:
    """Two jobs on one host make the environment once; the second waits and says so."""
    host.sleep_s = 0.02
    installer = Installer(takes_s=0.2)
    ended: list[tuple[int, str]] = []
    threads = [
        threading.Thread(target=lambda: ended.append(host.setup(installer))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [status for status, _ in ended] == [0, 0, 0]
    assert len(installer.commands) == 2  # venv, install
    assert any("waiting" in log for _, log in ended)


def test_setup__a_job_that_hangs(host: Host) -> None:
    """A lock that is never given back costs a wait, not the job: the temporary folder serves."""
    host.setup(Installer())
    lock = host.cache / f"inferquality/env/{key_of(LOCK)}.lock"
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        status, log = host.setup(Installer())

    assert status == 0
    assert "another job holds" in log
    assert host.given()["python"].is_relative_to(host.temp)


def unwritable(host: Host) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    host.cache.chmod(0o555)


def missing(host: Host) -> None:
    del host.environ["RUNNER_TOOL_CACHE"]


def a_file(host: Host) -> None:
    host.cache.rmdir()
    host.cache.write_text("")


def open_to_all(host: Host) -> None:
    (host.cache / "inferquality").mkdir()
    (host.cache / "inferquality").chmod(0o777)


def elsewhere(host: Host) -> None:
    (host.cache / "inferquality").symlink_to(host.action)


def relative(host: Host) -> None:
    host.environ["RUNNER_TOOL_CACHE"] = "cache"


@pytest.mark.parametrize("fault", [unwritable, missing, a_file, open_to_all, elsewhere, relative])
def test_setup__a_tool_cache_that_does_not_serve(host: Host, fault) -> None:
    """Missing, read-only, or fillable by other users: the job's temporary folder serves."""
    fault(host)

    assert host.setup(Installer())[0] == 0
    assert host.given()["python"].is_relative_to(host.temp)


def test_setup__built_into_a_read_only_image(host: Host) -> None:
    """A tool cache that cannot be written serves when it holds what is needed."""
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    host.setup(Installer())
    home = host.cache / "inferquality/env"
    for lock_there in (True, False):
        if not lock_there:
            (home / f"{key_of(LOCK)}.lock").unlink()
        home.chmod(0o555)
        try:
            assert host.setup(Installer(fails="all")) == (0, "")
        finally:
            home.chmod(0o755)


def test_setup__nowhere(host: Host) -> None:
    """No place at all: one sentence that names each and why."""
    a_file(host)
    host.temp.rmdir()
    host.temp.write_text("")
    status, log = host.setup(Installer())

    assert status == 3
    assert "RUNNER_TOOL_CACHE or RUNNER_TEMP" in log
    assert log.count("tool cache") >= 2


def test_setup__the_disk_is_full(host: Host) -> None:
    """A full tool cache does not stop the job when the temporary folder has room."""

    def run(
        command: tuple[str, ...], environ: Mapping[str, str], folder: Path, limit_s: float
    ) -> tuple[int, str]:
        if folder.is_relative_to(host.cache):
            return 1, "OSError: [Errno 28] No space left on device"
        return Installer()(command, environ, folder, limit_s)

    status, log = host.setup(run)

    assert status == 0
    assert "the disk is full" in log
    assert host.given()["python"].is_relative_to(host.temp)


def test_setup__prunes(host: Host) -> None:
    """What no job used for 30 days goes, what one holds stays, and so does what is young."""
    for name in ("old", "held", "young"):
        host.lock(name.encode())
        host.setup(Installer(), now=10**9 + (UNUSED_S if name == "young" else 0))
    (host.cache / "inferquality/env" / f".{key_of(b'young')}.77").mkdir()
    host.lock(LOCK)
    with (host.cache / f"inferquality/env/{key_of(b'held')}.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        host.setup(Installer(), now=10**9 + UNUSED_S + 1)

    left = sorted(key_of(lock) for lock in (b"held", b"young", LOCK))
    assert [p.name for p in host.environments()] == left


def test_setup__using_it_keeps_it(host: Host) -> None:
    """The 30 days count from the last job that used an environment."""
    host.setup(Installer(), now=10**9)
    host.setup(Installer(), now=10**9 + UNUSED_S)
    host.lock(b"other")
    host.setup(Installer(), now=10**9 + UNUSED_S + 9)

    assert len(host.environments()) == 2


def test_setup__a_path_with_a_line_break(host: Host) -> None:
    """A line break in a path could give a later step another value: refused."""
    host.environ["RUNNER_TEMP"] = str(host.temp) + "\nx=y"
    Path(host.environ["RUNNER_TEMP"]).mkdir()
    status, log = host.setup(Installer())

    assert status == 3
    assert "line break" in log
    assert not host.output.exists()


def test_setup__without_a_runner(host: Host) -> None:
    """On a desk the outputs are printed."""
    del host.environ["GITHUB_OUTPUT"]
    status, log = host.setup(Installer())

    assert status == 0
    assert log.startswith(f"python={host.cache}/inferquality/env/")


def test_setup__an_input_too_large(host: Host) -> None:
    """More than a mebibyte is a mistake of the workflow: exit 4, before anything is made."""
    host.environ["IQ_INPUT_STAGES"] = "x" * (1 << 20) + "x"
    status, log = host.setup(Installer())

    assert status == 4
    assert "`stages`" in log
    assert list(host.cache.iterdir()) == []


def test_setup__never_keeps_the_token(host: Host) -> None:
    """Should a workflow give the token to this step, it is not written down."""
    host.environ["IQ_INPUT_GITHUB_TOKEN"] = "sekret"

    assert host.setup(Installer())[0] == 0
    assert (host.given()["work"] / "inputs.json").read_text() == "{}"


def test_need_venv() -> None:
    """Debian's Python without its venv package: the error names that package."""
    _installer.need_venv()
    with pytest.raises(IqError, match="ensurepip") as caught:
        _installer.need_venv(lambda name: None if name == "ensurepip" else name)

    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert f"apt install python{version}-venv" in caught.value.next_step


def test_run(tmp_path: Path) -> None:
    """Status and the end of the output; a program that is not there is a status too."""
    code = "print('x' * 9999 + 'end'); raise SystemExit(3)"
    status, output = _installer.run((sys.executable, "-c", code), {}, tmp_path, 60)

    assert (status, output[-4:], len(output)) == (3, "end\n", _installer.TAIL)
    assert _installer.run(("/no/such",), {}, tmp_path, 60)[0] == 127


def test_run__too_long(tmp_path: Path) -> None:
    """At the limit the installer and its children are ended."""
    code = "import os, time; os.fork(); print(os.getpid(), flush=True); time.sleep(60)"
    start = time.monotonic()
    status, output = _installer.run((sys.executable, "-c", code), {}, tmp_path, 1.0)

    assert status == 124
    assert time.monotonic() - start < 20
    children = [int(line) for line in output.split("\n")[:2]]
    deadline = time.monotonic() + 10
    while any(map(alive, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, children))


def alive(pid: int) -> bool:
    """A process that is neither gone nor waiting for its parent to see that it is."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def wheel(folder: Path) -> str:
    """A wheel of one module in a folder; returns the sha256 that a lock names."""
    folder.mkdir()
    path = folder / "iqdemo-1.0-py3-none-any.whl"
    info = "iqdemo-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("iqdemo.py", "answer = 42\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: iqdemo\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(
            f"{info}/RECORD", f"iqdemo.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
        )
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_setup__for_real(host: Host) -> None:
    """Real pip, a real environment that works after it has been moved into place, and a wheel
    that is not the locked one is refused."""
    host.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(host.action.parent / "wheels")}
    sha256 = wheel(host.action.parent / "wheels")
    host.lock(f"iqdemo==1.0 --hash=sha256:{sha256}\n".encode())

    assert host.setup(_installer.run) == (0, "")
    code = "import iqdemo, sys; print(iqdemo.answer, sys.prefix)"
    command = [host.given()["python"], "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == f"42 {host.given()['python'].parents[1]}\n"
    host.lock(f"iqdemo==1.0 --hash=sha256:{'0' * 64}\n".encode())
    status, log = host.setup(_installer.run)
    assert status == 3
    assert "is not the one" in log
