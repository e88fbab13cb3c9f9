"""What a Transformer is made of, under the key names of the reference's Marian models."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from heedful.errors import UserError, unknown_name
from heedful.files import read_json
from heedful.layers.feedforward import ACTIVATIONS
from heedful.models.bert.config import IGNORED
from heedful.models.values import (
    check_numbers,
    check_sizes,
    check_switches,
    complete_pieces,
    from_keys,
)

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
    *("init_std", "classif_dropout", "classifier_dropout", "num_labels", "_num_labels"),
    *("id2label", "label2id", "problem_type", "num_hidden_layers"),
    # Switches of an older reference, which its Marian models do not read.
    *("add_bias_logits", "extra_pos_embeddings", "force_bos_token_to_be_generated"),
    *("max_length", "pruned_heads", "is_decoder", "add_cross_attention"),
    *("cross_attention_hidden_size", "chunk_size_feed_forward", "save_step"),
}
"""Keys that do not change what the model computes, besides those that are ours."""

_SIZES = (
    *("d_model", "max_position_embeddings"),
    *("encoder_attention_heads", "encoder_ffn_dim"),
    *("decoder_attention_heads", "decoder_ffn_dim"),
)
_PROBABILITIES = ("dropout", "attention_dropout", "activation_dropout", "label_smoothing")


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig:
    """The sizes and options of a Transformer. The defaults are those of the paper's base model.

    Raises:
        UserError: a value is of the wrong type or out of range, or two do not go together.
    """

    DROPOUTS: ClassVar[tuple[str, ...]] = ("dropout",)
    """The fields that one rate of dropout sets."""

    vocab_size: int = 37000
    """Number of pieces of the source vocabulary."""
    decoder_vocab_size: int = 0
    """Number of pieces of the target vocabulary; 0 takes ``vocab_size``."""
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
    label_smoothing: float = 0.0
    """Share of the truth that all pieces have alike in training (Vaswani et al. 2017, section
    5.4: 0.1)."""
    max_position_embeddings: int = 1024
    """Longest sequence, in tokens."""
    normalize_before: bool = False
    """Whether each part of a block normalises what it reads (pre-norm) rather than what it and its
    residual add up to (post-norm, as in the paper)."""
    scale_embedding: bool = True
    """Whether word vectors are multiplied by the root of ``d_model``."""
    share_encoder_decoder_embeddings: bool = True
    """Whether source and target pieces have one table of vectors; needs one vocabulary."""
    tie_word_embeddings: bool = True
    """Whether a target piece is scored with its vector, rather than with another one."""
    use_cache: bool = True
    """Whether the reference returns a cache where a call does not say. Kept for its files: here a
    call has to ask for the cache."""
    pad_token_id: int = -1
    """Id of the padding piece, whose vector is zeros and not trained; -1 takes the last that both
    vocabularies have, as Marian's folders do."""
    eos_token_id: int = 0
    """Id of the piece that ends a text."""
    decoder_start_token_id: int = -1
    """Id of the piece that a text to write starts after; -1 takes the padding piece."""

    def __post_init__(self) -> None:
        complete_pieces(self)
        check_sizes(self, _SIZES, ("encoder_layers", "decoder_layers"))
        check_numbers(self, _PROBABILITIES, float, below=1)
        check_switches(self, ("scale_embedding", "normalize_before", "use_cache"))
        if self.activation_function not in ACTIVATIONS:
            raise unknown_name("activation_function", str(self.activation_function), ACTIVATIONS)
        for name in ("encoder_attention_heads", "decoder_attention_heads"):
            if self.d_model % getattr(self, name):
                heads = getattr(self, name)
                raise UserError(f"d_model {self.d_model} is not a multiple of {name} {heads}")
        if self.d_model % 2:
            raise UserError(f"d_model is {self.d_model}; it must be even: half of it are sines")

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
            where: what an error calls the place that the values come from.
        """
        kind = values.get("model_type")
        if kind not in MODEL_TYPES.values():
            raise UserError(f"{where}: model_type is {kind!r}; expected 'marian' or 'pegasus'")
        before = kind == MODEL_TYPES[True]
        own = {"model_type": kind, "normalize_before": before, "add_final_layer_norm": before}
        left_open = {field.name for field in fields(cls) if values.get(field.name) is None}
        given = {key: value for key, value in values.items() if key not in left_open}
        return from_keys(cls, {**own, **given}, where, fixed={**_FIXED, **own}, ignored=_IGNORED)

    def to_dict(self) -> dict[str, Any]:
        """Return what a ``config.json`` holds, for heedful and for the reference."""
        before = self.normalize_before
        return {
            "architectures": [ARCHITECTURES[before]],
            "model_type": MODEL_TYPES[before],
            "is_encoder_decoder": True,
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "add_final_layer_norm": before,
            # What the reference's search would otherwise do differently.
            "bad_words_ids": [[self.pad_token_id]],
            "forced_eos_token_id": self.eos_token_id,
        }
