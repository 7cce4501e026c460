"""What a started program may see of our environment. Pure.

The booted server runs the pull request's code. The job's tokens and the files by which a step
talks to the runner are not its business; RUNNER_TRACKING_ID stays, by which the runner finds and
ends at the job's end whatever we failed to.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

_DROPPED = (
    *("GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"),
    *("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"),
    *("ACTIONS_*TOKEN*", "ACTIONS_RUNTIME_*", "ACTIONS_ID_TOKEN_*", "ACTIONS_RESULTS_URL"),
    *("ACTIONS_CACHE_URL", "INPUT_*", "IQ_*"),
)
_BARE = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "XDG_RUNTIME_DIR"),
        *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "RUNNER_TRACKING_ID"),
    }
)


def scrubbed(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a started program inherits; names are compared without case."""
    return {name: value for name, value in environ.items() if not _is_ours(name.upper())}


def bare(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for a stop command that an earlier job has left: what a program needs to run
    at all, and no secret of the job that now runs it."""
    return {name: value for name, value in environ.items() if name in _BARE}


def _is_ours(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _DROPPED)
