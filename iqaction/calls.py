"""What a stage may ask of a server, and what can come back. Plain data: no I/O, no engine."""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from iqaction.rows import Rows


class Arm(str, enum.Enum):
    """Which server is asked."""

    CANDIDATE = "candidate"
    BASELINE = "baseline"
    REPEAT = "repeat"  # the baseline, started again: the A/A noise floor
    REFERENCE = "reference"  # a live higher-precision server


class Capability(str, enum.Enum):
    """What a server can do, as its dialect knows or detection found."""

    CHAT = "chat"
    TOP_LOGPROBS = "top log-probabilities"
    FORCE = "teacher forcing"
    TOKENIZE = "tokenize"


@dataclass(frozen=True, order=True)
class Tag:
    """Names one call within a stage: which arm and launch, which leg, which unit, which try."""

    arm: Arm
    leg: str  # "trajectory", "reference", "self", "template", ...
    unit: str  # the prompt's id
    launch: int = 0  # 0: the reference's first start; 1..L: its relaunches
    attempt: int = 0  # 1: a hit that was asked once more


@dataclass(frozen=True)
class Message:
    role: str
    content: str


@dataclass(frozen=True)
class Chat:
    """One chat completion. ``template_kwargs`` is canonical JSON of an object ("" is none)."""

    tag: Tag
    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float = 0.0
    seed: int = 0
    top_logprobs: int = 0  # 0: no log-probabilities wanted
    template_kwargs: str = ""


@dataclass(frozen=True)
class Force:
    """Score ``continuation_ids`` after ``prompt_ids`` (teacher forcing)."""

    tag: Tag
    prompt_ids: tuple[int, ...]
    continuation_ids: tuple[int, ...]
    top_logprobs: int = 20


@dataclass(frozen=True)
class Tokenize:
    """Token ids of ``text``, or of a chat put through the engine's template (``messages``)."""

    tag: Tag
    text: str | None = None
    messages: tuple[Message, ...] = ()
    template_kwargs: str = ""


@dataclass(frozen=True)
class Draw:
    """``n`` sampled chat completions of one prompt, unseeded: each position with the raw list that
    it was drawn from.

    Unseeded, because a seeded request leaves the fast sampler of some engines for another kernel.
    ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 are off.
    """

    tag: Tag
    messages: tuple[Message, ...]
    n: int
    max_tokens: int
    temperature: float
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    top_logprobs: int = 20
    template_kwargs: str = ""


@dataclass(frozen=True)
class Evaluate:
    """One whole run of lm-evaluation-harness against the endpoint, with a prompt and an extraction
    of its own: it asks for itself, at most ``concurrency`` at a time, and is ended after
    ``seconds``."""

    tag: Tag
    task: str
    limit: int  # documents at most, the first of the task's own order
    max_tokens: int
    concurrency: int
    seconds: int


WireCall = Chat | Force | Tokenize | Draw
"""What a dialect puts to a server."""

Call = WireCall | Evaluate


@dataclass(frozen=True)
class Generation:
    """The answer to a Chat.

    Attributes
    ----------
    rows
        Log-probabilities by position, None where the engine gave none. They cover the reasoning
        and the end-of-text token where the engine lists them.
    rows_complete
        False where fewer rows than generated tokens came back (hidden reasoning, lost rows):
        such a generation is never forced.
    top_logprobs
        The list length that the engine accepted (a cap may have lowered it); 0: none.
    eos_id
        Id of the end token of a text that stopped, where it is known but not in ``rows``.
    """

    text: str
    finish_reason: str
    rows: Rows | None = None
    rows_complete: bool = False
    reasoning: str = ""
    prompt_ids: tuple[int, ...] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    top_logprobs: int = 0
    eos_id: int | None = None
    model: str = ""
    fingerprint: str = ""
    flags: tuple[str, ...] = ()  # oddities worth a caveat, in plain words


@dataclass(frozen=True)
class Scored:
    """The answer to a Force: one row per continuation id, in order."""

    rows: Rows
    method: str  # "prompt_logprobs", "grammar", "stepwise", "generate"
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class TokenIds:
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Drawn:
    """The answer to a Draw.

    Attributes
    ----------
    rows
        The positions of all sequences, one sequence after another.
    lengths
        How many of ``rows`` each sequence has; at most ``n`` sequences, as many as came.
    finish_reasons
        One a sequence.
    completion_tokens
        Generated tokens of all sequences, where the engine counts them: more than ``rows`` where
        it lists no row for some.
    top_logprobs
        The list length that the engine accepted.
    """

    rows: Rows
    lengths: tuple[int, ...]
    finish_reasons: tuple[str, ...]
    completion_tokens: int | None = None
    top_logprobs: int = 0
    eos_id: int | None = None  # where the end token ends texts and is not in ``rows``
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Score:
    """One figure of lm-evaluation-harness: a share of its documents, by one of its filters."""

    metric: str
    filter: str
    value: float
    stderr: float | None = None  # where it tells one


