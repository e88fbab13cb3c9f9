"""Charts as numbers on a canvas; ``charts.html`` draws them as SVG, whose colours are the page's.

Each has its numbers as a table, too, and series differ in marks and dashes, not in colour alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 40
_MOST_ROWS = 40
"""Rows of the table of a chart."""

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One line of a chart, or a cloud of points."""

    name: str
    points: Sequence[Point]
    """In the order of x."""
    band: Sequence[tuple[float, float, float]] = ()
    """The lowest and the highest value around each x."""
    marked: bool = False
    """Whether each point is marked."""
    joined: bool = True
    """Whether the points are joined by a line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """One axis: from a range of numbers to positions on the canvas."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the position of a number."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Return round numbers on the axis, as positions and texts."""
        step = _round_step((self.high - self.low) / 6)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [(self.at(n * step), shown(n * step)) for n in range(first, last + 1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """A series on the canvas."""

    name: str
    number: int
    """Its colour, dashes and marks, from 1."""
    path: str
    """What a line is drawn through; empty for none."""
    band: str
    """Corners of the band around it."""
    marks: Sequence[Point]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A bar on the canvas, with what to say about it."""

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
    """What it shows, in a sentence, for who cannot see it."""
    x_label: str
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    head: Sequence[str]
    """Headings of its table."""
    rows: Sequence[Sequence[str]]
    series: Sequence[Drawn] = ()
    bars: Sequence[Bar] = ()
    diagonal: tuple[float, float, float, float] | None = None
    """The ends of the line on which answers equal the truth."""
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
    """Draw some series over one another.

    Args:
        title: says what goes up.
        series: of at least one point together.
        x_label: what goes to the right.
        y_range: what to show of it; by default all, with some room.
        diagonal: whether to draw the line on which both are equal, on axes of one range.
    """
    xs = [x for one in series for x, _ in one.points]
    x = _scale(*_from_zero(min(xs), max(xs)), LEFT, WIDTH - RIGHT)
    ys = [y for one in series for _, y in one.points]
    low, high = y_range or _roomy(min(ys), max(ys))
    if diagonal and y_range is None:
        low, high = _roomy(min(*xs, *ys), max(*xs, *ys))
    if diagonal:
        x = _scale(low, high, LEFT, WIDTH - RIGHT)
    y = _scale(low, high, HEIGHT - BOTTOM, TOP)
    about = "; ".join(
        f"{one.name} from {shown(one.points[0][1])} to {shown(one.points[-1][1])}"
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
        diagonal=(x.at(low), y.at(low), x.at(high), y.at(high)) if diagonal else None,
    )


def bars(
    title: str,
    edges: Sequence[int],
    heights: Sequence[float],
    *,
    x_label: str,
    name: str,
) -> Chart:
    """Draw a histogram of whole numbers.

    Args:
        title: says what goes up.
        edges: the number that each bar begins with, and the one after the last bar.
        heights: of the bars, from 0.
        x_label: what goes to the right.
        name: what goes up, for the table.
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
        rows=[[_run(a, b), shown(height)] for a, b, height in spans if height],
        bars=[
            Bar(
                x=x.at(a),
                y=y.at(height),
                width=max(round(x.at(b) - x.at(a) - 1, 1), 0.5),
                height=round(y.at(0) - y.at(height), 1),
                about=f"{_run(a, b)}: {shown(height)}",
            )
            for a, b, height in spans
            if height
        ],
    )


def _run(first: int, after: int) -> str:
    """Name the whole numbers of a bar."""
    return f"{first:,}" if after - first == 1 else f"{first:,} to {after - 1:,}"


def shown(value: float) -> str:
    """Write a number as people do: whole ones with commas, others with three or four digits."""
    if value == round(value) and abs(value) < 1e15:
        return f"{round(value):,}"
    if 0 < abs(value) < 1e-3:
        return f"{value:.1e}".replace("e-0", "e-").replace(".0e", "e")
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _scale(low: float, high: float, start: float, end: float) -> Scale:
    if high <= low:  # one value alone stands in the middle
        room = abs(low) / 2 or 0.5
        low, high = low - room, high + room
    return Scale(low=low, high=high, start=start, end=end)


def _from_zero(low: float, high: float) -> tuple[float, float]:
    """Widen a range to 0 where that is near."""
    return (0.0, high) if 0 <= low <= (high - low) / 2 else (low, high)


def _roomy(low: float, high: float) -> tuple[float, float]:
    """Widen a range a little, and to 0 where that is near."""
    room = (high - low) * 0.06
    from_zero = _from_zero(low, high)[0]
    return (from_zero if from_zero == 0 else low - room), high + room


def _round_step(step: float) -> float:
    """Return 1, 2 or 5 times a power of ten that is at least as large."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= step * 0.999)


def _drawn(series: Series, number: int, x: Scale, y: Scale) -> Drawn:
    points = [(x.at(a), y.at(b)) for a, b in series.points]
    upper = [(x.at(a), y.at(high)) for a, _, high in series.band]
    lower = [(x.at(a), y.at(low)) for a, low, _ in series.band]
    return Drawn(
        name=series.name,
        number=number,
        path="M" + "L".join(f"{a} {b}" for a, b in points) if series.joined and points else "",
        band=" ".join(f"{a},{b}" for a, b in [*upper, *reversed(lower)]),
        marks=points if series.marked else (),
    )


def _rows(series: Sequence[Series]) -> list[list[str]]:
    """Return some rows of all values of x, evenly chosen, the first and the last among them."""
    columns = [dict(one.points) for one in series]
    xs = sorted({x for column in columns for x in column})
    count = min(len(xs), _MOST_ROWS)
    chosen = [xs[round(at * (len(xs) - 1) / max(count - 1, 1))] for at in range(count)]
    return [
        [shown(x), *(shown(column[x]) if x in column else "" for column in columns)] for x in chosen
    ]
