"""What `iqaction --version` costs, against a Python that does nothing.

    python benchmarks/startup.py [--runs 40]

Prints the medians of the installed console script, of `python -m iqaction` and of
`python -c pass`, run in turns so that a slow minute hits all alike; then what else starts how
fast, and whether importing the package pulls in anything heavy. Exit status 1 where the console
script takes more than twice the time of a bare Python, or an import is heavy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
GOAL = 2.0  # times a bare Python
HEAVY = ("numpy", "scipy", "requests", "urllib3", "yaml", "jsonschema", "argparse", "typing", "re")
# What installers write for `iqaction = "iqaction.__main__:main"` (pip 25, uv 0.9).
SCRIPT = """#!{python}
import sys
from iqaction.__main__ import main
if __name__ == "__main__":
    sys.argv[0] = sys.argv[0].removesuffix(".exe")
    sys.exit(main())
"""


def console_script(folder: Path) -> tuple[str, str]:
    """The installed script, else the same script written here; and which of the two it is."""
    installed = Path(sys.executable).with_name("iqaction")
    if installed.is_file():
        return str(installed), "installed"
    script = folder / "iqaction"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    return str(script), "written here as installers do"


def environment() -> dict[str, str]:
    """Ours, with this checkout importable and bytecode written as an installer would."""
    return {
        **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPATH": str(ROOT),
    }


def once(command: list[str], env: dict[str, str]) -> float:
    """Wall time of one start, in seconds."""
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=env)
    return time.perf_counter() - begun


def medians(commands: dict[str, list[str]], runs: int, env: dict[str, str]) -> dict[str, float]:
    """Median milliseconds by name, the commands run in turns after one warm-up each."""
    for command in commands.values():
        once(command, env)
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            times[name].append(once(command, env) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def heavy_imports(env: dict[str, str]) -> list[str]:
    """Which heavy modules `import iqaction` brings, beyond what a bare Python has loaded."""

    def loaded(code: str) -> set[str]:
        code += "; import sys; print(*sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
        )
        return {name.partition(".")[0] for name in done.stdout.split()}

    return sorted((loaded("import iqaction") - loaded("pass")) & set(HEAVY))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=40)
    runs = parser.parse_args().runs
    env = environment()
    folder = Path(tempfile.mkdtemp())
    try:
        script, which = console_script(folder)
        bare = "python -c pass"
        found = medians(
            {
                bare: [sys.executable, "-c", "pass"],
                "iqaction --version": [script, "--version"],
                "python -m iqaction --version": [sys.executable, "-m", "iqaction", "--version"],
                "iqaction --help": [script, "--help"],
                "import iqaction": [sys.executable, "-c", "import iqaction"],
            },
            runs,
            env,
        )
    finally:
        shutil.rmtree(folder)
    print(f"median of {runs}, console script {which}, Python {sys.version.split()[0]}")
    for name, value in found.items():
        print(f"{name:30} {value:7.1f} ms  {value / found[bare]:5.2f} x")
    ratio = found["iqaction --version"] / found[bare]
    heavy = heavy_imports(env)
    print(
        f"goal: --version at most {GOAL} x: {'met' if ratio <= GOAL else 'MISSED'} ({ratio:.2f} x)"
    )
    print(f"heavy modules of `import iqaction`: {', '.join(heavy) or 'none'}")
    return 0 if ratio <= GOAL and not heavy else 1


if __name__ == "__main__":
    sys.exit(main())
