"""Plot of the confusion matrix."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.errors import UserError, count_of, shorten
from heedful.extras import missing
from heedful.metrics.by_label import LARGEST_CONFUSION, has_confusion
from heedful.metrics.fonts import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg")
_CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}


def check_confusion_picture(path: Path, *, num_labels: int | None) -> None:
    """Check that the confusion matrix can be plotted.

    Args:
        path: the image file to write.
        num_labels: number of labels; None if a text does not have exactly one label.

    Raises:
        UserError: the suffix is neither ``.png`` nor ``.svg``, a text may have several labels or
            none, there are too many labels, or matplotlib is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"picture {str(path)!r}: the name must end in {' or '.join(SUFFIXES)}")
    if num_labels is None:
        raise UserError("only a run that gives each text one label has a confusion matrix to draw")
    if num_labels > LARGEST_CONFUSION:
        raise UserError(
            f"the confusion matrix of {num_labels:,} labels is too large to draw; the most is "
            f"{LARGEST_CONFUSION}"
        )
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        raise missing("plot") from None


def save_confusion_picture(scores: Mapping[str, Any], path: Path) -> None:
    """Plot the confusion matrix: rows are the true classes, shaded by fraction of the row.

    A row adds up to 100 %, so a rare class is as legible as a frequent one. The shades have a
    single hue, legible to colour-blind readers and in greyscale print. An SVG shows labels in any
    script that its viewer has fonts for. A PNG shows the scripts of matplotlib's default font, and
    of a Chinese font if one is installed.

    Args:
        scores: result of :meth:`ClassificationScores.compute` for single-label data.
        path: a ``.png`` or ``.svg`` file. An existing file is replaced only once the new one is
            complete.

    Raises:
        UserError: see `check_confusion_picture`; or the folder does not exist.
    """
    num_labels = len(scores["per_class"]) if has_confusion(scores) else None
    check_confusion_picture(path, num_labels=num_labels)
    from matplotlib.figure import Figure

    size = len(scores["confusion"])
    cell = 0.95 if size <= 4 else 0.75 if size <= 12 else 0.4  # inches
    # The axes fill the figure. The saved image is wider, to fit names of any length.
    figure = Figure(figsize=(cell * size, cell * size))
    axes = figure.add_axes((0, 0, 1, 1))
    _draw_matrix(axes, scores["confusion"], with_counts=size <= 12)
    _label_axes(axes, scores, room=round(cell / 0.09))
    save_figure(figure, path, dpi=150, bbox_inches="tight", pad_inches=0.15)


def _draw_matrix(axes: "Axes", confusion: list[list[int]], *, with_counts: bool) -> None:
    """Shade each cell and write its percentage and, if there is room, its count in it."""
    shares = [[count / max(1, sum(row)) for count in row] for row in confusion]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    for true, row in enumerate(confusion):
        for predicted, count in enumerate(row):
            if count == 0:
                continue
            share = shares[true][predicted]
            if with_counts:
                above, below, percent = true - 0.12, true + 0.2, f"{_percent(share)}%"
                axes.text(
                    predicted, above, percent, color=_text_colour(share), fontsize=10, **_CENTRED
                )
                axes.text(
                    predicted,
                    below,
                    f"{count:,}",
                    color=_text_colour(share),
                    fontsize=8,
                    **_CENTRED,
                )
            else:
                axes.text(
                    predicted,
                    true,
                    _percent(share),
                    color=_text_colour(share),
                    fontsize=10,
                    **_CENTRED,
                )


def _percent(share: float) -> str:
    """Format as a whole percentage, but never round up to 100 or down to 0."""
    if share < 0.005:
        return "<1"
    return ">99" if 0.995 <= share < 1 else f"{100 * share:.0f}"


def _text_colour(share: float) -> str:
    """Return a text colour that contrasts with the cell's shade; grey for a small fraction."""
    if share < 0.05:
        return "#606060"
    return "#1a1a1a" if share < 0.69 else "#ffffff"


def _label_axes(axes: "Axes", scores: Mapping[str, Any], *, room: int) -> None:
    """Set the tick labels and the title; rotate the x labels if one is too long for a cell."""
    names = [shorten(row["label"], 32) for row in scores["per_class"]]
    positions = range(len(names))
    axes.set_xticks(positions, names)
    if max(map(len, names)) > room:
        axes.tick_params("x", labelrotation=45)
        for text in axes.get_xticklabels():
            text.set(horizontalalignment="right", rotation_mode="anchor")
    axes.set_yticks(
        positions,
        [
            f"{name}  ({row['support']:,})"
            for name, row in zip(names, scores["per_class"], strict=True)
        ],
    )
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_parse_math(False)  # a label may contain dollar signs
    boundaries = [position - 0.5 for position in positions[1:]]
    axes.set_xticks(boundaries, minor=True)
    axes.set_yticks(boundaries, minor=True)
    axes.grid(which="minor", color="#d0d0d0", linewidth=0.5)
    axes.tick_params(which="both", length=0)
    axes.set_xlabel("predicted as", labelpad=8)
    axes.set_ylabel("true label (items)", labelpad=8)
    axes.set_title(
        f"Confusion matrix, in % of each true label\n"
        f"{count_of(scores['items'], 'item')}, accuracy {scores['accuracy']:.1%}",
        loc="left",
        fontsize=11,
    )
