"""Configuration of ViT, with the reference's key names."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from heedful.errors import UserError
from heedful.layers.feedforward import ACTIVATIONS
from heedful.models.configs import (
    ReferenceConfig,
    check_booleans,
    check_multiple,
    check_name,
    check_numbers,
    check_sizes,
)
from heedful.models.stored_config import configuration

Size = int | tuple[int, int]
"""Height and width in pixels, or one number for both."""

_SIZES = ("hidden_size", "num_attention_heads", "intermediate_size", "num_channels")


@configuration
class ViTConfig(ReferenceConfig):
    """Sizes and options of a ViT model. The defaults are those of ViT base.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "vit"
    FIXED: ClassVar[Mapping[str, Any]] = {
        "is_encoder_decoder": False,
        "is_decoder": False,
        "add_cross_attention": False,
        "cross_attention_hidden_size": None,
    }
    UNUSED: ClassVar[Collection[str]] = (
        *("pad_token_id", "tie_word_embeddings", "classifier_dropout", "use_cache"),
    )
    """Keys without effect, since a ViT has no text input."""
    DROPOUTS: ClassVar[tuple[str, ...]] = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    DEPTH: ClassVar[str] = "num_hidden_layers"

    hidden_size: int = 768
    """Width of the model; a multiple of ``num_attention_heads``."""
    num_hidden_layers: int = 12
    """Number of blocks."""
    num_attention_heads: int = 12
    """Number of attention heads per block."""
    intermediate_size: int = 3072
    """Inner width of a block's feed-forward layer."""
    hidden_act: str = "gelu"
    """Activation of the feed-forward layer."""
    hidden_dropout_prob: float = 0.0
    """Dropout of the embeddings and of the output of each sublayer, before the residual sum."""
    attention_probs_dropout_prob: float = 0.0
    """Dropout of the attention weights."""
    initializer_range: float = 0.02
    """Standard deviation of newly initialised weights."""
    layer_norm_eps: float = 1e-12
    """Added to the variance by layer normalisation."""
    image_size: Size = 224
    """Height and width of the images in pixels, or one number for both."""
    patch_size: Size = 16
    """Height and width of a patch in pixels, or one number for both."""
    num_channels: int = 3
    """Number of channels: 3 for colour, 1 for greyscale."""
    qkv_bias: bool = True
    """Whether the query, key and value projections have biases."""
    encoder_stride: int = 16
    """Side, in pixels, of the square that masked image modelling predicts from a token."""
    pooler_output_size: int | None = None
    """Output width of the pooler; None means ``hidden_size``."""
    pooler_act: str = "tanh"
    """Activation of the pooler."""

    def __post_init__(self) -> None:
        check_sizes(self, _SIZES, ("num_hidden_layers",))
        check_sizes(self, ("encoder_stride",))
        if self.pooler_output_size is None:
            object.__setattr__(self, "pooler_output_size", self.hidden_size)
        check_sizes(self, ("pooler_output_size",))
        for name in ("image_size", "patch_size"):
            object.__setattr__(self, name, _size(name, getattr(self, name)))
        check_booleans(self, ("qkv_bias",))
        check_numbers(self, ("initializer_range", "layer_norm_eps"), float)
        check_numbers(self, self.DROPOUTS, float, below=1)
        check_multiple(self, "hidden_size", "num_attention_heads")
        for name in ("hidden_act", "pooler_act"):
            check_name(self, name, ACTIVATIONS)
        if 0 in self.grid:
            raise UserError(
                f"image_size {self.image_size} is smaller than patch_size {self.patch_size}"
            )
        self.complete(self.num_hidden_layers, self.num_attention_heads)

    @property
    def input_size(self) -> tuple[int, int]:
        """Height and width of an image in pixels."""
        return _pair(self.image_size)

    @property
    def patch(self) -> tuple[int, int]:
        """Height and width of a patch in pixels."""
        return _pair(self.patch_size)

    @property
    def grid(self) -> tuple[int, int]:
        """Number of rows and columns of patches."""
        (height, width), (patch_height, patch_width) = self.input_size, self.patch
        return height // patch_height, width // patch_width

    @property
    def max_position_embeddings(self) -> int:
        """Number of patches of an image, plus 1 for the class token."""
        return 1 + self.grid[0] * self.grid[1]


def _size(name: str, value: object) -> Size:
    """Return a size as one number, or as height and width.

    Raises:
        UserError: the value is neither.
    """
    pair = tuple(value) if isinstance(value, list | tuple) else (value, value)
    if len(pair) != 2 or not all(type(x) is int and 1 <= x < 2**16 for x in pair):
        raise UserError(f"{name} is {value!r}; it must be a number of pixels, or rows and columns")
    rows, columns = pair
    return rows if isinstance(value, int) else (rows, columns)


def _pair(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size
