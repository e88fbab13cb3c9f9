"""Configuration of DeBERTa, with the reference's key names."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from heedful.errors import UserError, check_known
from heedful.layers.disentangled import TERMS
from heedful.layers.feedforward import ACTIVATIONS
from heedful.models.bert.config import BertConfig
from heedful.models.configs import check_booleans, check_name, check_numbers, check_sizes
from heedful.models.stored_config import configuration

_SWITCHES = ("relative_attention", "position_biased_input", "legacy", "enhanced_mask_decoder")


@configuration
class DebertaConfig(BertConfig):
    """Sizes and options of a DeBERTa model. The defaults are those of the reference.

    Raises:
        UserError: a value is of the wrong type or out of range, or two values conflict.
    """

    MODEL_TYPE: ClassVar[str] = "deberta"
    UNSUPPORTED_FIELDS: ClassVar[Mapping[str, Any]] = {
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
        "use_cache": True,
        "classifier_dropout": None,
    }
    DROPOUTS: ClassVar[tuple[str, ...]] = (
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "pooler_dropout",
        "cls_dropout",
    )
    MIN_TOKEN_TYPES: ClassVar[int] = 0
    UNUSED: ClassVar[Collection[str]] = ("padding_idx",)
    vocab_size: int = 50265
    """Number of tokens in the vocabulary."""
    type_vocab_size: int = 0
    """Number of token types; 0 for none."""
    layer_norm_eps: float = 1e-7
    """Added to the variance by layer normalisation."""
    embedding_size: int | None = None
    """Width of the embeddings; None means ``hidden_size``. If it differs from ``hidden_size``, a
    linear layer widens the embeddings."""
    relative_attention: bool = False
    """Whether attention uses the distances between tokens."""
    pos_att_type: tuple[str, ...] | None = None
    """Terms that distances add to the attention scores. ``c2p`` is content to position, with
    distances as keys. ``p2c`` is position to content, with distances as queries. None means no
    term. Files may also write ``c2p|p2c``."""
    max_relative_positions: int = -1
    """Distances from this one on share one embedding; below 1 means ``max_position_embeddings``."""
    position_biased_input: bool = True
    """Whether position embeddings are added to word embeddings."""
    pooler_dropout: float = 0.0
    """Dropout of the first token before a classifier's pooler."""
    pooler_hidden_act: str = "gelu"
    """Activation of that pooler."""
    cls_dropout: float | None = None
    """Dropout before a text classifier; None means ``hidden_dropout_prob``."""
    legacy: bool = True
    """Whether the masked language model head's weights have the reference's older names. Published
    files have the newer names."""
    talking_head: bool = False
    """Whether attention heads mix their scores and weights (Shazeer et al. 2020)."""
    enhanced_mask_decoder: bool = False
    """Whether the masked language model adds absolute positions in the last block (He et al. 2021,
    section 3.2). The reference has no such decoder."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "pos_att_type", _terms(self.pos_att_type))
        check_booleans(self, (*_SWITCHES, "talking_head"))
        check_numbers(self, ("pooler_dropout",), float, below=1)
        check_numbers(self, ("cls_dropout",), float, below=1, optional=True)
        if self.embedding_size is not None:
            check_sizes(self, ("embedding_size",))
        check_numbers(self, ("max_relative_positions",), int, low=-1, below=2**24)
        check_name(self, "pooler_hidden_act", ACTIVATIONS)
        BertConfig.__post_init__(self)  # a dataclass with slots has no super() of its own
        if self.talking_head and self.pruned_heads:
            raise UserError("talking_head is true: heads that mix cannot be pruned (pruned_heads)")
        if self.enhanced_mask_decoder and self.position_biased_input:
            raise UserError(
                "enhanced_mask_decoder is true, which needs position_biased_input to be false: "
                "the decoder adds the positions"
            )

    @property
    def embedding_width(self) -> int:
        """Width of the embedding tables."""
        return self.hidden_size if self.embedding_size is None else self.embedding_size

    @property
    def num_distances(self) -> int:
        """Distances from this one on are treated as equal; see ``max_relative_positions``."""
        limit = self.max_relative_positions
        return self.max_position_embeddings if limit < 1 else limit

    @property
    def score_factor(self) -> float:
        """Factor on the usual scaled scores, since each score is a sum of several terms."""
        return 1 / math.sqrt(1 + len(self.pos_att_type or ()))

    @property
    def head_dropout(self) -> float:
        """Dropout before a text classifier."""
        return self.hidden_dropout_prob if self.cls_dropout is None else self.cls_dropout

    def generator(self, size: float) -> Self:
        """Return the generator's configuration for this discriminator (He et al. 2023, 4.1).

        The generator has the same width and fewer blocks.

        Args:
            size: depth of the generator as a share of the discriminator's depth.
        """
        return replace(self, num_hidden_layers=max(1, round(self.num_hidden_layers * size)))

    @classmethod
    def from_dict(cls, values: dict[str, Any], *, where: str = "configuration") -> Self:
        """Build a configuration from the contents of a ``config.json``; see ``BertConfig``."""
        width, heads = (
            values.get(key, getattr(cls(), key)) for key in ("hidden_size", "num_attention_heads")
        )
        values = dict(values)
        # Files may hold these sizes, but the reference's code derives them from other sizes.
        for key, size in (
            ("pooler_hidden_size", width),
            ("attention_head_size", width // heads if heads else 0),
        ):
            if (stored := values.pop(key, None)) not in (None, size):
                raise UserError(f"{where}: {key} is {stored!r}; only {size} is supported")
        return super().from_dict(values, where=where)

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of a ``config.json``, for heedful and for the reference."""
        values = BertConfig.to_dict(self)
        omitted = {name for name in ("embedding_size", "cls_dropout") if values[name] is None}
        omitted |= {name for name in ("talking_head", "enhanced_mask_decoder") if not values[name]}
        kept = {name: x for name, x in values.items() if name not in omitted}
        return kept | {"pos_att_type": None if self.pos_att_type is None else [*self.pos_att_type]}


def _terms(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the names of the terms as a tuple; also accepts ``c2p|p2c``.

    Raises:
        UserError: a term does not exist, or is named twice.
    """
    if isinstance(names, str):
        names = [name.strip() for name in names.lower().split("|")]
    if names is None:
        return None
    for name in names:
        check_known("pos_att_type", name, TERMS)
    if len(set(names)) != len(names):
        raise UserError(f"pos_att_type names one term twice: {'|'.join(names)}")
    return tuple(names)
