"""Which number an answer names: the first of seven digits, however it is grouped."""

from __future__ import annotations

import pytest

from iqaction.stages._niah_answer import named


@pytest.mark.parametrize(
    "text",
    [
        "4831927",
        "The secret code is 4831927.",
        "**4831927**",
        "`4831927`",
        "\\boxed{4831927}",
        "$4,831,927$",
        "4,831,927",
        "4 831 927",
        "4.831.927",
        "4'831'927",
        "4_831_927",
        "4-831-927",
        "4\u00a0831\u00a0927",
        "4\u202f831\u202f927",
        "4{,}831{,}927",
        "4\\,831\\,927",
        "483-1927",
        "483 1927",
        "4 8 3 1 9 2 7",
        "4-8-3-1-9-2-7",
        "4, 8, 3, 1, 9, 2, 7",
        "The text gives 7 digits: 4831927",
        "In 1984, page 12: 4831927, as remembered.",
        "code=4831927;",
        "#4831927#",
        "-4831927",
        "\u0664\u0668\u0663\u0661\u0669\u0662\u0667",  # Arabic-Indic digits
        "\uff14\uff18\uff13\uff11\uff19\uff12\uff17",  # full-width digits
        "4831927 or maybe 1234567",
        "48319270 4831927",  # eight digits are another number, and none of seven
        "4831927\n4831927\n4831927",
        "<code>4831927</code>",
        "4831927abc",
    ],
)
def test_named(text: str) -> None:
    """All of these name 4831927."""
    found = named(text)

    assert found is not None
    assert found.code == "4831927"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1234567, no: 4831927", "1234567"),
        ("Not 9,999,999 but 4831927", "9999999"),
        ("4831928", "4831928"),
    ],
)
def test_named__first(text: str, expected: str) -> None:
    """A wrong code that comes first is the answer."""
    found = named(text)

    assert found is not None
    assert found.code == expected
    assert found.more == (text != expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The secret code is not given.",
        "483192",
        "48319270",
        "4,831,927,000",
        "14,831,927",
        "4 831 92",
        "4831 92",
        "12 34 56 7",
        "4.831927e6",
        "4 8 3 1 9 2 7 0",
        "four eight three one nine two seven",
        "4" * 10_000,
        "4 " * 10_000,
        "4," * 10_000,
    ],
)
def test_named__none(text: str) -> None:
    """Longer and shorter numbers, and words, name nothing."""
    assert named(text) is None


def test_named__more() -> None:
    """Whether another code follows is told, for the report; the same one again is no other."""
    assert named("4831927 1234567") == ("4831927", True)
    assert named("4831927, 4 831 927") == ("4831927", False)
