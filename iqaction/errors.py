"""The errors a user can meet, as one tree. Knows nothing else of the package.

::

    IqError                 something a person can act on; never shown as a traceback
    ├── ConfigError         the plan, a prompt file or a flag is wrong          (exit 4)
    ├── EvidenceError       an evidence folder is unreadable, altered or in use (exit 3)
    ├── EngineError         an endpoint cannot be used at all                   (exit 3)
    │   └── EndpointLost    it stopped answering in mid-run
    ├── BootError           an endpoint that we start did not come up           (NOT RUN)
    └── GithubError         GitHub did not do what it was asked                 (a warning)

A single failed request is not an error but an answer: see :class:`iqaction.calls.Failure`.
"""

from __future__ import annotations


class IqError(Exception):
    """What happened, what was expected, and what to do next.

    Parameters
    ----------
    happened
        What was found, with the place (file, line, key) where there is one.
    expected
        What would have been right. May be empty.
    next_step
        What the reader should do now. May be empty.
    """

    def __init__(self, happened: str, *, expected: str = "", next_step: str = "") -> None:
        self.happened = happened
        self.expected = expected
        self.next_step = next_step
        super().__init__(happened)

    def __str__(self) -> str:
        lines = [self.happened]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.next_step:
            lines.append(f"  next:     {self.next_step}")
        return "\n".join(lines)


class ConfigError(IqError):
    """The user's plan, prompts or flags cannot be used. Nothing was sent."""


class EvidenceError(IqError):
    """An evidence folder is malformed, altered, locked or cannot be written."""


class EngineError(IqError):
    """An endpoint is unreachable, or cannot do what the plan needs of it."""


class EndpointLost(EngineError):
    """An endpoint that answered before stopped: so many requests in a row failed."""


class BootError(IqError):
    """The endpoint that the action was to start did not answer before its deadline."""


class GithubError(IqError):
    """GitHub refused, failed or did not answer in time. Never a verdict: evidence stays valid.

    ``status`` is the HTTP status, 0 where there was no answer.
    """

    def __init__(
        self, happened: str, *, expected: str = "", next_step: str = "", status: int = 0
    ) -> None:
        self.status = status
        super().__init__(happened, expected=expected, next_step=next_step)
