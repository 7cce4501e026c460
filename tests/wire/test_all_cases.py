"""The table of the cases: every one is checked by one check, none is left out."""

from __future__ import annotations

from collections import Counter

import pytest
from wire import test_cases, test_cases_errors, test_cases_judged
from wire.cases import CASES, CHECKS, of

TOPICS = {
    "gsm8k": 24, "errors": 16, "prompt-logprobs": 13, "tokenize": 10, "reasoning": 9,
    "sampling": 8, "logprob-cap": 7, "token-strings": 6, "greedy-determinism": 6,
    "logprob-values": 5, "readiness": 4, "spec-decode": 3, "top-order": 3, "token-ids": 3,
    "count-mismatch": 3, "server-info": 3, "chosen-missing": 2, "shape": 2, "unknown-fields": 1,
    "logprobs-absent": 1, "logprobs-shape": 1, "n>1": 1,
}  # fmt: skip


def test_cases__every_one_is_checked() -> None:
    """All 131 cases of all 22 topics have a check, and no check is without a case."""
    checked = Counter(CASES[name]["topic"] for name in CHECKS)

    assert set(CHECKS) == set(CASES)
    assert dict(checked) == TOPICS
    assert (sum(checked.values()), len(checked)) == (131, 22)


@pytest.mark.parametrize("module", [test_cases, test_cases_errors, test_cases_judged])
def test_cases__a_module_runs_its_own(module: object) -> None:
    """Each module's test is run for every case that its checks are of."""
    (mark,) = module.test_case.pytestmark  # type: ignore[attr-defined]

    assert mark.args == ("name", of(module.__name__))  # type: ignore[attr-defined]
