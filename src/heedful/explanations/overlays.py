"""Panels of an explanation of a picture: scores and attention of its patches, over the picture.

Shapes: R rows and C columns of patches, L layers, H heads, T tokens: the class token, then R * C.
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

_STRONGEST = 0.75
"""How much of the picture the strongest patch hides."""


def overlay_panels(
    explanation: Explanation,
    patches: Patches,
    layers: Callable[[AttentionMap], Sequence[tuple[str, NDArray[np.float32]]]],
    colours: tuple[str, str],
) -> "list[Callable[[Axes], None]]":
    """Return what draws each panel.

    Args:
        explanation: of one side, whose tokens after the first are patches.
        patches: the picture.
        layers: from a map to its layers with their titles, each of shape (T, T).
        colours: of patches that speak for the target, and against it.
    """
    grid = patches.rows, patches.columns
    panels: list[Callable[[Axes], None]] = []
    for one in explanation.attributions:
        (scores,) = one.scores
        if scores is not None:
            title = f"{one.method}\n{one.target}"
            tint = partial(tinted, np.reshape(scores[1:], grid), colours)
            panels.append(partial(_draw, patches=patches, title=title, tint=tint))
    for one_map in explanation.attention:
        for name, weights in layers(one_map):
            title = f"{name}\nwhat the class token takes from"
            tint = partial(_mapped, weights[0, 1:].reshape(grid))
            panels.append(partial(_draw, patches=patches, title=title, tint=tint))
    return panels


def tinted(scores: NDArray[np.float64], colours: tuple[str, str]) -> NDArray[np.float64]:
    """Return a colour for each patch, the stronger the less transparent. Shape (R, C, 4)."""
    from matplotlib.colors import to_rgb

    over = np.empty((*scores.shape, 4))
    over[..., :3] = np.where((scores >= 0)[..., None], *map(to_rgb, colours))
    over[..., 3] = _STRONGEST * _share(np.abs(scores))
    return over


def _mapped(weights: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return a colour for each patch, from dark blue for 0 to yellow. Shape (R, C, 4)."""
    from matplotlib import colormaps

    return np.asarray(colormaps["cividis"](_share(weights), alpha=_STRONGEST))


def _share(numbers: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    highest = numbers.max()
    return numbers / highest if highest > 0 else np.zeros_like(numbers)


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
