"""Plan files: what is written is what is asked, and every mistake names its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.calls import Arm, Capability, Message
from iqaction.errors import ConfigError
from iqaction.inputs import Request, files, freeze, read_request, warnings, with_flags
from iqaction.observed import Observed
from iqaction.plan import Margin, Plan, StageSpec, from_json, to_json
from iqaction.prompts import Prompt, PromptSet
from iqaction.report import StageResult
from iqaction.stages._base import Asking, Context, Param, Stage
from iqaction.stages._levels import FEWEST_TO_PASS, FEWEST_TO_PASS_TWO_LOOKS
from iqaction.stats.proportions import clopper_pearson_upper


@dataclass(frozen=True)
class FakeStage:
    """A stage of which only the inputs are real."""

    params: tuple[Param, ...] = ()
    margins: Mapping[str, float | None] = field(default_factory=dict)
    impossible: str = ""

    def check(self, spec: StageSpec, plan: Plan) -> str:
        return self.impossible

    def needs(self, spec: StageSpec, arm: Arm) -> frozenset[Capability]:
        return frozenset()

    def ask(self, context: Context) -> Asking:
        raise NotImplementedError

    def judge(self, context: Context) -> StageResult:
        raise NotImplementedError


@dataclass(frozen=True)
class Stages:
    """A registry of fake stages."""

    known: Mapping[str, Stage]

    def names(self) -> list[str]:
        return sorted(self.known)

    def load(self, name: str) -> Stage:
        return self.known[name]


TRAJECTORY = FakeStage(
    (
        Param("prompts", "text", "default", ""),
        Param("limit", "int", 96, "", 1, 100_000),
        Param("max_tokens", "int", None, "", 1, 100_000),
        Param("concurrency", "int_or_auto", "auto", "", 1, 1024),
        Param("chat_template_kwargs", "object", "", ""),
    )
)
SCORE = FakeStage(
    (
        Param("legs", "names", ("reference", "self"), "", choices=("reference", "self")),
        Param("reference", "text", "", ""),
        Param("tokenizer", "text", None, ""),
        Param("floor", "choice", "launches", "", choices=("launches", "single")),
        Param("budget", "duration", None, "", 1, 7200),
        Param("drop", "share", 0.02, "", 0, 0.5),
        Param("gain", "float", 1.0, "", 0.0),
        Param("thinking", "bool", False, ""),
    ),
    {"kl": 0.02, "decisive": 0.005, "agreement": None},
)
STAGES = Stages({"trajectory": TRAJECTORY, "score": SCORE})


def read(text: str) -> Request:
    return read_request(text, "plan.yml", STAGES)


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return str(caught.value)


def score(settings: str) -> StageSpec:
    (spec,) = read(f"stages:\n  - score: {{{settings}}}\n").stages
    return spec


def prompt_set(n: int) -> PromptSet:
    prompts = tuple(Prompt(f"p-{i}", "short", (Message("user", "hi"),)) for i in range(n))
    return PromptSet(prompts, "0" * 64)


def plan(n: int, limit: int | None = None) -> Plan:
    request = Request((StageSpec("trajectory"), StageSpec("score")), limit=limit)
    return freeze(request, prompt_set(n), registry=STAGES)


# --- what is written is what is asked


def test_read_request__full() -> None:
    """Every key of the file arrives, typed."""
    request = read(
        """
stages:
  - trajectory: {prompts: mine.jsonl, limit: 64, max_tokens: 16, concurrency: 8}
  - score:
      legs: [self, reference]
      margins: {kl: 0.01, agreement: 2e-2}
      required: false
      seed: 7
