"""Configuration of the Transformer, with the key names of the reference's Marian models."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from heedful.arguments import suggest_in_construction
from heedful.errors import UserError
from heedful.files import read_json
from heedful.layers.feedforward import ACTIVATIONS
from heedful.models.configs import (
    IGNORED,
    check_booleans,
    check_multiple,
    check_name,
    check_numbers,
    check_pruned_heads,
    check_sizes,
    from_keys,
    read_pruned_heads,
    write_pruned_heads,
)
from heedful.models.translator_config import TranslatorConfig, complete_vocabularies

MODEL_TYPES = {False: "marian", True: "pegasus"}
"""The reference's model type for each value of ``normalize_before``, their only difference."""

ARCHITECTURES = {False: "MarianMTModel", True: "PegasusForConditionalGeneration"}
"""The reference's class name in ``architectures`` for each value of ``normalize_before``."""

_FIXED: dict[str, Any] = {
    "is_encoder_decoder": True,
    "normalize_embedding": False,
    "static_position_embeddings": True,
    "encoder_layerdrop": 0,
    "decoder_layerdrop": 0,
    "tie_encoder_decoder": False,
}
"""Keys of a ``config.json`` with only one supported value."""

_IGNORED = {
    *(IGNORED - _FIXED.keys()),
    # The initialisation of the weights, and options of a classifier with the same body.
    *("init_std", "classif_dropout", "classifier_dropout", "num_labels"),
    *("id2label", "label2id", "problem_type", "num_hidden_layers"),
    # Switches of older versions of the reference, which its Marian models do not read.
    *("add_bias_logits", "extra_pos_embeddings", "force_bos_token_to_be_generated"),
    *("max_length", "is_decoder", "add_cross_attention", "cross_attention_hidden_size"),
    "save_step",
}
"""Keys without a field that do not change what the model computes."""

_SIZES = (
    "d_model",
    *("encoder_attention_heads", "encoder_ffn_dim"),
    *("decoder_attention_heads", "decoder_ffn_dim"),
)
_PRUNED = {
    "pruned_heads": "encoder",
    "decoder_pruned_heads": "decoder",
    "cross_attn_pruned_heads": "decoder",
}
_PROBABILITIES = ("dropout", "attention_dropout", "activation_dropout")


@suggest_in_construction
@dataclass(frozen=True, kw_only=True)
class TransformerConfig(TranslatorConfig):
    """Sizes and options of a Transformer. The defaults are those of the paper's base model.

    Raises:
        UserError: a value is of the wrong type or out of range, or two values conflict.
    """

    vocab_size: int = 37000
    """Number of tokens in the source vocabulary."""
    d_model: int = 512
    """Width of the model; even, and a multiple of both numbers of heads."""
    encoder_layers: int = 6
    """Number of encoder blocks."""
    decoder_layers: int = 6
    """Number of decoder blocks."""
    encoder_attention_heads: int = 8
    """Number of attention heads per encoder block."""
    decoder_attention_heads: int = 8
    """Number of heads in the self-attention and in the cross-attention of a decoder block."""
    encoder_ffn_dim: int = 2048
    """Inner width of the encoder's feed-forward layers."""
    decoder_ffn_dim: int = 2048
    """Inner width of the decoder's feed-forward layers."""
    activation_function: str = "relu"
    """Activation of the feed-forward layers."""
    dropout: float = 0.1
    """Dropout of the embeddings and of the output of each sublayer, before the residual sum."""
    attention_dropout: float = 0.0
    """Dropout of the attention weights."""
    activation_dropout: float = 0.0
    """Dropout after the activation in the feed-forward layers."""
    chunk_size_feed_forward: int = 0
    """Number of tokens of each sequence per pass through a feed-forward layer. Small chunks save
    memory and do not change the result. 0 means all tokens."""
    pruned_heads: dict[int, list[int]] = field(default_factory=dict, hash=False)
    """Pruned heads of the encoder's self-attention, by block number."""
    decoder_pruned_heads: dict[int, list[int]] = field(default_factory=dict, hash=False)
    """Pruned heads of the decoder's self-attention, by block number."""
    cross_attn_pruned_heads: dict[int, list[int]] = field(default_factory=dict, hash=False)
    """Pruned heads of the decoder's cross-attention, by block number."""
    normalize_before: bool = False
    """Whether layer normalisation is applied to the input of each sublayer (pre-norm) rather than
    to the residual sum (post-norm, as in the paper)."""
    scale_embedding: bool = True
    """Whether token embeddings are multiplied by the square root of ``d_model``."""
    use_cache: bool = True
    """Whether the reference returns a KV cache by default. Kept for compatibility with its files:
    in heedful a call must ask for the cache."""

    def __post_init__(self) -> None:
        complete_vocabularies(self)
        check_sizes(self, _SIZES, ("encoder_layers", "decoder_layers"))
        check_numbers(self, _PROBABILITIES, float, below=1)
        check_numbers(self, ("chunk_size_feed_forward",), int)
        check_booleans(self, ("scale_embedding", "normalize_before", "use_cache"))
        check_name(self, "activation_function", ACTIVATIONS)
        for name in ("encoder_attention_heads", "decoder_attention_heads"):
            check_multiple(self, "d_model", name)
        if self.d_model % 2:
            raise UserError(f"d_model is {self.d_model}; it must be even, for sines and cosines")

        for name, part in _PRUNED.items():
            layers, heads = f"{part}_layers", f"{part}_attention_heads"
            check_pruned_heads(self, name, getattr(self, layers), getattr(self, heads))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the ``config.json`` of a Marian or Pegasus checkpoint, of the reference or heedful.

        Raises:
            UserError: the file cannot be read, a key is unknown, or a value is not supported.
        """
        return cls.from_dict(read_json(path), where=str(path))

    @classmethod
    def from_dict(cls, values: dict[str, Any], *, where: str = "configuration") -> Self:
        """Build a configuration from the keys and values of a ``config.json``.

        Args:
            values: fields of this class, and other keys known to have no effect.
            where: name of the source, for error messages.
        """
        model_type = values.get("model_type")
        if model_type not in MODEL_TYPES.values():
            raise UserError(
                f"{where}: model_type is {model_type!r}; expected 'marian' or 'pegasus'"
            )
        before = model_type == MODEL_TYPES[True]
        implied = {
            "model_type": model_type,
            "normalize_before": before,
            "add_final_layer_norm": before,
        }
        unset = {field.name for field in fields(cls) if values.get(field.name) is None}
        stated = {key: value for key, value in values.items() if key not in unset}
        pruned = {name: read_pruned_heads(values, name, where) for name in _PRUNED}
        return from_keys(
            cls,
            {**implied, **stated, **pruned},
            where,
            fixed={**_FIXED, **implied},
            ignored=_IGNORED,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of a ``config.json``, for heedful and for the reference."""
        before = self.normalize_before
        return {
            "architectures": [ARCHITECTURES[before]],
            "model_type": MODEL_TYPES[before],
            "is_encoder_decoder": True,
            **{field.name: getattr(self, field.name) for field in fields(self)},
            **{name: write_pruned_heads(getattr(self, name)) for name in _PRUNED},
            "add_final_layer_norm": before,
            # Without these two, the reference's search gives other results.
            "bad_words_ids": [[self.pad_token_id]],
            "forced_eos_token_id": self.eos_token_id,
        }
