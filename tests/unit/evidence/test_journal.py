"""Lines are on the disk when append returns, and a kill costs at most the last one."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest
from evidence_factory import file_limit

from iqaction.errors import EvidenceError
from iqaction.evidence import journal
from iqaction.evidence.journal import NAME, Journal, lines
from iqaction.evidence.tree import Tree


def read(data: bytes) -> list[tuple[int, int, bytes, bool]]:
    found = lines(io.BytesIO(data), "j")
    return [(x.number, x.offset, x.data, x.torn) for x in found]


def test_lines__a_line_without_newline_is_torn():
    """Only the last line can be, and it is marked."""
    assert read(b"a\n\nbc") == [(1, 0, b"a\n", False), (2, 2, b"\n", False), (3, 3, b"bc", True)]
    assert read(b"") == []


def test_lines__caps_hold():
    """More bytes than allowed, packed or not, is an error that names the line."""
    with pytest.raises(EvidenceError, match="j:2: too large"):
        list(lines(io.BytesIO(b"aa\nbb\n"), "j", limit=5))


def test_append__is_on_the_disk_and_continues(tmp_path):
    """What was appended is there for another reader at once, and later lines follow."""
    log = Journal(Tree(tmp_path))
    log.append(b"one\n")
    at_once = (tmp_path / NAME).read_bytes()
    log.close()
    again = Journal(Tree(tmp_path))
    again.append(b"two\n")
    again.close()

    assert at_once == b"one\n"
    assert (tmp_path / NAME).read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("torn", [b"t", b"\0" * 5000, b"x" * (2 * 1024**2)])
def test_open__drops_a_torn_last_line(tmp_path, torn):
    """A new line is never appended to a torn one."""
    (tmp_path / NAME).write_bytes(b"whole\n" + torn)
    log = Journal(Tree(tmp_path))
    log.append(b"next\n")
    log.close()

    assert (tmp_path / NAME).read_bytes() == b"whole\nnext\n"


def test_append__many_threads(tmp_path):
    """Lines of many threads are whole and all there."""
    log = Journal(Tree(tmp_path))
    wanted = [b"%d-%d %s\n" % (t, i, b"x" * t) for t in range(8) for i in range(10)]

    def work(thread: int) -> None:
        for line in wanted[10 * thread : 10 * thread + 10]:
            log.append(line)

    threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()

    assert sorted((tmp_path / NAME).read_bytes().splitlines(keepends=True)) == sorted(wanted)


def test_append__a_full_disk_loses_nothing_kept(tmp_path):
    """A write that fails half way is taken back: earlier lines stay, later ones follow."""
    log = Journal(Tree(tmp_path))
    log.append(b"first\n")
    with file_limit(10), pytest.raises(EvidenceError) as caught:
        log.append(b"far too long\n")
    log.append(b"second\n")
    log.close()

    assert "File too large" in str(caught.value)
    assert "run the same command again" in caught.value.next_step
    assert (tmp_path / NAME).read_bytes() == b"first\nsecond\n"


def test_append__a_full_device_is_one_clear_error(tmp_path):
    """ENOSPC, of the kernel itself, says what to do."""
    log = Journal(Tree(tmp_path))
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._fd)
    os.close(full)

    with pytest.raises(EvidenceError, match="No space left on device") as caught:
        log.append(b"x\n")
    log.close()

    assert "free some space" in caught.value.next_step


def test_append__a_vanished_folder_is_noticed(tmp_path):
    """An answer that nobody will ever find is not kept."""
    (tmp_path / "e").mkdir()
    log = Journal(Tree(tmp_path / "e"))
    log.append(b"x\n")
    (tmp_path / "e" / NAME).unlink()
    (tmp_path / "e").rmdir()

    with pytest.raises(EvidenceError, match="No such file"):
        log.append(b"y\n")
    log.close()


def test_append__caps_hold(tmp_path, monkeypatch):
    """A journal that could not be read again is not written."""
    log = Journal(Tree(tmp_path), limit=8)
    log.append(b"12345\n")
    with pytest.raises(EvidenceError, match="would exceed 8 bytes"):
        log.append(b"12345\n")
    monkeypatch.setattr(journal, "MAX_LINE", 3)
    with pytest.raises(EvidenceError, match="an answer of 4 bytes"):
        log.append(b"123\n")
    log.close()
    with pytest.raises(EvidenceError, match="is closed"):
        log.append(b"1\n")


def test_open__refuses_a_link(tmp_path):
    """A journal that points elsewhere is not written through."""
    target = Path(tmp_path / "target")
    target.write_bytes(b"mine")
    (tmp_path / NAME).symlink_to(target)

    with pytest.raises(EvidenceError, match="cannot open"):
        Journal(Tree(tmp_path))
    assert target.read_bytes() == b"mine"
