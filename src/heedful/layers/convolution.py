"""What a token's neighbours add to what the first block says of it (DeBERTa v2, xxlarge).

Shapes: B batch, N length, S 1 or N, T packed tokens, D model width.
"""

from torch import Tensor, nn

from heedful.layers.dropout import Dropout
from heedful.layers.feedforward import ACTIVATIONS
from heedful.layers.packing import Packing


class Convolution(nn.Module):
    """A convolution along the text, added and normalised.

    Args:
        width: D.
        kernel: how many tokens it sees at once; an odd number.
        groups: into how many parts, each apart from the others, the width is divided.
        activation: a name in ``feedforward.ACTIVATIONS``.
        dropout: probability with which a value is dropped in training, before the activation.
        eps: added to the variance by the layer normalisation.
    """

    def __init__(
        self, width: int, kernel: int, groups: int, activation: str, dropout: float, eps: float
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=groups)
        self.LayerNorm = nn.LayerNorm(width, eps=eps)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(
        self,
        source: Tensor,
        hidden: Tensor,
        mask: Tensor | None,
        *,
        packing: Packing | None = None,
        only_first: bool = False,
    ) -> Tensor:
        """Return hidden states, of the shape of ``hidden``.

        Args:
            source: what it sees: what went into the first block. Shape (B, N, D), or (1, T, D)
                where it is packed.
            hidden: what it adds to. Of the same shape, or (B, 1, D) of the first tokens alone.
            mask: that of attention, broadcastable to (B, 1, N, N): what no token may attend to is
                padding, and seen as zeros.
            packing: of the source.
            only_first: whether the first tokens alone are wanted.
        """
        if packing is not None:
            source = packing.pad(source)
        if mask is not None:
            real = mask.any(2)[:, 0, :, None]  # (B, N, 1)
            source = source * real.to(source.dtype)
        seen = self.see(source)  # (B, N, D)
        if only_first:
            seen = seen[:, :1]
        elif packing is not None:
            seen = packing.pack(seen)
        return self.add(seen, hidden)

    def see(self, source: Tensor) -> Tensor:
        """Return the convolution along the text. Shape (B, N, D), as ``source``."""
        seen: Tensor = self.conv(source.mT)
        return seen.mT

    def add(self, seen: Tensor, hidden: Tensor) -> Tensor:
        """Return the sum of what was seen and of hidden states, normalised. Shape (..., D)."""
        summed: Tensor = self.LayerNorm(hidden + self.activation(self.dropout(seen)))
        return summed
