"""What a started program may see."""

from __future__ import annotations

from iqaction.boot.environment import bare, scrubbed

SECRET = [
    *("GITHUB_TOKEN", "GH_TOKEN", "github_token", "GH_ENTERPRISE_TOKEN"),
    *("ACTIONS_RUNTIME_TOKEN", "ACTIONS_RUNTIME_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"),
    *("ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_CACHE_URL", "ACTIONS_RESULTS_URL"),
    *("INPUT_GITHUB-TOKEN", "IQ_WORK", "IQ_LEASE", "GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH"),
    *("GITHUB_STATE", "GITHUB_STEP_SUMMARY"),
]
KEPT = [
    *("PATH", "HOME", "RUNNER_TRACKING_ID", "HF_TOKEN", "CUDA_VISIBLE_DEVICES", "DOCKER_HOST"),
    *("GITHUB_WORKSPACE", "GITHUB_SHA", "ACTIONS_RUNNER_HOOK_JOB_STARTED"),
]


def test_scrubbed():
    """The job's tokens and the step's files go; what the server needs stays."""
    assert list(scrubbed(dict.fromkeys([*SECRET, *KEPT], "x"))) == KEPT


def test_bare():
    """What an earlier job left to be run sees no secret of this job, whatever its name."""
    given = dict.fromkeys([*SECRET, *KEPT, "MY_PRIVATE_NOTE"], "x")

    assert list(bare(given)) == ["PATH", "HOME", "RUNNER_TRACKING_ID", "DOCKER_HOST"]
