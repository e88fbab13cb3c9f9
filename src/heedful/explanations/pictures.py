"""Draw explanations and head importance as figures for papers and slides.

Shapes: R rows, C columns.
"""

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError
from heedful.explanations.explanation import AttentionMap, Attribution, Explanation, Side
from heedful.explanations.heads import HeadImportance
from heedful.explanations.overlays import overlay_panels
from heedful.extras import missing
from heedful.metrics.fonts import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")

MAX_TOKENS = 64
"""Maximum tokens per side. More are not legible in one figure."""

FOR, AGAINST = "#0072B2", "#D55E00"
"""Two colours that are distinguishable with any colour vision (Okabe and Ito 2008). The side of the
bar also shows the sign."""

_CONTROLS = {code: 0x2400 + code for code in range(32)}
"""A visible symbol for each control character, such as a line break. SVG forbids some of them."""

_COLUMNS = 3
_IMAGE_PANEL_WIDTH = 3.2


def save_picture(explanation: Explanation, path: Path) -> None:
    """Draw token scores as bars, and the attention of each layer, averaged over its heads.

    For a model with a decoder, the figure shows the attention from the output to the input
    (Bahdanau et al. 2015, figure 3). For an image, scores and attention are drawn over it, patch by
    patch.

    Args:
        explanation: the explanation to draw.
        path: a ``.png`` or ``.svg`` file.

    Raises:
        UserError: matplotlib is not installed, or the text is too long to draw.
    """
    patches = explanation.sides[0].patches
    if patches is not None:
        panels = overlay_panels(explanation, patches, _layers, (FOR, AGAINST))
        _save_panels(panels, _IMAGE_PANEL_WIDTH, explanation, path)
        return
    longest = max(len(side.tokens) for side in explanation.sides)
    if longest > MAX_TOKENS:
        raise UserError(
            f"--out {path}: the text has {longest} tokens; at most {MAX_TOKENS} can be drawn"
        )
    _save_panels(_text_panels(explanation), max(1.6 + 0.2 * longest, 4.0), explanation, path)


def _text_panels(explanation: Explanation) -> "list[Callable[[Axes], None]]":
    panels: list[Callable[[Axes], None]] = [
        partial(_draw_bars, attribution=attribution, side=side, scores=scores)
        for attribution in explanation.attributions
        for side, scores in zip(explanation.sides, attribution.scores, strict=True)
        if scores is not None
    ]
    for map_ in _maps_to_draw(explanation.attention):
        panels += [
            partial(_draw_map, title=title, map_=map_, weights=weights, sides=explanation.sides)
            for title, weights in _layers(map_)
        ]
    return panels


def _save_panels(
    panels: "Sequence[Callable[[Axes], None]]", width: float, explanation: Explanation, path: Path
) -> None:
    """Draw square panels, each ``width`` inches wide."""
    columns = min(_COLUMNS, max(len(panels), 1))
    rows = -(-len(panels) // columns)
    figure = _figure(width * columns, width * rows + 0.8)
    figure.suptitle(_title(explanation, round(11 * width * columns)), fontsize=10)
    for number, draw in enumerate(panels, start=1):
        draw(figure.add_subplot(rows, columns, number))
    _save(figure, path)


def save_heads_picture(importance: HeadImportance, path: Path) -> None:
    """Draw each head's importance, and the loss of score without it.

    Raises:
        UserError: matplotlib is not installed.
    """
    masks = list(dict.fromkeys(head.mask for head in importance.heads))
    layers = 1 + max(head.layer for head in importance.heads)
    heads = 1 + max(head.head for head in importance.heads)
    figure = _figure(2 * (2.2 + 0.5 * heads), len(masks) * (1.6 + 0.45 * layers))
    for number, mask in enumerate(masks):
        slopes = np.full((layers, heads), np.nan)  # pruned heads stay empty
        losses = slopes.copy()
        for head in importance.heads:
            if head.mask == mask:
                slopes[head.layer, head.head] = head.importance
                losses[head.layer, head.head] = importance.score - head.score
        titles = ("importance: slope of the loss", f"{importance.metric} lost without the head")
        for column, (title, values) in enumerate(zip(titles, (slopes, losses), strict=True)):
            axes = figure.add_subplot(len(masks), 2, 2 * number + column + 1)
            _draw_heads(axes, f"{title}\n({mask})" if len(masks) > 1 else title, values)
    _save(figure, path)


def _figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing("plot") from None
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: "Figure", path: Path) -> None:
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)  # texts and labels may contain dollar signs
    save_figure(figure, path, dpi=110)


