"""The ``forward`` functions of image models, and checks of their arguments.

Shapes: B batch, C channels, Y rows and X columns of pixels, R rows and Q columns of patches, K
classes, D model width.
"""

from torch import Tensor

from heedful.errors import UserError
from heedful.models.forwards import mean
from heedful.models.outputs import BertModelOutput, ClassifierOutput, ReconstructionOutput
from heedful.models.vit.config import ViTConfig
from heedful.models.with_head import ModelWithHead


def check_pixels(pixels: Tensor, config: ViTConfig, *, other_sizes: bool) -> tuple[int, int]:
    """Check pixels and return R and Q.

    Args:
        pixels: shape (B, C, Y, X).
        config: configuration of the model.
        other_sizes: whether images may differ from the model's size.

    Raises:
        UserError: the number of channels, the dtype or the size is wrong, or an image is smaller
            than a patch.
    """
    shape, (rows, columns) = tuple(pixels.shape), config.input_size
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
            "or other sizes with interpolate_pos_encoding=True"
        )
    grid = shape[2] // config.patch[0], shape[3] // config.patch[1]
    if 0 in grid:
        height, width = config.patch
        raise UserError(
            f"pixel_values has {shape[2]} x {shape[3]} pixels; a patch has {height} x {width}"
        )
    return grid


def check_patch_mask(hidden: Tensor | None, shape: tuple[int, int], has_mask: bool) -> None:
    """Check the mask of the patches.

    Args:
        hidden: ``bool_masked_pos``.
        shape: required shape, (B, R * Q).
        has_mask: whether the model has a mask token.

    Raises:
        UserError: the model has no mask token, or the shape is wrong.
    """
    if hidden is None:
        return
    if not has_mask:
        raise UserError(
            "bool_masked_pos is given, but the model has no mask token; create it with "
            "use_mask_token=True"
        )
    if tuple(hidden.shape) != shape:
        raise UserError(f"bool_masked_pos has shape {tuple(hidden.shape)}; it must be {shape}")


def classify(
    self: ModelWithHead,
    pixel_values: Tensor,
    *,
    head_mask: Tensor | None = None,
    labels: Tensor | None = None,
    interpolate_pos_encoding: bool = False,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> ClassifierOutput:
    """Classify images: logits of shape (B, K).

    ``labels`` are as for texts; see ``forwards.classify``.

    Raises:
        UserError: an argument has a wrong shape, dtype or value.
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


def reconstruct(
    self: ModelWithHead,
    pixel_values: Tensor,
    bool_masked_pos: Tensor | None = None,
    *,
    head_mask: Tensor | None = None,
    interpolate_pos_encoding: bool = False,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> ReconstructionOutput:
    """Reconstruct the pixels of images with masked patches.

    The loss is the mean absolute error of the masked pixels, if patches are masked.

    Raises:
        UserError: an argument has a wrong shape, dtype or value; or patches are masked and the
            sides of a patch differ from ``encoder_stride`` pixels.
    """
    config = self.config
    stride, patch = config.encoder_stride, config.patch
    if bool_masked_pos is not None and patch != (stride, stride):
        raise UserError(
            f"with bool_masked_pos, patch_size {config.patch_size} must equal encoder_stride "
            f"{stride}"
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
        target = pixel_values[:, :, : pixels.shape[2], : pixels.shape[3]]
        loss = self.head.loss(pixels, target, bool_masked_pos.view(-1, *grid))
    return ReconstructionOutput(
        loss=loss,
        reconstruction=pixels,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
    )
