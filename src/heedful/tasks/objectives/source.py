"""Load or create the model of an objective: pretrained, from scratch, or of a finished run."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from heedful.errors import UserError
from heedful.models import FAMILIES, Family, Head
from heedful.models.loading import bidirectional_option, family_of, load_model
from heedful.models.model import Model
from heedful.settings import DataSettings
from heedful.sources import resolve
from heedful.task import Start
from heedful.tokens import Tokenizer, load_encoder_tokenizer


class Source(Protocol):
    """Loads and creates models for an objective."""

    def load(self, data: DataSettings) -> Model:
        """Load a model to continue from.

        Raises:
            UserError: the model does not exist or does not fit.
        """

    def make(self, arch: str, config: Any) -> Model:
        """Create a model from scratch.

        Args:
            arch: the model family, a key of ``FAMILIES``.
            config: a configuration of the family.

        Raises:
            UserError: the family has no such model.
        """

    def reload(self, folder: Path) -> Model:
        """Load the model of a finished run, with memory-mapped weights."""

    def write_beside(self, start: Start, folder: Path) -> None:
        """Write additional files next to the model in the folder of a finished run."""


_LEARNS: dict[Head, tuple[str, str]] = {
    "pretraining": ("pairs of texts", "mlm+nsp"),
    "masked_lm": ("masked words", "mlm"),
    "causal_lm": ("next words", "clm"),
    "permuted_lm": ("words in any order", "plm"),
}
"""The prediction target of each head, and the objective that it can be trained with."""


def _check_head(where: str, head: Head, family: Family) -> None:
    if head in family.models or head not in _LEARNS:
        return
    alternatives = [name for other, (_, name) in _LEARNS.items() if other in family.models]
    raise UserError(
        f"{where}: its models have no head for {_LEARNS[head][0]}; give --objective "
        f"{alternatives[0] if alternatives else 'rtd'}"
    )


@dataclass(frozen=True, slots=True)
class OneModel:
    """Models with a given head; those with a causal LM head are decoders."""

    head: Head

    def load(self, data: DataSettings) -> Model:
        """Load a model to continue from.

        Raises:
            UserError: the model does not exist, or its family has no such head.
        """
        family = family_of(resolve(data.model, data.revision))[1]
        _check_head(f"--model {data.model}", self.head, family)
        is_decoder = (
            True if self.head == "causal_lm" else bidirectional_option(data.model, data.revision)
        )
        model: Model = load_model(
            data.model,
            head=self.head,
            dropout=data.dropout,
            is_decoder=is_decoder,
            revision=data.revision,
        )
        return model

    def make(self, arch: str, config: Any) -> Model:
        """Create a model from scratch.

        Raises:
            UserError: the family has no such head.
        """
        family = FAMILIES[arch]
        _check_head(f"--arch {arch}", self.head, family)
        if self.head == "causal_lm" and not config.is_decoder:
            config = replace(config, is_decoder=True)
        model: Model = family.model_class(self.head)(config)
        return model

    def reload(self, folder: Path) -> Model:
        """Load the model of a finished run."""
        model: Model = load_model(folder, memory_map=True)
        return model

    def write_beside(self, start: Start, folder: Path) -> None:
        """Write nothing."""


def load_vocabulary(name: str, revision: str | None) -> Tokenizer:
    """Load the tokenizer of a model from scratch; see ``load_encoder_tokenizer``.

    Raises:
        UserError: naming the option, and the command that makes a vocabulary.
    """
    try:
        return load_encoder_tokenizer(name, revision)
    except UserError as error:
        message = f"--vocabulary: {error}; heedful vocabulary FILES --out FOLDER makes one"
        raise UserError(message) from None


def tokens_of(tokenizer: Tokenizer, arch: str, vocabulary: str) -> dict[str, int]:
    """Return the tokenizer-dependent fields of the configuration of a model from scratch.

    Args:
        tokenizer: the tokenizer of the vocabulary.
        arch: the model family, a key of ``FAMILIES``.
        vocabulary: the user's name for the vocabulary.

    Raises:
        UserError: see `check_vocabulary`.
    """
    check_vocabulary(arch, vocabulary, tokenizer)
    return {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
        "sep_token_id": tokenizer.sep_token_id,
    }


def check_vocabulary(arch: str, name: str, tokenizer: Tokenizer) -> None:
    """Refuse a vocabulary that does not suit a model family.

    XLNet has its class token last, behind padding, with a segment id of its own. GPT-2 does not use
    the class token, and can read such texts too. MPNet counts positions from a fixed padding id.
    RoBERTa gives padding a position of its own, which no token of a text may have.

    Args:
        arch: the model family, a key of ``FAMILIES``.
        name: the user's name for the vocabulary.
        tokenizer: the tokenizer of the vocabulary.

    Raises:
        UserError: naming both, and a vocabulary that fits.
    """
    class_is_last = tokenizer.layout.closing_type is not None
    if arch == "xlnet" and not class_is_last:
        raise UserError(
            f"--vocabulary {name} does not fit --arch xlnet, whose texts end with the class token: "
            "give one for XLNet, such as heedful vocabulary --kind unigram --arch xlnet learns"
        )
    if class_is_last and arch not in ("xlnet", "gpt2"):
        raise UserError(
            f"--vocabulary {name} is for XLNet, whose texts end with the class token, and does not "
            f"fit --arch {arch}: give one of another kind, or --arch xlnet --objective plm"
        )
    if arch in ("roberta", "xlm-roberta") and tokenizer.pad_token_id == tokenizer.cls_token_id:
        raise UserError(
            f"--vocabulary {name} does not fit --arch {arch}, because its padding is also the "
            "token that begins a text: give one of another kind, or --arch gpt2"
        )
    if arch == "mpnet" and tokenizer.pad_token_id != 1:
        raise UserError(
            f"--vocabulary {name} does not fit --arch mpnet, whose padding token has the id 1, not "
            f"{tokenizer.pad_token_id}: give one for MPNet or RoBERTa, such as heedful vocabulary "
            "--kind bpe learns"
        )
