"""Plots as inline SVG: points of a series, and a check's interval against its margin.

Knows coordinates and ticks. Colours are classes of the page's style; there is no script. Each
plot carries a title and a sentence that says in words what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iqaction.report import Check, Series
from iqaction.surfaces import _figures
from iqaction.surfaces._escape import head, html
from iqaction.verdict import Verdict

_WIDTH, _HEIGHT = 460, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 14, 40
_MOST_POINTS = 400  # drawn; of more, the largest of each bin
_DOTS = 160  # up to here every point gets a dot
_HUGE = 1e15  # beyond it a float is no figure, and a tick no number
_NAMED = 5  # points beyond the limit that are named in words


@dataclass(frozen=True)
class _Point:
    x: float
    y: float
    label: str
    run: int  # grows by one with each value before it that is not computed


@dataclass(frozen=True)
class _Scale:
    """Maps data to pixels, linearly."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def plot(series: Series, ident: str) -> str:
    """The series as one SVG element; a sentence in its place where no point is a number."""
    points = _finite(series)
    if not points:
        return f'<p class="quiet">{html(head(series.title, 200))}: no figures to plot.</p>'
    limit = series.limit if _figures.known(series.limit) else None
    drawn = _binned(points)
    x = _x_scale(drawn)
    y = _y_scale(drawn, limit)
    said = _in_words(series, points, len(drawn), limit)
    parts = [
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-labelledby="{ident}-t {ident}-d">',
        f'<title id="{ident}-t">{html(head(series.title, 200))}</title>',
        f'<desc id="{ident}-d">{said}</desc>',
        *_axes(series, x, y),
        *_marks(series, drawn, limit, x, y),
        "</svg>",
    ]
    return "".join(parts) + f'<p class="quiet">{said}</p>'


def _finite(series: Series) -> list[_Point]:
    labels = series.labels if len(series.labels) == len(series.x) else ("",) * len(series.x)
    out, gaps = [], 0
    for x, y, label in zip(series.x, series.y, labels, strict=False):
        if y is None or not all(math.isfinite(v) and abs(v) < _HUGE for v in (x, y)):
            gaps += 1
        else:
            out.append(_Point(x, y, label, gaps))
    return out


def _binned(points: list[_Point]) -> list[_Point]:
    """At most ``_MOST_POINTS``: the largest of each run of neighbours, so that no peak is lost."""
    if len(points) <= _MOST_POINTS:
        return points
    size = math.ceil(len(points) / _MOST_POINTS)
    return [max(points[i : i + size], key=lambda p: p.y) for i in range(0, len(points), size)]


def _x_scale(points: list[_Point]) -> _Scale:
    low, high = min(p.x for p in points), max(p.x for p in points)
    room = (high - low) * 0.02 or 0.5
    return _Scale(low - room, high + room, _LEFT, _WIDTH - _RIGHT)


def _y_scale(points: list[_Point], limit: float | None) -> _Scale:
    values = [p.y for p in points] + [0.0] + ([limit] if limit is not None else [])
    low, high = min(values), max(values)
    room = (high - low) * 0.06 or 0.5
    return _Scale(low - room if low < 0 else low, high + room, _HEIGHT - _BOTTOM, _TOP)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers within ``low`` to ``high``, at most ``most`` + 1 of them."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _axes(series: Series, x: _Scale, y: _Scale) -> list[str]:
    out = []
    for value in ticks(y.low, y.high):
        out.append(f'<path class="grid" d="M{_LEFT} {y(value)}H{_WIDTH - _RIGHT}"/>')
        out.append(
            f'<text class="tick" x="{_LEFT - 5}" y="{y(value) + 4:.1f}" '
            f'text-anchor="end">{value:.6g}</text>'
        )
    for value in ticks(x.low, x.high):
        if series.labels and value != int(value):
            continue
        out.append(
            f'<text class="tick" x="{x(value)}" y="{_HEIGHT - _BOTTOM + 15}" '
            f'text-anchor="middle">{value:.6g}</text>'
        )
    base = _HEIGHT - _BOTTOM
    out.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{base}H{_WIDTH - _RIGHT}"/>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    out.append(
        f'<text class="name" x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">'
        f"{html(head(series.x_label, 60))}</text>"
    )
    out.append(
        f'<text class="name" x="-{(_TOP + base) / 2}" y="11" transform="rotate(-90)" '
        f'text-anchor="middle">{html(head(series.y_label, 34))}</text>'
    )
    return out


def _marks(
    series: Series, points: list[_Point], limit: float | None, x: _Scale, y: _Scale
) -> list[str]:
    out = []
    if not series.labels and len(points) > 1:
        out.append(f'<path class="line" d="{_way(points, x, y)}"/>')
    for point in points:
        over = limit is not None and point.y > limit
        if len(points) > _DOTS and not over and not series.labels:
            continue
        name = f"{head(point.label, 80)}: " if point.label else ""
        out.append(
            f'<circle class="{"over" if over else "dot"}" cx="{x(point.x)}" cy="{y(point.y)}" '
            f'r="{2.6 if len(points) <= _DOTS else 1.6}">'
            f"<title>{html(name)}{html(_figures.number(point.y))}</title></circle>"
        )
    if limit is not None:
        out.append(f'<path class="limit" d="M{_LEFT} {y(limit)}H{_WIDTH - _RIGHT}"/>')
        out.append(
            f'<text class="limit-name" x="{_WIDTH - _RIGHT}" y="{y(limit) - 4:.1f}" '
            f'text-anchor="end">limit {limit:.4g}</text>'
        )
    return out


