"""Configurations from the keys of a ``config.json``, and their values checked and completed."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from heedful.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from heedful.models.rnn.config import RnnConfig
    from heedful.models.transformer.config import TransformerConfig


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
        kind: its class, whose fields are the keys that it takes.
        values: keys and values.
        where: what an error calls the place that they come from.
        fixed: further keys, for which only one value is supported.
        ignored: further keys, which change nothing.

    Raises:
        UserError: a key is unknown, or its value not supported.
    """
    for key, right in fixed.items():
        if values.get(key, right) != right:
            raise UserError(f"{where}: {key} is {values[key]!r}; only {right!r} is supported")
    known = {field.name for field in fields(kind)}
    for key in values:
        if key not in known and key not in fixed and key not in ignored:
            hint = "; delete it there if it does not change what the model computes"
            near = did_you_mean(key, {*known, *fixed})
            raise UserError(f"{where}: unknown key {key!r}{near}{hint if ignored else ''}")
    try:
        return kind(**{key: value for key, value in values.items() if key in known})
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def check_numbers(
    config: object, names: Iterable[str], kind: type, *, low: float = 0, below: float = math.inf
) -> None:
    """Check that fields are numbers of a kind and in a range.

    Args:
        config: what has them.
        names: their names.
        kind: ``int``, or ``float``, which an integer is, too.
        low: the least they may be.
        below: what they must stay below.

    Raises:
        UserError: one is not.
    """
    kinds = (int,) if kind is int else (int, float)
    for name in names:
        value = getattr(config, name)
        if not isinstance(value, kinds) or isinstance(value, bool) or not low <= value < below:
            what = "an integer" if kind is int else "a number"
            limit = "" if below == math.inf else f" and below {below}"
            raise UserError(f"{name} is {value!r}; it must be {what} of at least {low}{limit}")


def check_sizes(config: object, widths: Iterable[str], depths: Iterable[str] = ()) -> None:
    """Check that fields are sizes that a model can have, so that a damaged one costs no time.

    Args:
        config: what has them.
        widths: names of those of tensors.
        depths: names of the numbers of blocks.

    Raises:
        UserError: one is not.
    """
    check_numbers(config, widths, int, low=1, below=2**28)
    check_numbers(config, depths, int, low=1, below=1001)


def check_switches(config: object, names: Iterable[str]) -> None:
    """Check that fields are true or false.

    Raises:
        UserError: one is neither.
    """
    for name in names:
        if not isinstance(getattr(config, name), bool):
            raise UserError(f"{name} is {getattr(config, name)!r}; it must be true or false")


def complete_pieces(config: "RnnConfig | TransformerConfig") -> None:
    """Complete and check what the configuration of a translator says of its two vocabularies.

    Raises:
        UserError: a value is of the wrong type or out of range, or two do not go together.
    """
    # The last steps of construction: these values are there from here on.
    if config.decoder_vocab_size == 0:
        object.__setattr__(config, "decoder_vocab_size", config.vocab_size)
    check_sizes(config, ("vocab_size", "decoder_vocab_size"))
    pieces = min(config.vocab_size, config.decoder_vocab_size)
    if config.pad_token_id == -1:
        object.__setattr__(config, "pad_token_id", pieces - 1)
    if config.decoder_start_token_id == -1:
        object.__setattr__(config, "decoder_start_token_id", config.pad_token_id)
    ids = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
    check_numbers(config, ids, int, below=pieces)
    if config.pad_token_id == config.eos_token_id:
        raise UserError(f"pad_token_id and eos_token_id are both {config.pad_token_id}")
    check_switches(config, ("share_encoder_decoder_embeddings", "tie_word_embeddings"))
    if config.share_encoder_decoder_embeddings and config.vocab_size != config.decoder_vocab_size:
        raise UserError(
            f"vocab_size is {config.vocab_size} and decoder_vocab_size "
            f"{config.decoder_vocab_size}; with share_encoder_decoder_embeddings they must be the "
            "same"
        )
