"""Pictures as examples, and examples as tensors.

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


def picture_example(pixels: NDArray[np.uint8], tokens: int, labels: tuple[float, ...]) -> Example:
    """Make an example of a picture.

    Args:
        pixels: shape (C, Y, X).
        tokens: how many the model makes of it.
        labels: see ``Example``.
    """
    return Example(ids=np.arange(tokens, dtype=np.int32), pixels=pixels.ravel(), labels=labels)


def collate_pictures(
    examples: Sequence[Example],
    processor: ViTImageProcessor,
    *,
    targets: dict[str, Tensor],
    shift: float = 0.0,
    draw: Draw | None = None,
) -> Batch:
    """Put pictures together.

    Args:
        examples: at least one.
        processor: says their size, and what their pixels become.
        targets: what to learn from them.
        shift: the share of a side by which a picture is moved at most, at random.
        draw: decides how, where the pictures are learnt from; else they stay.
    """
    shape = (len(examples), processor.channels, *processor.size)
    pixels = np.concatenate([_numbers(example) for example in examples]).reshape(shape)
    if shift and draw is not None and draw.learns:
        pixels = shifted(pixels, shift, draw)
    tokens = sum(len(example.ids) for example in examples)
    return Batch(
        inputs={"pixel_values": torch.from_numpy(processor.values(pixels))},
        targets=targets,
        num_tokens=tokens,
        num_positions=tokens,
    )


def random_pictures(processor: ViTImageProcessor) -> list[Tensor]:
    """Draw pictures that ranges are measured on, fine and coarse; always the same ones.

    Returns:
        Batches of what a model reads. Each of shape (B, C, Y, X).
    """
    random = np.random.default_rng(0)
    rows, columns = processor.size
    batches = []
    for grain in (1, 4, 16):
        shape = (4, processor.channels, -(-rows // grain), -(-columns // grain))
        coarse = random.integers(0, 256, shape, dtype=np.uint8)
        pixels = coarse.repeat(grain, 2).repeat(grain, 3)[:, :, :rows, :columns]
        batches.append(torch.from_numpy(processor.values(pixels)))
    return batches


def shifted(pixels: NDArray[np.uint8], share: float, draw: Draw) -> NDArray[np.uint8]:
    """Move each picture up or down, left or right; what comes in repeats its edge.

    Args:
        pixels: shape (B, C, Y, X).
        share: of each side, at most.
        draw: decides how far: each picture by its number in the data, and by the epoch.
    """
    rows, columns = pixels.shape[2:]
    most = int(share * rows), int(share * columns)
    moved = np.empty_like(pixels)
    for index, number in enumerate(draw.rows.tolist()):
        random = np.random.default_rng([draw.seed, draw.epoch, number])
        down, right = (int(random.integers(-limit, limit + 1)) for limit in most)
        from_rows = np.clip(np.arange(rows) - down, 0, rows - 1)
        from_columns = np.clip(np.arange(columns) - right, 0, columns - 1)
        moved[index] = pixels[index][:, from_rows[:, None], from_columns]
    return moved


def _numbers(example: Example) -> NDArray[np.uint8]:
    assert example.pixels is not None
    return example.pixels
