"""Values of a plan file that are lists of numbers; the other kinds are tested with the inputs."""

from __future__ import annotations

import pytest

from iqaction import values
from iqaction.document import Table, parse
from iqaction.errors import ConfigError
from iqaction.plan import Value
from iqaction.stages._base import Param

DEPTHS = Param("depths", "numbers", (0.1, 0.5), "", 0, 1)


def read(text: str, param: Param = DEPTHS) -> Value:
    """The value of ``depths: text``."""
    root = parse(f"depths: {text}\n", "plan.yml")
    assert isinstance(root, Table)
    (entry,) = root.entries
    return values.read(param, entry.value, "plan.yml:1: niah.depths")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[0.1, 0.5, 0.9]", (0.1, 0.5, 0.9)),
        ("[0.9, 0.1]", (0.1, 0.9)),
        ("[0, 1.0]", (0, 1)),
        ("[1e-1]", (0.1,)),
    ],
)
def test_numbers(text: str, expected: tuple[float, ...]) -> None:
    """Kept in rising order, whole numbers as such, so that two spellings of a plan are one."""
    found = read(text)

    assert found == expected
    assert isinstance(found, tuple)
    assert [type(x) for x in found] == [type(x) for x in expected]


@pytest.mark.parametrize(
    "text",
    [
        *("0.5", "[]", "[2]", "[-0.1]", "['0.5']", "[true]", "[.nan]", "[.inf]", "[[0.5]]"),
        *("[null]", f"[{', '.join(str(i / 100) for i in range(33))}]"),
    ],
)
def test_numbers__wrong(text: str) -> None:
    """Anything but a list of numbers within the range names its place and what was expected."""
    with pytest.raises(ConfigError) as caught:
        read(text)

    assert "plan.yml:1: niah.depths" in str(caught.value)
    assert "a list of one to 32 numbers, each from 0 to 1" in str(caught.value)


def test_numbers__twice() -> None:
    """A number that is there twice would ask the same questions twice."""
    with pytest.raises(ConfigError, match="twice"):
        read("[0.5, 0.50]")
