"""Settings of ``heedful vocabulary``."""

from dataclasses import dataclass
from typing import Literal

from heedful.errors import UserError, join_names, option_of
from heedful.settings.ranges import check_encoding, in_range

Arch = Literal[
    "roberta", "gpt2", "deberta", "xlm-roberta", "albert", "big_bird", "deberta-v2", "xlnet"
]
_FAMILIES = {
    "bpe": ("roberta", "gpt2", "deberta"),
    "unigram": ("xlm-roberta", "albert", "big_bird", "deberta-v2", "xlnet"),
}
"""Families with a kind of vocabulary; the first is the default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VocabularySettings:
    """The vocabulary to learn."""

    kind: Literal["wordpiece", "bpe", "unigram"] = "wordpiece"
    """WordPiece, as in BERT; byte-level BPE, as in RoBERTa and GPT-2; or a unigram model."""
    arch: Arch | None = None
    """Family whose special tokens to add; default: roberta for bpe, xlm-roberta for unigram."""
    size: int = 30_000
    """Size of the vocabulary."""
    cased: bool | None = None
    """Keep capital letters, and accents unless --strip-accents; default: no. Other kinds keep
    both."""
    strip_accents: bool | None = None
    """Remove accents; default: yes, unless --cased."""
    alphabet: int | None = None
    """Maximum size of the alphabet: keep the most frequent characters; default: 1000. Other kinds
    keep all."""
    encoding: str = "utf-8"
    """How the files store characters, such as gb18030 (also GBK and GB2312) or big5."""

    @property
    def family(self) -> str:
        """The family whose special tokens the vocabulary gets."""
        return self.arch or _FAMILIES.get(self.kind, ("bert",))[0]

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and a family with another kind of vocabulary.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        check_encoding(self.encoding)
        in_range("size", self.size, 6, 10**6, what="from 6 to 1,000,000")
        if self.alphabet is not None:
            in_range("alphabet", self.alphabet, 1, 10**6, what="from 1 to 1,000,000")
        if self.arch is not None and self.arch not in (families := _FAMILIES.get(self.kind, ())):
            possible = f"one of: {join_names(families)}" if families else "left out"
            raise UserError(f"--arch {self.arch}: with --kind {self.kind} it must be {possible}")
        if self.kind == "wordpiece":
            return
        for name in ("cased", "strip_accents", "alphabet"):
            if (value := getattr(self, name)) is not None:
                option = option_of(name if value else f"no_{name}")
                raise UserError(f"{option} is for --kind wordpiece, not {self.kind}")
