"""Settings of the commands: one sentence each, which is also the help of the command line."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from heedful.errors import UserError

if TYPE_CHECKING:
    from heedful.batches import Columns

HEAD_RATE = 20.0
"""How many times faster a fresh head learns than the pre-trained encoder under it."""

LongText = Literal["window", "head", "head-tail", "refuse"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]

Schedule = Literal[
    "constant",
    "constant-with-warmup",
    "linear",
    "cosine",
    "cosine-with-restarts",
    "polynomial",
    "inverse-sqrt",
]


def in_range(name: str, value: float, low: float, high: float, *, what: str) -> None:
    """Refuse a number outside ``[low, high]``, naming its option."""
    if not low <= value <= high:  # also false for NaN
        option = "--" + name.replace("_", "-")
        raise UserError(f"{option} {value}: must be {what}")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainSettings:
    """How to train, the same for every task."""

    epochs: int = 3
    """Passes over the training data."""
    steps: int | None = None
    """Optimizer steps; when given, it decides instead of --epochs."""
    max_minutes: float | None = None
    """Stop after this many minutes and keep what was learnt."""
    batch_size: int = 32
    """Items per optimizer step, over all devices."""
    batch_tokens: int = 8192
    """Tokens computed at once; a larger batch is accumulated, with the same result."""
    learning_rate: float = 7e-5
    """Highest learning rate of the schedule."""
    head_learning_rate: float | None = None
    """The same for what stands on the encoder, which starts fresh; default: 20 times that."""
    schedule: Schedule = "linear"
    """Course of the learning rate after the warm-up."""
    warmup: float = 0.1
    """Warm-up: a share of all steps if below 1, else a number of steps."""
    weight_decay: float = 0.01
    """Decoupled weight decay; never on biases and normalisation."""
    clip: float = 1.0
    """Largest norm of a step's gradient; 0 leaves gradients as they are."""
    precision: Precision = "auto"
    """Format of matrix products; auto takes bf16 where the machine computes it in hardware."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    gradient_checkpointing: bool = False
    """Recompute each block in the backward pass: slower, in far less memory."""
    seed: int = 0
    """Decides the new weights, the order of the data and the dropout."""
    evaluate_every: int | None = None
    """Steps between evaluations on --dev; default: once an epoch."""
    metric: str | None = None
    """Metric that picks the best step; default: the task's first."""
    patience: int | None = None
    """Stop after this many evaluations without a gain."""
    checkpoint_every: int = 500
    """Steps between checkpoints."""
    keep_checkpoints: int = 2
    """Newest checkpoints to keep while training, beside the best ones."""
    average: int = 1
    """Checkpoints whose weights make the final model as their mean: the best on --dev, or the last
    ones."""
    ema: float | None = None
    """Evaluate and keep a moving average of the weights, of which a step leaves this share."""
    tensorboard: bool = False
    """Also write TensorBoard event files, to RUN/tensorboard."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        count, some = "a whole number of at least 1", "a number above 0"
        tiny = math.ulp(0.0)
        for name in ("epochs", "batch_size", "batch_tokens", "checkpoint_every"):
            in_range(name, getattr(self, name), 1, math.inf, what=count)
        for name in ("steps", "evaluate_every", "patience"):
            if (value := getattr(self, name)) is not None:
                in_range(name, value, 1, math.inf, what=count)
        if self.max_minutes is not None:
            in_range("max_minutes", self.max_minutes, tiny, 1e9, what=some)
        in_range("learning_rate", self.learning_rate, tiny, 10, what="above 0 and at most 10")
        if self.head_learning_rate is not None:
            in_range("head_learning_rate", self.head_learning_rate, tiny, 10, what=some)
        shares = "a share from 0 to below 1, or a whole number of steps"
        in_range("warmup", self.warmup, 0, 1e12, what=shares)
        if self.warmup > 1 and not float(self.warmup).is_integer():
            raise UserError(f"--warmup {self.warmup}: must be {shares}")
        in_range("weight_decay", self.weight_decay, 0, 10, what="from 0 to 10")
        in_range("clip", self.clip, 0, 1e12, what="0 or above")
        in_range("seed", self.seed, 0, 2**63 - 1, what="from 0 to 2^63 - 1")
        in_range("average", self.average, 1, 10**6, what=count)
        if self.ema is not None:
            in_range("ema", self.ema, 0, math.nextafter(1, 0), what="from 0 to below 1")
        in_range("keep_checkpoints", self.keep_checkpoints, 1, 10**6, what=count)


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnSettings:
    """Where the texts and the labels stand in the files."""

    text: str = "text"
    """Column of the text, by its name or its number from 1; several with commas are joined."""
    text_pair: str | None = None
    """Column of a second text, for decisions on pairs."""
    label: str = "label"
    """Column of the label."""
    header: bool = True
    """Whether the first line names the columns."""
    label_separator: str | None = None
    """Character between the labels of one item; giving it allows several labels an item."""
    format: Literal["csv", "tsv", "jsonl", "parquet", "text", "conll"] | None = None
    """Format of the files, where their names do not tell."""

    def columns(self, *, labelled: bool = True) -> "Columns":
        """Return the columns as the readers want them."""
        from heedful.batches import Columns  # this module stays free of heavy imports

        return Columns(
            text=self.text,
            text_pair=self.text_pair,
            label=self.label if labelled else None,
            header=self.header,
            label_separator=self.label_separator,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSettings:
    """What a run learns from and what it starts with, the same for every task."""

    train: list[Path]
    """Training files: of the task's format, also with .gz."""
    dev: list[Path] | None = None
    """Files to evaluate on while training; the best step is kept."""
    model: str = "minilm"
    """Model to start from: a folder, a run, an installed model or a hub name."""
    revision: str | None = None
    """Commit, tag or branch of a hub name."""
    max_length: int | None = None
    """Tokens the model is given at once; default: all it has positions for."""
    long_text: LongText | None = None
    """What to learn from a longer text: windows, its head, or both its ends; or refuse it; default:
    by task."""
    dropout: float | None = None
    """Dropout probability; default: the model's own."""
    prune: float | None = None
    """Share of heads to take out of --model, a run of this task: those that matter least."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        if self.prune is not None:
            in_range("prune", self.prune, 0, math.nextafter(1, 0), what="from 0 to below 1")
        if self.dropout is not None:
            in_range("dropout", self.dropout, 0, math.nextafter(1, 0), what="from 0 to below 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifySettings:
    """What classification alone can be told."""

    labels: str | None = None
    """Labels in the order of the model's outputs, with commas; default: sorted."""
    class_weights: str | None = None
    """Weights of the classes in the loss: balanced, or label=weight with commas."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RegressSettings:
    """What regression alone can be told: nothing so far."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TagSettings:
    """What tagging alone can be told."""

    scheme: Literal["BIO", "IOBES"] = "BIO"
    """Tags that the model gives; the scheme of a file is seen from its first entity."""
    label_pieces: Literal["first", "all"] = "first"
    """Pieces of a word that learn its tag."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerSettings:
    """What question answering alone can be told."""

    stride: int = 128
    """Tokens that neighbouring windows of a long text share; at most half of one."""
    max_answer_tokens: int = 30
    """The most tokens of an answer."""
    no_answer_threshold: float = 0.0
    """How far no answer must outscore the best one to be given, if some questions have none."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("stride", self.stride, 0, math.inf, what="a whole number of 0 or above")
        count = "a whole number of at least 1"
        in_range("max_answer_tokens", self.max_answer_tokens, 1, math.inf, what=count)
        in_range("no_answer_threshold", self.no_answer_threshold, -1e9, 1e9, what="a number")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChooseSettings:
    """What choosing alone can be told: nothing so far."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedSettings:
    """What embedding alone can be told."""

    pooling: Literal["mean", "cls"] = "mean"
    """A text's vector: the mean of its tokens' vectors, or the first token's."""
    scale: float = 20.0
    """What cosines are multiplied by before the softmax over a batch of pairs."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("scale", self.scale, math.ulp(0.0), 1e6, what="a number above 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainSettings:
    """What pre-training alone can be told."""

    preset: Literal["tiny", "mini", "small", "medium", "base", "large"] | None = None
    """Start from scratch, with these published sizes, instead of --model."""
    vocabulary: str | None = None
    """Folder of the vocabulary to start from scratch with; see heedful vocabulary."""
    positions: int | None = None
    """Positions of a model from scratch; default: --max-length."""
    position_type: Literal["absolute", "relative_key", "relative_key_query"] = "absolute"
    """How a model from scratch knows positions: each has a vector, or each distance has one."""
    objective: Literal["mlm+nsp", "mlm"] = "mlm+nsp"
    """Masked words and whether one sentence follows another, or masked words alone."""
    mask_share: float = 0.15
    """Share of the tokens that are to be predicted."""
    whole_word: bool = False
    """Whether all pieces of a word are masked together."""
    max_predictions: int | None = None
    """The most tokens of a sequence that are to be predicted; default: no bound."""
    documents: Literal["blank-line", "gap", "file", "line"] = "blank-line"
    """What ends a document: a blank line, two or more of them, or the end of a file or a line."""
    sentences: Literal["punctuation", "line"] = "punctuation"
    """How sentences are told: by their punctuation, or each line is one."""
    corpus: Path | None = None
    """Folder to keep the tokenized text in, for other runs; default: in --out until it is done."""
    workers: int | None = None
    """Processes that tokenize; default: one a core, and a single one for a small corpus."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and a model from scratch without words.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("mask_share", self.mask_share, 0.001, 1, what="from 0.001 to 1")
        for name in ("positions", "max_predictions", "workers"):
            if (value := getattr(self, name)) is not None:
                in_range(name, value, 1, 10**6, what="a whole number of at least 1")
        if (self.preset is None) != (self.vocabulary is None):
            raise UserError(
                "--preset starts a model from scratch with the words of --vocabulary: give both, "
                "or neither to go on from --model"
            )
        if self.preset is None and self.positions is not None:
            raise UserError("--positions is for a model from scratch: give --preset too")
        if self.preset is None and self.position_type != "absolute":
            raise UserError("--position-type is for a model from scratch: give --preset too")


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelSettings:
    """What a translation run learns from and what it starts with."""

    train: list[Path]
    """Two plain files, line by line translations of each other (texts, then translations), or
    tables with a column of each; also with .gz."""
    dev: list[Path] | None = None
    """Files to evaluate on while training; the best step is kept."""
    model: str | None = None
    """Run to go on from; default: from scratch."""
    revision: str | None = None
    """Commit, tag or branch of a hub name."""
    max_length: int = 128
    """The most tokens of a text and of its translation; longer pairs are not learnt from."""
    dropout: float | None = None
    """Dropout probability; default: the model's own."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("max_length", self.max_length, 8, 1024, what="from 8 to 1,024")
        if self.dropout is not None:
            in_range("dropout", self.dropout, 0, math.nextafter(1, 0), what="from 0 to below 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateSettings:
    """What translation alone can be told."""

    arch: Literal["transformer", "rnn"] = "transformer"
    """The Transformer, or recurrent networks with additive attention."""
    preset: Literal["tiny", "small", "base", "big"] = "small"
    """Sizes of a model from scratch."""
    vocab_size: int = 8000
    """Tokens of the vocabulary that is learnt."""
    separate_vocabularies: bool = False
    """Whether each language has a vocabulary of its own, of that size."""
    max_ratio: float = 4.0
    """A pair is not learnt from if one side has more than so many times the other's tokens."""
    label_smoothing: float = 0.1
    """Share of the truth that all tokens have alike in training."""
    pre_norm: bool = False
    """Whether the Transformer normalises what each part reads, not what it adds up to."""
    cell: Literal["gru", "lstm"] = "gru"
    """Cells of the recurrent networks."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and options of the other architecture.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("vocab_size", self.vocab_size, 300, 10**6, what="from 300 to 1,000,000")
        in_range("max_ratio", self.max_ratio, 1, 1e6, what="1 or above")
        share = "from 0 to below 1"
        in_range("label_smoothing", self.label_smoothing, 0, math.nextafter(1, 0), what=share)
        if self.arch == "rnn" and self.pre_norm:
            raise UserError("--pre-norm is for --arch transformer")
        if self.arch == "transformer" and self.cell != "gru":
            raise UserError(f"--cell {self.cell} is for --arch rnn")


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateTrainSettings(TrainSettings):
    """How to train a translation from scratch: longer, and with larger steps than to fine-tune."""

    epochs: int = 30
    """Passes over the training data."""
    batch_size: int = 128
    """Pairs per optimizer step, over all devices."""
    learning_rate: float = 1e-3
    """Highest learning rate of the schedule."""
    schedule: Schedule = "inverse-sqrt"
    """Course of the learning rate after the warm-up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateSettings:
    """What writing alone can be told: nothing so far."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings:
    """Where a run goes."""

    out: Path
    """Run folder to make."""
    resume: bool = False
    """Go on with the run in --out from its newest checkpoint, as if it had never stopped."""
    overwrite: bool = False
    """Replace the run in --out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VocabularySettings:
    """What kind of vocabulary to learn."""

    size: int = 30_000
    """Tokens of the vocabulary."""
    cased: bool = False
    """Keep capital letters, and accents unless told otherwise."""
    strip_accents: bool | None = None
    """Whether accents are dropped; default: unless --cased."""
    alphabet: int = 1000
    """The most different characters to know, the most frequent ones."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("size", self.size, 6, 10**6, what="from 6 to 1,000,000")
        in_range("alphabet", self.alphabet, 1, 10**6, what="from 1 to 1,000,000")


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
        for name in ("batch_size", "batch_tokens", "top", "beam"):
            in_range(name, getattr(self, name), 1, math.inf, what=count)
        if self.max_new_tokens is not None:
            in_range("max_new_tokens", self.max_new_tokens, 1, math.inf, what=count)
        for name in ("min_new_tokens", "no_repeat_ngram"):
            in_range(name, getattr(self, name), 0, math.inf, what="0 or a whole number above")
        in_range("coverage_penalty", self.coverage_penalty, 0, 1e6, what="0 or above")
        in_range("repetition_penalty", self.repetition_penalty, 1, 1e6, what="1 or above")
        in_range("length_penalty", self.length_penalty, -10, 10, what="from -10 to 10")
        some = "a number above 0"
        in_range("temperature", self.temperature, math.ulp(0.0), 1e9, what=some)
        in_range("top_k", self.top_k, 0, math.inf, what="0 or a whole number above")
        in_range("top_p", self.top_p, math.ulp(0.0), 1, what="above 0 and at most 1")
        in_range("seed", self.seed, 0, 2**63 - 1, what="from 0 to 2^63 - 1")
        if self.no_answer_threshold is not None:
            in_range("no_answer_threshold", self.no_answer_threshold, -1e9, 1e9, what="a number")
