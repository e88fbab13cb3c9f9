"""Charts as canvas coordinates. ``charts.html`` draws them as SVG in the colours of the page.

Each chart also has its values as a table. Series differ in marks and dashes, not only in colour.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 40
_MAX_ROWS = 40
"""Maximum number of rows in a chart's table."""

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One line of a chart, or the points of a scatter plot."""

    name: str
    points: Sequence[Point]
    """The points, ordered by x."""
    band: Sequence[tuple[float, float, float]] = ()
    """x, and the lowest and highest value around it."""
    marked: bool = False
    """Whether each point has a mark."""
    joined: bool = True
    """Whether a line joins the points."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """One axis: maps a range of values to positions on the canvas."""

    low: float
    high: float
    start: float
    end: float

    def position(self, value: float) -> float:
        """Return the position of a value."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the ticks of the axis at round numbers, as positions and labels."""
        step = _round_step((self.high - self.low) / 6)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [(self.position(n * step), format_number(n * step)) for n in range(first, last + 1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnSeries:
    """A series in canvas coordinates."""

    name: str
    number: int
    """Number of the series, from 1. It selects the colour, dashes and marks."""
    path: str
    """SVG path of the line; empty for none."""
    band: str
    """Corners of the band, as SVG polygon points."""
    marks: Sequence[Point]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A bar in canvas coordinates, with its description."""

    x: float
    y: float
    width: float
    height: float
    about: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart, ready for the template."""

    title: str
    about: str
    """Description of the chart in one sentence, for screen readers."""
    x_label: str
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    head: Sequence[str]
    """Column headings of the table."""
    rows: Sequence[Sequence[str]]
    series: Sequence[DrawnSeries] = ()
    bars: Sequence[Bar] = ()
    diagonal: tuple[float, float, float, float] | None = None
    """Ends of the line on which x and y are equal."""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def lines(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    y_range: tuple[float, float] | None = None,
    diagonal: bool = False,
) -> Chart:
    """Return a line chart or scatter plot of several series.

    Args:
        title: the title, which names the y values.
        series: the series, with at least one point in total.
        x_label: label of the x axis.
        y_range: range of the y axis; by default all values, with a margin.
        diagonal: whether to draw the line on which x and y are equal, with equal axis ranges.
    """
    xs = [x for one in series for x, _ in one.points]
    x = _scale(*_include_zero(min(xs), max(xs)), LEFT, WIDTH - RIGHT)
    ys = [y for one in series for _, y in one.points]
    low, high = y_range or _with_margin(min(ys), max(ys))
    if diagonal and y_range is None:
        low, high = _with_margin(min(*xs, *ys), max(*xs, *ys))
    if diagonal:
        x = _scale(low, high, LEFT, WIDTH - RIGHT)
    y = _scale(low, high, HEIGHT - BOTTOM, TOP)
    about = "; ".join(
        f"{one.name} from {format_number(one.points[0][1])} to {format_number(one.points[-1][1])}"
        for one in series
        if one.points and one.joined
    )
    return Chart(
        title=title,
        about=f"{title}: {about}" if about else f"{title}, {len(xs)} points",
        x_label=x_label,
        x_ticks=x.ticks(),
        y_ticks=y.ticks(),
        head=[x_label, *(one.name for one in series)],
        rows=_rows(series),
        series=[_drawn(one, number, x, y) for number, one in enumerate(series, start=1)],
        diagonal=(x.position(low), y.position(low), x.position(high), y.position(high))
        if diagonal
        else None,
    )


def bars(
    title: str,
    edges: Sequence[int],
    heights: Sequence[float],
    *,
    x_label: str,
    name: str,
) -> Chart:
    """Return a histogram of integers.

    Args:
        title: the title, which names the y values.
        edges: the first integer of each bar, and the integer after the last bar.
        heights: heights of the bars, at least 0.
        x_label: label of the x axis.
        name: name of the y values, for the table.
    """
    x = _scale(edges[0], edges[-1], LEFT, WIDTH - RIGHT)
    y = _scale(0, max(*heights, 1) * 1.05, HEIGHT - BOTTOM, TOP)
    spans = list(zip(edges, edges[1:], heights, strict=False))
    first, after, _ = max(spans, key=lambda span: span[2])
    return Chart(
        title=title,
        about=f"{title}; most of them from {first:,} to {after - 1:,}",
        x_label=x_label,
        x_ticks=x.ticks(),
        y_ticks=y.ticks(),
        head=[x_label, name],
        rows=[[_range_label(a, b), format_number(height)] for a, b, height in spans if height],
        bars=[
            Bar(
                x=x.position(a),
                y=y.position(height),
                width=max(round(x.position(b) - x.position(a) - 1, 1), 0.5),
                height=round(y.position(0) - y.position(height), 1),
                about=f"{_range_label(a, b)}: {format_number(height)}",
            )
            for a, b, height in spans
            if height
        ],
    )


def _range_label(first: int, after: int) -> str:
    """Return the range of integers of a bar as text."""
    return f"{first:,}" if after - first == 1 else f"{first:,} to {after - 1:,}"


def format_number(value: float) -> str:
    """Format a number for reading: integers with commas, others with two to four digits."""
    if value == round(value) and abs(value) < 1e15:
        return f"{round(value):,}"
    if 0 < abs(value) < 1e-3:
        return f"{value:.1e}".replace("e-0", "e-").replace(".0e", "e")
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _scale(low: float, high: float, start: float, end: float) -> Scale:
    if high <= low:  # put a single value in the middle
        margin = abs(low) / 2 or 0.5
        low, high = low - margin, high + margin
    return Scale(low=low, high=high, start=start, end=end)


def _include_zero(low: float, high: float) -> tuple[float, float]:
    """Extend a range to 0 if 0 is near."""
    return (0.0, high) if 0 <= low <= (high - low) / 2 else (low, high)


def _with_margin(low: float, high: float) -> tuple[float, float]:
    """Extend a range by a margin, and to 0 if 0 is near."""
    margin = (high - low) * 0.06
    from_zero = _include_zero(low, high)[0]
    return (from_zero if from_zero == 0 else low - margin), high + margin


def _round_step(step: float) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that is at least ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= step * 0.999)


def _drawn(series: Series, number: int, x: Scale, y: Scale) -> DrawnSeries:
    points = [(x.position(a), y.position(b)) for a, b in series.points]
    upper = [(x.position(a), y.position(high)) for a, _, high in series.band]
    lower = [(x.position(a), y.position(low)) for a, low, _ in series.band]
    return DrawnSeries(
        name=series.name,
        number=number,
        path="M" + "L".join(f"{a} {b}" for a, b in points) if series.joined and points else "",
        band=" ".join(f"{a},{b}" for a, b in [*upper, *reversed(lower)]),
        marks=points if series.marked else (),
    )


def _rows(series: Sequence[Series]) -> list[list[str]]:
    """Return table rows for evenly sampled x values, including the first and the last."""
    columns = [dict(one.points) for one in series]
    xs = sorted({x for column in columns for x in column})
    count = min(len(xs), _MAX_ROWS)
    sampled = [xs[round(index * (len(xs) - 1) / max(count - 1, 1))] for index in range(count)]
    return [
        [format_number(x), *(format_number(column[x]) if x in column else "" for column in columns)]
        for x in sampled
    ]
