"""What kind of vocabulary ``heedful vocabulary`` learns."""

from dataclasses import dataclass
from typing import Literal

from heedful.errors import UserError, listed, option_of
from heedful.settings.ranges import check_encoding, in_range

Arch = Literal[
    "roberta", "gpt2", "deberta", "xlm-roberta", "albert", "big_bird", "deberta-v2", "xlnet"
]
_FAMILIES = {
    "bpe": ("roberta", "gpt2", "deberta"),
    "unigram": ("xlm-roberta", "albert", "big_bird", "deberta-v2", "xlnet"),
}
"""Those that have a kind of vocabulary; the first is the default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VocabularySettings:
    """What kind of vocabulary to learn."""

    kind: Literal["wordpiece", "bpe", "unigram"] = "wordpiece"
    """WordPiece as BERT has it, pairs of bytes as RoBERTa and GPT-2, or the likeliest pieces."""
    arch: Arch | None = None
    """Family whose special tokens it gets; default: roberta for pairs of bytes, xlm-roberta for the
    likeliest pieces."""
    size: int = 30_000
    """Size of the vocabulary."""
    cased: bool = False
    """Keep capital letters; keeps accents too unless --strip-accents. Other kinds keep both."""
    strip_accents: bool | None = None
    """Remove accents; default: unless --cased."""
    alphabet: int | None = None
    """Most characters of the alphabet: the most frequent ones are kept; default: 1000. Other
    kinds have all."""
    encoding: str = "utf-8"
    """How the files store characters, such as gb18030 (also GBK and GB2312) or big5."""

    @property
    def family(self) -> str:
        """The family whose special tokens it gets."""
        return self.arch or _FAMILIES.get(self.kind, ("bert",))[0]

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and a family that has another kind.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        check_encoding(self.encoding)
        in_range("size", self.size, 6, 10**6, what="from 6 to 1,000,000")
        if self.alphabet is not None:
            in_range("alphabet", self.alphabet, 1, 10**6, what="from 1 to 1,000,000")
        if self.arch is not None and self.arch not in (families := _FAMILIES.get(self.kind, ())):
            possible = f"one of: {listed(families)}" if families else "left out"
            raise UserError(f"--arch {self.arch}: with --kind {self.kind} it must be {possible}")
        if self.kind == "wordpiece":
            return
        for name in ("cased", "strip_accents", "alphabet"):
            if getattr(self, name):
                raise UserError(f"{option_of(name)} is for --kind wordpiece, not {self.kind}")
