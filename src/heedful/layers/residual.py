"""The end of a sublayer of a block, and the options that all blocks of a stack share.

Shapes: B batch, S length, D model width.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from heedful.errors import UserError
from heedful.layers import fused
from heedful.layers.dropout import Dropout, active_probability, drop, drops_plainly
from heedful.layers.linear import Linear
from heedful.layers.multihead import BIASES


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockOptions:
    """Options shared by all blocks of a stack."""

    width: int
    """D."""
    head_width: int
    inner_width: int
    """Inner width of the feed-forward sublayer."""
    activation: str
    """A name in ``feedforward.ACTIVATIONS``."""
    dropout: float
    """Dropout probability of each sublayer's output in training."""
    attention_output_dropout: float | None = None
    """Dropout probability of the attention output; None takes ``dropout``."""
    attention_dropout: float
    """Dropout probability of the attention weights."""
    activation_dropout: float = 0.0
    """Dropout probability of the feed-forward activations."""
    eps: float = 1e-5
    """Added to the variance by the layer normalisations."""
    is_pre_norm: bool = False
    """Whether the blocks are pre-norm: each sublayer normalises its input, not its output sum."""
    attention_biases: frozenset[str] = BIASES
    """The linear layers of attention that have a bias; a subset of ``multihead.BIASES``."""
    chunk_size: int = 0
    """Number of tokens per pass through the feed-forward sublayer; 0 for all."""
    talking_heads: bool = False
    """Whether self-attention uses talking heads: heads mix their scores and weights."""


class Residual(nn.Module):
    """End of a sublayer: output projection, dropout, residual connection, normalisation.

    Args:
        inner_width: input width.
        options: options of the block.
        dropout: dropout probability of the projected values; None takes the block's.
        bias: whether the projection has a bias.
    """

    def __init__(
        self,
        inner_width: int,
        options: BlockOptions,
        dropout: float | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.is_pre_norm = options.is_pre_norm
        self.dense = Linear(inner_width, options.width, bias)
        self.LayerNorm = nn.LayerNorm(options.width, eps=options.eps)
        self.dropout = Dropout(options.dropout if dropout is None else dropout)

    def pre_norm(self, hidden: Tensor) -> Tensor:
        """Return the sublayer's input: ``hidden``, normalised in a pre-norm block."""
        return self.LayerNorm(hidden) if self.is_pre_norm else hidden

    def forward(self, inner: Tensor, hidden: Tensor) -> Tensor:
        """Return shape (B, S, D).

        Args:
            inner: the sublayer's values before projection. Shape (B, S, inner width).
            hidden: the residual. Shape (B, S, D).
        """
        if self.is_fused(inner, hidden):
            end, dropout = (self.dense, hidden, self.LayerNorm), active_probability(self.dropout)
            return fused.dropout_add_norm(inner, *end, dropout=dropout)
        return self.add_norm(self.dense(inner), hidden)

    def is_fused(self, inner: Tensor, hidden: Tensor) -> bool:
        """Return whether one fused kernel follows the matrix product; see ``fused.py``."""
        supports = fused.supports_dropout_add_norm
        can_fuse = not self.is_pre_norm and supports(self.dense, self.LayerNorm, inner, hidden)
        return can_fuse and drops_plainly(self.dropout)

    def add_norm(self, projected: Tensor, hidden: Tensor, *, recomputed: bool = False) -> Tensor:
        """Return the output of the sublayer for projected values of shape (B, S, D).

        If ``checkpointed`` (see ``Block``), return the sum before normalisation.
        """
        hidden = drop(self.dropout, projected, keep_bits=not recomputed) + hidden
        return hidden if self.is_pre_norm or recomputed else self.LayerNorm(hidden)


def sublayer_input(output: nn.Module, hidden: Tensor, *, is_pre_norm: bool) -> Tensor:
    """Return the input of a sublayer; see ``Residual.pre_norm``.

    Args:
        output: the end of the sublayer: a `Residual`, or a user's layer in its place.
        hidden: the residual. Shape (B, S, D).
        is_pre_norm: whether the block is pre-norm.

    Raises:
        UserError: a user's layer ends a sublayer of a pre-norm block, whose input it would have to
            normalise.
    """
    if isinstance(output, Residual):
        return output.pre_norm(hidden)
    if is_pre_norm:
        raise UserError(
            f"a block has a {type(output).__name__} as its output; where layers normalise their "
            "input, replace only its parts, such as output.dense"
        )
    return hidden