baseline: ../base
endpoint: http://127.0.0.1:8000/v1/
model: "m"
dialect: auto
suite: qwen-27b
api_key_env: MY_KEY
baseline_sha256: sha256:%s
anchor: baseline.yml
"""
        % ("AB" * 32)
    )
    trajectory, judged = request.stages

    assert (request.prompts, request.limit) == ("mine.jsonl", 64)
    assert (request.endpoint, request.model) == ("http://127.0.0.1:8000/v1", "m")
    assert (request.baseline, request.suite, request.api_key_env) == (
        "../base",
        "qwen-27b",
        "MY_KEY",
    )
    assert (request.baseline_sha256, request.anchor) == ("ab" * 32, "baseline.yml")
    assert trajectory.params["max_tokens"] == 16
    assert trajectory.params["concurrency"] == 8
    assert trajectory.params["chat_template_kwargs"] == ""
    assert judged.params["legs"] == ("reference", "self")
    assert judged.margins == (
        Margin("kl", 0.01),
        Margin("decisive", 0.005),
        Margin("agreement", 0.02),
    )
    assert (judged.required, judged.seed) == (False, 7)
    assert request.places == ("plan.yml:3", "plan.yml:4")


@pytest.mark.parametrize("item", ["- score", "- score:", "- score: {}", "- 'score'"])
def test_read_request__bare_stage(item: str) -> None:
    """A stage without settings has its defaults: all parameters, the default margins."""
    (spec,) = read(f"stages:\n  {item}\n").stages

    assert set(spec.params) == {p.name for p in SCORE.params}
    assert spec.margins == (Margin("kl", 0.02), Margin("decisive", 0.005))
    assert (spec.required, spec.seed) == (True, 0)


def test_read_request__no_trajectory() -> None:
    """Without the stage `trajectory` the default prompts are asked."""
    request = read("stages: [score]")

    assert (request.prompts, request.limit) == ("default", None)


def test_read_request__same_plan_two_spellings() -> None:
    """Key order, flow style and quoting do not change the plan's hash."""
    one = read("stages:\n  - score: {legs: [self, reference], seed: 1}\n")
    two = read("stages: [{'score': {seed: 1, legs: ['reference', self]}}]\n")

    hashes = {freeze(r, prompt_set(60), registry=STAGES).sha256 for r in (one, two)}
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        ("budget: 90", "budget", 90.0),
        ("budget: 90s", "budget", 90.0),
        ("budget: 20m", "budget", 1200.0),
        ("budget: 1h30m", "budget", 5400.0),
        ("budget: null", "budget", None),
        ("drop: 2pp", "drop", 0.02),
        ("drop: 2 %", "drop", 0.02),
        ("drop: 0.5%", "drop", 0.005),
        ("drop: 0.02", "drop", 0.02),
        ("gain: 2", "gain", 2.0),
        ("gain: 1e-3", "gain", 0.001),
        ("thinking: true", "thinking", True),
        ("floor: single", "floor", "single"),
        ("tokenizer: ~", "tokenizer", None),
        ('reference: "7"', "reference", "7"),
        ("legs: [self]", "legs", ("self",)),
    ],
)
def test_read_request__value(settings: str, name: str, value: object) -> None:
    """Values are read as their parameter wants them."""
    assert score(settings).params[name] == value
    assert type(score(settings).params[name]) is type(value)


def test_read_request__object() -> None:
    """Template kwargs become canonical JSON, and YAML 1.1's surprises do not happen."""
    (spec,) = read(
        "stages:\n  - trajectory:\n      chat_template_kwargs: {z: off, a: [1, 1e-1, null, true]}\n"
    ).stages

    assert spec.text("chat_template_kwargs") == '{"a":[1,0.1,null,true],"z":"off"}'


