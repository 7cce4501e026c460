"""A captured baseline as one file, ``.tar.gz``, and back. I/O.

The same evidence packs to the same bytes: names sorted, no times, no owners. What comes back is
believed no more than any archive: it is unpacked as plain files within bounds, and only where
its files are exactly those that its manifest lists. Knows no statistics and no plan.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from iqaction.archives import BOUNDS, CHUNK, Bounds, Names, Refused, Unpacking, Written, unpacking
from iqaction.errors import EvidenceError
from iqaction.evidence import canon, manifest
from iqaction.evidence.manifest import Stored
from iqaction.evidence.store import take_lock
from iqaction.evidence.tree import MAX_EVIDENCE, MAX_JSON, Tree, explain
from iqaction.evidence.tree import digest as read_digest

SUFFIXES = (".tar.gz", ".tgz")
_LEVEL = 9  # the observations are packed already: this costs no time
_MODE = 0o644
_BLOCK = tarfile.BLOCKSIZE
_EXTENDED = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_MOST_PADDING = 1 << 20  # zero bytes behind the last file; other tars round up to 10 KiB
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def is_bundle(path: Path) -> bool:
    """True where the name says that this is a packed baseline; looks at no file."""
    return path.name.lower().endswith(SUFFIXES)


def root_of(folder: Path) -> str:
    """The evidence root of a sealed folder: the sha256 of its manifest.

    Raises
    ------
    EvidenceError
        There is none.
    """
    tree = Tree(folder)
    if not folder.is_dir() or not tree.has(manifest.NAME):
        raise EvidenceError(
            f"{folder} is no sealed evidence folder: it has no {manifest.NAME}",
            expected="the folder of a capture that has finished, or the file it was packed into",
            next_step="let the capture finish: run its command again",
        )
    return canon.identify(tree.read(manifest.NAME))


def pack(folder: Path, out: Path) -> str:
    """Write the sealed capture ``folder`` as the file ``out``; returns the file's own sha256.

    Byte-identical from the same evidence. A file there is replaced, whole or not at all.

    Raises
    ------
    EvidenceError
        The folder is not sealed, differs from its manifest, is in use, or too large to be
        unpacked again; or ``out`` cannot be written.
    """
    root_of(folder)
    tree = Tree(folder)
    listing = tree.read(manifest.NAME)
    files = manifest.from_bytes(listing, str(folder))
    bounds = BOUNDS
    if len(files) >= bounds.files or sum(s.size for s in files.values()) > bounds.unpacked:
        raise EvidenceError(
            f"{folder} is too large to be packed: {len(files):,} files",
            expected=f"fewer than {bounds.files:,} files, {bounds.unpacked:,} bytes in all",
            next_step="give the folder itself as the baseline",
        )
    staged = out.with_name(f".{out.name}.part")
    lock = take_lock(folder)  # so that one name is enough, and what a kill left goes with the next
    try:
        staged.unlink(missing_ok=True)
        with open(staged, "xb") as raw:
            with gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as packed:
                _write_all(tree, {**files, manifest.NAME: _stored(listing)}, packed)
            raw.flush()
            os.fsync(raw.fileno())
            if raw.tell() > bounds.packed:
                raise EvidenceError(f"{folder} packs to more than {bounds.packed:,} bytes")
        own = digest(staged)
        os.replace(staged, out)
    except OSError as exc:
        raise explain(exc, f"cannot write {out}") from exc
    except ValueError as exc:  # a name longer than this kind of archive can hold
        raise EvidenceError(f"{folder} cannot be packed: {exc}") from exc
    finally:
        with contextlib.suppress(OSError):
            staged.unlink(missing_ok=True)
        os.close(lock)
    return own


def _stored(data: bytes) -> Stored:
    return Stored(canon.identify(data), len(data))


def _write_all(tree: Tree, files: Mapping[str, Stored], out: gzip.GzipFile) -> None:
    for name in sorted(files):
        info = tarfile.TarInfo(name)
        info.size, info.mode = files[name].size, _MODE
        out.write(info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict"))
        seen, size = hashlib.sha256(), 0
        with tree.stream(name, MAX_EVIDENCE) as file:
            while chunk := file.read(CHUNK):
                seen.update(chunk)
                size += len(chunk)
                out.write(chunk)
        if Stored(seen.hexdigest(), size) != files[name]:
            raise EvidenceError(
                f"{tree.root}/{name} is not as the manifest says",
                expected="evidence as it was sealed",
                next_step="`iqaction verify` names all that differs; capture again",
            )
        out.write(bytes(-size % _BLOCK))
    out.write(bytes(2 * _BLOCK))


def digest(path: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return read_digest(file)[0]


def opened(path: Path, into: Path, sha256: str = "", bounds: Bounds = BOUNDS) -> Path:
    """The folder of a baseline: ``path`` itself, or the new folder ``into`` with it unpacked.

    Parameters
    ----------
    sha256
        What must be there: the evidence root, or for a packed one also the file's own sha256.
        "" takes what is there.

    Raises
    ------
    EvidenceError
        It is not what was pinned, or cannot be unpacked safely. Nothing is left behind.
    """
    wanted = sha256.strip().lower().removeprefix("sha256:")
    if wanted and not _SHA256.match(wanted):
        raise EvidenceError(
            f"found {canon.shown(sha256)!r} as the sha256 of the baseline",
            expected="64 hexadecimal digits: the evidence root that the capture printed",
        )
    if path.is_dir():
        if wanted:
            _pinned(path, wanted, {"evidence root": root_of(path)})
        return path
    with _plain(path, bounds) as file:
        own = _own_digest(file, path, bounds) if wanted else ""
        root = _unpack(file, path, into, bounds, "" if wanted == own else wanted, own)
    assert root  # `_unpack` has compared it
    return into


def _pinned(path: Path, wanted: str, found: Mapping[str, str]) -> None:
    if wanted not in found.values():
        said = ", ".join(f"{what} {value}" for what, value in found.items())
        raise EvidenceError(
            f"{path} is not the baseline that was pinned: {said}",
            expected=f"sha256 {wanted}",
            next_step="give the pinned baseline, or pin this one in a reviewed change",
        )


def _refusal(path: Path) -> Refused:
    def refused(why: str) -> EvidenceError:
        return EvidenceError(
            f"{path} is not unpacked: {why}",
            expected="a baseline as `iqaction baseline capture --out FILE.tar.gz` packs it",
            next_step="nothing of it was kept; fetch it again, or capture the baseline again",
        )

    return refused


@contextlib.contextmanager
def _plain(path: Path, bounds: Bounds) -> Iterator[BinaryIO]:
    """The file opened for reading; pipes and devices do not block and are refused."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as exc:
        raise EvidenceError(
            f"cannot read the baseline {path}: {exc.strerror}",
            expected="the folder of a capture, or the .tar.gz that it was packed into",
            next_step="check the path",
        ) from exc
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise _refusal(path)("it is no plain file")
        if info.st_size > bounds.packed:
            raise _refusal(path)(f"it is larger than {bounds.packed:,} bytes")
        yield file


