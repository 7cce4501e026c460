"""What is read of strangers, and how it is damaged: one target for each kind of input.

A target takes a source of chance and reads one damaged input by the package's own code. It
returns where that reads it or refuses it with an error of ours, and raises for anything else.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from whole_evidence import Whole
from wire.replay import RECORDINGS

from iqaction import __version__, acceptance, inputs, judgement, prompts, stages, surfaces
from iqaction.calls import (
    Answer,
    Arm,
    Call,
    Chat,
    Draw,
    EngineInfo,
    Failure,
    Force,
    Message,
    Tag,
    Tokenize,
)
from iqaction.engines import load as dialect
from iqaction.engines import names as dialects
from iqaction.errors import IqError
from iqaction.evidence import canon, circumstances_json, manifest, report_json
from iqaction.evidence.store import Folder
from iqaction.evidence.verify import verify
from iqaction.github.event import read_event
from iqaction.http import read_reply
from iqaction.prompts import PromptSet
from iqaction.surfaces import _effects_json, _state
from iqaction.verdict import Verdict

NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, -(2**63), 2**64, 10**400, 0.0, -0.0, 1e308, 1e-320,
    float("nan"), float("inf"), "", " ", "a", "\x00", "\x1b[2J", "\u202e", "\ud800", "é" * 300,
    "9" * 5000, "../../x", "<script>", "${{ x }}", "::error::x", [], {}, [[]], {"": {}}, [None],
    "2026-01-01T00:00:00Z", "0" * 64, "PASS", "NaN",
)  # fmt: skip
CALLS: tuple[Call, ...] = (
    Chat(Tag(Arm.CANDIDATE, "trajectory", "p"), (Message("user", "hi"),), 8, top_logprobs=5),
    Force(Tag(Arm.CANDIDATE, "reference", "p"), (1, 2, 3), (4, 5, 6), 5),
    Tokenize(Tag(Arm.CANDIDATE, "template", "p"), text="hi"),
    Draw(
        Tag(Arm.CANDIDATE, "draws", "p"),
        (Message("user", "hi"),),
        max_tokens=4,
        n=2,
        temperature=0.6,
    ),
)
ENVIRON = {
    "GITHUB_REPOSITORY": "acme/serve",
    "GITHUB_SHA": "c" * 40,
    "GITHUB_RUN_ID": "77",
    "GITHUB_WORKSPACE": "/w",
}


def nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a JSON value: what holds it, and the key or the index."""
    items: Any = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, inner in items:
        yield value, key
        yield from nodes(inner)


def damaged(value: Any, rng: random.Random) -> Any:
    """JSON with a few of its places replaced, removed, doubled or swapped."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        places = list(nodes(value))
        if not places:
            return rng.choice(NASTY)
        holder, key = rng.choice(places)
        match rng.randrange(5):
            case 0 | 1:
                holder[key] = copy.deepcopy(rng.choice(NASTY))
            case 2:
                del holder[key]
            case 3 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case 3:
                holder[str(rng.choice(NASTY))[:50]] = copy.deepcopy(holder[key])
            case _:
                other, place = rng.choice(places)
                try:
                    holder[key] = copy.deepcopy(other[place])
                except (KeyError, IndexError):  # it was removed above
                    holder[key] = None
    return value


def torn(data: bytes, rng: random.Random) -> bytes:
    """Bytes cut, flipped, doubled, or with something put in."""
    for _ in range(rng.choice([1, 1, 2, 6])):
        at, to = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        match rng.randrange(6):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + data[to:]
            case 2:
                data = data[:to] + data[at : at + 200] + data[to:]
            case 3 if data:
                at = rng.randrange(len(data))
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case _:
                put = rng.choice([b"\x00", b"\xff", b"[" * 2000, b"{" * 30, b"\n", b"- ", b": ",
                                  b"&a *a", b"!!python/object:os.system ", b"9" * 300, b'"',
                                  b"\xed\xa0\x80", b"1e999", b"\r", b"\x1f\x8b"])  # fmt: skip
                data = data[:at] + put + data[at:]
    return data


def text_of(value: Any) -> bytes:
    """JSON with its NaN and lone surrogates, as a hostile writer would have it."""
    try:
        return json.dumps(value).encode()
    except ValueError:  # a number of more digits than Python turns into text
        return b'{"n": ' + b"9" * 6000 + b"}"


def spoilt(value: Any, rng: random.Random) -> bytes:
    data = text_of(damaged(value, rng))
    return torn(data, rng) if rng.random() < 0.3 else data


@cache
def plans() -> tuple[bytes, ...]:
    found = sorted(Path(__file__).parents[1].glob("examples/**/*.y*ml"))
    texts = [p.read_bytes() for p in found if b"stages:" in p.read_bytes()]
    own = b"""\