# --- every mistake names its place


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("", "plan.yml:1", "found nothing"),
        ("- score", "plan.yml:1", "found a list"),
        ("score", "plan.yml:1", "found the text 'score'"),
        ("model: m", "plan.yml:1", "no key `stages`"),
        ("stage: [score]", "plan.yml:1", "unknown key 'stage'; did you mean 'stages'?"),
        ("stages: []", "plan.yml:1: stages", "the list is empty"),
        ("stages:\n", "plan.yml:1: stages", "found nothing"),
        ("stages: score", "plan.yml:1: stages", "found the text 'score'"),
        ("stages: {score: {}}", "plan.yml:1: stages", "found a table"),
        ("stages: [5]", "plan.yml:1: stages", "found the number 5"),
        ("stages: [null]", "plan.yml:1: stages", "found nothing"),
        ("stages: [[score]]", "plan.yml:1: stages", "found a list"),
        ("stages: [{}]", "plan.yml:1: stages", "found a table"),
        ("stages:\n  - scores", "plan.yml:2", "unknown stage 'scores'; did you mean 'score'?"),
        ("stages:\n  - score\n  - score: {}", "plan.yml:3: score", "twice (first on line 2)"),
        ("stages:\n  - score: 5", "plan.yml:2: score", "found the number 5"),
        ("stages:\n  - score:\n    seed: 1", "plan.yml:3: stages", "stands beside 'score'"),
        (
            "stages:\n  - score:\n      leg: [self]",
            "plan.yml:3: score",
            "unknown parameter 'leg'; did you mean 'legs'?",
        ),
        (
            "stages:\n  - score:\n      margins:\n        kll: 0.02",
            "plan.yml:4: score.margins",
            "unknown margin 'kll'; did you mean 'kl'?",
        ),
        ("stages:\n  - trajectory: {margins: {kl: 1}}", "plan.yml:2", "it takes no margins"),
        ("stages:\n  - score: {margins: [kl]}", "plan.yml:2: score.margins", "found a list"),
        ("stages: [score]\ndialect: vlm", "plan.yml:2: dialect", "found the text 'vlm'"),
        ("stages: [score]\nmodel: 5", "plan.yml:2: model", 'in quotes, as "5"'),
        ("stages: [score]\nmodel:", "plan.yml:2: model", "found nothing"),
        ("stages: [score]\nmodel: ''", "plan.yml:2: model", "found the text ''"),
        ('stages: [score]\nmodel: "a\\nb"', "plan.yml:2: model", "one line"),
        ("stages: [score]\nbaseline_sha256: abc", "plan.yml:2: baseline_sha256", "'abc'"),
        ("stages: [score]\nanchor: 5", "plan.yml:2: anchor", "found the number 5"),
        ("stages: [score]\nsuite: a/b", "plan.yml:2: suite", "'a/b'"),
        ("stages: [score]\nendpoint: localhost:8000", "plan.yml:2: endpoint", "http"),
        ("stages: [score]\nendpoint: ftp://h", "plan.yml:2: endpoint", "http"),
        ("stages: [score]\nendpoint: http://", "plan.yml:2: endpoint", "http"),
        ("stages: [score]\nendpoint: http://h:99999", "plan.yml:2: endpoint", "no URL"),
        ("stages: [score]\nendpoint: 'http://[::1'", "plan.yml:2: endpoint", "no URL"),
        ("stages: [score]\nendpoint: 'http://a b'", "plan.yml:2: endpoint", "http"),
    ],
)
def test_read_request__refused(text: str, place: str, said: str) -> None:
    """The file, the line, the key, what was found, and the nearest valid name."""
    message = refused(text)

    assert message.startswith(place)
    assert said in message
    assert "expected:" in message


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("seed: true", "a whole number from 0"),
        ("seed: 1.0", "a whole number"),
        ("seed: '1'", "a whole number"),
        ("seed: -1", "a whole number from 0"),
        ("seed: 2147483648", "a whole number from 0 to 2147483647"),
        ("required: 1", "true or false"),
        ("required: yes", "true or false"),
        ("thinking: 'true'", "true or false"),
        ("gain: true", "a number"),
        ("gain: .nan", "a number"),
        ("gain: .inf", "a number"),
        ("gain: 1e999", "a number"),
        ("gain: -1", "a number of at least 0"),
        ("gain: null", "a number"),
        ("legs: self", "a list of reference, self"),
        ("legs: []", "a list of"),
        ("legs: [self, self]", "each name once"),
        ("legs: [[self]]", "a list of"),
        ("floor: [single]", "one of launches, single"),
        ("floor: null", "one of"),
        ("reference: 5", "a text"),
        ("reference: true", "a text"),
        ("budget: 20 minutes", "a duration"),
        ("budget: 3h", "to 7200"),
        ("budget: 0", "from 1"),
        ("budget: 5x", "a duration"),
        ("drop: 60%", "a share"),
        ("drop: -2pp", "a share"),
        ("margins: {kl: 0}", "above 0"),
        ("margins: {kl: -0.1}", "above 0"),
        ("margins: {kl: .nan}", "above 0"),
        ("margins: {kl: .inf}", "above 0"),
        ("margins: {kl: true}", "above 0"),
        ("margins: {kl: 2%}", "above 0"),
        ("margins: {kl: null}", "above 0"),
        ("margins: {kl: 1e300}", "at most 1000"),
    ],
)
def test_read_request__wrong_value(settings: str, expected: str) -> None:
    """Wrong kinds, NaN and values out of range are refused with what would be right."""
    message = refused(f"stages:\n  - score: {{{settings}}}\n")
    key = settings.partition(":")[0]

    assert message.startswith(f"plan.yml:2: score.{key}")
    assert expected in message.partition("expected:")[2]