def _way(points: list[_Point], x: _Scale, y: _Scale) -> str:
    """A line through the points, broken where values between two of them are not computed."""
    way = []
    last = None
    for point in points:
        way.append(f"{'L' if last == point.run else 'M'}{x(point.x)} {y(point.y)}")
        last = point.run
    return "".join(way)


def _in_words(series: Series, points: list[_Point], drawn: int, limit: float | None) -> str:
    values = [p.y for p in points]
    said = (
        f"{len(points):,} points from {_figures.number(min(values))} "
        f"to {_figures.number(max(values))}"
    )
    missing = len(series.y) - len(points)
    if missing > 0:
        said += f", {missing:,} not computed"
    if drawn < len(points):
        said += f", the largest of each {math.ceil(len(points) / _MOST_POINTS)} drawn"
    if limit is not None:
        over = sorted((p for p in points if p.y > limit), key=lambda p: -p.y)
        said += f"; {len(over):,} above the limit"
        names = [head(p.label, 80) for p in over[:_NAMED] if p.label]
        if names:
            more = len(over) - len(names)
            said += ": " + ", ".join(names) + (f" and {more:,} more" if more else "")
    return html(said) + "."


# --- a figure over a few runs ------------------------------------------------------------

_SPARK_WIDTH, _SPARK_HEIGHT, _SPARK_ROOM = 220, 56, 6


def sparkline(values: Sequence[float | None], limit: float | None, ident: str, title: str) -> str:
    """A figure over some runs, the last of them this one, with its margin as a dashed line; ""
    where no run has a number. What is not computed breaks the line."""
    series = Series(title, "", "", tuple(map(float, range(len(values)))), tuple(values))
    points = _finite(series)
    if not points:
        return ""
    limit = limit if limit is not None and abs(limit) < _HUGE else None
    room, high = _SPARK_ROOM, _y_scale(points, limit)
    x = _Scale(0, max(len(values) - 1, 1), room, _SPARK_WIDTH - room)
    y = _Scale(high.low, high.high, _SPARK_HEIGHT - room, room)
    last = len(values) - 1
    return "".join(
        (
            f'<svg class="spark" viewBox="0 0 {_SPARK_WIDTH} {_SPARK_HEIGHT}" role="img" '
            f'aria-labelledby="{ident}-t {ident}-d">',
            f'<title id="{ident}-t">{html(head(title, 200))}</title>',
            f'<desc id="{ident}-d">{_in_words(series, points, len(points), limit)}</desc>',
            f'<path class="grid" d="M0 {y(0.0)}H{_SPARK_WIDTH}"/>',
            f'<path class="limit" d="M0 {y(limit)}H{_SPARK_WIDTH}"/>' if limit is not None else "",
            f'<path class="line" d="{_way(points, x, y)}"/>',
            *(
                f'<circle class="{"over" if limit is not None and p.y > limit else "dot"}" '
                f'cx="{x(p.x)}" cy="{y(p.y)}" r="{4 if p.x == last else 2.2}"/>'
                for p in points
            ),
            "</svg>",
        )
    )


# --- an interval against its margin ---------------------------------------------------------

_GAUGE, _GAUGE_HEIGHT = 168, 22
_COLOURS = {Verdict.PASS: "pass", Verdict.FAIL: "fail"}


def gauge(check: Check) -> str:
    """The interval of a check as a bar between "no change" and beyond the margin; "" without.

    The scale is in margins, from -0.5 to 2; what lies beyond ends at the edge with an arrow.
    """
    estimate, limit = check.estimate, check.limit
    if estimate is None or limit is None or not math.isfinite(limit) or limit <= 0:
        return ""
    low, high = estimate.interval or (None, None)
    ends = [v / limit for v in (low, estimate.value, high) if v is not None and math.isfinite(v)]
    if not ends:
        return ""
    scale = _Scale(-0.5, 2.0, 4, _GAUGE - 4)
    start, stop = (min(max(v, -0.5), 2.0) for v in (min(ends), max(ends)))
    colour = _COLOURS.get(check.verdict, "unproven")
    middle = _GAUGE_HEIGHT / 2
    said = f"{_figures.worse_by(estimate)} against a margin of {_figures.margin(limit, estimate)}"
    parts = [
        f'<svg class="gauge" viewBox="0 0 {_GAUGE} {_GAUGE_HEIGHT}" role="img">',
        f"<title>{html(said)}</title>",
        f'<rect class="beyond" x="{scale(1)}" y="0" width="{_GAUGE - scale(1):.1f}" '
        f'height="{_GAUGE_HEIGHT}"/>',
        f'<path class="zero" d="M{scale(0)} 0V{_GAUGE_HEIGHT}"/>',
        f'<path class="limit" d="M{scale(1)} 0V{_GAUGE_HEIGHT}"/>',
        f'<path class="bar {colour}" d="M{scale(start)} {middle}H{scale(stop) + 0.1:.1f}"/>',
    ]
    if max(ends) > 2.0:
        x = scale(2)
        parts.append(
            f'<path class="bar {colour}" d="M{x - 5} {middle - 5}L{x} {middle}'
            f'L{x - 5} {middle + 5}"/>'
        )
    at = math.nan if estimate.value is None else estimate.value / limit
    if -0.5 <= at <= 2.0:
        parts.append(f'<circle class="dot {colour}" cx="{scale(at)}" cy="{middle}" r="3.5"/>')
    return "".join(parts) + "</svg>"
