"""Raw lists are told from those that a sampler has altered, also where the model is certain."""

from __future__ import annotations

import numpy as np
import pytest
from sampler_world import _drawn

from iqaction.calls import Arm, Drawn, Observation, Tag
from iqaction.stages._sampling_ask import other_temperature
from iqaction.stages._sampling_raw import why_not_raw

K = 20
Pairs = dict[str, tuple[np.ndarray, np.ndarray]]


def normal(logs: np.ndarray) -> np.ndarray:
    return logs - np.log(np.exp(logs - logs.max()).sum()) - logs.max()


def favoured(gap: float, step: float = 0.05) -> np.ndarray:
    """A first token, and the others ``gap`` nats below it."""
    logs = -gap - np.arange(K) * step
    logs[0] = 0.0
    return normal(logs)


def listed(logs: np.ndarray) -> Drawn:
    rows = logs[None].astype(np.float32)
    return _drawn(rows, np.arange(len(logs))[None], np.zeros(1, int), rows[:, 0], (1,), len(logs))


def why(pairs: Pairs, first: str = "p-0") -> str:
    kept = {}
    for unit, lists in pairs.items():
        for leg, logs in zip(("raw", "raw-other"), lists, strict=True):
            tag = Tag(Arm.CANDIDATE, leg, unit)
            kept[tag] = Observation(tag, "", listed(logs))
    return why_not_raw(kept, Arm.CANDIDATE, (first, *(u for u in pairs if u != first)))


def divided(logs: np.ndarray, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    return normal(logs / temperature), normal(logs / other_temperature(temperature))


@pytest.mark.parametrize("temperature", [0.05, 0.6, 0.8, 1.0, 2.0])
@pytest.mark.parametrize("gap", [0.1, 1, 6, 8, 9, 10, 12, 14, 16, 18, 25])
def test_why_not_raw__divided(temperature, gap):
    """A list divided by the temperature never counts as raw, however certain its first token."""
    assert why({"p-0": divided(favoured(gap), temperature)})


@pytest.mark.parametrize("gap", [1, 6, 9, 12, 18, 25])
def test_why_not_raw__noise(gap):
    """Raw lists that differ by a batch's noise, larger for what is unlikely, are raw."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        logs = favoured(gap)
        noise = rng.normal(0, np.where(logs > -8, 0.02, 0.02 * -logs / 2))
        assert why({"p-0": (logs, logs + noise)}) == ""


@pytest.mark.parametrize(
    "logs",
    [
        np.zeros(1),
        np.array([-1e-6, *[-9999.0] * (K - 1)]),
        np.array([-1e-6, *[-np.inf] * (K - 1)]),
        normal(np.zeros(K)),
    ],
)
def test_why_not_raw__nothing_to_tell(logs):
    """A list of one token, or one without a difference, is the same at any temperature."""
    found = why({"p-0": (logs, logs)})

    assert "not known" in found


def test_why_not_raw__several_prompts():
    """A prompt that tells makes up for a first one that does not; one that differs decides."""
    nothing, raw = (np.zeros(1), np.zeros(1)), (favoured(3), favoured(3))
    altered = divided(favoured(3), 1.0)

    assert why({"p-0": nothing, "p-1": raw}) == ""
    assert "not raw" in why({"p-0": raw, "p-1": altered})
    assert "not known" in why({"p-1": raw})