def test_read_request__nearest_choice() -> None:
    """A misspelt choice is told its nearest name."""
    assert "did you mean 'reference'?" in refused("stages: [{score: {legs: [referense]}}]")


@pytest.mark.parametrize("value", ["[1]", "5", "text", "null", "{a: .nan}", "{a: [.inf]}"])
def test_read_request__object_refused(value: str) -> None:
    """Template kwargs are a table of JSON values."""
    message = refused(f"stages:\n  - trajectory: {{chat_template_kwargs: {value}}}\n")

    assert message.startswith("plan.yml:2: trajectory.chat_template_kwargs")


@pytest.mark.parametrize(
    "text",
    [
        "stages: [score]\nendpoint: http://user:hunter2@h",
        "stages: [score]\nendpoint: http://h/?key=hunter2",
        "stages: [score]\napi_key_env: sk-hunter2",
    ],
)
def test_read_request__secret_not_shown(text: str) -> None:
    """A key that was pasted into the plan is refused and never printed."""
    assert "hunter2" not in refused(text)


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
        lambda x: st.one_of(
            st.lists(x, max_size=3),
            st.dictionaries(
                st.sampled_from(["stages", "score", "margins", "kl", "legs", "seed", "model"]),
                x,
                max_size=3,
            ),
        ),
        max_leaves=8,
    )
)
def test_read_request__any_value(value: object) -> None:
    """Whatever the file holds, the answer is a request or one ConfigError."""
    import yaml  # noqa: PLC0415 - only this test writes YAML

    said = "plan.yml"
    try:
        read(yaml.safe_dump(value, allow_unicode=True))
    except ConfigError as exc:
        said = str(exc)

    assert said.startswith("plan.yml")


