"""lm-evaluation-harness as a process: its command line, its results, and every way it can fail."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from iqaction import harness
from iqaction.calls import Arm, Evaluate, Evaluated, Failure, FailureKind, Score, Tag, digest
from iqaction.errors import ConfigError
from iqaction.harness import Harness

RESULTS = Path(__file__).parents[1] / "data" / "lm_eval_results.json"  # of version 0.4.13
CALL = Evaluate(Tag(Arm.CANDIDATE, "lm-eval", "gsm8k"), "gsm8k", 12, 64, 4, 20)
KEY = "sk-secret"
# A program in the harness's place, for what the real one does not do on demand.
LEAVES = """
import pathlib, sys
out = pathlib.Path(sys.argv[sys.argv.index("--output_path") + 1]) / "m"
out.mkdir(parents=True)
(out / "results_2026.json").write_bytes(pathlib.Path({source!r}).read_bytes())
"""


def asked(program: str, call: Evaluate = CALL) -> Evaluated | Failure:
    made = Harness("http://127.0.0.1:9/v1", "m", KEY, (sys.executable, "-c", program))
    observation = made.run(call)

    assert (observation.tag, observation.call_sha256) == (call.tag, digest(call))
    answer = observation.answer
    assert isinstance(answer, (Evaluated, Failure))
    return answer


def test_run__figures() -> None:
    """What the harness left is read: figures by filter, of how many documents of what."""
    found = asked(LEAVES.format(source=str(RESULTS)))

    assert isinstance(found, Evaluated)
    assert found.scores == (
        Score("exact_match", "flexible-extract", 1 / 12, pytest.approx(0.0833, abs=1e-4)),
        Score("exact_match", "strict-match", 1 / 12, pytest.approx(0.0833, abs=1e-4)),
    )
    assert (found.documents, found.version, found.task_version) == (12, "0.4.13", "3.0")
    assert (found.shots, len(found.task_sha256)) == (5, 64)


def test_command__says_all_and_no_key() -> None:
    """Model, endpoint and limits are in the command line, as JSON that no comma can break."""
    made = Harness("http://127.0.0.1:9/v1", "a,b=c", KEY)
    words = made.command(CALL, "/tmp/x")
    told = json.loads(words[words.index("--model_args") + 1])

    assert words[words.index("-m") + 1] == "lm_eval"
    assert told["model"] == "a,b=c"
    assert told["base_url"] == "http://127.0.0.1:9/v1/chat/completions"
    assert (told["num_concurrent"], told["max_gen_toks"]) == (4, 64)
    assert words[words.index("--limit") + 1] == "12"
    assert KEY not in " ".join(words)


def test_run__what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the key and where its caches are, and no other secret; it starts in a folder of its
    own, where no checkout can pass for a data set."""
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_x")
    monkeypatch.setenv("HF_HOME", "/somewhere")
    here = os.getcwd()
    program = (
        "import os, sys; e = os.environ;"
        "sys.exit(' '.join([e['OPENAI_API_KEY'][:2], str('GITHUB_TOKEN' in e), e['HF_HOME'],"
        f" str(os.getcwd() == {here!r}), str(os.listdir())]))"
    )
    found = asked(program)

    assert isinstance(found, Failure)
    assert found.message.endswith("ended with status 1: sk False /somewhere False []")


@pytest.mark.parametrize(
    ("program", "kind", "said"),
    [
        ("import sys; print('a\\nb\\n'); sys.exit(3)", "proxy", "ended with status 3: b"),
        ("import sys; sys.exit('key sk-secret, \\x1b[2Jx')", "proxy", "key ***, ?[2Jx"),
        (
            "import sys; print('WARNING API request failed! Status code: 500', file=sys.stderr);"
            "raise OSError('x')",
            "proxy",
            "status 1: API request failed! Status code: 500; OSError: x",
        ),
        ("raise SystemExit(1)", "proxy", "status 1: it printed nothing"),
        ("print('x' * 5_000_000); raise SystemExit(1)", "proxy", "xxx"),
        ("pass", "malformed", "left no results"),
    ],
)
def test_run__fails(program: str, kind: str, said: str) -> None:
    """A harness that fails says why, in a line, without the key; none of it is a figure."""
    found = asked(program)

    assert isinstance(found, Failure)
    assert found.kind is FailureKind(kind)
    assert found.message.endswith(said)
    assert len(found.message) < 400
    assert KEY not in found.message


def test_run__no_such_program() -> None:
    """A program that cannot be started is no figure either."""
    found = Harness("http://127.0.0.1:9", "m", "", ("/no/such/program",)).run(CALL).answer

    assert isinstance(found, Failure)
    assert found.kind is FailureKind.UNSUPPORTED


