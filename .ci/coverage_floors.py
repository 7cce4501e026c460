"""Fails where a package is tested less than its floor. Usage: coverage_floors.py coverage.json"""

from __future__ import annotations

import json
import sys
from pathlib import Path

# Lines and branches together, in percent. What decides a verdict is tested whole.
FLOORS = {"verdict": 100, "stats": 100} | dict.fromkeys(
    (
        *("anchor", "attribution", "calls", "changes", "comparing", "comparing_html"),
        *("comparing_view", "compatibility", "document", "engines", "errors", "evidence"),
        *("fingerprints", "inputs", "judgement", "observed", "plan", "prompts", "report", "rows"),
        *("soundness", "spelling", "stages", "surfaces", "terminal", "top_keys", "values"),
    ),
    95,
)


def main(path: str) -> int:
    """Print one line a package; 1 where any is below its floor or has no figures at all."""
    files = json.loads(Path(path).read_text(encoding="utf-8"))["files"]
    total: dict[str, list[int]] = {name: [0, 0] for name in FLOORS}
    gaps: dict[str, list[str]] = {name: [] for name in FLOORS}
    for file, figures in sorted(files.items()):
        parts = Path(file).parts
        home = parts[parts.index("iqaction") + 1].removesuffix(".py")
        if home not in FLOORS:
            continue
        summary = figures["summary"]
        total[home][0] += summary["covered_lines"] + summary["covered_branches"]
        total[home][1] += summary["num_statements"] + summary["num_branches"]
        lines = [str(n) for n in figures["missing_lines"]]
        lines += [f"{a}->{b}" for a, b in figures["missing_branches"]]
        if lines:
            gaps[home].append(f"    {file}: {', '.join(lines)}")
    failed = False
    for home, floor in FLOORS.items():
        covered, of = total[home]
        share = 100 * covered / of if of else 0.0
        below = share < floor
        failed |= below
        print(f"{'BELOW' if below else 'ok':5} {home:10} {share:6.2f} % (floor {floor} %)")
        if below:
            print("\n".join(gaps[home]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
