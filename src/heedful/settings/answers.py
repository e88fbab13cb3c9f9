"""How answers are computed."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from heedful.errors import UserError, check_known
from heedful.settings.ranges import AnswerPrecision, LongText, in_range, left_out

Aggregation = Literal["first", "average", "max"]
"""What decides a word's tag."""
_MOST_TEXTS = 1000
"""Most texts generated for one input; all of them are held in memory."""
_MOST_TARGETS = 1000
"""Most words to choose among for a mask."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictSettings:
    """How answers are computed; nothing here changes the model."""

    precision: AnswerPrecision = "auto"
    """Number format; auto uses bf16 where the hardware computes it, else fp32. int8
    rounds most: `heedful evaluate --precision int8` says what that costs on your data."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    long_text: LongText = "window"
    """What to do with a text longer than --max-length: read it in windows (translate it sentence
    by sentence), read its head or its head and tail, or refuse it."""
    max_length: int | None = None
    """Longest input in tokens; default: as in training."""
    batch_size: int = 256
    """Largest batch, in texts."""
    batch_tokens: int | None = None
    """Largest batch, in tokens; default: 8,192 to 65,536 on a GPU, by its memory; 4,096 on a CPU,
    and there fewer for a wide model."""
    top: int = 5
    """Number of answers to give where a task has several."""
    no_answer_threshold: float | None = None
    """Margin by which 'no answer' must beat the best answer; default: as in training."""
    aggregation: Aggregation = "first"
    """What decides a word's tag: its first piece, the mean of its pieces, or the surest piece."""
    raw: bool = False
    """Give numbers as the model computes them: logits, not probabilities; a vector of any length,
    not of length 1."""
    piece_tags: bool = False
    """Give the tag of each piece that words are cut into, too."""
    token_vectors: bool = False
    """Give a vector of each token, too."""
    targets: tuple[str, ...] = ()
    """Choose the word behind a mask among these alone."""

    beam: int = 4
    """Beam width: hypotheses kept while a text is generated; 1 is greedy search."""
    max_new_tokens: int | None = None
    """Most tokens to generate, within the model's positions; default: 64, and for a translation
    half as many again as the longest in training."""
    min_new_tokens: int = 0
    """Fewest tokens to generate."""
    length_penalty: float = 1.0
    """Rank hypotheses by log-probability divided by length to this power: 0 ignores the length."""
    coverage_penalty: float = 0.0
    """Penalty for source words that a translation hardly attends to."""
    repetition_penalty: float = 1.0
    """Above 1, a token that was generated already is less likely to come again."""
    no_repeat_ngram: int = 0
    """N-grams of this size come only once in what is generated; 0 for no limit."""
    alignments: bool = False
    """Align the words of a translation with those of its source."""
    whole_words: bool = False
    """Align Chinese word by word, as jieba tells them, not character by character."""
    sample: bool = False
    """Sample tokens by their probability instead of searching for the likeliest text."""
    temperature: float = 1.0
    """Below 1 samples are safer, above 1 more varied."""
    top_k: int = 0
    """Sample among this many of the likeliest tokens; 0 for all."""
    top_p: float = 1.0
    """Sample among the fewest tokens whose probabilities add up to this."""
    seed: int = 0
    """Seed of the samples, and of what `report` and `compare` draw."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and choices that there are not.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        check_known("--precision", self.precision, get_args(AnswerPrecision))
        check_known("--long-text", self.long_text, get_args(LongText))
        if self.whole_words and not self.alignments:
            raise UserError("--whole-words says how words are aligned: give --alignments, too")
        check_known("--aggregation", self.aggregation, get_args(Aggregation))
        count = "a whole number of at least 1"
        for name in ("batch_size", "batch_tokens", "max_length", "top", "max_new_tokens"):
            in_range(name, getattr(self, name), 1, math.inf, what=count)
        for name in ("min_new_tokens", "no_repeat_ngram", "top_k"):
            in_range(name, getattr(self, name), 0, math.inf, what="0 or a whole number above")
        few = f"a whole number from 1 to {_MOST_TEXTS:,}"
        in_range("beam", self.beam, 1, _MOST_TEXTS, what=few)
        if self.sample:
            in_range("top", self.top, 1, _MOST_TEXTS, what=f"{few} with --sample")
        if len(self.targets) > _MOST_TARGETS:
            raise UserError(f"--targets: {len(self.targets):,} words; at most {_MOST_TARGETS:,}")
        in_range("coverage_penalty", self.coverage_penalty, 0, 1e6, what="from 0 to 1e6")
        in_range("repetition_penalty", self.repetition_penalty, 1, 1e6, what="from 1 to 1e6")
        in_range("length_penalty", self.length_penalty, -10, 10, what="from -10 to 10")
        some = "above 0 and at most 1e9"
        in_range("temperature", self.temperature, math.ulp(0.0), 1e9, what=some)
        in_range("top_p", self.top_p, math.ulp(0.0), 1, what="above 0 and at most 1")
        in_range("seed", self.seed, 0, 2**63 - 1, what="from 0 to 2^63 - 1")
        in_range(
            "no_answer_threshold", self.no_answer_threshold, -1e9, 1e9, what="from -1e9 to 1e9"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputSettings:
    """Where answers go."""

    out: Path | None = None
    """File to write, of JSON lines (.jsonl); a name without an ending is a folder, with a file for
    each of --input. Default: standard output."""
    shard_size: int | None = None
    """Answers that --out keeps together when the command is stopped; default: 4,096 for each
    process."""
    resume: bool = False
    """Go on with a prediction to --out that was stopped."""
    overwrite: bool = False
    """Replace what stands in --out."""

    def __post_init__(self) -> None:
        """Refuse a number out of range, and options that are for files alone.

        Raises:
            UserError: naming the option.
        """
        what = "a whole number of at least 1"
        in_range("shard_size", self.shard_size, 1, math.inf, what=what)
        if self.out is None:
            left_out(self, ("shard_size", "resume", "overwrite"), "is for the files of --out")