endpoint: http://127.0.0.1:8000/v1
api_key_env: MY_KEY
stages:
  - trajectory: {limit: 12, max_tokens: 16, chat_template_kwargs: {enable_thinking: false}}
  - score: {margins: {kl: 0.02, decisive: 0.5pp}, reference: http://h/v1, legs: [reference, self]}
  - gsm8k: {limit: 100, margin: 2pp, time_budget: 20m, concurrency: auto}
  - niah: {lengths: [256, 512], depths: [0.1, 0.9], required: false}
  - sampling: {temperature: 0.6, top_k: 20, top_p: 0.95}
"""
    return (own, *texts)


def plan(rng: random.Random) -> None:
    """A plan file, frozen where it is one."""
    data = torn(rng.choice(plans()), rng)
    request = inputs.read_request(data.decode("utf-8", "replace"), "plan.yml")
    found = prompts.parse(b'{"id": "a", "messages": [{"role": "user", "content": "x"}]}', "p")
    frozen = inputs.freeze(request, PromptSet(found.prompts, found.sha256, found.data))
    assert frozen.stages


ACCEPT = b"""\
accept:
  - check: score.reference.kl
    plan: "%s"
    reason: known
    author: me
    expires: 2026-12-31
  - field: plan
    reason: known
    author: me
    expires: 2026-12-31
""" % (b"0" * 64)


def accept(rng: random.Random) -> None:
    """A file of acceptances."""
    acceptance.read(torn(ACCEPT, rng).decode("utf-8", "replace"), "accept.yml")


PROMPT = {
    "id": "code-1",
    "bucket": "code",
    "messages": [{"role": "system", "content": "be short"}, {"role": "user", "content": "hi é"}],
    "max_tokens": 9,
    "chat_template_kwargs": {"enable_thinking": False},
}


def prompt_file(rng: random.Random) -> None:
    """A prompt file of a few lines."""
    lines = [spoilt({**PROMPT, "id": f"p-{i}"}, rng) for i in range(rng.randrange(1, 4))]
    prompts.parse(b"\n".join(lines), "prompts.jsonl")


def problems(rng: random.Random) -> None:
    """A file of problems."""
    lines = [spoilt({"question": "1 + 1?", "answer": "It is 2.\n#### 2"}, rng) for _ in range(2)]
    stages.load("gsm8k").convert(b"\n".join(lines), "data.jsonl")


PULL = {
    "number": 7,
    "head": {"sha": "a" * 40, "repo": {"full_name": "acme/serve"}},
    "base": {"sha": "b" * 40, "repo": {"full_name": "acme/serve"}},
    "user": {"login": "alice"},
}
EVENTS: tuple[tuple[str, Any], ...] = (
    ("pull_request", {"pull_request": PULL, "sender": {"login": "alice"}}),
    ("push", {"before": "d" * 40, "sender": {"login": "alice"}}),
    ("merge_group", {"merge_group": {"head_sha": "a" * 40, "base_sha": "b" * 40}}),
    (
        "workflow_run",
        {
            "workflow_run": {
                "id": 7, "run_attempt": 1, "conclusion": "success", "event": "pull_request",
                "head_sha": "a" * 40, "head_repository": {"full_name": "eve/serve"},
                "actor": {"login": "eve"},
            }
        },
    ),
)  # fmt: skip


def event(rng: random.Random) -> None:
    """A payload of GitHub's, or of who sends one in its name."""
    name, payload = rng.choice(EVENTS)
    environ = {**ENVIRON, "GITHUB_EVENT_NAME": name}
    if rng.random() < 0.2:
        environ[rng.choice(sorted(environ))] = str(rng.choice(NASTY))[:100]
    found = read_event(environ, spoilt(payload, rng))
    assert len(found.head_sha) in (40, 64)


@cache
def bodies() -> tuple[tuple[int, Any], ...]:
    """What real engines have said."""
    found = []
    for path in sorted(RECORDINGS.rglob("*.json")):
        recording = json.loads(path.read_text(encoding="utf-8"))
        for one in recording.get("exchanges", [recording]):
            if one.get("body_json") is not None and len(json.dumps(one["body_json"])) < 20_000:
                found.append((one.get("status", 200), one["body_json"]))
    return tuple(found)


def engine(rng: random.Random) -> None:
    """An engine that answers every request with damaged answers of real ones."""
    speaker, info = dialect(rng.choice(dialects())), EngineInfo("x", model="m")
    status, body = rng.choice(bodies())
    speaking: Any = speaker.speak(rng.choice(CALLS), info)
    if rng.random() < 0.2:
        speaking = speaker.detect("m")
    answer: Answer | EngineInfo | None = None
    try:
        next(speaking)
        for _ in range(40):
            if rng.random() < 0.3:
                status, body = rng.choice(bodies())
            status = rng.choice([status, status, 200, 400, 500])
            speaking.send(read_reply(status, spoilt(body, rng), {"content-type": "x"}))
    except StopIteration as stop:
        answer = stop.value
    assert answer is None or isinstance(answer, (Failure, EngineInfo)) or answer is not None


class Folders:
    """Folders of real stages: sealed, and as a killed run leaves them. Removed at the end."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="iq-fuzz-"))
        whole = Whole(("niah", "gsm8k"), optional=("gsm8k",), problems=12, launches=1)
        whole.captured(self.place / "reference")
        whole.compared(self.place / "sealed", self.place / "reference", worse=True)
        whole.observed(self.place / "open", self.place / "reference", worse=True)
        whole.compared(self.place / "passed", self.place / "reference")

    def copy(self, kind: str) -> Path:
        path = self.place / "copy"
        shutil.rmtree(path, ignore_errors=True)
        return Path(shutil.copytree(self.place / kind, path))


@cache
def folders() -> Folders:
    import atexit  # noqa: PLC0415 - only where folders are made

    made = Folders()
    atexit.register(shutil.rmtree, made.place, True)
    return made


def sealed(rng: random.Random) -> None:
    """A sealed folder of which one file is damaged: told by verify, and no PASS that was none."""
    path = folders().copy("sealed")
    files = sorted(p for p in path.rglob("*") if p.is_file() and p.name != ".lock")
    file = rng.choice(files)
    before = file.read_bytes()
    file.write_bytes(torn(before, rng))
    is_same = file.read_bytes() == before
    found = verify(path, rejudge=lambda o: judgement.judge(o, ""), rerender=surfaces.files)
    assert found.ok is is_same, (str(file), found.problems)
    with Folder.open(path) as folder:
        report = judgement.judge(folder.load(), __version__)
    assert report.verdict is not Verdict.PASS


def journal(rng: random.Random) -> None:
    """A journal with damaged lines, which no hash guards: judged and rendered, or named."""
    path = folders().copy("open") / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for _ in range(rng.choice([1, 3, 10])):
        at = rng.randrange(len(lines))
        try:
            lines[at] = spoilt(json.loads(lines[at]), rng) + b"\n"
        except ValueError:
            continue
    path.write_bytes(b"".join(lines))
    with Folder.open(path.parent) as folder:
        report = judgement.judge(folder.load(), __version__)
    surfaces.files(report)
    report_json.to_bytes(report)


def stored_plan(rng: random.Random) -> None:
    """A plan as it lies in a folder, in canonical form again so that nothing but its values tells:
    the folder is judged, or it is said what is wrong with it."""
    path = folders().copy("open")
    kept = json.loads((path / "plan.json").read_bytes())
    (path / "plan.json").write_bytes(canon.dump(json.loads(_finite(damaged(kept, rng)))))
    with Folder.open(path) as folder:
        judgement.judge(folder.load(), __version__)


def _finite(value: Any) -> str:
    try:
        return json.dumps(value).replace("NaN", "0").replace("Infinity", "1")
    except ValueError:
        return "{}"


@cache
def documents() -> dict[str, Any]:
    path = folders().place / "passed"
    return {
        n: json.loads((path / n).read_bytes())
        for n in ("report.json", "effects.json", "manifest.json", "circumstances.json")
    }


def document(rng: random.Random) -> None:
    """One of the files that another job reads: a report that is read is rendered."""
    name = rng.choice(sorted(documents()))
    data = spoilt(documents()[name], rng)
    if name == "report.json":
        surfaces.files(report_json.from_bytes(data))
    elif name == "effects.json":
        _effects_json.from_bytes(data)
    elif name == "manifest.json":
        manifest.from_bytes(data)
    else:
        circumstances_json.from_bytes(data)
    _state.read_state(f"x\n<!-- {data[:2000].decode('utf-8', 'replace')} -->")


Target = Callable[[random.Random], None]
# Each with its share of the inputs; what reads whole folders takes longer.
TARGETS: dict[Target, float] = {
    event: 0.4,
    prompt_file: 0.3,
    problems: 0.13,
    engine: 0.1,
    plan: 0.024,
    accept: 0.02,
    document: 0.02,
    journal: 0.002,
    sealed: 0.002,
    stored_plan: 0.002,
}


def read(target: Target, seed: int) -> bool:
    """True where the input was read, False where it was refused as it should be."""
    try:
        target(random.Random(seed))
    except IqError as exc:
        refused = exc
    else:
        return True
    assert refused.happened
    assert all(c.isprintable() or c == "\n" for c in str(refused)), ascii(str(refused))
    return False
