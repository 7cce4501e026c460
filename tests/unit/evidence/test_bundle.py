"""A baseline as one file: the same bytes each time, and nothing in a foreign one is believed."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from evidence_factory import capture, compare, file_limit, files
from hypothesis import given, settings
from hypothesis import strategies as st

from iqaction.archives import Bounds
from iqaction.errors import EvidenceError
from iqaction.evidence import bundle, manifest
from iqaction.evidence.manifest import Stored
from iqaction.evidence.store import Folder, load_baseline
from iqaction.evidence.verify import verify

ROOT = Path(__file__).parents[3]
SMALL = Bounds(packed=100_000, unpacked=200_000, files=20)


@dataclass(frozen=True)
class Made:
    folder: Path
    root: str
    packed: Path
    sha256: str


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A sealed capture, and the file it was packed into."""
    home = tmp_path_factory.mktemp("bundle")
    root = capture(home / "reference")
    sha256 = bundle.pack(home / "reference", home / "baseline.tar.gz")
    return Made(home / "reference", root, home / "baseline.tar.gz", sha256)


def test_pack__same_bytes(made: Made, tmp_path: Path) -> None:
    """The same evidence packs to the same bytes, under another name, later, beside rendered
    files and the lock."""
    (made.folder / "comment.md").write_text("rendered")
    (made.folder / ".lock").write_text("1")
    os.utime(made.folder / "plan.json", (1, 1))
    (made.folder / "plan.json").chmod(0o600)
    again = bundle.pack(made.folder, tmp_path / "other.tgz")
    (made.folder / "comment.md").unlink()

    assert again == made.sha256
    assert (tmp_path / "other.tgz").read_bytes() == made.packed.read_bytes()
    assert hashlib.sha256(made.packed.read_bytes()).hexdigest() == made.sha256


def test_pack__plain(made: Made) -> None:
    """Any tar reads it; it holds the manifest's files and the manifest, and names nobody."""
    with tarfile.open(made.packed) as archive:
        members = archive.getmembers()
    listed = manifest.from_bytes((made.folder / "manifest.json").read_bytes())

    assert [m.name for m in members] == sorted({*listed, "manifest.json"})
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in members} == {
        (0, 0, 0, "", "", 0o644)
    }


def test_opened__gives_it_back(made: Made, tmp_path: Path) -> None:
    """What is unpacked is the sealed capture, byte by byte, and whole."""
    folder = bundle.opened(made.packed, tmp_path / "new" / "b")
    sealed = {n: d for n, d in files(made.folder).items() if n != "comment.md"}

    assert files(folder) == sealed
    assert load_baseline(folder).root == made.root
    assert verify(folder, made.root).authenticated


def test_opened__folder(made: Made, tmp_path: Path) -> None:
    """A folder is what it is; nothing is copied."""
    assert bundle.opened(made.folder, tmp_path / "x", made.root) == made.folder
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("which", ["root", "sha256"])
@pytest.mark.parametrize("spelled", [str, str.upper, lambda s: f"sha256:{s}"])
def test_opened__pinned(
    made: Made, tmp_path: Path, which: str, spelled: Callable[[str], str]
) -> None:
    """The evidence root is a pin, and so is the file's own sha256."""
    folder = bundle.opened(made.packed, tmp_path / "b", spelled(getattr(made, which)))

    assert bundle.root_of(folder) == made.root


@pytest.mark.parametrize("path", ["packed", "folder"])
def test_opened__other_than_pinned(made: Made, tmp_path: Path, path: str) -> None:
    """Another baseline than the pinned one is refused, both named, and nothing is left."""
    wanted = "0" * 64
    with pytest.raises(EvidenceError) as caught:
        bundle.opened(getattr(made, path), tmp_path / "b", wanted)

    assert made.root in caught.value.happened
    assert wanted in caught.value.expected
    assert list(tmp_path.iterdir()) == []


def test_opened__no_pin(made: Made, tmp_path: Path) -> None:
    """What is no sha256 pins nothing, and is refused."""
    with pytest.raises(EvidenceError, match="as the sha256 of the baseline"):
        bundle.opened(made.packed, tmp_path / "b", made.root[:12])


