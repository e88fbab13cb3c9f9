"""Panels of an image explanation: patch scores and attention, drawn over the image.

Shapes: R patch rows, C patch columns, L layers, H heads, T tokens: the class token, then R * C.
"""

import base64
import io
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from heedful.explanations.explanation import AttentionMap, Explanation, Patches

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_OPACITY = 0.75
"""Opacity of the strongest patch."""


def overlay_panels(
    explanation: Explanation,
    patches: Patches,
    layers: Callable[[AttentionMap], Sequence[tuple[str, NDArray[np.float32]]]],
    colours: tuple[str, str],
) -> "list[Callable[[Axes], None]]":
    """Return a drawing function for each panel.

    Args:
        explanation: an explanation of one side, whose tokens after the first are patches.
        patches: the image and its patch grid.
        layers: returns the titled layers of a map, each of shape (T, T).
        colours: colours of patches for and against the target.
    """
    grid = patches.rows, patches.columns
    panels: list[Callable[[Axes], None]] = []
    for attribution in explanation.attributions:
        (scores,) = attribution.scores
        if scores is not None:
            title = f"{attribution.method}\n{attribution.target}"
            tint = partial(tinted, np.reshape(scores[1:], grid), colours)
            panels.append(partial(_draw, patches=patches, title=title, tint=tint))
    for attention_map in explanation.attention:
        for name, weights in layers(attention_map):
            title = f"{name}\nwhat the class token takes from"
            tint = partial(_heat_map, weights[0, 1:].reshape(grid))
            panels.append(partial(_draw, patches=patches, title=title, tint=tint))
    return panels


def tinted(scores: NDArray[np.float64], colours: tuple[str, str]) -> NDArray[np.float64]:
    """Return a colour for each patch; stronger patches are more opaque. Shape (R, C, 4)."""
    from matplotlib.colors import to_rgb

    rgba = np.empty((*scores.shape, 4))
    rgba[..., :3] = np.where((scores >= 0)[..., None], *map(to_rgb, colours))
    rgba[..., 3] = _MAX_OPACITY * _normalized(np.abs(scores))
    return rgba


def _heat_map(weights: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return a colour for each patch, from dark blue for 0 to yellow for 1. Shape (R, C, 4)."""
    from matplotlib import colormaps

    return np.asarray(colormaps["cividis"](_normalized(weights), alpha=_MAX_OPACITY))


def _normalized(values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    highest = values.max()
    return values / highest if highest > 0 else np.zeros_like(values)


def _draw(
    axes: "Axes", patches: Patches, title: str, tint: Callable[[], NDArray[np.float64]]
) -> None:
    from matplotlib.image import imread

    pixels = imread(io.BytesIO(base64.b64decode(patches.png)), format="png")
    extent = (0, patches.columns, patches.rows, 0)
    axes.imshow(pixels, cmap="gray", extent=extent, aspect="auto", interpolation="nearest")
    axes.imshow(tint(), extent=extent, aspect="auto", interpolation="nearest")
    axes.set_box_aspect(pixels.shape[0] / pixels.shape[1])
    axes.set_title(title, fontsize=8)
    axes.set_axis_off()