def _title(explanation: Explanation, width: int) -> str:
    """Return the title and the notes, wrapped to ``width`` characters."""
    targets = dict.fromkeys(attribution.target for attribution in explanation.attributions)
    lines = [f"{explanation.model}: {', '.join(targets)}" if targets else explanation.model]
    return "\n".join(textwrap.fill(line, width) for line in (*lines, *explanation.notes))


def _maps_to_draw(maps: Sequence[AttentionMap]) -> list[AttentionMap]:
    """Return the maps to draw: cross-attention if there is any, else all maps."""
    cross_maps = [map_ for map_ in maps if map_.kind in ("cross", "alignment")]
    return cross_maps or list(maps)


def _layers(map_: AttentionMap) -> list[tuple[str, NDArray[np.float32]]]:
    """Return a map's layers with their titles. Each of shape (R, C)."""
    if map_.kind == "rollout":
        return [("rollout, all layers combined", map_.weights[-1, 0])]
    if map_.kind == "alignment":
        return [("alignment", map_.weights[0, 0])]
    layers = []
    for index, layer in enumerate(map_.weights):
        remaining = [head for head in range(len(layer)) if (index, head) not in map_.gone]
        title = f"{map_.kind}, layer {index + 1}, mean of its heads"
        layers.append((title, layer[remaining].mean(0)))
    return layers


def _labels(side: Side) -> list[str]:
    return [shown.translate(_CONTROLS) for shown in side.display_tokens()]


def _draw_bars(axes: "Axes", attribution: Attribution, side: Side, scores: Sequence[float]) -> None:
    colours = [FOR if score >= 0 else AGAINST for score in scores]
    positions = range(len(scores))
    axes.barh(positions, scores, color=colours)
    axes.set_yticks(positions, _labels(side), fontsize=7)
    axes.invert_yaxis()  # the text reads from the top
    axes.axvline(0, color="black", linewidth=0.5)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title(f"{attribution.method}\n{attribution.target}", fontsize=8)
    axes.set_xlabel("against it  <  0  <  for it", fontsize=7)


def _draw_map(
    axes: "Axes",
    title: str,
    map_: AttentionMap,
    weights: NDArray[np.float32],
    sides: Sequence[Side],
) -> None:
    axes.imshow(weights, cmap="cividis", vmin=0, interpolation="nearest")
    axes.set_title(title, fontsize=8)
    axes.set_xticks(range(weights.shape[1]), _labels(sides[map_.columns]), rotation=90, fontsize=7)
    axes.set_yticks(range(weights.shape[0]), _labels(sides[map_.rows]), fontsize=7)
    axes.set_ylabel("attending token", fontsize=7)
    axes.set_xlabel("attended token", fontsize=7)
    axes.tick_params(length=0)


def _draw_heads(axes: "Axes", title: str, values: NDArray[np.float64]) -> None:
    bound = max(float(np.nanmax(np.abs(values))), 0.01)  # smaller values are noise
    signed = bool(np.nanmin(values) < 0)
    image = axes.imshow(
        values,
        cmap="PuOr" if signed else "cividis",
        vmin=-bound if signed else 0,
        vmax=bound,
        interpolation="nearest",
    )
    axes.figure.colorbar(image, ax=axes, shrink=0.8)
    axes.set_title(title, fontsize=9)
    axes.set_xticks(range(values.shape[1]))
    axes.set_yticks(range(values.shape[0]))
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