def _own_digest(file: BinaryIO, path: Path, bounds: Bounds) -> str:
    seen, left = hashlib.sha256(), bounds.packed
    while chunk := file.read(CHUNK):
        left -= len(chunk)
        if left < 0:  # it grew since it was opened
            raise _refusal(path)(f"it is larger than {bounds.packed:,} bytes")
        seen.update(chunk)
    file.seek(0)
    return seen.hexdigest()


def _unpack(file: BinaryIO, path: Path, into: Path, bounds: Bounds, wanted: str, own: str) -> str:
    """Unpack into the new folder ``into``; the evidence root of what is there then."""
    refused = _refusal(path)
    try:
        with gzip.GzipFile(fileobj=file) as stream, unpacking(into, bounds, refused) as out:
            found = dict(_members(_Bounded(stream, bounds, refused), out, bounds, refused))
            root = _whole(into, found, refused)
            if wanted:
                _pinned(path, wanted, {"evidence root": root, "sha256 of the file": own})
            return root
    except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
        raise refused("it is no whole .tar.gz file") from exc


class _Bounded:
    """The unpacked bytes, which may be endless: each reading is bounded, and all together."""

    def __init__(self, stream: gzip.GzipFile, bounds: Bounds, refused: Refused) -> None:
        self._stream, self._refused = stream, refused
        self._most = bounds.unpacked
        # Headers and padding come on top of what the files themselves may have.
        self._left = bounds.unpacked + 2 * _BLOCK * (bounds.files + 1) + _MOST_PADDING

    def read(self, size: int) -> bytes:
        """``size`` bytes, fewer only at the end."""
        found = bytearray()
        while len(found) < size:
            try:
                piece = self._stream.read(min(CHUNK, size - len(found)))
            except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
                raise self._refused("it is no whole .tar.gz file") from exc
            if not piece:
                break
            found += piece
        self._left -= len(found)
        if self._left < 0:
            raise self._refused(f"it unpacks to more than {self._most:,} bytes")
        return bytes(found)


