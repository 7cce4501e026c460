"""One item of a stage that has questions of its own, whole: for a person who looks it up. Data."""

from __future__ import annotations

from dataclasses import dataclass

from iqaction.calls import Failure, Generation, Message
from iqaction.stages._paired_items import Graded


@dataclass(frozen=True)
class Side:
    """One arm's answer, and how it was read; ``answer`` None where it was not asked."""

    name: str
    answer: Generation | Failure | None
    graded: Graded


@dataclass(frozen=True)
class Unit:
    """What a stage calls one of its items.

    Attributes
    ----------
    about
        What it is, as "a problem of gsm8k".
    right
        The right answer as it is compared.
    """

    id: str
    stage: str
    about: str
    messages: tuple[Message, ...]
    right: str
    sides: tuple[Side, ...]
    template_kwargs: str = ""
