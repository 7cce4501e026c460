"""The action's steps, found by file name: each has ``run(job) -> int``, the step's exit status."""
