"""Folders that a command is given. I/O: looks whether they are there."""

from __future__ import annotations

import argparse
from pathlib import Path

from iqaction.errors import ConfigError
from iqaction.spelling import FILES, nearest


def add(parser: argparse.ArgumentParser) -> None:
    """The argument DIR: an evidence folder."""
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="an evidence folder, as `run --evidence` wrote it"
    )


def existing(folder: Path, name: str = "DIR") -> Path:
    """``folder``, where it is one; ``name`` is what the command's help calls it.

    Raises
    ------
    ConfigError
        It is not there, or is no folder.
    """
    if folder.is_dir():
        return folder
    what = (
        "no folder"
        if folder.exists()
        else "not there" + nearest(folder.name, _beside(folder), FILES)
    )
    packed = folder.is_file() and folder.name.endswith((".tar.gz", ".tgz"))
    raise ConfigError(
        f"{name}: {folder} is {what}",
        expected="an evidence folder, as `iqaction run --evidence DIR` writes it",
        next_step=f"a packed baseline is shown by `iqaction baseline show {folder}`; the folder "
        f"that it was made from is {folder}.evidence"
        if packed
        else "",
    )


def to_write(folder: Path, flag: str) -> Path:
    """``folder``, where it is one or can become one. Raises ConfigError where a file is there."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{flag}: {folder} is no folder", expected="a folder, new or begun")
    return folder


def _beside(folder: Path) -> list[str]:
    try:
        return [p.name for p, _ in zip(folder.parent.iterdir(), range(1000), strict=False)]
    except OSError:
        return []


def baseline(parser: argparse.ArgumentParser) -> None:
    """The argument PATH: a baseline."""
    parser.add_argument(
        "path", metavar="PATH", type=Path, help="a baseline: the folder of a capture, or a .tar.gz"
    )


def packed_or_folder(path: Path) -> Path:
    """``path``, where something is there. Raises ConfigError else."""
    if path.exists():
        return path
    raise ConfigError(
        f"PATH: {path} is not there{nearest(path.name, _beside(path), FILES)}",
        expected="a baseline, as `iqaction baseline capture --out PATH` makes it",
    )