def test_pack__not_sealed(tmp_path: Path) -> None:
    """What was never sealed cannot be packed."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(EvidenceError, match="no sealed evidence folder"):
        bundle.pack(tmp_path / "folder", tmp_path / "x.tar.gz")

    assert not (tmp_path / "x.tar.gz").exists()


def test_pack__altered(tmp_path: Path) -> None:
    """A folder that is not as its manifest says is not packed, and nothing is left behind."""
    capture(tmp_path / "r")
    (tmp_path / "r" / "prompts.jsonl").write_bytes(b"{}\n")
    (tmp_path / "x.tar.gz").write_bytes(b"before")
    with pytest.raises(EvidenceError, match="not as the manifest says"):
        bundle.pack(tmp_path / "r", tmp_path / "x.tar.gz")

    assert (tmp_path / "x.tar.gz").read_bytes() == b"before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r", "x.tar.gz"]


def test_pack__full_disk(made: Made, tmp_path: Path) -> None:
    """A disk without room is told as that, and leaves no half of a file."""
    with file_limit(1_000), pytest.raises(EvidenceError, match="cannot write"):
        bundle.pack(made.folder, tmp_path / "x.tar.gz")

    assert list(tmp_path.iterdir()) == []


def test_opened__full_disk(made: Made, tmp_path: Path) -> None:
    """The same on the way back."""
    with file_limit(500), pytest.raises(EvidenceError, match="cannot be written"):
        bundle.opened(made.packed, tmp_path / "b")

    assert list(tmp_path.iterdir()) == []


# --- hostile ones ---------------------------------------------------------------------------


def tar(
    members: Iterable[tuple[tarfile.TarInfo, bytes]], form: int = tarfile.USTAR_FORMAT
) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for info, data in members:
            info.size = len(data) if info.isreg() else 0
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def plain(**contents: bytes) -> bytes:
    return tar((member(name), data) for name, data in contents.items())


def own(made: Made) -> dict[str, bytes]:
    with tarfile.open(made.packed) as archive:
        found = {m.name: archive.extractfile(m) for m in archive.getmembers()}
        return {name: stream.read() for name, stream in found.items() if stream is not None}


def with_(made: Made, *more: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """The good baseline with something more in it."""
    return tar([*((member(n), d) for n, d in own(made).items()), *more])


def altered(made: Made, **changes: bytes | None) -> bytes:
    """The good baseline with files replaced, or left out where None."""
    kept = {**own(made), **changes}
    return tar((member(n), d) for n, d in kept.items() if d is not None)


def claims(size: int) -> bytes:
    """A header that promises more than is there."""
    info = member("plan.json")
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


def extended(size: int) -> bytes:
    """An extended header of that length, which Python's own reader takes into memory whole."""
    info = member("PaxHeader", tarfile.XHDTYPE)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