def test_read_request__which_baselines() -> None:
    """What is meant, and how old a baseline may be, is the plan's to say and in its hash."""
    text = "stages: [score]\nmodel_identity: Qwen/Qwen3-8B\nmax_age: 7d\nstrict: true\n"
    request = read(text)
    plan = freeze(request, prompt_set(60), registry=STAGES)

    assert (request.model_identity, request.max_age_days, request.strict) == (
        "Qwen/Qwen3-8B", 7, True,
    )  # fmt: skip
    assert (plan.model_identity, plan.max_age_days, plan.strict) == ("Qwen/Qwen3-8B", 7, True)
    assert read("stages: [score]").max_age_days == 30


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("max_age: 30", "plan.yml:2: max_age: found the number 30"),
        ("max_age: 0d", "plan.yml:2: max_age: found the text '0d'"),
        ("max_age: 3651d", "1d to 3650d, as 30d"),
        ("max_age: 12h", "a number of days"),
        ("max_age: [30d]", "a number of days"),
        ("max_age: ٣d", "a number of days"),
        ("strict: yes please", "plan.yml:2: strict: found the text 'yes please'"),
        ("strict: 1", "true or false"),
        ("model_identity: 8", "plan.yml:2: model_identity"),
        (f"model_identity: {'x' * 201}", "at most 200"),
        ("max_ages: 3d", "did you mean 'max_age'"),
    ],
)
def test_read_request__which_baselines_refused(line: str, said: str) -> None:
    """A mistake in these keys names its place and what is right."""
    with pytest.raises(ConfigError) as caught:
        read(f"stages: [score]\n{line}\n")

    assert said in str(caught.value)


# --- flags


def test_with_flags() -> None:
    """Flags replace what the plan says; empty ones change nothing."""
    request = read("stages: [score, trajectory]\nmodel: m\nsuite: s\n")
    changed = with_flags(
        request, [("endpoint", "https://h:1/v1"), ("model", ""), ("suite", "t")], concurrency=4
    )

    assert (changed.endpoint, changed.model, changed.suite) == ("https://h:1/v1", "m", "t")
    assert [s.params.get("concurrency") for s in changed.stages] == [None, 4]
    assert [s.params.get("concurrency") for s in request.stages] == [None, "auto"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("endpoint", "h:8000", "--endpoint"),
        ("dialect", "llama-cpp", "--dialect"),
        ("api_key_env", "sk-1", "--api-key-env"),
        ("suite", "..", "--suite"),
        ("model", "a\x1bb", "--model"),
        ("baseline_sha256", "ab12", "--baseline-sha256: found the text 'ab12'"),
    ],
)
def test_with_flags__refused(key: str, value: str, said: str) -> None:
    """A wrong flag is named as the user typed it."""
    with pytest.raises(ConfigError) as caught:
        with_flags(read("stages: [score]"), [(key, value)])

    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("value", [0, -1, 1025])
def test_with_flags__concurrency(value: int) -> None:
    """Concurrency outside 1 to 1024 is refused."""
    with pytest.raises(ConfigError, match="--concurrency"):
        with_flags(read("stages: [score]"), [], concurrency=value)


# --- the plan


@pytest.mark.parametrize(
    ("available", "limit", "looks"),
    [
        (192, None, (96, 192)),
        (500, None, (96, 192)),
        (100, None, (96,)),
        (144, None, (96, 144)),
        (96, None, (96,)),
        (40, None, (40,)),
        (192, 64, (64, 128)),
        (64, 64, (64,)),
        (10, 1000, (10,)),
        (1, 1, (1,)),
    ],
)
def test_freeze__looks(available: int, limit: int | None, looks: tuple[int, ...]) -> None:
    """The first look is `limit`, the second at most twice that, as far as there are prompts."""
    frozen = plan(available, limit)

    assert frozen.looks == looks
    assert frozen.prompt_ids == tuple(f"p-{i}" for i in range(looks[-1]))


def test_freeze__capture_and_judged() -> None:
    """A sealed capture as baseline makes a judged plan with the same settings."""
    capture = plan(80)
    baseline = Observed(capture, {}, {}, root="ab" * 32)
    judged = freeze(Request(capture.stages), prompt_set(80), baseline, STAGES)

    assert capture.is_capture
    assert not judged.is_capture
    assert judged.baseline_root == "ab" * 32
    assert judged.settings_sha256() == capture.settings_sha256()
    assert judged.sha256 != capture.sha256


