"""A job's boot step as a process of its own: ``boot_once.py JSON`` boots, says so, and ends.

Ctrl-C and SIGTERM are handled as the command line does. Exit status: 0 booted, 3 not, 130 stopped.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

sys.path[:0] = json.loads(sys.argv[1])["path"]

# Only now is the checkout on the path.
from unit.boot.factory import asks  # noqa: E402

from iqaction.boot._base import Owner, Spec, World  # noqa: E402
from iqaction.boot.booting import boot  # noqa: E402
from iqaction.errors import IqError  # noqa: E402


def terminated(number, frame):
    raise KeyboardInterrupt


def say(line):
    print(line, flush=True)


def main():
    signal.signal(signal.SIGTERM, terminated)
    given = json.loads(sys.argv[1])
    spec = Spec(
        mode=given["mode"],
        endpoint=given["endpoint"],
        ready_timeout_s=given["ready_timeout_s"],
        cwd=Path(given["cwd"]),
        work=Path(given["work"]),
        leases=Path(given["leases"]),
        owner=Owner(*given["owner"]),
        command=given["command"],
        stop_command=given["stop_command"],
        compose_file=Path(given["compose_file"]) if given["compose_file"] else None,
    )
    try:
        booted = boot(spec, asks, say=say, world=World(dict(os.environ)))
    except IqError as exc:
        say(f"not booted: {exc}")
        return 3
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    say(f"booted {booted.lease}")
    return 0


sys.exit(main())