HOSTILE: dict[str, tuple[Callable[[Made], bytes], str]] = {
    "absolute": (lambda m: with_(m, (member("/etc/cron.d/x"), b"x")), "leads elsewhere"),
    "dots": (lambda m: with_(m, (member("../escaped"), b"x")), "leads elsewhere"),
    "dots-inside": (lambda m: with_(m, (member("records/../../x"), b"x")), "leads elsewhere"),
    "backslash": (lambda m: with_(m, (member("..\\x"), b"x")), "leads elsewhere"),
    "folder-elsewhere": (
        lambda m: with_(m, (member("../x", tarfile.DIRTYPE), b"")),
        "leads elsewhere",
    ),
    "control": (lambda m: with_(m, (member("a\x1b[2Jb"), b"x")), "leads elsewhere"),
    "device-name": (lambda m: with_(m, (member("nul.json"), b"x")), "leads elsewhere"),
    "symlink": (
        lambda m: with_(m, (member("data", tarfile.SYMTYPE, "/etc"), b"")),
        "neither a plain file nor a folder",
    ),
    "hard-link": (
        lambda m: with_(m, (member("x", tarfile.LNKTYPE, "plan.json"), b"")),
        "neither a plain file nor a folder",
    ),
    "device": (
        lambda m: with_(m, (member("x", tarfile.CHRTYPE), b"")),
        "neither a plain file nor a folder",
    ),
    "pipe": (
        lambda m: with_(m, (member("x", tarfile.FIFOTYPE), b"")),
        "neither a plain file nor a folder",
    ),
    "sparse": (
        lambda m: with_(m, (member("x", tarfile.GNUTYPE_SPARSE), b"")),
        "neither a plain file nor a folder",
    ),
    "twice": (lambda m: with_(m, (member("plan.json"), b"{}")), "a file twice"),
    "twice-by-case": (lambda m: with_(m, (member("PLAN.json"), b"{}")), "a file twice"),
    "extra": (lambda m: with_(m, (member("x.json"), b"{}")), "x.json is not in its manifest"),
    "hidden": (lambda m: with_(m, (member(".lock"), b"1")), ".lock is not in its manifest"),
    "many": (
        lambda m: tar((member(f"f{i}"), b"") for i in range(SMALL.files + 1)),
        "more than 20 files",
    ),
    "missing": (lambda m: altered(m, **{"prompts.jsonl": None}), "prompts.jsonl is missing"),
    "changed": (
        lambda m: altered(m, **{"plan.json": b"{}"}),
        "plan.json is not as its manifest says",
    ),
    "no-manifest": (lambda m: altered(m, **{"manifest.json": None}), "no manifest.json"),
    "manifest-none": (lambda m: altered(m, **{"manifest.json": b"[]"}), "no JSON object"),
    "manifest-blank": (
        lambda m: altered(m, **{"manifest.json": own(m)["manifest.json"] + b" "}),
        "not in canonical form",
    ),
    "huge-file": (lambda m: claims(10 << 30) + bytes(1024), "unpacks to more than"),
    "negative": (lambda m: claims(-1) + bytes(1024), "unpacks to more than"),
    "huge-header": (lambda m: extended(10 << 30) + bytes(4096), "extended headers"),
    "many-folders": (
        lambda m: tar((member(f"f{i}", tarfile.DIRTYPE), b"") for i in range(50)),
        "more than 40 entries",
    ),
    "pax": (
        lambda m: tar([(member("ä.json"), b"x")], tarfile.PAX_FORMAT),
        "extended headers",
    ),
    "cut-in-a-file": (lambda m: plain(a=b"x" * 5_000)[:2_000], "ends in the middle"),
    "cut-between-files": (lambda m: plain(a=b"x" * 512)[:1024], "ends too early"),
    "one-zero-block": (lambda m: plain(a=b"x" * 512)[: 1024 + 512], "ends too early"),
    "more-behind": (lambda m: plain(a=b"x") + b"more", "something follows"),
    "not-a-tar": (lambda m: b"no tar at all" * 100, "no tar file"),
    "empty": (lambda m: b"", "ends too early"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_opened__hostile(made: Made, tmp_path: Path, name: str) -> None:
    """Each is refused with the reason; nothing is written outside, nothing is left behind."""
    build, why = HOSTILE[name]
    home = tmp_path / "a" / "b"
    home.mkdir(parents=True)
    (home / "x.tar.gz").write_bytes(gzip.compress(build(made)))
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    with pytest.raises(EvidenceError) as caught:
        bundle.opened(home / "x.tar.gz", home / "new", bounds=SMALL)

    assert why in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert sorted(str(p) for p in tmp_path.rglob("*")) == before


def test_opened__name_of_a_file_as_folder(made: Made, tmp_path: Path) -> None:
    """A file below a file cannot be written, and is told, not thrown."""
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(with_(made, (member("plan.json/x"), b"x"))))
    with pytest.raises(EvidenceError, match="cannot be written"):
        bundle.opened(path, tmp_path / "b")

    assert [p.name for p in tmp_path.iterdir()] == ["x.tar.gz"]


def test_opened__bomb(made: Made, tmp_path: Path) -> None:
    """Ten gigabytes of zeros that fit in ten megabytes stop at the cap, whatever is promised."""
    path = tmp_path / "x.tar.gz"
    zeros = bytes(1 << 20)
    for head in (claims(SMALL.unpacked), plain(a=b"")[:512], bytes(0)):
        with gzip.open(path, "wb", 1) as out:
            out.write(head)
            for _ in range(64):
                out.write(zeros)
        with pytest.raises(EvidenceError):
            bundle.opened(path, tmp_path / "b", bounds=Bounds(1 << 20, SMALL.unpacked, 20))

        assert not (tmp_path / "b").exists()


def test_opened__too_large(made: Made, tmp_path: Path) -> None:
    """A file over the cap is not even begun."""
    with pytest.raises(EvidenceError, match="larger than 100 bytes"):
        bundle.opened(made.packed, tmp_path / "b", bounds=Bounds(100, 100, 100))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x1f\x8b\x08", b"x" * 1000])
def test_opened__no_archive(tmp_path: Path, data: bytes) -> None:
    """What is no gzip file is told as that."""
    (tmp_path / "x.tar.gz").write_bytes(data)
    with pytest.raises(EvidenceError, match="not unpacked"):
        bundle.opened(tmp_path / "x.tar.gz", tmp_path / "b")

    assert [p.name for p in tmp_path.iterdir()] == ["x.tar.gz"]


def test_opened__not_there_or_no_file(tmp_path: Path) -> None:
    """A path to nothing and a pipe are errors that name it; a pipe does not hang."""
    os.mkfifo(tmp_path / "pipe.tar.gz")
    for name, why in (("gone.tar.gz", "cannot read"), ("pipe.tar.gz", "no plain file")):
        with pytest.raises(EvidenceError, match=why):
            bundle.opened(tmp_path / name, tmp_path / "b")


def test_opened__folder_is_there(made: Made, tmp_path: Path) -> None:
    """It unpacks into a new folder only, and leaves another one as it is."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine").write_text("x")
    with pytest.raises(EvidenceError, match="cannot be made"):
        bundle.opened(made.packed, tmp_path / "b")

    assert [p.name for p in (tmp_path / "b").iterdir()] == ["mine"]


@settings(max_examples=60)
@given(at=st.integers(0, 10_000), by=st.integers(1, 255), keep=st.integers(0, 10_000))
def test_opened__damaged_anywhere(
    made: Made, tmp_path_factory: pytest.TempPathFactory, at: int, by: int, keep: int
) -> None:
    """A byte changed or an end cut off anywhere gives the same baseline or an error, no more."""
    home = tmp_path_factory.mktemp("damaged")
    data = bytearray(made.packed.read_bytes())
    data[at % len(data)] ^= by
    if keep % 2:
        del data[keep % len(data) :]
    (home / "x.tar.gz").write_bytes(data)
    try:
        folder = bundle.opened(home / "x.tar.gz", home / "b")
    except EvidenceError:
        assert [p.name for p in home.iterdir()] == ["x.tar.gz"]
    else:
        assert bundle.root_of(folder) == made.root  # the gzip header's own bytes say nothing


def test_opened__packed_by_another_tar(made: Made, tmp_path: Path) -> None:
    """Folders as members and padding of other tars are read, in any order."""
    contents = dict(reversed(own(made).items()))
    members = [(member("records/", tarfile.DIRTYPE), b"")]
    members += [(member(n), d) for n, d in contents.items()]
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(tar(members, tarfile.GNU_FORMAT) + bytes(20_480)))

    assert bundle.root_of(bundle.opened(path, tmp_path / "b")) == made.root


def test_pack__too_much(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be unpacked again is not packed."""
    monkeypatch.setattr(bundle, "BOUNDS", Bounds(files=3))
    with pytest.raises(EvidenceError, match="too large to be packed"):
        bundle.pack(made.folder, tmp_path / "x.tar.gz")
    monkeypatch.setattr(bundle, "BOUNDS", Bounds(packed=10))
    with pytest.raises(EvidenceError, match="packs to more than 10 bytes"):
        bundle.pack(made.folder, tmp_path / "x.tar.gz")

    assert list(tmp_path.iterdir()) == []


_KILLED = """\
import os, sys
from pathlib import Path
from iqaction.evidence import bundle
sys.addaudithook(lambda event, _: os._exit(9) if event == "os.rename" else None)
bundle.pack(*map(Path, sys.argv[1:]))
"""


def test_pack__killed(made: Made, tmp_path: Path) -> None:
    """Killed when all but the name was written, and begun again: the file, and nothing beside."""
    out = tmp_path / "x.tar.gz"
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, made.folder, out], env=environ, cwd=ROOT, check=False
    )
    left = [p.name for p in tmp_path.iterdir()]
    bundle.pack(made.folder, out)

    assert (done.returncode, len(left), out.name in left) == (9, 1, False)
    assert list(tmp_path.iterdir()) == [out]
    assert out.read_bytes() == made.packed.read_bytes()


