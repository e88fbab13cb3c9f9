"""Inference settings."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from heedful.errors import UserError, check_known
from heedful.settings.ranges import AnswerPrecision, LongText, in_range, refuse_options

Aggregation = Literal["first", "average", "max"]
"""How the tags of a word's pieces give the word's tag."""
_MOST_TEXTS = 1000
"""Maximum number of texts generated for one input; all are held in memory."""
_MOST_TARGETS = 1000
"""Maximum number of candidate words for a mask."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictSettings:
    """How to compute answers; nothing here changes the model."""

    precision: AnswerPrecision = "auto"
    """Number format; auto uses bf16 if the hardware supports it, else fp32. int8 is the
    least exact: `heedful evaluate --precision int8` measures its cost on your data."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    long_text: LongText = "window"
    """What to do with a text longer than --max-length: split it into windows (translate it sentence
    by sentence), read only its head or its head and tail, or refuse it."""
    max_length: int | None = None
    """Longest input in tokens; default: as in training."""
    batch_size: int = 256
    """Maximum number of texts per batch."""
    batch_tokens: int | None = None
    """Maximum number of tokens per batch, or of all batches computed at the same time; default:
    8,192 to 65,536 on a GPU, by its memory; 4,096 on a CPU, and fewer for wide models."""
    top: int = 5
    """Number of answers, for tasks that give several."""
    no_answer_threshold: float | None = None
    """Margin by which 'no answer' must beat the best answer; default: as in training."""
    aggregation: Aggregation = "first"
    """How to tag a word of several pieces: by its first piece, the mean of its pieces, or the most
    confident piece."""
    raw: bool = False
    """Give the model's raw outputs: logits instead of probabilities, vectors that are not scaled
    to length 1."""
    piece_tags: bool = False
    """Also give the tag of each word piece."""
    token_vectors: bool = False
    """Also give a vector for each token."""
    targets: tuple[str, ...] = ()
    """Fill a mask only with one of these words."""

    beam: int = 4
    """Beam size: number of hypotheses during generation; 1 is greedy search."""
    max_new_tokens: int | None = None
    """Maximum number of tokens to generate, limited by the model's positions; to continue a text,
    at most half of them; default: 64; for translation 1.5 times the longest in training."""
    min_new_tokens: int = 0
    """Minimum number of tokens to generate."""
    length_penalty: float = 1.0
    """Rank hypotheses by log-probability divided by length to this power: 0 ignores the length."""
    coverage_penalty: float = 0.0
    """Penalty for source words that a translation hardly attends to."""
    repetition_penalty: float = 1.0
    """Above 1, tokens that were already generated become less likely."""
    no_repeat_ngram: int = 0
    """Generate no n-gram of this size twice; 0 for no limit."""
    alignments: bool = False
    """Align the words of a translation with the source words."""
    whole_words: bool = False
    """Align Chinese by words, segmented by jieba, instead of by characters."""
    sample: bool = False
    """Sample tokens by their probability instead of searching for the most likely text."""
    temperature: float = 1.0
    """Sampling temperature: below 1 samples are more predictable, above 1 more varied."""
    top_k: int = 0
    """Sample from this many of the most likely tokens; 0 for all."""
    top_p: float = 1.0
    """Sample from the smallest set of tokens whose probabilities add up to this."""
    seed: int = 0
    """Random seed for sampling, and for the resampling of `report` and `compare`."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range and unknown choices.

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
    """Output settings."""

    out: Path | None = None
    """Output file of JSON lines (.jsonl); a name without an extension is a folder with one file per
    --input file. Default: standard output."""
    shard_size: int | None = None
    """Number of answers per shard, which --out keeps if the command is stopped; default: 4,096 for
    each process."""
    resume: bool = False
    """Continue a stopped prediction to --out."""
    overwrite: bool = False
    """Replace the contents of --out."""

    def __post_init__(self) -> None:
        """Refuse a number out of range, and options that need --out.

        Raises:
            UserError: naming the option.
        """
        what = "a whole number from 1 to 1,000,000,000"
        in_range("shard_size", self.shard_size, 1, 10**9, what=what)
        if self.out is None:
            refuse_options(self, ("shard_size", "resume", "overwrite"), "is for the files of --out")