def test_freeze__unsealed_baseline() -> None:
    """Evidence without a root is no baseline: a capture would be mistaken for a judged run."""
    with pytest.raises(ConfigError, match="not sealed"):
        freeze(Request(()), prompt_set(60), Observed(plan(60), {}, {}), STAGES)


def test_freeze__judged_run_as_baseline() -> None:
    """A judged run is no baseline."""
    judged = dataclasses.replace(plan(60), baseline_root="cd" * 32)

    with pytest.raises(ConfigError, match="itself a judged run"):
        freeze(Request(()), prompt_set(60), Observed(judged, {}, {}, root="ef" * 32), STAGES)


def test_freeze__impossible_stage() -> None:
    """What a stage cannot do in this plan is refused where the stage stands."""
    registry = Stages({"score": FakeStage(impossible="needs the stage trajectory")})
    request = read_request("stages:\n  - score\n", "plan.yml", registry)

    with pytest.raises(ConfigError) as caught:
        freeze(request, prompt_set(60), registry=registry)

    assert str(caught.value) == "plan.yml:2: score: needs the stage trajectory"


def test_freeze__round_trip() -> None:
    """The plan that is stored is the plan that was frozen."""
    request = read("stages: [trajectory, {score: {drop: 2pp, margins: {agreement: 0.1}}}]")
    frozen = freeze(request, prompt_set(70), registry=STAGES)

    assert from_json(to_json(frozen)) == frozen


# --- warnings


@pytest.mark.parametrize(
    ("n", "limit", "said"),
    [
        (58, None, "cannot PASS: fewer than 59 prompts (58 in the plan)"),
        (1, None, "cannot PASS: fewer than 59 prompts (1 in the plan)"),
        (80, 40, "the first 40 prompts cannot PASS: fewer than 69"),
        (64, 32, "cannot PASS: fewer than 69 prompts (64 in the plan)"),
    ],
)
def test_warnings__few_prompts(n: int, limit: int | None, said: str) -> None:
    """A plan that cannot PASS says so before the first request."""
    (warning,) = warnings(dataclasses.replace(plan(n, limit), baseline_root="ab" * 32))

    assert warning.startswith(said)


@pytest.mark.parametrize(("n", "limit"), [(59, None), (192, None), (80, 59), (138, 69)])
def test_warnings__enough(n: int, limit: int | None) -> None:
    """Fifty-nine prompts are enough at one look, 69 where an extension shares the error rate."""
    assert warnings(dataclasses.replace(plan(n, limit), baseline_root="ab" * 32)) == ()


@pytest.mark.parametrize(
    ("n", "share"), [(FEWEST_TO_PASS, 0.05), (FEWEST_TO_PASS_TWO_LOOKS, 0.05 * 0.0147 / 0.025)]
)
def test_warnings__fewest(n: int, share: float) -> None:
    """The fewest prompts are those whose exact bound with no hit is within 5 %."""
    assert clopper_pearson_upper(0, n, 1 - share) <= 0.05
    assert clopper_pearson_upper(0, n - 1, 1 - share) > 0.05


def test_warnings__capture() -> None:
    """A capture too small to support a PASS says so while it can still be made larger."""
    (warning,) = warnings(plan(20))

    assert warning.startswith("cannot support a PASS")


@pytest.mark.parametrize(
    ("prompts", "data", "named"),
    [
        ("default", "default", []),
        ("demo", "default", []),
        ("demo", "demo", ["gsm8k.data"]),
        ("mine.jsonl", "rows.parquet", ["trajectory.prompts", "gsm8k.data"]),
    ],
)
def test_files__what_is_no_file(prompts: str, data: str, named: list[str]) -> None:
    """`demo` is a built-in set of prompts and no built-in data: there it names a file, which is
    watched like any other that the questions are in."""
    plan = f"stages: [{{trajectory: {{prompts: {prompts}}}}}, {{gsm8k: {{data: {data}}}}}]"

    assert [key for key, _ in files(read_request(plan, "plan.yml"))] == named
