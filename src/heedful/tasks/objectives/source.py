"""Where the model of an objective comes from: loaded to go on, from scratch, of a finished run."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from heedful.errors import UserError
from heedful.models import FAMILIES, Family, Head
from heedful.models.loading import encodes, family_of, load_model
from heedful.models.model import Model
from heedful.settings import DataSettings
from heedful.sources import resolve
from heedful.task import Start
from heedful.tokens import Tokenizer


class Source(Protocol):
    """What makes models for an objective."""

    def load(self, data: DataSettings) -> Model:
        """Load a model to go on with.

        Raises:
            UserError: there is no such model, or it does not suit.
        """

    def make(self, arch: str, config: Any) -> Model:
        """Make a model from scratch.

        Args:
            arch: its family, by its name in ``FAMILIES``.
            config: of the family.

        Raises:
            UserError: the family has no such model.
        """

    def reload(self, folder: Path) -> Model:
        """Load the model of a finished run, its weights mapped into memory."""

    def write_beside(self, start: Start, folder: Path) -> None:
        """Write into the folder of a finished run what stands beside its model."""


_LEARNS: dict[Head, tuple[str, str]] = {
    "pretraining": ("pairs of texts", "mlm+nsp"),
    "masked_lm": ("masked words", "mlm"),
    "causal_lm": ("next words", "clm"),
    "permuted_lm": ("words in any order", "plm"),
}
"""What is learnt with a head, and the objective that a family with it can learn."""


def _check_head(where: str, head: Head, family: Family) -> None:
    if head in family.models or head not in _LEARNS:
        return
    able = [name for each, (_, name) in _LEARNS.items() if each in family.models]
    raise UserError(
        f"{where}: its models have no head for {_LEARNS[head][0]}; give --objective "
        f"{able[0] if able else 'rtd'}"
    )


@dataclass(frozen=True, slots=True)
class OneModel:
    """Models with a head; those of next words are decoders."""

    head: Head

    def load(self, data: DataSettings) -> Model:
        """Load a model to go on with.

        Raises:
            UserError: there is no such model, or it has no such head.
        """
        family = family_of(resolve(data.model, data.revision))[1]
        _check_head(f"--model {data.model}", self.head, family)
        decodes = True if self.head == "causal_lm" else encodes(data.model, data.revision)
        model: Model = load_model(
            data.model,
            head=self.head,
            dropout=data.dropout,
            is_decoder=decodes,
            revision=data.revision,
        )
        return model

    def make(self, arch: str, config: Any) -> Model:
        """Make a model from scratch.

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
        model: Model = load_model(folder, mapped=True)
        return model

    def write_beside(self, start: Start, folder: Path) -> None:
        """Write nothing."""


def tokens_of(tokenizer: Tokenizer, arch: str, vocabulary: str) -> dict[str, int]:
    """Return what the configuration of a model from scratch says of its tokenizer.

    Args:
        tokenizer: of the vocabulary.
        arch: the family, by its name in ``FAMILIES``.
        vocabulary: what the user calls it.

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
    """Refuse a vocabulary that a family cannot have.

    XLNet reads the class token last, of a type of its own, behind padding. A GPT-2 looks for no
    class token, and reads such texts as well. An MPNet counts positions from a fixed id.

    Args:
        arch: the family, by its name in ``FAMILIES``.
        name: what the user calls the vocabulary.
        tokenizer: of it.

    Raises:
        UserError: naming both, and what would fit.
    """
    class_is_last = tokenizer.layout.closing_type is not None
    if arch == "xlnet" and not class_is_last:
        raise UserError(
            f"--vocabulary {name} does not fit --arch xlnet, whose texts end with the class token: "
            "give one of XLNet, such as heedful vocabulary --kind unigram --arch xlnet learns"
        )
    if class_is_last and arch not in ("xlnet", "gpt2"):
        raise UserError(
            f"--vocabulary {name} is one of XLNet, whose texts end with the class token, and does "
            f"not fit --arch {arch}: give one of another kind, or --arch xlnet --objective plm"
        )
    if arch == "mpnet" and tokenizer.pad_token_id != 1:
        raise UserError(
            f"--vocabulary {name} does not fit --arch mpnet, whose padding token has the id 1, not "
            f"{tokenizer.pad_token_id}: give one of MPNet or RoBERTa, such as heedful vocabulary "
            "--kind bpe learns"
        )
