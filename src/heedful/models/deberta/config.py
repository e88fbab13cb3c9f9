"""What a DeBERTa is made of, under the reference's key names."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from heedful.errors import UserError, check_known
from heedful.layers.disentangled import TERMS
from heedful.layers.feedforward import ACTIVATIONS
from heedful.models.bert.config import BertConfig
from heedful.models.configs import check_name, check_numbers, check_sizes, check_switches

_SWITCHES = ("relative_attention", "position_biased_input", "legacy", "enhanced_mask_decoder")


@dataclass(frozen=True, kw_only=True, slots=True)
class DebertaConfig(BertConfig):
    """The sizes and options of a DeBERTa. The defaults are those of the reference.

    Raises:
        UserError: a value is of the wrong type or out of range, or two do not go together.
    """

    MODEL_TYPE: ClassVar[str] = "deberta"
    ABSENT: ClassVar[Mapping[str, Any]] = {
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
    LEAST_TYPES: ClassVar[int] = 0
    UNUSED: ClassVar[Collection[str]] = ("padding_idx",)
    vocab_size: int = 50265
    """Number of pieces in the vocabulary."""
    type_vocab_size: int = 0
    """Number of token types; 0 for none."""
    layer_norm_eps: float = 1e-7
    """Added to the variance by layer normalisation."""
    embedding_size: int | None = None
    """Width of the embeddings; None takes ``hidden_size``. A linear layer widens others."""
    relative_attention: bool = False
    """Whether distances between tokens take part in attention."""
    pos_att_type: tuple[str, ...] | None = None
    """How: ``c2p`` (contents meet distances as keys), ``p2c`` (as queries), or both; None for
    neither. Files may say ``c2p|p2c``."""
    max_relative_positions: int = -1
    """The distance from which on all are one; below 1 takes ``max_position_embeddings``."""
    position_biased_input: bool = True
    """Whether vectors of positions are added to those of words."""
    pooler_dropout: float = 0.0
    """Dropout of the first token before the pooler of a classifier."""
    pooler_hidden_act: str = "gelu"
    """Activation of that pooler."""
    cls_dropout: float | None = None
    """Dropout before a classifier of texts; None takes ``hidden_dropout_prob``."""
    legacy: bool = True
    """Whether the weights that score masked pieces have the reference's older names; published
    files have the newer ones."""
    talking_head: bool = False
    """Whether attention heads mix their scores and weights (Shazeer et al. 2020)."""
    enhanced_mask_decoder: bool = False
    """Whether masked pieces are told with absolute positions, which come in at the last block (He
    et al. 2021, section 3.2). The reference leaves that out."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "pos_att_type", _terms(self.pos_att_type))
        check_switches(self, (*_SWITCHES, "talking_head"))
        check_numbers(self, ("pooler_dropout",), float, below=1)
        if self.cls_dropout is not None:
            check_numbers(self, ("cls_dropout",), float, below=1)
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
                "positions come in at the decoder"
            )

    @property
    def embedding_width(self) -> int:
        """Width of the tables of embeddings."""
        return self.hidden_size if self.embedding_size is None else self.embedding_size

    @property
    def num_distances(self) -> int:
        """The distance from which on all are one."""
        most = self.max_relative_positions
        return self.max_position_embeddings if most < 1 else most

    @property
    def score_factor(self) -> float:
        """What the usual scaled scores are multiplied by: they are sums of so many terms."""
        return 1 / math.sqrt(1 + len(self.pos_att_type or ()))

    @property
    def head_dropout(self) -> float:
        """Dropout before a classifier of texts."""
        return self.hidden_dropout_prob if self.cls_dropout is None else self.cls_dropout

    def generator(self, size: float) -> Self:
        """Return the configuration of the generator of a discriminator (He et al. 2023, 4.1).

        It is as wide and has fewer blocks.

        Args:
            size: the share of its depth.
        """
        return replace(self, num_hidden_layers=max(1, round(self.num_hidden_layers * size)))

    @classmethod
    def from_dict(cls, values: dict[str, Any], *, where: str = "configuration") -> Self:
        """Build from the keys and values of a ``config.json``; see ``BertConfig``."""
        width, heads = (
            values.get(key, getattr(cls(), key)) for key in ("hidden_size", "num_attention_heads")
        )
        values = dict(values)
        # Sizes that files may say, and that follow from others in what the reference computes.
        for key, size in (
            ("pooler_hidden_size", width),
            ("attention_head_size", width // heads if heads else 0),
        ):
            if (said := values.pop(key, None)) not in (None, size):
                raise UserError(f"{where}: {key} is {said!r}; only {size} is supported")
        return super(DebertaConfig, cls).from_dict(values, where=where)

    def to_dict(self) -> dict[str, Any]:
        """Return what a ``config.json`` holds, for heedful and for the reference."""
        values = BertConfig.to_dict(self)
        unsaid = {name for name in ("embedding_size", "cls_dropout") if values[name] is None}
        unsaid |= {name for name in ("talking_head", "enhanced_mask_decoder") if not values[name]}
        kept = {name: x for name, x in values.items() if name not in unsaid}
        return kept | {"pos_att_type": None if self.pos_att_type is None else [*self.pos_att_type]}


def _terms(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the names of terms, in whatever way they are written.

    Raises:
        UserError: there is no such term, or one is named twice.
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
