"""Unit tests of the plots."""

from __future__ import annotations

import math
import re

import pytest
from markup import of_html
from report_factory import check

from iqaction.report import Series
from iqaction.surfaces import _svg


def series(*y: float | None, labels: bool = False, limit: float | None = None) -> Series:
    x = tuple(float(i) for i in range(len(y)))
    names = tuple(f"p{i}" for i in range(len(y))) if labels else ()
    return Series("KL <by> prompt", "prompt", "nats", x, y, names, limit)


def test_plot__says_in_words_what_it_shows() -> None:
    """A plot has a title and a sentence: range, gaps, and who is above the limit."""
    seen = of_html(_svg.plot(series(0.1, None, 0.5, 0.3, labels=True, limit=0.2), "p0"))
    said = "3 points from 0.1000 to 0.5000, 1 not computed; 2 above the limit: p2, p3."

    assert dict(seen.attributes)["aria-labelledby"] == "p0-t p0-d"
    assert seen.text.count(said) == 2
    assert "KL <by> prompt" in seen.text
    assert [n for n, _ in seen.tags].count("circle") == 3
    assert not seen.open + seen.unbalanced


def test_plot__a_gap_is_not_bridged() -> None:
    """The line is broken where a value is not computed."""
    way = re.search(r'class="line" d="([^"]+)"', _svg.plot(series(1, 2, None, 3, 4), "p"))

    assert way is not None
    assert re.sub(r"[^ML]", "", way[1]) == "MLML"


@pytest.mark.parametrize("y", [(), (None,), (math.nan, math.inf, -math.inf, 1e300)])
def test_plot__nothing_to_draw(y: tuple[float | None, ...]) -> None:
    """Without a number there is no plot, and that is said."""
    assert "no figures to plot" in _svg.plot(series(*y), "p")


@pytest.mark.parametrize("y", [(0.0,), (0.0, 0.0), (-3.0, -2.0), (1e-12, 2e-12), (1e14, -1e14)])
def test_plot__degenerate_ranges(y: tuple[float, ...]) -> None:
    """One point, equal points, tiny and huge ones: all coordinates are within the frame."""
    drawn = _svg.plot(series(*y), "p")

    assert "nan" not in drawn
    assert all(0 <= float(v) <= 230 for v in re.findall(r' cy="([^"]+)"', drawn))
    assert len(re.findall('class="grid"', drawn)) >= 2


def test_plot__many_points_keep_the_peak() -> None:
    """Of many points the largest of each bin is drawn, so that no peak is lost."""
    y = [0.0] * 10_000
    y[6789] = 7.0
    drawn = _svg.plot(series(*y, limit=1.0), "p")

    assert "the largest of each 25 drawn; 1 above the limit" in drawn
    assert drawn.count("<circle") == 1
    assert len(drawn) < 20_000


def test_plot__unequal_columns() -> None:
    """Labels that do not fit the points are not shown."""
    odd = Series("t", "x", "y", (0.0, 1.0), (1.0, 2.0), ("only one",))

    assert "only one" not in _svg.plot(odd, "p")


def test_ticks__round_numbers() -> None:
    """Ticks are round and within the range."""
    assert _svg.ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert _svg.ticks(-0.3, 0.31) == [-0.2, 0.0, 0.2]
    assert _svg.ticks(0, 256) == [0, 100, 200]


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("PASS|m|t||.0021 [.0012, .0030]|<= .02|", ["bar pass", "dot pass"]),
        ("FAIL|m|t||.5 [.2, .9]|<= .02|", ["bar fail", "bar fail"]),
        ("UNPROVEN|m|t||- [.01, .03]|<= .02|", ["bar unproven"]),
        ("UNPROVEN|m|t||.01|<= .02|", ["bar unproven", "dot unproven"]),
    ],
)
def test_gauge__bar_and_point(line: str, parts: list[str]) -> None:
    """The interval is a bar in the verdict's colour, beyond the scale it ends in an arrow."""
    drawn = _svg.gauge(check(line))

    assert re.findall(r'class="((?:bar|dot) \w+)"', drawn) == parts
    assert f"against a margin of {0.02}" in drawn


@pytest.mark.parametrize(
    "line", ["PASS|m|t||||", "PASS|m|t||.1||", "PASS|m|t||.1|<= 0|", "PASS|m|t||- [-, -]|<= 1|"]
)
def test_gauge__nothing_to_compare(line: str) -> None:
    """Without a positive margin or without a number there is no bar."""
    assert _svg.gauge(check(line)) == ""


def test_plot__many_above_the_limit_are_counted() -> None:
    """Five are named, the others counted."""
    drawn = _svg.plot(series(*map(float, range(9)), labels=True, limit=0.5), "p")

    assert "8 above the limit: p8, p7, p6, p5, p4 and 3 more." in drawn


def test_sparkline__says_in_words_what_it_shows() -> None:
    """The margin is a dashed line, the last point is this run's, what it shows is said."""
    drawn = _svg.sparkline((0.1, None, 0.2, 0.9), 0.5, "s0", "KL <b>")
    seen = of_html(drawn)
    way = re.search(r'class="line" d="([^"]+)"', drawn)

    assert way is not None
    assert re.sub(r"[^ML]", "", way[1]) == "MML"
    assert dict(seen.attributes)["aria-labelledby"] == "s0-t s0-d"
    assert "KL <b>" in seen.text
    assert "3 points from 0.1000 to 0.9000, 1 not computed; 1 above the limit." in seen.text
    assert re.findall(r'<circle class="(\w+)"[^>]* r="([^"]+)"', drawn) == [
        *(("dot", "2.2"), ("dot", "2.2"), ("over", "4")),
    ]
    assert drawn.count('class="limit"') == 1
    assert not seen.open + seen.unbalanced


@pytest.mark.parametrize("values", [(), (None,), (math.nan, 1e300)])
def test_sparkline__nothing_to_draw(values: tuple[float | None, ...]) -> None:
    """Without a number there is nothing."""
    assert _svg.sparkline(values, 0.5, "s", "t") == ""


@pytest.mark.parametrize(
    "values", [(0.0,), (0.0, 0.0), (-3.0, -2.0), (1e-12, 2e-12), (1e14, -1e14)]
)
@pytest.mark.parametrize("limit", [None, 0.0, 1e-9, 1e14, math.inf, math.nan])
def test_sparkline__degenerate_ranges(values: tuple[float, ...], limit: float | None) -> None:
    """One run, equal figures, tiny and huge ones: all is within the frame."""
    drawn = _svg.sparkline(values, limit, "s", "t")

    assert not {"nan", "inf"} & set(re.findall("nan|inf", drawn))
    assert all(0 <= float(v) <= 56 for v in re.findall(r' cy="([^"]+)"', drawn))
    assert all(0 <= float(v) <= 220 for v in re.findall(r' cx="([^"]+)"', drawn))