@dataclass(frozen=True)
class Evaluated:
    """The answer to an Evaluate.

    Attributes
    ----------
    documents
        How many the figures are of.
    version, task_version, task_sha256
        The harness's, the task's, and its own hash over documents, prompts and right answers.
    shots
        How many solved examples stood before each question.
    """

    task: str
    scores: tuple[Score, ...]
    documents: int
    version: str = ""
    task_version: str = ""
    task_sha256: str = ""
    shots: int | None = None


class FailureKind(str, enum.Enum):
    """Why a call has no usable answer."""

    CONNECT = "connect"  # nobody there
    TIMEOUT = "timeout"
    RESET = "reset"  # the connection broke
    PROXY = "proxy"  # an HTML 502/504 of something between us and the engine
    BUSY = "busy"  # 429 or 503, after all retries
    STATUS = "status"  # any other HTTP error
    MALFORMED = "malformed"  # 200 with a body that is not what was asked for
    ABORTED = "aborted"  # 200, but the engine says the item failed
    UNSUPPORTED = "unsupported"  # the engine cannot do this
    TRUNCATED_BODY = "truncated body"
    TOO_LARGE = "too large"  # the answer is over our read limit
    BUDGET = "budget"  # never sent: the stage's time was spent. Nothing after it was sent either


TRANSPORT = frozenset(
    {
        FailureKind.CONNECT,
        FailureKind.TIMEOUT,
        FailureKind.RESET,
        FailureKind.PROXY,
        FailureKind.BUSY,
        FailureKind.TRUNCATED_BODY,
    }
)
"""Failures of the way, not of the engine: asked again when a run continues."""


_NOT_FOR_US = frozenset({401, 402, 403, 404, 407})


@dataclass(frozen=True)
class Failure:
    """No usable answer, and why. Never read as a wrong answer or an empty text."""

    kind: FailureKind
    message: str
    status: int | None = None

    @property
    def is_lost(self) -> bool:
        """True where the way or the server failed, and not the question: worth asking again when
        a run continues."""
        return self.is_no_answer or (self.status is not None and self.status >= 500)

    @property
    def is_no_answer(self) -> bool:
        """True where it says nothing of the model: lost on the way, or turned away there (a key
        that ended, a redirect, a gateway that lets some questions not through)."""
        turned_away = self.status in _NOT_FOR_US or 300 <= (self.status or 0) < 400
        return self.kind in TRANSPORT or (self.kind is FailureKind.STATUS and turned_away)


Answer = Generation | Scored | TokenIds | Drawn | Evaluated | Failure


@dataclass(frozen=True)
class Observation:
    """One call and what came of it. ``call_sha256`` is :func:`digest` of the call."""

    tag: Tag
    call_sha256: str
    answer: Answer
    attempts: int = 1
    elapsed_s: float = 0.0


@dataclass(frozen=True)
class EngineInfo:
    """Who answered, as far as it says. Recorded per arm and launch."""

    dialect: str
    version: str = ""
    model: str = ""
    models: tuple[str, ...] = ()
    capabilities: frozenset[Capability] = frozenset()
    fingerprint: str = ""
    slots: int | None = None  # how many requests it serves at once, where it says
    max_model_len: int | None = None
    eos_id: int | None = None
    base_url: str = ""  # without userinfo and query
    details: Mapping[str, str] = field(default_factory=dict)
    limitations: tuple[str, ...] = ()
    # Of sampling, in the order applied; empty: not known. The names are "temperature", "top_k",
    # "top_p" and "min_p". "top_k+top_p": both read from the distribution before either cut it; with
    # a min_p it depends on the server's kernels whether top_p reads what top_k left instead. Any
    # other name is a sampler of the server's own that a request cannot switch off, and a name
    # that is missing is a setting that this server does not apply.
    filters: tuple[str, ...] = ()
    # Of a relaunch: the server was not restarted for it, so that what a restart changes is not in
    # it. How the launch was made, and nothing that tells one engine from another.
    not_restarted: bool = False
    # Of the ids of fixed texts and chats (see `iqaction.fingerprints`); "": not known.
    tokenizer_sha256: str = ""
    template_sha256: str = ""


def digest(call: Call) -> str:
    """sha256 of the call's canonical JSON: a kept answer is reused only for the same question."""
    body = {"kind": type(call).__name__, **vars(call)}
    # `vars` for the data classes within: `dataclasses.asdict` copies every token id first.
    text = json.dumps(body, default=vars, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
