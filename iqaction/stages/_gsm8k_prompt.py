"""How a problem of `gsm8k` is put to a model: zero-shot, thinking aloud. Pure text.

A wording is never changed, only added to: the plan names the one that was asked, both arms must
have the same, and old evidence is judged against the words that were sent then.
"""

from __future__ import annotations

from iqaction.calls import Message

WORDINGS = {
    "v1": (
        "{question}\n\nSolve this step by step. Then give the answer on a last line of its own, "
        "in the form `#### number`: a plain number, without units or words."
    ),
}


def messages(wording: str, question: str) -> tuple[Message, ...]:
    """The one user message that is sent; there is no system message, so the model's own stays."""
    return (Message("user", WORDINGS[wording].replace("{question}", question)),)
