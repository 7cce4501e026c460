"""The one way into the action: ``python -I -B .../iqaction/_entry STEP``.

The step runs in the user's checkout, which may hold a pull request's ``requests.py``. With ``-I``
Python reads neither the working directory nor PYTHONPATH nor the user's packages; this file then
puts the action's own code in front of the environment, which holds dependencies only.

It must parse on Python 3.6, to say there that a newer one is needed.
"""

import os
import signal
import sys

# The action's folder is shared by all jobs of a runner and may be read-only. `-B` says so too, for
# this very file, which Python would otherwise compile there before its first line runs.
sys.dont_write_bytecode = True

OLDEST = (3, 10)
NOT_RUN, CONFIGURATION, INTERNAL = 3, 4, 70


def main(arguments: "list[str]") -> int:
    """Run one step; the exit status is the step's."""
    if sys.version_info < OLDEST:
        return refuse(
            NOT_RUN,
            f"Python >= {OLDEST[0]}.{OLDEST[1]} is needed, found {sys.version.split()[0]}"
            f" ({sys.executable}); set the input `python`",
        )
    if not sys.flags.isolated:  # what the workspace holds may have run already
        return refuse(INTERNAL, "the action's steps run under `python -I`")
    # A runner that was started in the background ignores it, and so would a step that is cancelled.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if len(arguments) != 1:
        return refuse(CONFIGURATION, f"one step is expected, found {len(arguments)}")
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    sys.path[:] = [root] + [p for p in sys.path if os.path.abspath(p) != here]
    if arguments[0] == "setup":
        from iqaction.action.bootstrap import main as setup  # noqa: PLC0415 - the path was unknown

        return setup()
    from iqaction.action import main as step  # noqa: PLC0415

    return step(arguments[0])


def refuse(status: int, reason: str) -> int:
    """Say why no step runs, as an annotation of the job."""
    reason = reason.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    sys.stdout.write("::error title=inferquality::" + reason + "\n")
    sys.stdout.flush()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
