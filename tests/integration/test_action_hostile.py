"""The action under act in a hostile checkout, before a hostile engine, on a hostile pull request:
nothing of theirs is run, obeyed, mentioned or leaked.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_github import state as fake_state
from fake_github.fake import FakeGithub
from integration.acting import JUDGE, Done, Staged, comment, job
from integration.replay import __file__ as REPLAY
from integration.stand_in import Memory
from integration.stepping import ORDER, Steps
from integration.test_action_boot import free_port
from markup import of_markdown

# With the other scenarios these would not fit into the half hour of `.ci/run`.
pytestmark = [pytest.mark.timeout(900), pytest.mark.full]

OBEYED = {"set-output", "stop-commands", "add-mask", "group", "endgroup", "error", "warning",
          "notice"}  # fmt: skip
OURS = re.compile(
    r"measuring|the endpoint answers at http://127|(UNPROVEN|FAIL|NOT RUN): |[0-9a-f]{32}\Z"
    r"|the endpoint did not come up: "
)


def attack(canary: Path) -> str:
    """All of it in one text; ``canary`` is what a shell would make."""
    return (
        f"::error title=x::owned\n  ::set-output name=verdict::PASS\n##[error]owned\n"
        f"$(touch {canary}) `touch {canary}` ; touch {canary}\n``` \n~~~\n</code></pre>"
        "<img src=https://evil.example/x.png><script>alert(1)</script> @everyone @org/team #1 "
        "![x](https://evil.example/y.png) [x](javascript:alert(1)) https://evil.example/z\n"
        "\x1b[2J\x1b]0;owned\x07\x00\u202e\u200bend | a | b |\n::stop-commands::x\n::add-mask::PASS"
    )


def is_harmless(body: str) -> None:
    """Asserts what GitHub would make of a comment: no mention, link or tag that is theirs."""
    seen = of_markdown(body)
    outside = " ".join(seen.text)

    assert {t for t, _ in seen.tags} <= {
        *("h3", "p", "a", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"),
        *("strong", "em", "details", "summary", "br", "hr"),
    }
    assert [v for k, v in seen.attributes if k == "href" and "github.example" not in str(v)] == []
    assert not re.search(r"@\w|#1\b|evil\.example", outside), outside
    assert "\x1b" not in body
    assert "\x00" not in body
    assert seen.unbalanced == []


def is_intact(done: Done) -> None:
    """Asserts that the runner obeyed nothing but us, and that the log is one to read."""
    every = re.findall(r"\] {2,}\S+ {2,}::([a-z-]+)[ :]", done.log)
    assert set(every) <= OBEYED
    assert all(OURS.match(said) for said in done.annotations), done.annotations
    assert done.outputs()["verdict"] == done.verdict
    assert "Job failed" in done.log
    text = [line for line in done.log.splitlines() if re.match(r"\[quality/a\]   \| ", line)]
    assert max(map(len, text)) < 10_000
    assert not any("##[" in line for line in text)
    assert not re.search(r"[\x00\x07\x1b\u202e]", "".join(text))


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file that exists once something hostile has run."""
    return tmp_path / "canary"


def test_engine(
    staged: Staged, github: FakeGithub, memory: Memory, canary: Path, tmp_path: Path
) -> None:
    """An engine whose log, model name and texts attack, on a pull request whose branch, files and
    prompts do."""
    said, log = tmp_path / "said", tmp_path / "log"
    said.write_text(attack(canary))
    log.write_bytes(attack(canary).encode() + b"\n" + b"m" * 1_000_000 + b"\n\xff\xfe\x00\n")
    (tmp_path / "memory").write_bytes(pickle.dumps(memory))
    port = free_port()
    argv = [sys.executable, "-I", REPLAY, tmp_path / "memory", port, "--print", log, "--say", said]
    pr = staged()
    prompts = [{"id": "x", "messages": [{"role": "user", "content": attack(canary)}]}]
    name = f"a`@everyone` <b> $(touch {canary.name}).yml"
    pr.change(
        {
            ".inferquality/prompts.jsonl": "".join(json.dumps(p) + "\n" for p in prompts),
            name: attack(canary).replace("\x00", ""),
        }
    )
    branch = f"$(touch${{IFS}}{canary})`::error::@everyone"
    done = pr.run(
        job(
            boot="command",
            boot_command=f"exec {shlex.join(map(str, argv))}",
            endpoint=f"http://127.0.0.1:{port}",
            paths="**",
            **JUDGE,
        ),
        payload=pr.payload(ref=branch),
        env={"GITHUB_HEAD_REF": branch, "GITHUB_REF_NAME": branch},
    )

    assert done.exit_code in (1, 2), done.log
    assert done.outputs()["published"] == "true"
    is_intact(done)
    is_harmless(comment(github))
    assert "**Where the texts part** (6 of 6 prompts differ" in comment(github)
    for check in github.state.checks.values():
        for text in (check["output"]["summary"], check["output"]["text"] or ""):
            is_harmless(text)
        assert "@everyone" not in check["output"]["title"]
    assert not canary.exists()
    assert not (pr.acting.checkout / canary.name).exists()


