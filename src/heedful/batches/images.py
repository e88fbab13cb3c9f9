"""Convert images to examples, and collate them into tensors.

Shapes: B examples, C channels, Y rows, X columns.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.batches.collate import Batch
from heedful.batches.examples import Draw, Example
from heedful.images.processor import ViTImageProcessor


def image_example(pixels: NDArray[np.uint8], tokens: int, labels: tuple[float, ...]) -> Example:
    """Return an example of an image.

    Args:
        pixels: shape (C, Y, X).
        tokens: number of tokens of the image in the model.
        labels: see ``Example``.
    """
    return Example(ids=np.arange(tokens, dtype=np.int32), pixels=pixels.ravel(), labels=labels)


def collate_images(
    examples: Sequence[Example],
    processor: ViTImageProcessor,
    *,
    targets: dict[str, Tensor],
    shift: float = 0.0,
    draw: Draw | None = None,
) -> Batch:
    """Collate images.

    Args:
        examples: at least one.
        processor: defines the image size and the pixel normalization.
        targets: the training targets of the examples.
        shift: maximum random shift of an image, as a share of its side.
        draw: seeds the shifts of training batches. Other batches are not shifted.
    """
    shape = (len(examples), processor.channels, *processor.size)
    pixels = np.concatenate([_pixels(example) for example in examples]).reshape(shape)
    if shift and draw is not None and draw.training:
        pixels = shift_images(pixels, shift, draw)
    num_tokens = sum(len(example.ids) for example in examples)
    return Batch(
        inputs={"pixel_values": torch.from_numpy(processor.values(pixels))},
        targets=targets,
        num_tokens=num_tokens,
        num_positions=num_tokens,
    )


def random_images(processor: ViTImageProcessor) -> list[Tensor]:
    """Return fixed random images, fine and coarse, to measure value ranges on.

    Returns:
        Batches of model inputs. Each of shape (B, C, Y, X).
    """
    generator = np.random.default_rng(0)
    rows, columns = processor.size
    batches = []
    for grain in (1, 4, 16):
        shape = (4, processor.channels, -(-rows // grain), -(-columns // grain))
        coarse = generator.integers(0, 256, shape, dtype=np.uint8)
        pixels = coarse.repeat(grain, 2).repeat(grain, 3)[:, :, :rows, :columns]
        batches.append(torch.from_numpy(processor.values(pixels)))
    return batches


def shift_images(pixels: NDArray[np.uint8], share: float, draw: Draw) -> NDArray[np.uint8]:
    """Shift each image vertically and horizontally; edge pixels fill the gap.

    Args:
        pixels: shape (B, C, Y, X).
        share: maximum shift, as a share of each side.
        draw: seeds each shift, with the image's index in the dataset and the epoch.
    """
    rows, columns = pixels.shape[2:]
    limits = int(share * rows), int(share * columns)
    result = np.empty_like(pixels)
    for index, row_index in enumerate(draw.rows.tolist()):
        generator = np.random.default_rng([draw.seed, draw.epoch, row_index])
        down, right = (int(generator.integers(-limit, limit + 1)) for limit in limits)
        from_rows = np.clip(np.arange(rows) - down, 0, rows - 1)
        from_columns = np.clip(np.arange(columns) - right, 0, columns - 1)
        result[index] = pixels[index][:, from_rows[:, None], from_columns]
    return result


def _pixels(example: Example) -> NDArray[np.uint8]:
    assert example.pixels is not None
    return example.pixels