def test_pack__in_use(made: Made, tmp_path: Path) -> None:
    """A folder in which another process writes is not packed."""
    with (
        Folder.open_for_writing(made.folder),
        pytest.raises(EvidenceError, match="is in use"),
    ):
        bundle.pack(made.folder, tmp_path / "x.tar.gz")

    assert list(tmp_path.iterdir()) == []


def test_pack__name_too_long(made: Made, tmp_path: Path) -> None:
    """A name that a plain tar cannot hold is told, not thrown."""
    long = "x" * 150
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / long).write_bytes(b"")
    listing = manifest.to_bytes({long: Stored(hashlib.sha256(b"").hexdigest(), 0)})
    (tmp_path / "r" / "manifest.json").write_bytes(listing)
    with pytest.raises(EvidenceError, match="cannot be packed"):
        bundle.pack(tmp_path / "r", tmp_path / "x.tar.gz")


def test_pack__comparison_round_trips(made: Made, tmp_path: Path) -> None:
    """A candidate's evidence can be packed too, with its copy of the baseline."""
    root = compare(tmp_path / "c", made.folder, made.root)
    bundle.pack(tmp_path / "c", tmp_path / "c.tgz")

    assert bundle.root_of(bundle.opened(tmp_path / "c.tgz", tmp_path / "b", root)) == root


@pytest.mark.parametrize(
    ("name", "packed"),
    [("a.tar.gz", True), ("A.TGZ", True), ("a.tar", False), ("a", False), ("tar.gz", False)],
)
def test_is_bundle(name: str, packed: bool) -> None:
    """The name decides what is written."""
    assert bundle.is_bundle(Path(name)) is packed