def test_last_words(staged: Staged, github: FakeGithub, canary: Path) -> None:
    """A boot command that fails with an attack for its last words."""
    command = f"cat <<'END' >&2\n{attack(canary)}\nEND\nexit 1".replace("\x00", "")
    done = staged().run(
        job(
            boot="command",
            boot_command=command,
            endpoint=f"http://127.0.0.1:{free_port()}",
            **JUDGE,
        )
    )

    assert done.exit_code == 3, done.log
    is_intact(done)
    is_harmless(comment(github))
    assert "owned" in comment(github)
    assert not canary.exists()


# --- the checkout ---------------------------------------------------------------------------

MODULES = ("requests", "sitecustomize", "usercustomize", "numpy", "scipy", "json", "re", "socket",
           "iqaction", "urllib3", "actions_toolkit", "encodings", "_distutils_hack")  # fmt: skip


def test_checkout(staged: Staged, github: FakeGithub, canary: Path, tmp_path: Path) -> None:
    """Modules, path files and settings under the names of ours are in the repository, and none of
    them is run or read."""
    attack = f"open({str(canary)!r}, 'a').write(__name__ + chr(10))\n"
    files: dict[str, str | bytes] = {f"{name}.py": attack for name in MODULES}
    files |= {f"{name}/__init__.py": attack for name in ("yaml", "jsonschema", "iqaction/action")}
    hook = f"touch {canary}"
    files |= {
        "evil.pth": f"import os; os.system({hook!r})\n",
        "pyvenv.cfg": "home = /nowhere\n",
        "setup.cfg": "[install]\nprefix=/nowhere\n",
        "pyproject.toml": "[tool.uv]\nindex-url = 'http://127.0.0.1:9/'\n",
        "uv.toml": "index-url = 'http://127.0.0.1:9/'\n",
        "pip.conf": "[global]\nindex-url = http://127.0.0.1:9/\n",
        ".env": f"PYTHONSTARTUP={canary}\n",
        ".gitattributes": "* filter=evil diff=evil\n",
        "bash": f"#!/bin/sh\n{hook}\n",
        "git": f"#!/bin/sh\n{hook}\n",
    }
    pr = staged()
    pr.change(files)
    config = pr.acting.checkout / ".git" / "config"
    config.write_text(
        config.read_text()
        + f'[core]\n\tfsmonitor = "{hook}"\n\tsshCommand = "{hook}"\n\tpager = "{hook}"\n'
        + f'[filter "evil"]\n\tsmudge = "{hook}"\n\tclean = "{hook}"\n\trequired = true\n'
        + f'[diff "evil"]\n\ttextconv = "{hook}"\n\tcommand = "{hook}"\n'
        + f'[alias]\n\tmerge-base = "!{hook}"\n\tls-tree = "!{hook}"\n\trev-parse = "!{hook}"\n'
    )
    hooks = pr.acting.checkout / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        (hooks / name).write_text(f"#!/bin/sh\n{hook}\n")
        (hooks / name).chmod(0o755)
    made = Steps(
        tmp_path / "job",
        pr.acting.checkout,
        pr.acting.cache / "tool_cache",
        {"endpoint": "http://127.0.0.1:9", **JUDGE},
        pr.payload(),
        github.url,
        {"PYTHONPATH": str(pr.acting.checkout), "PYTHONSTARTUP": f"{pr.acting.checkout}/re.py"},
    )
    for step in (s for s in ORDER if made.wanted(s) and s != "gate"):
        status, said = made.run(step)
        assert status == 0, said

    assert made.run("gate")[0] == 3
    assert made.outputs["published"] == "true"
    assert not canary.exists(), canary.read_text()


