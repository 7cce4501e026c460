"""YAML as nodes: lines are right, scalars stay as written, bombs and traps are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.document import Listing, Scalar, Table, is_unbounded, parse, scalar
from iqaction.errors import ConfigError


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, "p.yml")
    return str(caught.value)


def test_parse__lines() -> None:
    """Every key and value knows the line it stands on, counted from 1."""
    root = parse("a: 1\nb:\n  - x\n  - c: y\n", "p.yml")

    assert isinstance(root, Table)
    assert [(e.key, e.line) for e in root.entries] == [("a", 1), ("b", 2)]
    listing = root.entries[1].value
    assert isinstance(listing, Listing)
    assert [n.line for n in listing.items] == [3, 4]


@pytest.mark.parametrize("text", ["", "# only a comment\n", "\ufeff", "---\n"])
def test_parse__empty(text: str) -> None:
    """An empty document has no root, or nothing as its root."""
    root = parse(text, "p.yml")

    assert root is None or (isinstance(root, Scalar) and scalar(root) is None)


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("a: [1, 2\n", "p.yml:2", "not YAML"),
        ("a: 1\n b: 2\n", "p.yml:2", "not YAML"),
        ("a: 1\n\tb: 2\n", "p.yml:2", "not YAML"),
        ("a: 'open\n", "p.yml:2", "not YAML"),
        ("a: *nobody\n", "p.yml:1", "undefined alias"),
        ("a: 1\n---\nb: 2\n", "p.yml:2", "single document"),
        ("a: \x00\n", "p.yml:", "not YAML"),
        ("a: \ud83d\n", "p.yml:", "not YAML"),
        ("a: 1\na: 2\n", "p.yml:2", "twice (first on line 1)"),
        ("a:\n  b: 1\n  b: 2\n", "p.yml:3", "twice (first on line 2)"),
        ("? [a, b]\n: 1\n", "p.yml:1", "no name"),
        ("a: !!python/object/apply:os.system ['true']\n", "p.yml:1", "the tag"),
        ("a: !!int 5\n", "p.yml:1", "the tag"),
        ("a: !secret x\n", "p.yml:1", "the tag"),
    ],
)
def test_parse__refused(text: str, place: str, said: str) -> None:
    """What is no plain YAML is refused with its line."""
    message = refused(text)

    assert message.startswith(place)
    assert said in message


def test_parse__alias_bomb() -> None:
    """Nine levels of ten aliases each are a billion values: refused, not expanded."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]

    assert "aliases repeat" in refused("\n".join(lines))


def test_parse__recursive_alias() -> None:
    """A list that holds itself is refused."""
    assert "aliases repeat" in refused("a: &a\n  - *a\n")


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 5_000, "- " * 5_000])
def test_parse__deep(text: str) -> None:
    """Nesting is refused at a depth, before Python's own stack ends."""
    assert "nested too deeply" in refused(text)


def test_parse__large() -> None:
    """A file over 1 MiB is refused before it is parsed."""
    assert "at most 1048576" in refused("#" * (1024 * 1024 + 1))


def test_parse__alias() -> None:
    """A few anchors are fine: people use them to say a thing once."""
    root = parse("a: &m {kl: 0.1}\nb: *m\n", "p.yml")

    assert isinstance(root, Table)
    assert root.entries[0].value == root.entries[1].value


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1", 1),
        ("-7", -7),
        ("012", 12),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("2.", 2.0),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("off", "off"),
        ("yes", "yes"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2024-01-01", "2024-01-01"),
        (".nan", ".nan"),
        (".inf", ".inf"),
        ("1e9999", "1e9999"),
        ("9" * 5000, "9" * 5000),
        ('"5"', "5"),
        ("'true'", "true"),
        ('""', ""),
    ],
)
def test_scalar(written: str, meant: object) -> None:
    """Unquoted scalars mean what YAML's core schema says; quoted ones are text."""
    root = parse(f"a: {written}\n", "p.yml")
    assert isinstance(root, Table)
    node = root.entries[0].value
    assert isinstance(node, Scalar)

    assert meant == scalar(node)
    assert type(meant) is type(scalar(node))


@pytest.mark.parametrize("written", [".nan", "NaN", ".inf", "-.Inf", "+inf", "Infinity"])
def test_is_unbounded(written: str) -> None:
    """Every spelling of NaN and infinity is known, and only without quotes."""
    assert is_unbounded(Scalar(written, plain=True, line=1))
    assert not is_unbounded(Scalar(written, plain=False, line=1))


@given(st.text(alphabet="ab:-[]{}&*!'\"\n #,?|>%@`~", max_size=60))
def test_parse__any_text(text: str) -> None:
    """Whatever stands in the file, the answer is a node or a ConfigError."""
    said = "p.yml"
    try:
        parse(text, "p.yml")
    except ConfigError as exc:
        said = str(exc)

    assert said.startswith("p.yml")
