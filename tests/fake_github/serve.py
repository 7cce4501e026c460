"""The stand-in as a process of its own: python tests/fake_github/serve.py --port N [--base /api/v3]

Prints its GITHUB_API_URL and serves until it is ended. GET /_fake/state tells what happened;
POST /_fake/<faults|files|comments|contents|compares|artifacts|runs|pulls|commit_pulls|app|
repository> sets a part, POST /_fake/reset all of it. Tokens: ghs_rw, ghs_ro (read-only), ghp_pat.
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the parts are `fake_github.*`

from fake_github.fake import FakeGithub


def main() -> int:
    """Serve until ended."""
    parser = argparse.ArgumentParser(description="A stand-in for GitHub's API on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--base", default="")
    given = parser.parse_args()
    with FakeGithub(given.base, given.port) as fake:
        print(fake.url, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
