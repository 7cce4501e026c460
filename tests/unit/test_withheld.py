"""What is a secret by its name."""

from __future__ import annotations

import pytest

from iqaction.withheld import of_environment


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "OPENAI_API_KEY", "db_password", "MYSQL_PWD", "REGISTRY_SECRET", "KEY_2",
     "PGPASSWD", "AWS_CREDENTIALS", "SENTRY_DSN", "SSH_PASSPHRASE"],
)  # fmt: skip
def test_of_environment(name: str) -> None:
    """A name that ends as a secret's hides its value."""
    assert of_environment({name: "canary-0123"}) == ("canary-0123",)


@pytest.mark.parametrize(
    ("name", "value"),
    [("PWD", "/srv/runner/work"), ("OLDPWD", "/srv/runner"),
     ("TOKENIZERS_PARALLELISM", "disabled"),
     ("SSH_AUTH_SOCK", "/tmp/ssh-0123"), ("MAX_TOKENS", "40961024"), ("USE_TOKEN", "true"),
     ("KEYBOARD", "standard-105"), ("MODEL", "Qwen/Qwen3-8B"), ("HF_TOKEN", "")],
)  # fmt: skip
def test_of_environment__no_secret(name: str, value: str) -> None:
    """What only sounds like one, or is so short that it is in other words, stays to be read."""
    assert of_environment({name: value}) == ()


def test_of_environment__addresses() -> None:
    """Whatever a variable is called, who is named before a host is hidden."""
    assert of_environment({"PROXY": "http://ann:canary@host:1"}) == ("ann:canary",)
