"""The calls of models that read pictures, and what they check.

Shapes: B batch, C channels, Y rows and X columns of pixels, R rows and Q columns of patches, K
classes, D model width.
"""

from typing import Protocol

from torch import Tensor

from heedful.errors import UserError
from heedful.models.forwards import mean
from heedful.models.outputs import BertModelOutput, ClassifierOutput, PictureOutput
from heedful.models.with_head import WithHead


class PictureConfig(Protocol):
    """What the configuration of a model says of pictures."""

    @property
    def num_channels(self) -> int:
        """Numbers of a pixel."""

    @property
    def picture(self) -> tuple[int, int]:
        """Rows and columns of a picture, in pixels."""

    @property
    def patch(self) -> tuple[int, int]:
        """Rows and columns of a patch, in pixels."""


def check_pixels(pixels: Tensor, config: PictureConfig, *, other_sizes: bool) -> tuple[int, int]:
    """Return R and Q.

    Args:
        pixels: shape (B, C, Y, X).
        config: of the model.
        other_sizes: whether pictures may have another size than the model's.

    Raises:
        UserError: they have not these channels, or not this size, or no patch.
    """
    shape, (rows, columns) = tuple(pixels.shape), config.picture
    if len(shape) != 4 or shape[1] != config.num_channels:
        raise UserError(
            f"pixel_values has shape {shape}; it must be (batch, {config.num_channels}, {rows}, "
            f"{columns})"
        )
    if not pixels.is_floating_point():
        raise UserError(f"pixel_values has type {pixels.dtype}; it must be floating point")
    if not other_sizes and shape[2:] != (rows, columns):
        raise UserError(
            f"pixel_values has {shape[2]} x {shape[3]} pixels; the model reads {rows} x {columns}, "
            "or others with interpolate_pos_encoding=True"
        )
    grid = shape[2] // config.patch[0], shape[3] // config.patch[1]
    if 0 in grid:
        high, wide = config.patch
        raise UserError(
            f"pixel_values has {shape[2]} x {shape[3]} pixels; a patch has {high} x {wide}"
        )
    return grid


def check_hidden(hidden: Tensor | None, shape: tuple[int, int], has_mask: bool) -> None:
    """Check which patches are hidden.

    Args:
        hidden: ``bool_masked_pos``.
        shape: (B, R * Q).
        has_mask: whether the model has a vector for them.

    Raises:
        UserError: it has none, or the shape is another one.
    """
    if hidden is None:
        return
    if not has_mask:
        raise UserError(
            "bool_masked_pos is given; the model has no vector for hidden patches: "
            "make it with use_mask_token=True"
        )
    if tuple(hidden.shape) != shape:
        raise UserError(f"bool_masked_pos has shape {tuple(hidden.shape)}; it must be {shape}")


def classify(
    self: WithHead,
    pixel_values: Tensor,
    *,
    head_mask: Tensor | None = None,
    labels: Tensor | None = None,
    interpolate_pos_encoding: bool = False,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> ClassifierOutput:
    """Score each picture: logits of shape (B, K).

    ``labels`` are as for texts; see ``forwards.classify``.

    Raises:
        UserError: an argument has a wrong shape, type or value.
    """
    encoded: BertModelOutput = self.body(
        pixel_values,
        head_mask=head_mask,
        interpolate_pos_encoding=interpolate_pos_encoding,
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
        only_first=not (output_attentions or output_hidden_states),
    )
    logits = self.head(encoded.last_hidden_state[:, 0])
    return ClassifierOutput(
        loss=None if labels is None else mean(self.head.loss(logits, labels)),
        logits=logits,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
    )


def rebuild(
    self: WithHead,
    pixel_values: Tensor,
    bool_masked_pos: Tensor | None = None,
    *,
    head_mask: Tensor | None = None,
    interpolate_pos_encoding: bool = False,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> PictureOutput:
    """Make the pixels of pictures whose patches are hidden in part.

    The loss is the mean distance of the pixels that were hidden, where some were.

    Raises:
        UserError: an argument has a wrong shape, type or value; or patches are hidden and a patch
            has not ``encoder_stride`` pixels on each side.
    """
    config = self.config
    stride, patch = config.encoder_stride, config.patch
    if bool_masked_pos is not None and patch != (stride, stride):
        raise UserError(
            f"bool_masked_pos is given; then patch_size, {config.patch_size}, must be "
            f"encoder_stride, {stride}"
        )
    encoded: BertModelOutput = self.body(
        pixel_values,
        bool_masked_pos,
        head_mask=head_mask,
        interpolate_pos_encoding=interpolate_pos_encoding,
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
    )
    grid = pixel_values.shape[2] // patch[0], pixel_values.shape[3] // patch[1]
    states = encoded.last_hidden_state[:, 1:].transpose(1, 2)  # (B, D, R * Q)
    pixels = self.head(states.reshape(*states.shape[:2], *grid))
    loss = None
    if bool_masked_pos is not None:
        read = pixel_values[:, :, : pixels.shape[2], : pixels.shape[3]]
        loss = self.head.loss(pixels, read, bool_masked_pos.view(-1, *grid))
    return PictureOutput(
        loss=loss,
        reconstruction=pixels,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
    )
