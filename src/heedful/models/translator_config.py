"""Configuration fields about the two vocabularies of a translator."""

from dataclasses import dataclass
from typing import ClassVar

from heedful.errors import UserError
from heedful.models.configs import check_booleans, check_numbers, check_sizes
from heedful.models.stored_config import StoredConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslatorConfig(StoredConfig):
    """Fields of the configurations of all translators; see ``complete_vocabularies``."""

    DROPOUTS: ClassVar[tuple[str, ...]] = ("dropout",)
    """Names of the fields that a single dropout rate sets."""

    vocab_size: int
    """Size of the source vocabulary."""
    decoder_vocab_size: int = 0
    """Size of the target vocabulary; 0 takes ``vocab_size``."""
    share_encoder_decoder_embeddings: bool = True
    """Whether encoder and decoder share one embedding table; needs a joint vocabulary."""
    tie_word_embeddings: bool = True
    """Whether the output weight is tied to the target embeddings."""
    label_smoothing: float = 0.0
    """Probability spread evenly over the vocabulary in training (Szegedy et al. 2016; Vaswani et
    al. 2017, section 5.4: 0.1)."""
    max_position_embeddings: int = 1024
    """Maximum sequence length in tokens."""
    pad_token_id: int = -1
    """Id of the padding token, whose vector is zeros and not trained; -1 takes the last id that
    both vocabularies have, as in Marian's folders."""
    eos_token_id: int = 0
    """Id of the token that ends a text."""
    decoder_start_token_id: int = -1
    """Id of the token that starts the decoder's input; -1 takes the padding token."""


def complete_vocabularies(config: TranslatorConfig) -> None:
    """Complete and check the fields about the two vocabularies of a translator.

    Raises:
        UserError: a value has the wrong type or is out of range, or two values conflict.
    """
    # The last steps of construction: defaults become actual values.
    if config.decoder_vocab_size == 0:
        object.__setattr__(config, "decoder_vocab_size", config.vocab_size)
    check_sizes(config, ("vocab_size", "decoder_vocab_size", "max_position_embeddings"))
    check_numbers(config, ("label_smoothing",), float, below=1)
    common_size = min(config.vocab_size, config.decoder_vocab_size)
    if config.pad_token_id == -1:
        object.__setattr__(config, "pad_token_id", common_size - 1)
    if config.decoder_start_token_id == -1:
        object.__setattr__(config, "decoder_start_token_id", config.pad_token_id)
    ids = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
    check_numbers(config, ids, int, below=common_size)
    if config.pad_token_id == config.eos_token_id:
        raise UserError(f"pad_token_id and eos_token_id are both {config.pad_token_id}")
    check_booleans(config, ("share_encoder_decoder_embeddings", "tie_word_embeddings"))
    if config.share_encoder_decoder_embeddings and config.vocab_size != config.decoder_vocab_size:
        raise UserError(
            f"vocab_size is {config.vocab_size} and decoder_vocab_size "
            f"{config.decoder_vocab_size}; with share_encoder_decoder_embeddings they must be the "
            "same"
        )
