"""Pictures to vectors: each patch is a token (Dosovitskiy et al. 2021, section 3.1, equation 1).

Shapes: B batch, C channels, Y rows and X columns of pixels, R rows and Q columns of patches, S
length: R * Q and the class token, D model width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.layers.dropout import Dropout


class Vectors(nn.Module):
    """Some learnt vectors, in the shape that the reference's files have.

    Args:
        number: how many.
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
        """Return shape (B, D, R, Q) for shape (B, C, Y, X); what is left at an edge is not read."""
        vectors: Tensor = self.projection(pixels)
        return vectors


class PatchEmbeddings(nn.Module):
    """Patches through a linear layer, the class token before them, and the vectors of positions.

    Args:
        channels: C.
        width: D.
        patch: rows and columns of a patch, in pixels.
        grid: rows and columns of the patches that there are positions for.
        masks: whether patches can be hidden, so that there is a vector in their place.
        dropout: probability with which a value is dropped in training.
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
        """Where the vectors of tokens can be looked at or replaced."""

    def forward(self, pixels: Tensor, hidden_patches: Tensor | None = None) -> Tensor:
        """Return shape (B, S, D).

        Args:
            pixels: shape (B, C, Y, X).
            hidden_patches: 1 or True for a patch that is hidden. Shape (B, R * Q).
        """
        patches = self.patch_embeddings(pixels)  # (B, D, R, Q)
        rows, columns = patches.shape[2:]
        vectors = patches.flatten(2).transpose(1, 2)  # (B, R * Q, D)
        if hidden_patches is not None:
            assert self.mask_token is not None
            hides = hidden_patches[:, :, None].to(vectors.dtype)
            vectors = vectors * (1 - hides) + self.mask_token() * hides
        first = self.cls_token().expand(len(vectors), -1, -1)
        tokens = self.tokens(torch.cat([first, vectors], 1))
        summed = tokens + self.positions((rows, columns))
        dropped: Tensor = self.dropout(summed)
        return dropped

    def positions(self, grid: tuple[int, int]) -> Tensor:
        """Return the vectors of positions for a grid of patches, interpolated from those there are.

        Section 3.2 of the paper does this for pictures of another size.

        Returns:
            Shape (1, S, D).
        """
        vectors: Tensor = self.position_embeddings()
        if grid == self.grid:
            return vectors
        table = vectors[:, 1:].view(1, *self.grid, -1).permute(0, 3, 1, 2)  # (1, D, R, Q)
        # The kernel has no half precision on all machines, and rounds coarsely in it.
        resized = F.interpolate(_wide(table), grid, mode="bicubic", align_corners=False)
        patches = resized.to(vectors.dtype).flatten(2).transpose(1, 2)
        return torch.cat([vectors[:, :1], patches], 1)


def _wide(table: Tensor) -> Tensor:
    return table.float() if table.dtype in (torch.bfloat16, torch.float16) else table
