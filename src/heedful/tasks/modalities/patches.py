"""The patches of an image as the tokens of an explanation.

Shapes: C channels, Y rows and X columns of pixels, T tokens: the class token and the patches.
"""

import base64
from dataclasses import replace
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from heedful.batches import Example
from heedful.explanation_target import Patches, Side, Token, special
from heedful.images.processor import ViTImageProcessor


def side_of_image(example: Example, reader: ViTImageProcessor) -> Side:
    """Return the tokens of an image; the name of a patch is its row and column, from 1."""
    rows, columns = grid_of(len(example.ids) - 1, reader.size)
    names = [f"{row},{column}" for row in range(1, rows + 1) for column in range(1, columns + 1)]
    tokens, start = [special("[CLS]")], 0
    for number, name in enumerate(names):
        end = start + len(name)
        tokens.append(Token(piece=name, text=0, start=start, end=end, word=number))
        start = end + 1
    return Side(
        name="picture",
        texts=(" ".join(names),),
        tokens=tuple(tokens),
        patches=Patches(png=_png(_pixels(example, reader)), rows=rows, columns=columns),
    )


def grid_of(patches: int, size: tuple[int, int]) -> tuple[int, int]:
    """Return the number of rows and columns of patches, chosen to make patches most nearly square.

    Args:
        patches: number of patches.
        size: height and width in pixels.
    """
    shapes = [(rows, patches // rows) for rows in range(1, patches + 1) if patches % rows == 0]
    return min(shapes, key=lambda shape: abs(np.log(size[0] / shape[0] * shape[1] / size[1])))


def covered(
    example: Example,
    removed: NDArray[np.bool_],
    *,
    reader: ViTImageProcessor,
    grid: tuple[int, int],
) -> Example:
    """Paint patches in the colour that is normalised to 0.

    Args:
        example: an image.
        removed: True for each patch to paint; the class token is ignored. Shape (T,).
        reader: the image processor, which defines the colour.
        grid: rows and columns of patches.
    """
    pixels = _pixels(example, reader).copy()
    height, width = reader.size[0] // grid[0], reader.size[1] // grid[1]
    painted = (
        removed[1:].reshape(grid).repeat(height, 0).repeat(width, 1)
    )  # (Y, X), less at an edge
    area = pixels[:, : painted.shape[0], : painted.shape[1]]
    area[:, painted] = reader.neutral_colour[:, None]
    return replace(example, pixels=pixels.ravel())


def _pixels(example: Example, reader: ViTImageProcessor) -> NDArray[np.uint8]:
    """Return the pixels. Shape (C, Y, X)."""
    assert example.pixels is not None
    return example.pixels.reshape(reader.channels, *reader.size)


def _png(pixels: NDArray[np.uint8]) -> str:
    from PIL import Image

    array = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    stream = BytesIO()
    Image.fromarray(np.ascontiguousarray(array)).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode("ascii")
