"""The endpoint's API key and model, as the inputs name them."""

from __future__ import annotations

from iqaction.action.job import Job
from iqaction.action.settings import AUTO, Settings
from iqaction.errors import ConfigError


def api_key(job: Job, settings: Settings) -> str:
    """The key; "" where none is named.

    Raises
    ------
    ConfigError
        The variable that is named is not there.
    """
    if not settings.api_key_env:
        return ""
    key = job.environ.get(settings.api_key_env, "")
    if not key:
        raise ConfigError(
            f"api_key_env: the environment variable {settings.api_key_env} is not set",
            expected="`env:` of the job with that variable, from a secret",
        )
    job.log.mask(key)
    return key


def model(settings: Settings) -> str:
    """The model's name; "" for the one that is served."""
    return "" if settings.model.lower() == AUTO else settings.model
