"""The convolution that DeBERTa v2 (xxlarge) adds to the output of the first block.

Shapes: B batch, N length, S 1 or N, T packed tokens, D model width.
"""

from torch import Tensor, nn

from heedful.layers.dropout import Dropout
from heedful.layers.feedforward import ACTIVATIONS
from heedful.layers.packing import Packing


class Convolution(nn.Module):
    """A convolution along the sequence, with residual connection and layer normalisation.

    Args:
        width: D.
        kernel: kernel size in tokens; an odd number.
        groups: number of groups of channels.
        activation: a name in ``feedforward.ACTIVATIONS``.
        dropout: dropout probability in training, before the activation.
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
        """Return hidden states, in the shape of ``hidden``.

        Args:
            source: input of the convolution: the input of the first block. Shape (B, N, D), or (1,
                T, D) if packed.
            hidden: the residual. The same shape, or (B, 1, D) for only the first tokens.
            mask: attention mask, broadcastable to (B, 1, N, N). Keys that no query may attend to
                are padding, and replaced by zeros.
            packing: packing of the source.
            only_first: whether to compute only the first tokens.
        """
        if packing is not None:
            source = packing.pad(source)
        if mask is not None:
            real = mask.any(2)[:, 0, :, None]  # (B, N, 1)
            source = source * real.to(source.dtype)
        convolved = self.convolve(source)  # (B, N, D)
        if only_first:
            convolved = convolved[:, :1]
        elif packing is not None:
            convolved = packing.pack(convolved)
        return self.add(convolved, hidden)

    def convolve(self, source: Tensor) -> Tensor:
        """Return the convolution along the sequence. Shape (B, N, D), like ``source``."""
        convolved: Tensor = self.conv(source.mT)
        return convolved.mT

    def add(self, convolved: Tensor, hidden: Tensor) -> Tensor:
        """Return the normalised sum of hidden states and convolution output. Shape (..., D)."""
        summed: Tensor = self.LayerNorm(hidden + self.activation(self.dropout(convolved)))
        return summed
