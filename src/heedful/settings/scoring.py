"""Settings of metrics that can be computed in more than one way."""

from dataclasses import dataclass
from typing import Literal

BleuTokenize = Literal["13a", "char", "intl", "ja-mecab", "ko-mecab", "none", "zh"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreSettings:
    """How to score answers; changes neither the model nor the answers."""

    bleu_tokenize: BleuTokenize | None = None
    """Tokenizer of BLEU, by sacreBLEU's names; default: by the script of the target texts in
    training: zh for Chinese, ja-mecab for Japanese (char if not installed), 13a for others."""
