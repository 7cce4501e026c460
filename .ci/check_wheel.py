"""Fails where the installed wheel lacks what the checkout has. Usage: check_wheel.py ROOT WHEEL"""

from __future__ import annotations

import sys
from pathlib import Path

import iqaction


def main(root: Path, wheel: Path) -> int:
    """Compare the package, its data and its schemas file by file; 1 where one is missing."""
    assert Path(iqaction.__file__).is_relative_to(wheel), f"{iqaction.__file__} is not the wheel"
    wanted = {
        path.relative_to(root): path
        for path in (root / "iqaction").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for path in (root / "schemas").glob("*.json"):
        wanted[Path("iqaction", "schemas", path.name)] = path
    missing = [
        str(name)
        for name, path in sorted(wanted.items())
        if not (wheel / name).is_file() or (wheel / name).read_bytes() != path.read_bytes()
    ]
    kinds = {suffix: sum(n.suffix == suffix for n in wanted) for suffix in (".py", ".json", ".yml")}
    print(f"{len(wanted)} files {kinds}, {len(missing)} missing or different")
    for name in missing:
        print(f"  {name}")
    return int(bool(missing) or not kinds[".json"])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
