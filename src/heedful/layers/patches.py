"""Patch embeddings of images: each patch is a token (Dosovitskiy et al. 2021, section 3.1).

They compute equation 1 of the paper.

Shapes: B batch, C channels, Y rows and X columns of pixels, R rows and Q columns of patches, S
length: R * Q plus the class token, D model width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.layers.dropout import Dropout


class Vectors(nn.Module):
    """Learnt vectors, in the shape that the reference's files use.

    Args:
        number: number of vectors.
        width: D.
    """

    def __init__(self, number: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1, number, width))

    def forward(self) -> Tensor:
        """Return shape (1, number, D)."""
        return self.weight


class PatchProjection(nn.Module):
    """A linear layer over the pixels of each patch.

    Args:
        channels: C.
        width: D.
        patch: rows and columns of a patch.
    """

    def __init__(self, channels: int, width: int, patch: tuple[int, int]) -> None:
        super().__init__()
        self.projection = nn.Conv2d(channels, width, patch, stride=patch)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return shape (B, D, R, Q) for shape (B, C, Y, X); leftover edge pixels are ignored."""
        vectors: Tensor = self.projection(pixels)
        return vectors


class PatchEmbeddings(nn.Module):
    """Projected patches after a class token, plus position embeddings.

    Args:
        channels: C.
        width: D.
        patch: rows and columns of a patch, in pixels.
        grid: rows and columns of patches covered by the position embeddings.
        masks: whether patches can be masked, which needs a mask token.
        dropout: dropout probability in training.
    """

    def __init__(
        self,
        *,
        channels: int,
        width: int,
        patch: tuple[int, int],
        grid: tuple[int, int],
        masks: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.grid = grid
        self.cls_token = Vectors(1, width)
        self.mask_token = Vectors(1, width) if masks else None
        self.patch_embeddings = PatchProjection(channels, width, patch)
        self.position_embeddings = Vectors(1 + grid[0] * grid[1], width)
        self.dropout = Dropout(dropout)
        self.tokens = nn.Identity()
        """A hook point to read or replace the token embeddings."""

    def forward(self, pixels: Tensor, masked_patches: Tensor | None = None) -> Tensor:
        """Return shape (B, S, D).

        Args:
            pixels: shape (B, C, Y, X).
            masked_patches: 1 or True for a masked patch. Shape (B, R * Q).
        """
        patches = self.patch_embeddings(pixels)  # (B, D, R, Q)
        rows, columns = patches.shape[2:]
        vectors = patches.flatten(2).transpose(1, 2)  # (B, R * Q, D)
        if masked_patches is not None:
            assert self.mask_token is not None
            hides = masked_patches[:, :, None].to(vectors.dtype)
            vectors = vectors * (1 - hides) + self.mask_token() * hides
        first = self.cls_token().expand(len(vectors), -1, -1)
        tokens = self.tokens(torch.cat([first, vectors], 1))
        summed = tokens + self.positions((rows, columns))
        dropped: Tensor = self.dropout(summed)
        return dropped

    def positions(self, grid: tuple[int, int]) -> Tensor:
        """Return position embeddings for a grid of patches, interpolated if its size differs.

        Section 3.2 of the paper describes this for images of another size.

        Returns:
            Shape (1, S, D).
        """
        vectors: Tensor = self.position_embeddings()
        if grid == self.grid:
            return vectors
        table = vectors[:, 1:].view(1, *self.grid, -1).permute(0, 3, 1, 2)  # (1, D, R, Q)
        # Not every machine has this kernel in half precision, and there it rounds coarsely.
        resized = F.interpolate(_wide(table), grid, mode="bicubic", align_corners=False)
        patches = resized.to(vectors.dtype).flatten(2).transpose(1, 2)
        return torch.cat([vectors[:, :1], patches], 1)


def _wide(table: Tensor) -> Tensor:
    return table.float() if table.dtype in (torch.bfloat16, torch.float16) else table
