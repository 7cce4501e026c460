"""``iqaction demo``: the whole of it on this machine, with a real engine, in five minutes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from iqaction.commands import _folders
from iqaction.commands._console import Console
from iqaction.errors import ConfigError

ORDER = 9
SUMMARY = "see it work: a real llama.cpp server, one healthy and one damaged model"
DESCRIPTION = """\
Starts real llama.cpp servers on this machine, captures a reference (F16 weights of a small
model) and judges two candidates: the same weights again, which must PASS, and a 4-bit
quantization, which must FAIL. Takes about five minutes on two cores and needs the extra `demo`.
The weights are fetched once, hash-checked, and kept in a cache; --weights needs no network.

DIR then holds reference/, healthy/ and degraded/, each an evidence folder, and demo.json.

Exit status 0: the healthy one is PASS and the degraded one is FAIL."""
EXAMPLES = """\
  pip install '.[demo]' && iqaction demo    # in a clone of the project
  iqaction demo --weights smollm2-135m-f16.gguf --out /tmp/demo
  # stopped on the way? The same command goes on
  iqaction demo --out /tmp/demo"""


def flags(parser: argparse.ArgumentParser) -> None:
    """Where to, from which weights."""
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("inferquality-demo"),
        help="folder for the three evidence folders; default: ./inferquality-demo",
    )
    parser.add_argument(
        "--weights", metavar="PATH", type=Path, help="the model (GGUF, or its wheel): no network"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="judge and show the finished demo that is in DIR once more",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the demo; 0 where it shows what it must."""
    if args.weights is not None and not args.weights.is_file():
        raise ConfigError(f"--weights: {args.weights} is no file", expected="a GGUF file")
    out = _folders.to_write(args.out, "--out")
    from iqaction import demo  # noqa: PLC0415 - numpy and an engine are not for `--help`

    def show(text: str) -> None:
        if not console.json:
            console.page(text.rstrip("\n") + "\n")

    status = demo.main(out, args.weights, console.progress(), args.keep, show)
    if console.json:
        body = json.loads((out / "demo.json").read_text(encoding="utf-8"))
        console.object({**body, "exit_code": status})
    return status
