"""How answers are scored where more than one way is usual."""

from dataclasses import dataclass
from typing import Literal

BleuTokenize = Literal["13a", "char", "intl", "ja-mecab", "ko-mecab", "none", "zh"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreSettings:
    """How answers are scored; it changes neither the model nor the answers."""

    bleu_tokenize: BleuTokenize | None = None
    """How BLEU splits texts into words, by sacreBLEU's names; default: by the script of the texts
    to write in training: zh for Chinese, ja-mecab for Japanese where it is installed, else char,
    and 13a for others."""