def _members(
    stream: _Bounded, out: Unpacking, bounds: Bounds, refused: Refused
) -> Iterator[tuple[str, Written]]:
    """Write every file; its name and what was written.

    Headers are read one by one: Python's own reader takes whole extended headers, which may be as
    long as a stranger likes, into memory.
    """
    names, left, count = Names(bounds, refused), bounds.unpacked, 0
    while (info := _header(stream, refused)) is not None:
        count += 1
        if count > 2 * bounds.files:  # folders among them
            raise refused(f"it holds more than {2 * bounds.files:,} entries")
        if info.type in _EXTENDED:
            raise refused("it has extended headers, which a baseline needs none of")
        if info.type == tarfile.DIRTYPE:
            if info.size:
                raise refused("it holds a folder with a size")
            names.check(info.name.removesuffix("/"))
            continue
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise refused("it holds something that is neither a plain file nor a folder")
        if not 0 <= info.size <= left:
            raise refused(f"it unpacks to more than {bounds.unpacked:,} bytes")
        left -= info.size
        name = names.take(info.name)
        written = out.write(name, _content(stream, info.size))
        if (
            written.size != info.size
            or len(stream.read(-info.size % _BLOCK)) != -info.size % _BLOCK
        ):
            raise refused("it ends in the middle of a file")
        yield name, written
    padding = stream.read(_MOST_PADDING)
    if padding.strip(b"\0") or stream.read(1):
        raise refused("something follows its last file")


def _header(stream: _Bounded, refused: Refused) -> tarfile.TarInfo | None:
    """The next file's header; None at the end."""
    block = stream.read(_BLOCK)
    if not block.strip(b"\0"):
        # Two blocks of zeros end a tar; without them it was cut off.
        if len(block) != _BLOCK or stream.read(_BLOCK) != bytes(_BLOCK):
            raise refused("it ends too early")
        return None
    try:
        return tarfile.TarInfo.frombuf(block, "ascii", "strict")
    except (tarfile.HeaderError, ValueError) as exc:  # a name that is no ASCII is a ValueError
        raise refused("it is no tar file, or is packed in an unusual way") from exc


def _content(stream: _Bounded, size: int) -> Iterator[bytes]:
    while size > 0:
        chunk = stream.read(min(CHUNK, size))
        if not chunk:
            return
        size -= len(chunk)
        yield chunk


def _whole(folder: Path, found: Mapping[str, Written], refused: Refused) -> str:
    """The evidence root, where the files are those of the manifest, each as it says."""
    if manifest.NAME not in found:
        raise refused(f"it holds no {manifest.NAME}: it is no sealed evidence")
    try:
        data = Tree(folder).read(manifest.NAME, MAX_JSON)
        listed = manifest.from_bytes(data)
    except EvidenceError as exc:
        raise refused(f"its {exc.happened}") from exc
    rest = {n: Stored(w.sha256, w.size) for n, w in found.items() if n != manifest.NAME}
    for name in sorted({*rest, *listed}):
        shown = canon.shown(name, 200)
        if name not in listed:
            raise refused(f"{shown} is not in its manifest")
        if name not in rest:
            raise refused(f"{shown} is missing")
        if rest[name] != listed[name]:
            raise refused(f"{shown} is not as its manifest says")
    return canon.identify(data)