def test_run__too_long() -> None:
    """A run that does not end in its time is ended; what it started, too."""
    program = "import subprocess, sys; subprocess.run(['sleep', '60'])"
    begun = time.monotonic()
    found = asked(program, Evaluate(CALL.tag, "gsm8k", 12, 64, 4, 1))

    assert isinstance(found, Failure)
    assert found.kind is FailureKind.TIMEOUT
    assert found.is_lost
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize(("ends", "kind"), [("", "malformed"), ("os._exit(3)", "proxy")])
def test_run__what_it_leaves_behind(tmp_path: Path, ends: str, kind: str) -> None:
    """A worker that outlives the harness, and will not be asked to end, does not go on asking."""
    told = tmp_path / "pid"
    program = (
        "import os, pathlib, signal, subprocess, sys;"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "pid = subprocess.Popen(['sleep', '60']).pid;"
        f"pathlib.Path({str(told)!r}).write_text(str(pid));{ends}"
    )
    found = asked(program)

    assert isinstance(found, Failure)
    assert found.kind is FailureKind(kind)
    worker = int(told.read_text())
    assert not is_running(worker)


def is_running(pid: int) -> bool:
    """False for what has ended and is not collected yet, too."""
    for _ in range(40):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True


def test_run__what_it_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other secrets that it is given are not in its reason either: a library may quote them."""
    monkeypatch.setenv("HF_TOKEN", "hf_canary_0123")
    monkeypatch.setenv("https_proxy", "http://ann:canary-pw@proxy:3128")
    found = asked(
        'import os, sys; e = os.environ; sys.exit(f\'bad {e["HF_TOKEN"]} {e["https_proxy"]}\')'
    )

    assert isinstance(found, Failure)
    assert found.message.endswith("bad *** http://***@proxy:3128")


def test_close() -> None:
    """Closing ends the run under way within moments, and none begins after it."""
    made = Harness(
        "http://127.0.0.1:9", "m", "", (sys.executable, "-c", "import time; time.sleep(60)")
    )
    said: list[object] = []
    thread = threading.Thread(target=lambda: said.append(made.run(CALL).answer))
    thread.start()
    time.sleep(0.3)
    made.close()
    thread.join(10)

    assert not thread.is_alive()
    assert [f.message for f in (*said, made.run(CALL).answer) if isinstance(f, Failure)] == [
        "the run was stopped"
    ] * 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"results": {"other": {}}}',
        b'{"results": {"gsm8k": {"exact_match,strict": 0.5}}}',
        b'{"results": {"gsm8k": {"exact_match,strict": 0.5, "sample_len": 0}}}',
        b'{"results": {"gsm8k": {"exact_match,strict": NaN, "sample_len": 9}}}',
        b'{"results": {"gsm8k": {"exact_match,strict": true, "sample_len": 9}}}',
        b'{"results": {"gsm8k": {"exact_match,strict": "x", "sample_len": 9}}}',
        b'{"results": {"gsm8k": {"exact_match,s": 0.5, "sample_len": 1%s}}}' % (b"0" * 400),
        b'{"results": {"gsm8k": {"exact_match,s": 1%s, "sample_len": 9}}}' % (b"0" * 400),
        b'{"results": {"gsm8k": 3}, "n-samples": {"gsm8k": 4}}',
    ],
)
def test_read__no_figures(data: bytes) -> None:
    """What is no results file, or holds no figure and how many it is of, is a failure."""
    found = harness.read(data, "gsm8k")

    assert isinstance(found, Failure)
    assert found.kind is FailureKind.MALFORMED


def test_read__older() -> None:
    """Without sample counts the figure's own is taken, and an error that is none is None."""
    body = {"exact_match,x": 0.5, "exact_match_stderr,x": "N/A", "alias": "g,x", "sample_len": 9}
    found = harness.read(json.dumps({"results": {"gsm8k": body}}).encode(), "gsm8k")

    assert found == Evaluated("gsm8k", (Score("exact_match", "x", 0.5, None),), 9)


def test_read__halves_of_characters() -> None:
    """A text that cannot be written is made one that can."""
    figures = b'{"gsm8k": {"a\\ud800,b": 0.5, "sample_len": 9}}'
    body = b'{"results": %s, "lm_eval_version": "\\udfff"}' % figures
    found = harness.read(body, "gsm8k")

    assert isinstance(found, Evaluated)
    assert (found.scores[0].metric, found.version) == ("a?", "?")


def test_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the command that installs it is named."""
    monkeypatch.setattr(harness, "_PACKAGE", "no_such_package_as_this")

    with pytest.raises(ConfigError) as caught:
        harness.must_be_installed()

    assert "pip install 'iqaction[lm-eval]'" in str(caught.value)