# --- secrets --------------------------------------------------------------------------------

SECRETS = {"token": "ghs_canary0123456789", "key": "sk-canary-abcdef", "env": "hunter2canary"}


def test_secrets(
    staged: Staged,
    github: FakeGithub,
    memory: Memory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Token, API key and the compose file's variables are in no log line but the ones that mask
    them, no file but the kept inputs, no command line, nothing that is posted, and the token is
    in no started program's environment."""
    monkeypatch.setitem(fake_state.TOKENS, SECRETS["token"], ("app", True))
    (tmp_path / "memory").write_bytes(pickle.dumps(memory))
    port = free_port()
    argv = [sys.executable, "-I", REPLAY, tmp_path / "memory", port, "--delay", 0.05]
    told = "echo key is $MY_KEY; echo token is $IQ_TOKEN$GITHUB_TOKEN"
    pr = staged()
    made = Steps(
        tmp_path / "job",
        pr.acting.checkout,
        pr.acting.cache / "tool_cache",
        {
            "boot": "command",
            "boot_command": f"{told}; exec {shlex.join(map(str, argv))}",
            "endpoint": f"http://127.0.0.1:{port}",
            "api_key_env": "MY_KEY",
            "compose_env": f"PASSWORD={SECRETS['env']}",
            "github_token": SECRETS["token"],
            **JUDGE,
        },
        pr.payload(),
        github.url,
        {"MY_KEY": SECRETS["key"]},
        SECRETS["token"],
    )
    logs, seen, outputs = {}, set(), ""
    for step in (s for s in ORDER if made.wanted(s)):
        process = made.start(step)
        while process.poll() is None:
            seen |= command_lines()
            time.sleep(0.2)
        logs[step], _ = process.communicate(timeout=120)
        made.take()
        outputs += (made.home / "output").read_text()
        if step == "boot":
            assert SECRETS["token"] not in environments(port)

    assert made.outputs["published"] == "true", logs
    assert made.outputs["verdict"] == "UNPROVEN", logs
    assert any(f"{port}" in line for line in seen)
    assert any(x["body"] for x in github.state.log)
    assert {"report.html", "effects.json"} <= {p.name for p in made.evidence.iterdir()}
    assert (made.home / "summary").stat().st_size
    posted = json.dumps([
        *(list(github.state.comments.values()), list(github.state.checks.values())),
        *(github.state.annotations, github.state.log),  # every path and body
    ])  # fmt: skip
    tools = made.cache / "inferquality"
    places = (made.home / "temp", made.home / "summary", tools / "judged", tools / "leases")
    for name, secret in SECRETS.items():
        lines = [x for log in logs.values() for x in log.splitlines() if secret in x]
        assert {x for x in lines if not x.startswith("::add-mask::")} == set(), name
        assert [x for x in seen if secret in x] == []
        assert secret not in posted + outputs
        assert [p.relative_to(made.work).as_posix() for p in holding(secret, *places)] == KEPT[name]
    assert "key is ***" in logs["boot"]
    assert (made.work / "boot.log").stat().st_mode & 0o777 == 0o600


# The server's own words, as it wrote them, and the inputs: in the job's private folder alone.
KEPT = {"token": [], "key": ["boot.log"], "env": ["inputs.json"]}


def command_lines() -> set[str]:
    done = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


def environments(port: int) -> str:
    """What the programs that serve on a port were given."""
    found = subprocess.run(
        ["pgrep", "-f", f"memory {port}"], capture_output=True, text=True, check=False
    )
    pids = [p for p in found.stdout.split() if p != str(os.getpid())]
    assert pids
    return "".join(Path(f"/proc/{p}/environ").read_text(errors="replace") for p in pids)


def holding(secret: str, *places: Path) -> list[Path]:
    """The files in which a text stands."""
    files = [p for place in places for p in ([place] if place.is_file() else place.rglob("*"))]
    return [p for p in files if p.is_file() and secret.encode() in p.read_bytes()]
