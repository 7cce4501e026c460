"""The inputs are read once; a mistake is named, a secret in the wrong input is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.action import keys, settings
from iqaction.action.settings import Settings
from iqaction.errors import ConfigError
from iqaction.stages import _levels

URL = "http://127.0.0.1:8000/v1"
CANARY = "sk-canary-0123456789"


def read(**inputs: str) -> Settings:
    if "mode" not in inputs and "boot" not in inputs:
        inputs = {"endpoint": URL, **inputs}
    return settings.read(inputs)


def refused(**inputs: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(**inputs)
    return str(caught.value)


def test_read__all():
    """Every input in its place."""
    found = settings.read(
        {
            "stages": "\n- trajectory: {}\n",
            "endpoint": f" {URL} ",
            "model": " qwen ",
            "dialect": "VLLM",
            "baseline": ".inferquality/baseline",
            "baseline_sha256": "A1" * 32,
            "launches": "7",
            "reference_endpoint": "http://127.0.0.1:8001",
            "reference_model": "qwen-bf16",
            "boot": "compose",
            "stop_command": "true",
            "compose_file": "compose.yml",
            "compose_env": "A=1\n\n# a comment\n  B=x=y\n",
            "ready_timeout": "2h",
            "paths": "compose.yml\nserve/**\n",
            "suite": "qwen27b-dual",
            "on_unproven": "warn",
            "allow_forks": "True",
            "api_key_env": "MY_KEY",
            "comment": "false",
            "check_run": "off",
            "artifact": "0",
            "shard": "2/4",
        }
    )

    assert found == Settings(
        stages="- trajectory: {}",
        endpoint=URL,
        model="qwen",
        dialect="vllm",
        baseline=".inferquality/baseline",
        baseline_sha256="A1" * 32,
        launches=7,
        reference_endpoint="http://127.0.0.1:8001",
        reference_model="qwen-bf16",
        boot="compose",
        stop_command="true",
        compose_file="compose.yml",
        compose_env={"A": "1", "B": "x=y"},
        ready_timeout_s=7200.0,
        paths=("compose.yml", "serve/**"),
        suite="qwen27b-dual",
        warn_unproven=True,
        allow_forks=True,
        api_key_env="MY_KEY",
        comment=False,
        check_run=False,
        artifact=False,
        shard=2,
        shards=4,
    )


def test_read__nothing_but_an_endpoint():
    """Empty inputs mean the defaults, as GitHub gives them."""
    empty = dict.fromkeys(("mode", "suite", "on_unproven", "comment", "ready_timeout", "shard"), "")

    assert read(**empty, endpoint=URL) == Settings(endpoint=URL)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("20m", 1200), ("24h", 86400), ("1S", 1)]
)
def test_read__durations(text, seconds):
    """A number of seconds, minutes or hours."""
    assert read(ready_timeout=text).ready_timeout_s == seconds


@pytest.mark.parametrize(
    "text", ["0", "0m", "25h", "-1", "1.5h", "1d", "20 m", "m", "٣", "1e3", "9999999s", "inf"]
)
def test_read__durations_refused(text):
    """Never, for ever, and what is no time."""
    assert "ready_timeout" in refused(ready_timeout=text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mode", "runn"),
        ("dialect", "vlm"),
        ("boot", "docker"),
        ("on_unproven", "pass"),
        ("allow_forks", "maybe"),
        ("comment", "ja"),
        ("check_run", "2"),
        ("artifact", "tru"),
        ("suite", "a b"),
        ("suite", "../x"),
        ("suite", "-x"),
        ("suite", "x" * 65),
        ("suite", "x\ny"),
        ("api_key_env", "A-B"),
        ("baseline", "https://me:key@reference.example/v1"),
        ("baseline", "ftp://reference.example"),
        ("baseline_sha256", "abc"),
        ("launches", "2"),
        ("launches", "51"),
        ("launches", "five"),
        ("launches", "-3"),
        ("shard", "5/4"),
        ("shard", "0/0"),
        ("paths", "./src"),
        ("paths", "- src/**"),
        ("endpoint", "http://x\0"),
    ],
)
def test_read__refused(name, text):
    """A mistake is named by its input; nothing is taken for something like it."""
    assert name in refused(**{"endpoint": URL, name: text})


@pytest.mark.parametrize("text", [CANARY, f"A={CANARY}", f"{CANARY} ", f"X Y={CANARY}"])
@pytest.mark.parametrize("name", ["api_key_env", "compose_env"])
def test_read__a_key_in_the_wrong_place_is_not_shown(name, text):
    """Whoever pastes the key itself does not find it in the log."""
    if name == "compose_env" and text.startswith("A="):
        assert CANARY not in repr(read(compose_env=text))
        return

    assert CANARY not in refused(**{name: text})


def test_repr__holds_no_secret():
    """What may hold keys is not printed with the settings."""
    held = read(
        boot="command",
        boot_command=f"serve --api-key {CANARY}",
        stop_command=f"stop {CANARY}",
        endpoint=URL,
    )

    assert CANARY not in repr(held)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"boot": "none"}, "no endpoint"),
        ({"stages": "- score", "plan": "plan.yml", "endpoint": URL}, "both `stages` and `plan`"),
        ({"boot": "command", "endpoint": URL}, "boot: command needs"),
        ({"boot": "command", "boot_command": "x"}, "boot: command needs"),
        ({"boot": "compose"}, "boot: compose needs"),
        ({"endpoint": URL, "boot_command": "x"}, "boot is not `command`"),
        ({"endpoint": URL, "compose_file": "c.yml"}, "boot is not `compose`"),
        (
            {"mode": "report", "artifacts_path": "x", "suite": "s", "shard": "1/2"},
            "`shard` belongs",
        ),
        ({"mode": "report"}, "mode: report needs `artifacts_path`"),
        ({"mode": "publish"}, "mode: publish needs `artifacts_path`"),
        ({"mode": "report", "artifacts_path": "x"}, "does not say what it reports on"),
        ({"endpoint": URL, "baseline_sha256": "a" * 64}, "`baseline` names none"),
        ({"mode": "capture"}, "no endpoint"),
        ({"mode": "capture", "boot": "compose"}, "boot: compose needs"),
        ({"mode": "capture", "endpoint": URL, "shard": "1/2"}, "`shard` belongs"),
        ({"mode": "capture", "endpoint": URL, "baseline": "b"}, "`baseline` names one"),
    ],
)
def test_read__impossible_together(inputs, said):
    """Inputs that are right one by one and mean nothing together are a mistake."""
    with pytest.raises(ConfigError, match=said):
        settings.read(inputs)


@pytest.mark.parametrize("text", ["", "auto", "AUTO", " auto "])
def test_read__baseline_is_looked_for(text):
    """Without a name, and by that word, the baseline is looked for."""
    found = read(baseline=text)

    assert (found.baseline, found.named_baseline) == ("auto", "")
    assert read(baseline="a/b").named_baseline == "a/b"


def test_launches__as_the_stages_count_them():
    """What the stages call enough, and too few, is what the input takes."""
    assert settings.FEWEST_LAUNCHES == _levels.FEWEST_LAUNCHES
    assert settings.ENOUGH_LAUNCHES == _levels.ENOUGH_LAUNCHES == read().launches


def test_read__legs():
    """Names of artifacts, by blanks, commas or lines, each once."""
    found = read(mode="report", artifacts_path="x", legs="a, b\nc a")

    assert found.legs == ("a", "b", "c")


@pytest.mark.parametrize("text", ["auto", "Auto", "", " auto "])
def test_model__the_one_that_is_served(text):
    """Without a name, the server is asked which model it has."""
    assert keys.model(read(model=text)) == ""


@given(st.dictionaries(st.sampled_from(sorted(Settings.__dataclass_fields__)), st.text()))
def test_read__any_text(inputs):
    """Whatever the inputs hold: settings, or a mistake that is named."""
    try:
        found = settings.read(inputs)
    except ConfigError:
        return
    assert isinstance(found, Settings)
