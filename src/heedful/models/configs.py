"""Shared code of configurations: build from the keys of a ``config.json``, check and complete."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from heedful.errors import UserError, check_known, did_you_mean, join_names, unknown_name
from heedful.files import read_json
from heedful.models.encoder_config import BlocksConfig
from heedful.models.label_names import read_labels
from heedful.models.stored_config import CALL_DEFAULTS, StoredConfig, configuration

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


IGNORED = frozenset(
    {
        # Origin and use of the file.
        *("_name_or_path", "architectures", "transformers_version", "finetuning_task"),
        *(
            "task_specific_params",
            "language",
            "name",
            "tokenizer_class",
            "prefix",
            "tie_encoder_decoder",
        ),
        # Keys of other programs, for steps before or after the model.
        *("sentence_transformers", "transformers.js_config", "_commit_hash"),
        *("model_max_length", "max_seq_length", "unk_token_id"),
        # Keys that the first releases wrote beside `id2label` and about the machine.
        *("_num_labels", "xla_device"),
        # Run-time options, which in heedful are arguments of the call or up to the caller.
        *("torch_dtype", "dtype", "torchscript", "use_bfloat16"),
        *("gradient_checkpointing", "output_attentions", "output_hidden_states", "output_past"),
        *("return_dict", "attn_implementation", "_attn_implementation"),
        *("_attn_implementation_autoset", "tf_legacy_loss"),
        # Ids of special tokens, which the tokenizer's files determine.
        *("bos_token_id", "eos_token_id", "eos_token_ids", "sep_token_id", "cls_token_id"),
        *("mask_token_id", "decoder_start_token_id"),
        # Options of a pooler that no released model has.
        *("directionality", "pooler_fc_size", "pooler_num_attention_heads"),
        *("pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"),
        # Search options for generation, which old files repeat for every kind of model.
        *("bad_words_ids", "begin_suppress_tokens", "do_sample", "diversity_penalty"),
        *("early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty"),
        *("forced_bos_token_id", "forced_eos_token_id", "length_penalty", "max_length"),
        *("min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams"),
        *("num_return_sequences", "output_scores", "remove_invalid_values", "repetition_penalty"),
        *("return_dict_in_generate", "suppress_tokens", "temperature", "top_k", "top_p"),
        "typical_p",
    }
)
"""Keys of a ``config.json`` that do not change what a model computes."""

_COMMON: Mapping[str, Any] = {
    "add_cross_attention": False,
    "chunk_size_feed_forward": 0,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
    "is_decoder": False,
    "label2id": {"LABEL_0": 0, "LABEL_1": 1},
    "problem_type": None,
    "pruned_heads": {},
    "tie_word_embeddings": True,
}
"""Options that the reference has in all families, with their defaults there."""

MAX_LABELS = 2**20
"""Maximum number of outputs of a classifier, each of which has a name in memory."""

PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")

Config = TypeVar("Config", bound="DataclassInstance")


def from_keys(
    kind: type[Config],
    values: Mapping[str, Any],
    where: str,
    *,
    fixed: Mapping[str, Any],
    ignored: Collection[str] = (),
) -> Config:
    """Build a configuration.

    Args:
        kind: class of the configuration, whose fields are the allowed keys.
        values: keys and values.
        where: source of the values, for error messages.
        fixed: further keys, each with its only supported value.
        ignored: further keys, which have no effect.

    Raises:
        UserError: a key is unknown, or its value is not supported.
    """
    for key, expected in fixed.items():
        if values.get(key, expected) != expected:
            raise UserError(f"{where}: {key} is {values[key]!r}; only {expected!r} is supported")
    names = {field.name for field in fields(kind)}
    for key in values:
        if key not in names and key not in fixed and key not in ignored:
            hint = "; delete it there if it does not change what the model computes"
            suggestion = did_you_mean(key, {*names, *fixed})
            raise UserError(f"{where}: unknown key {key!r}{suggestion}{hint if ignored else ''}")
    try:
        return kind(**{key: value for key, value in values.items() if key in names})
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def check_numbers(
    config: object,
    names: Iterable[str],
    kind: type,
    *,
    low: float = 0,
    below: float = math.inf,
    optional: bool = False,
) -> None:
    """Check that fields are numbers of the given type and in range.

    Args:
        config: configuration to check.
        names: names of the fields.
        kind: ``int``, or ``float``, which also allows integers.
        low: smallest allowed value.
        below: exclusive upper bound.
        optional: whether None is allowed.

    Raises:
        UserError: a field has the wrong type or is out of range.
    """
    kinds = (int,) if kind is int else (int, float)
    for name in names:
        value = getattr(config, name)
        if optional and value is None:
            continue
        if not isinstance(value, kinds) or isinstance(value, bool) or not low <= value < below:
            expected = "an integer" if kind is int else "a number"
            limit = "" if below == math.inf else f" and below {below}"
            raise UserError(f"{name} is {value!r}; it must be {expected} of at least {low}{limit}")


def check_sizes(config: object, widths: Iterable[str], depths: Iterable[str] = ()) -> None:
    """Check that fields are plausible sizes, so that a damaged file fails fast.

    Args:
        config: configuration to check.
        widths: names of fields with tensor sizes.
        depths: names of fields with numbers of blocks.

    Raises:
        UserError: a size is wrong.
    """
    check_numbers(config, widths, int, low=1, below=2**28)
    check_numbers(config, depths, int, low=1, below=1001)


def check_multiple(config: object, width: str, parts: str) -> None:
    """Check that a field is a multiple of another field.

    Raises:
        UserError: it is not.
    """
    size, divisor = getattr(config, width), getattr(config, parts)
    if size % divisor:
        raise UserError(f"{width} {size} is not a multiple of {parts} {divisor}")


def check_name(config: object, field: str, allowed: Collection[str]) -> None:
    """Check that a field is one of the allowed names.

    Raises:
        UserError: it is not. The message suggests the nearest name.
    """
    name = getattr(config, field)
    if not isinstance(name, str) or name not in allowed:
        raise unknown_name(field, str(name), allowed)


def check_booleans(config: object, names: Iterable[str]) -> None:
    """Check that fields are true or false.

    Raises:
        UserError: one is neither.
    """
    for name in names:
        if not isinstance(getattr(config, name), bool):
            raise UserError(f"{name} is {getattr(config, name)!r}; it must be true or false")


def complete_labels(config: "ReferenceConfig") -> None:
    """Complete and check the label fields of a configuration; the last step of its construction.

    Raises:
        UserError: the names are not distinct strings, their number is too large or differs from
            ``num_labels``, or ``problem_type`` is unknown.
    """
    if config.problem_type is not None:
        check_known("problem_type", config.problem_type, PROBLEM_TYPES)
    labels = config.id2label
    check_numbers(config, ("num_labels",), int, below=MAX_LABELS + 1)
    if len(labels) > MAX_LABELS:
        raise UserError(f"id2label has {len(labels):,} names; at most {MAX_LABELS:,} are read")
    if not labels:
        labels = {number: f"LABEL_{number}" for number in range(config.num_labels or 2)}
    if set(labels) != set(range(len(labels))):
        ids = join_names([repr(number) for number in labels])
        raise UserError(f"id2label has the ids {ids}; they must be 0 to {len(labels) - 1}")
    names = list(labels.values())
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        shown = join_names([repr(name) for name in names])
        raise UserError(f"id2label has the names {shown}; they must be different strings")
    if config.num_labels not in (0, len(labels)):
        raise UserError(f"num_labels is {config.num_labels}, but id2label has {len(labels)}")
    # From now on the two fields agree.
    object.__setattr__(config, "id2label", {number: labels[number] for number in sorted(labels)})
    object.__setattr__(config, "num_labels", len(labels))


def read_pruned_heads(values: Mapping[str, Any], name: str, where: str) -> dict[int, list[int]]:
    """Return the pruned heads of each block, by block index.

    Args:
        values: keys and values of a ``config.json``.
        name: key of the pruned heads; it may be absent.
        where: source of the values, for error messages.

    Raises:
        UserError: the value does not map blocks to lists of heads.
    """
    try:
        pruned = (values.get(name) or {}).items()
        return {int(block): [int(head) for head in heads] for block, heads in pruned}
    except (AttributeError, OverflowError, TypeError, ValueError):
        raise UserError(f'{where}: {name} must be like {{"0": [2, 3]}}') from None


def write_pruned_heads(pruned: Mapping[int, list[int]]) -> dict[str, list[int]]:
    """Convert pruned heads to their form in a ``config.json``."""
    return {str(block): heads for block, heads in pruned.items()}


def check_pruned_heads(config: object, name: str, blocks: int, heads: int) -> None:
    """Check a field of pruned heads: blocks and heads must exist, and each block must keep a head.

    Args:
        config: configuration to check.
        name: name of the field.
        blocks: number of blocks.
        heads: number of heads per block before pruning.

    Raises:
        UserError: the field is wrong.
    """
    for block, pruned in getattr(config, name).items():
        if block not in range(blocks):
            raise UserError(f"{name} names block {block!r}; there are 0 to {blocks - 1}")
        if not set(pruned) <= set(range(heads)) or len(set(pruned)) != len(pruned):
            raise UserError(
                f"{name} of block {block} are {pruned}; "
                f"they must be different numbers from 0 to {heads - 1}"
            )
        if len(pruned) == heads:
            raise UserError(f"{name} leaves no head in block {block}; it must keep one")


def renumber_pruned(
    pruned: Mapping[int, list[int]], indices: Collection[int]
) -> dict[int, list[int]]:
    """Return the pruned heads of the kept blocks, under the blocks' new indices.

    Args:
        pruned: pruned heads of all blocks, by old block index.
        indices: old indices of the kept blocks, in their new order.
    """
    return {new: pruned[old] for new, old in enumerate(indices) if old in pruned}


def remaining(heads: int, pruned: Mapping[int, Collection[int]], block: int) -> list[int]:
    """Return the indices of a block's remaining heads.

    Args:
        heads: number of heads before pruning.
        pruned: pruned heads of each block.
        block: index of the block.
    """
    return [head for head in range(heads) if head not in pruned.get(block, ())]


@configuration
class ReferenceConfig(StoredConfig):
    """Fields of all configurations except translators', under the reference's key names.

    A family adds its sizes and options and calls ``complete`` at the end of its checks.
    """

    MODEL_TYPE: ClassVar[str]
    """The family's ``model_type`` in a ``config.json``."""
    FIXED: ClassVar[Mapping[str, Any]] = {}
    """Keys of a ``config.json`` with a single supported value, besides ``model_type``."""
    UNUSED: ClassVar[Collection[str]] = ()
    """Keys of the family's published files without effect, besides ``IGNORED``."""
    DROPOUTS: ClassVar[tuple[str, ...]]
    """Names of the fields that a single dropout rate sets."""
    DEPTH: ClassVar[str]
    """Name of the field with the number of blocks."""
    POSITIONS: ClassVar[str]
    """Name of the field with the number of positions, in a model that reads texts."""

    chunk_size_feed_forward: int = 0
    """Number of tokens per chunk of the feed-forward layers; 0 for one chunk. Chunks save memory
    and do not change the result."""
    pruned_heads: dict[int, list[int]] = field(default_factory=dict, hash=False)
    """Pruned self-attention heads, by block index."""
    num_labels: int = 0
    """Number of outputs of a classifier; 0 takes the size of ``id2label``, or 2 if it is empty."""
    id2label: dict[int, str] = field(default_factory=dict, hash=False)
    """Name of each output, for 0 to ``num_labels`` - 1; empty means LABEL_0, LABEL_1, ..."""
    problem_type: str | None = None
    """One of ``PROBLEM_TYPES``; None decides by ``num_labels`` and the dtype of the labels."""
    output_attentions: bool = False
    """Default of the argument in calls of a model; a file does not keep it."""
    output_hidden_states: bool = False
    """Default of the argument in calls of a model; a file does not keep it."""
    return_dict: bool = True
    """Default of the argument in calls of a model; a file does not keep it."""

    @classmethod
    def positions_for(cls, tokens: int, pad_token_id: int) -> int:
        """Return the value of ``POSITIONS`` for the given maximum sequence length."""
        return tokens

    @property
    def num_blocks(self: BlocksConfig) -> int:
        """Number of blocks with distinct weights."""
        return self.num_hidden_layers

    @property
    def embedding_width(self: BlocksConfig) -> int:
        """Width of the embeddings."""
        return self.hidden_size

    @property
    def attention_output_dropout(self: BlocksConfig) -> float:
        """Dropout of the attention sublayer's output."""
        return self.hidden_dropout_prob

    @property
    def position_embedding_type(self) -> str:
        """One of ``layers.positions.POSITIONS``."""
        return "absolute"

    @property
    def padding_position(self) -> int | None:
        """Position id of all padding, not trained; None if padding takes ordinary positions."""
        return None

    @property
    def type_vocab_size(self) -> int:
        """Number of token types: 0, since there are none."""
        return 0

    @property
    def is_decoder(self) -> bool:
        """Whether attention is causal: false."""
        return False

    @property
    def add_cross_attention(self) -> bool:
        """Whether the blocks have cross-attention: false."""
        return False

    @property
    def use_return_dict(self) -> bool:
        """The field ``return_dict``, by its name in forward methods for the reference."""
        return self.return_dict

    @property
    def label2id(self) -> dict[str, int]:
        """Index of each output, by name."""
        return {label: number for number, label in self.id2label.items()}

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the ``config.json`` of the reference or of heedful.

        Raises:
            UserError: the file cannot be read, a key is unknown, or its value is not supported.
        """
        return cls.from_dict(read_json(path), where=str(path))

    @classmethod
    def from_dict(cls, values: dict[str, Any], *, where: str = "configuration") -> Self:
        """Build from the keys and values of a ``config.json``.

        Args:
            values: keys of this class, or of ``FIXED``, ``UNUSED`` or ``IGNORED``.
            where: source of the values, for error messages.

        Raises:
            UserError: a key is unknown, or its value is not supported.
        """
        parsed = {
            "id2label": read_labels(values, where),
            "pruned_heads": read_pruned_heads(values, "pruned_heads", where),
        }
        fixed = {"model_type": cls.MODEL_TYPE, **cls.FIXED}
        ignored = {*IGNORED, *cls.UNUSED, "label2id"}
        kept = {key: value for key, value in values.items() if key not in CALL_DEFAULTS}
        return from_keys(cls, {**kept, **parsed}, where, fixed=fixed, ignored=ignored)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of a ``config.json`` that heedful and the reference can read."""
        names = [field.name for field in fields(self) if field.name not in CALL_DEFAULTS]
        values = {name: getattr(self, name) for name in names}
        del values["num_labels"]  # the reference derives it from id2label
        values["id2label"] = {str(number): label for number, label in self.id2label.items()}
        values["pruned_heads"] = write_pruned_heads(self.pruned_heads)
        return {"model_type": self.MODEL_TYPE, **values, "label2id": self.label2id}

    def to_diff_dict(self) -> dict[str, Any]:
        """Return `to_dict` without the options of all families that have their defaults."""
        values = self.to_dict()
        return {name: value for name, value in values.items() if _COMMON.get(name, self) != value}

    def complete(self, blocks: int, heads: int) -> None:
        """Check the fields of this class and complete the labels.

        Args:
            blocks: number of blocks.
            heads: number of heads per block before pruning.

        Raises:
            UserError: a value has the wrong type or is out of range.
        """
        check_numbers(self, ("chunk_size_feed_forward",), int)
        check_booleans(self, CALL_DEFAULTS)
        check_pruned_heads(self, "pruned_heads", blocks, heads)
        complete_labels(self)
