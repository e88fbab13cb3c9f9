"""What the configurations of all translators say of their two vocabularies."""

from dataclasses import dataclass
from typing import ClassVar

from heedful.errors import UserError
from heedful.models.configs import check_numbers, check_sizes, check_switches
from heedful.models.stored_config import StoredConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslatorConfig(StoredConfig):
    """What the configurations of all translators say; see ``complete_pieces``."""

    DROPOUTS: ClassVar[tuple[str, ...]] = ("dropout",)
    """The fields that one rate of dropout sets."""

    vocab_size: int
    """Number of pieces of the source vocabulary."""
    decoder_vocab_size: int = 0
    """Number of pieces of the target vocabulary; 0 takes ``vocab_size``."""
    share_encoder_decoder_embeddings: bool = True
    """Whether source and target pieces have one table of vectors; needs one vocabulary."""
    tie_word_embeddings: bool = True
    """Whether a target piece is scored with its vector, rather than with another one."""
    label_smoothing: float = 0.0
    """Share of the truth that all pieces have alike in training (Szegedy et al. 2016; Vaswani et
    al. 2017, section 5.4: 0.1)."""
    max_position_embeddings: int = 1024
    """Longest sequence, in tokens."""
    pad_token_id: int = -1
    """Id of the padding piece, whose vector is zeros and not trained; -1 takes the last that both
    vocabularies have, as Marian's folders do."""
    eos_token_id: int = 0
    """Id of the piece that ends a text."""
    decoder_start_token_id: int = -1
    """Id of the piece that a text to write starts after; -1 takes the padding piece."""


def complete_pieces(config: TranslatorConfig) -> None:
    """Complete and check what the configuration of a translator says of its two vocabularies.

    Raises:
        UserError: a value is of the wrong type or out of range, or two do not go together.
    """
    # The last steps of construction: from here on these values are known.
    if config.decoder_vocab_size == 0:
        object.__setattr__(config, "decoder_vocab_size", config.vocab_size)
    check_sizes(config, ("vocab_size", "decoder_vocab_size", "max_position_embeddings"))
    check_numbers(config, ("label_smoothing",), float, below=1)
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
