"""What a Transformer is made of, under the key names of the reference's Marian models."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from heedful.errors import UserError
from heedful.files import read_json
from heedful.layers.feedforward import ACTIVATIONS
from heedful.models.configs import (
    IGNORED,
    check_multiple,
    check_name,
    check_numbers,
    check_pruned_heads,
    check_sizes,
    check_switches,
    from_keys,
    read_pruned_heads,
    write_pruned_heads,
)
from heedful.models.translator_config import TranslatorConfig, complete_pieces

MODEL_TYPES = {False: "marian", True: "pegasus"}
"""The reference's name for what ``normalize_before`` decides: but for that, both are one model."""

ARCHITECTURES = {False: "MarianMTModel", True: "PegasusForConditionalGeneration"}
"""The same in ``architectures``."""

_FIXED: dict[str, Any] = {
    "is_encoder_decoder": True,
    "normalize_embedding": False,
    "static_position_embeddings": True,
    "encoder_layerdrop": 0,
    "decoder_layerdrop": 0,
    "tie_encoder_decoder": False,
}
"""Keys of a ``config.json`` for which only one value is supported."""

_IGNORED = {
    *(IGNORED - _FIXED.keys()),
    # How fresh weights were drawn, and what a classifier with the same body would have.
    *("init_std", "classif_dropout", "classifier_dropout", "num_labels"),
    *("id2label", "label2id", "problem_type", "num_hidden_layers"),
    # Switches of an older reference, which its Marian models do not read.
    *("add_bias_logits", "extra_pos_embeddings", "force_bos_token_to_be_generated"),
    *("max_length", "is_decoder", "add_cross_attention", "cross_attention_hidden_size"),
    "save_step",
}
"""Keys that do not change what the model computes, besides those that are ours."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig(TranslatorConfig):
    """The sizes and options of a Transformer. The defaults are those of the paper's base model.

    Raises:
        UserError: a value is of the wrong type or out of range, or two do not go together.
    """

    vocab_size: int = 37000
    """Number of pieces of the source vocabulary."""
    d_model: int = 512
    """Width of the model; even, and a multiple of the numbers of heads."""
    encoder_layers: int = 6
    """Number of the encoder's blocks."""
    decoder_layers: int = 6
    """Number of the decoder's blocks."""
    encoder_attention_heads: int = 8
    """Number of attention heads in a block of the encoder."""
    decoder_attention_heads: int = 8
    """Number of attention heads in each attention of a block of the decoder."""
    encoder_ffn_dim: int = 2048
    """Width inside the feed-forward half of a block of the encoder."""
    decoder_ffn_dim: int = 2048
    """The same in the decoder."""
    activation_function: str = "relu"
    """Activation of the feed-forward halves."""
    dropout: float = 0.1
    """Dropout of the embeddings and of what each part of a block adds."""
    attention_dropout: float = 0.0
    """Dropout of the attention weights."""
    activation_dropout: float = 0.0
    """Dropout inside the feed-forward halves."""
    chunk_size_feed_forward: int = 0
    """How many tokens of each sequence go through the feed-forward parts at once: less memory, the
    same result. 0 for all."""
    pruned_heads: dict[int, list[int]] = field(default_factory=dict, hash=False)
    """The heads that were taken out of the attention of each of the encoder's blocks, by the
    block's number."""
    decoder_pruned_heads: dict[int, list[int]] = field(default_factory=dict, hash=False)
    """The same of the attention of the decoder's blocks to themselves."""
    cross_attn_pruned_heads: dict[int, list[int]] = field(default_factory=dict, hash=False)
    """The same of their attention to the encoder."""
    normalize_before: bool = False
    """Whether each part of a block normalises what it reads (pre-norm) rather than what it and its
    residual add up to (post-norm, as in the paper)."""
    scale_embedding: bool = True
    """Whether word vectors are multiplied by the root of ``d_model``."""
    use_cache: bool = True
    """Whether the reference returns a cache where a call does not say. Kept for its files: here a
    call has to ask for the cache."""

    def __post_init__(self) -> None:
        complete_pieces(self)
        check_sizes(self, _SIZES, ("encoder_layers", "decoder_layers"))
        check_numbers(self, _PROBABILITIES, float, below=1)
        check_numbers(self, ("chunk_size_feed_forward",), int)
        check_switches(self, ("scale_embedding", "normalize_before", "use_cache"))
        check_name(self, "activation_function", ACTIVATIONS)
        for name in ("encoder_attention_heads", "decoder_attention_heads"):
            check_multiple(self, "d_model", name)
        if self.d_model % 2:
            raise UserError(f"d_model is {self.d_model}; it must be even: half of it are sines")

        for name, part in _PRUNED.items():
            layers, heads = f"{part}_layers", f"{part}_attention_heads"
            check_pruned_heads(self, name, getattr(self, layers), getattr(self, heads))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the ``config.json`` of a Marian or Pegasus folder of the reference, or of heedful.

        Raises:
            UserError: the file cannot be read, or a key is unknown, or its value not supported.
        """
        return cls.from_dict(read_json(path), where=str(path))

    @classmethod
    def from_dict(cls, values: dict[str, Any], *, where: str = "configuration") -> Self:
        """Build from the keys and values of a ``config.json``.

        Args:
            values: keys of this class, or others that are known to change nothing.
            where: what an error calls their source.
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
        """Return what a ``config.json`` holds, for heedful and for the reference."""
        before = self.normalize_before
        return {
            "architectures": [ARCHITECTURES[before]],
            "model_type": MODEL_TYPES[before],
            "is_encoder_decoder": True,
            **{field.name: getattr(self, field.name) for field in fields(self)},
            **{name: write_pruned_heads(getattr(self, name)) for name in _PRUNED},
            "add_final_layer_norm": before,
            # What the reference's search would otherwise do differently.
            "bad_words_ids": [[self.pad_token_id]],
            "forced_eos_token_id": self.eos_token_id,
        }
