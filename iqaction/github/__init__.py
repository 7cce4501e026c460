"""Everything that talks to GitHub, and nothing else does. Knows reports' effects, no engine.

What GitHub answers, and what an event's payload says, was written by strangers: it is read through
:mod:`iqaction.github._reading`, which hands out text only where it fits a strict pattern. A request
that fails raises :class:`iqaction.errors.GithubError`; that is a warning to whoever publishes, and
"unknown" to whoever decides. It is never "nothing changed", and never a verdict.
"""
