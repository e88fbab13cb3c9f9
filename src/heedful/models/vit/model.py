"""ViT (Dosovitskiy et al. 2021): BERT's blocks, pre-norm, on the patches of an image."""

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.layers.block import Context
from heedful.layers.multihead import BIASES
from heedful.layers.patches import PatchEmbeddings
from heedful.models import images, inputs
from heedful.models.body import Body
from heedful.models.encoder import Pooler, Variant, make_stack
from heedful.models.heads import PixelHead, SequenceHead
from heedful.models.observed import has_user_hooks, pools_first
from heedful.models.outputs import BertModelOutput
from heedful.models.pretrained import initialise
from heedful.models.vit.config import ViTConfig
from heedful.models.with_head import ModelWithHead

_IN_FILES = {
    "embeddings.cls_token.weight": "embeddings.cls_token",
    "embeddings.mask_token.weight": "embeddings.mask_token",
    "embeddings.position_embeddings.weight": "embeddings.position_embeddings",
    "attention.self": "attention.attention",
    "attention.output.LayerNorm": "layernorm_before",
    "output.LayerNorm": "layernorm_after",
}
"""Module names in a file, where they differ from the model's."""


class ViTModel(Body):
    """ViT without a head.

    Args:
        config: sizes and options.
        add_pooling_layer: whether to add a pooler.
        use_mask_token: whether to add an embedding for masked patches.
    """

    config: ViTConfig
    embeddings: PatchEmbeddings
    prefix = "vit"
    file_names = _IN_FILES

    def __init__(
        self, config: ViTConfig, add_pooling_layer: bool = True, use_mask_token: bool = False
    ) -> None:
        super().__init__()
        self.config = config
        self.embeddings = PatchEmbeddings(
            channels=config.num_channels,
            width=config.hidden_size,
            patch=config.patch,
            grid=config.grid,
            masks=use_mask_token,
            dropout=config.hidden_dropout_prob,
        )
        biases = BIASES if config.qkv_bias else frozenset({"output"})
        variant = Variant(is_pre_norm=True, norm_last=False, attention_biases=biases)
        self.encoder = make_stack(config, variant)
        self.layernorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.pooler = None
        if add_pooling_layer:
            self.pooler = Pooler(config.hidden_size, config.pooler_output_size, config.pooler_act)
        initialise(self, config.initializer_range)

    def get_input_embeddings(self) -> nn.Embedding:
        """Raise an error, since patches have no embedding table.

        Raises:
            UserError: always.
        """
        raise UserError("a ViT has no word embeddings")

    def input_vectors(self) -> nn.Module:
        """Return the module that the embeddings of the class token and the patches pass through."""
        return self.embeddings.tokens

    def set_image_size(self, size: tuple[int, int]) -> None:
        """Change the size of the input images.

        Interpolates the learnt position embeddings (section 3.2 of the paper).

        Args:
            size: height and width in pixels.
        """
        config = replace(self.config, image_size=size[0] if size[0] == size[1] else size)
        with torch.no_grad():
            positions = self.embeddings.positions(config.grid).clone()
        self.embeddings.position_embeddings.weight = nn.Parameter(positions)
        self.embeddings.grid = config.grid
        self.config = config

    def forward(
        self,
        pixel_values: Tensor,
        bool_masked_pos: Tensor | None = None,
        *,
        head_mask: Tensor | None = None,
        interpolate_pos_encoding: bool = False,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        output_kernels: bool = False,
        only_first: bool = False,
    ) -> BertModelOutput:
        """Encode images. The length S is the number of patches plus 1, as the class token is first.

        Args:
            pixel_values: shape (B, C, Y, X): channels, rows and columns.
            bool_masked_pos: 1 or True for a masked patch. Shape (B, S - 1).
            head_mask: factor on each head's output. Pruned heads have an entry. Shape (H,) or (L,
                H).
            interpolate_pos_encoding: whether to accept images of another size, and interpolate the
                learnt position embeddings for them.
            output_attentions: whether to return the attention weights.
            output_hidden_states: whether to return the outputs of the embeddings and blocks. The
                last of them is not normalised, unlike ``last_hidden_state``.
            output_kernels: whether to return the name of the kernel of each attention.
            only_first: whether to compute only the class token in the last block.
                ``last_hidden_state`` then has shape (B, 1, D). It has no effect if a user's pooler
                or hooks may read other tokens.

        Raises:
            UserError: a shape is wrong, or patches are masked and the model has no embedding for
                masked patches.
        """
        config = self.config
        grid = images.check_pixels(pixel_values, config, other_sizes=interpolate_pos_encoding)
        has_mask = self.embeddings.mask_token is not None
        images.check_patch_mask(bool_masked_pos, (len(pixel_values), grid[0] * grid[1]), has_mask)
        head_mask = inputs.check_head_mask("head_mask", head_mask, self.head_masks())
        pixels = pixel_values.to(self.layernorm.weight.dtype)
        only_first = only_first and pools_first(self.pooler, Pooler) and not has_user_hooks(self)
        encoded = self.encoder(
            self.embeddings(pixels, bool_masked_pos),
            Context(),
            head_mask=head_mask,
            weights_of=range(len(self.encoder.blocks)) if output_attentions else (),
            need_states=output_hidden_states,
            recompute=self.gradient_checkpointing and self.training,
            only_first=only_first,
        )
        last = self.layernorm(encoded.hidden)
        return BertModelOutput(
            last_hidden_state=last,
            pooler_output=None if self.pooler is None else self.pooler(last),
            hidden_states=encoded.states if output_hidden_states else None,
            attentions=encoded.attentions,
            kernels=encoded.kernels if output_kernels else None,
        )


class ViTForImageClassification(ModelWithHead):
    """ViT with a linear classifier or regression on the class token."""

    vit: ViTModel

    def __init__(self, config: ViTConfig) -> None:
        body = ViTModel(config, add_pooling_layer=False)
        head = SequenceHead(config.hidden_size, config.num_labels, problem_type=config.problem_type)
        super().__init__(body, head, at="classifier")

    forward = images.classify


class ViTForMaskedImageModeling(ModelWithHead):
    """ViT that predicts the pixels of masked patches (Xie et al. 2022)."""

    vit: ViTModel
    head_in_files: ClassVar = {"decoder.projection": "decoder.0"}

    def __init__(self, config: ViTConfig) -> None:
        body = ViTModel(config, add_pooling_layer=False, use_mask_token=True)
        head = PixelHead(config.hidden_size, config.num_channels, config.encoder_stride)
        super().__init__(body, head, at="decoder")

    forward = images.reconstruct
