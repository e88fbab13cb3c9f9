"""How answers are computed."""

import math
from dataclasses import dataclass
from typing import Literal

from heedful.settings.ranges import LongText, Precision, in_range

_MOST_TEXTS = 1000
"""The most texts that are written at once for one that was read; they all have to be kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictSettings:
    """How answers are computed; none of it changes what was learnt."""

    precision: Precision = "auto"
    """Format of the computation; auto takes bf16 where the machine computes it in hardware."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    long_text: LongText = "window"
    """A text longer than --max-length: read in windows (translated sentence by sentence), or its
    head, or head-tail, or refused."""
    max_length: int | None = None
    """Tokens the model is given at once; default: as in training."""
    batch_size: int = 256
    """Texts computed at once, at most."""
    batch_tokens: int = 8192
    """Tokens computed at once, at most."""
    top: int = 5
    """How many answers to give where a task has several."""
    no_answer_threshold: float | None = None
    """How far no answer must outscore the best one to be given; default: as in training."""
    aggregation: Literal["first", "average", "max"] = "first"
    """What decides a word's tag: its first piece, the mean of its pieces, or the surest of them."""

    beam: int = 4
    """Texts kept while one is written; 1 takes the likeliest word each time."""
    max_new_tokens: int | None = None
    """The most tokens of a text that is written, within the positions that the model has; default:
    64, of a translation what the run learnt from."""
    min_new_tokens: int = 0
    """The fewest tokens of a translation."""
    length_penalty: float = 1.0
    """Texts are ranked by their probability (0), by its mean over their tokens (1), or between."""
    coverage_penalty: float = 0.0
    """How much a translation's rank suffers from words that were hardly attended to."""
    repetition_penalty: float = 1.0
    """Above 1 a token that is there already becomes less likely to come again."""
    no_repeat_ngram: int = 0
    """So many tokens in a row come only once in a translation; 0 for no bound."""
    alignments: bool = False
    """Link the words of a translation to those of its text."""
    sample: bool = False
    """Draw words by their probability instead of searching for the likeliest."""
    temperature: float = 1.0
    """Below 1 draws are safer, above 1 more varied."""
    top_k: int = 0
    """Draw among this many likeliest words; 0 for all."""
    top_p: float = 1.0
    """Draw among the fewest words that have this probability together."""
    seed: int = 0
    """Decides the draws."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        count = "a whole number of at least 1"
        for name in ("batch_size", "batch_tokens", "top", "max_new_tokens"):
            in_range(name, getattr(self, name), 1, math.inf, what=count)
        for name in ("min_new_tokens", "no_repeat_ngram", "top_k"):
            in_range(name, getattr(self, name), 0, math.inf, what="0 or a whole number above")
        few = f"a whole number from 1 to {_MOST_TEXTS:,}"
        in_range("beam", self.beam, 1, _MOST_TEXTS, what=few)
        if self.sample:
            in_range("top", self.top, 1, _MOST_TEXTS, what=f"{few} with --sample")
        in_range("coverage_penalty", self.coverage_penalty, 0, 1e6, what="0 or above")
        in_range("repetition_penalty", self.repetition_penalty, 1, 1e6, what="1 or above")
        in_range("length_penalty", self.length_penalty, -10, 10, what="from -10 to 10")
        some = "a number above 0"
        in_range("temperature", self.temperature, math.ulp(0.0), 1e9, what=some)
        in_range("top_p", self.top_p, math.ulp(0.0), 1, what="above 0 and at most 1")
        in_range("seed", self.seed, 0, 2**63 - 1, what="from 0 to 2^63 - 1")
        in_range("no_answer_threshold", self.no_answer_threshold, -1e9, 1e9, what="a number")
