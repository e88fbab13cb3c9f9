"""Values of a configuration, checked, and those that are left to others completed."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from heedful.errors import UserError

if TYPE_CHECKING:
    from heedful.models.rnn_config import RnnConfig
    from heedful.models.transformer_config import TransformerConfig


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
    check_numbers(config, ("vocab_size", "decoder_vocab_size"), int, low=1)
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
