"""The tasks: where each one stands, and what it alone can be told.

A new task is its own file in ``heedful.tasks``, a class of its settings in this file, and a line
of the table ``TASKS`` at the end. The command ``heedful train TASK`` follows from these: its
options are the fields of the settings, and its help is their docstring.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from heedful.errors import UserError
from heedful.settings.data import DataSettings, ParallelSettings
from heedful.settings.ranges import in_range, left_out
from heedful.settings.training import TrainSettings, TranslateTrainSettings

ObjectiveName = Literal["mlm+nsp", "mlm", "sop", "rtd", "clm", "plm"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifySettings:
    """Sort texts, or pairs of texts, into labels.

    The file has a column of texts and a column of labels:

        heedful train classify --train tickets.csv --label team --out runs/tickets

    Or it sorts pictures, from folders that hold one folder a label:

        heedful train classify --train digits --format images --preset mini
            --image-size 32 --patch-size 8 --out runs/digits
    """

    labels: str | None = None
    """Labels in the order of the model's outputs, separated by commas; default: sorted."""
    class_weights: str | None = None
    """Weights of the classes in the loss: balanced, or label=weight, separated by commas."""
    preset: str | None = None
    """Of pictures: train from scratch with these sizes (mini, tiny, small, base, large, huge),
    instead of from --model."""
    image_size: int | None = None
    """Of pictures: rows and columns that the model reads; default: 224, or as --model says."""
    patch_size: int | None = None
    """Of pictures, from scratch: rows and columns of a patch; default: 16."""
    grey: bool = False
    """Of pictures, from scratch: read them in shades of grey."""
    shift: float | None = None
    """Of pictures: the share of a side by which they are moved at random to learn from; default:
    0.1 from scratch, else 0."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and options of models from scratch for others.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        for name in ("image_size", "patch_size"):
            in_range(name, getattr(self, name), 1, 4096, what="a whole number from 1 to 4,096")
        in_range("shift", self.shift, 0, 0.5, what="from 0 to 0.5")


@dataclass(frozen=True, kw_only=True, slots=True)
class RegressSettings:
    """Give texts, or pairs of texts, a number, such as how alike two sentences are.

    The label is a number:

        heedful train regress --train pairs.csv --text-pair other --label score
            --out runs/alike
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class TagSettings:
    """Find entities in texts, such as persons and places.

    The file has a word and its tag on each line, and an empty line between
    sentences; --text and --label are the numbers of their columns, by default
    the first and the last:

        heedful train tag --train train.conll --dev dev.conll --out runs/names

    Or it is a .jsonl file with a text and its entities on each line, under
    these names unless --text and --label say others:

        {"text": "Ann is in Rome",
         "entities": [{"start": 10, "end": 14, "label": "place"}]}
    """

    scheme: Literal["BIO", "IOBES"] = "BIO"
    """Tagging scheme of the model; that of a file is detected."""
    label_pieces: Literal["first", "all"] = "first"
    """Pieces of a word that learn its tag."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerSettings:
    """Answer questions with slices of texts, or say that a text holds no answer.

    The file is SQuAD's JSON; or it is .jsonl, a question and its answers on
    each line:

        heedful train answer --train squad.json --max-length 384 --out runs/answers

        {"question": "Who?", "context": "It was Ann.",
         "answers": [{"text": "Ann", "start": 7}]}
    """

    stride: int = 128
    """Tokens shared by neighbouring windows of a long text; at most half a window."""
    max_answer_tokens: int = 30
    """Most tokens of an answer."""
    no_answer_threshold: float = 0.0
    """Margin by which 'no answer' must beat the best answer, if some questions have none."""

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
    """Choose the one of several texts that answers a question, or goes on from a text.

    The file is .jsonl, a question, its choices and the right one's number or
    text on each line:

        heedful train choose --train questions.jsonl --out runs/quiz

        {"question": "What is the sky?", "choices": ["blue", "a fish"], "answer": 0}

    The layout of CommonsenseQA is read as well.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedSettings:
    """Give texts vectors that are near each other where the texts mean the same.

    The file has pairs of texts that belong together, such as questions and
    their answers; or, where --label names a column, pairs and a score of how
    alike they are:

        heedful train embed --train faq.csv --text-pair answer --out runs/search

        heedful train embed --train pairs.csv --text-pair other --label score
            --out runs/alike
    """

    pooling: Literal["mean", "cls"] = "mean"
    """A text's vector: the mean of its tokens' vectors, or the first token's."""
    scale: float = 20.0
    """Factor of the cosines in the softmax over a batch of pairs."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("scale", self.scale, math.ulp(0.0), 1e6, what="a number above 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainSettings:
    """Learn from plain text alone: words that are masked or come next, and sentences that follow.

    From scratch, or on from another model to make it know your field:

        heedful train pretrain --train books/*.txt --documents gap
            --preset mini --vocabulary words --out runs/mini

        heedful train pretrain --train reports.txt --objective mlm
            --out runs/field

    A model from scratch reads 128 tokens at once unless --max-length says otherwise.
    """

    arch: str = "bert"
    """Family of a model from scratch, such as bert, roberta or albert."""
    preset: str | None = None
    """Train from scratch with these sizes (tiny, mini, small, medium, base, large; some families
    have others), instead of from --model."""
    vocabulary: str | None = None
    """Folder of the vocabulary of a model from scratch; see heedful vocabulary."""
    positions: int | None = None
    """Positions of a model from scratch; default: --max-length."""
    position_type: Literal["absolute", "relative_key", "relative_key_query"] = "absolute"
    """Position embeddings of a model from scratch: of each position, or of each distance."""
    objective: ObjectiveName | None = None
    """Masked words: with next-sentence prediction, alone, or with the order of sentences; replaced
    tokens; next words; words in any order. Default: what the family's paper teaches, such as
    mlm+nsp for bert."""
    mask_share: float | None = None
    """Share of the tokens to predict; default: 0.15, and a sixth with plm."""
    masking: Literal["token", "word", "n-gram", "entity"] = "token"
    """What is masked together: nothing, the pieces of a word, up to three words in a row, or the
    words of an entity or phrase."""
    phrases: Path | None = None
    """File of the phrases of --masking entity, one a line; default: what [[is marked]] in the
    text."""
    max_predictions: int | None = None
    """Most tokens of a sequence to predict; default: no limit."""
    generator_size: float | None = None
    """Width of the model that replaces tokens, of DeBERTa's its depth, as a share of the other's;
    default: as published."""
    discriminator_weight: float = 50.0
    """What the loss of replaced tokens is multiplied by, beside that of masked words."""
    documents: Literal["blank-line", "gap", "file", "line"] = "blank-line"
    """What ends a document: a blank line, two or more of them, or the end of a file or a line."""
    sentences: Literal["punctuation", "line"] = "punctuation"
    """What ends a sentence: punctuation, or the end of a line."""
    corpus: Path | None = None
    """Folder that keeps the tokenized text for other runs; default: in --out, until it is done; by
    --stream: nowhere."""
    stream: bool = False
    """Read the text shard by shard while learning from it, --steps long: for one beyond the disk or
    the memory. --train takes patterns ('shards/*.txt') and names such as s3://bucket/*.txt.gz."""
    shuffle_buffer: int = 16384
    """Sequences of a stream that are mixed with each other."""
    open_shards: int = 8
    """Shards of a stream that are read side by side, by as many processes at most."""
    workers: int | None = None
    """Processes that tokenize; default: one per core, and one for a small corpus; by --stream one
    per core where a GPU trains, else the one that trains."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and a model from scratch without words.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("mask_share", self.mask_share, 0.001, 1, what="from 0.001 to 1")
        for name in ("positions", "max_predictions", "workers", "shuffle_buffer", "open_shards"):
            in_range(name, getattr(self, name), 1, 10**6, what="a whole number of at least 1")
        if not self.stream:
            why = "is for --stream; give that too, or leave it out"
            left_out(self, ("shuffle_buffer", "open_shards"), why)
        if self.stream and self.masking == "entity" and self.phrases is None:
            raise UserError(
                "--stream reads no text beforehand, so --masking entity needs a list: give "
                "--phrases too"
            )
        if self.phrases is not None and self.masking != "entity":
            raise UserError("--phrases is for --masking entity; give that too, or leave it out")
        if (self.preset is None) != (self.vocabulary is None):
            raise UserError(
                "--preset starts a model from scratch with the words of --vocabulary: give both, "
                "or neither to go on from --model"
            )
        if self.preset is None and self.arch != "bert":
            raise UserError(f"--arch {self.arch} is for a model from scratch: give --preset too")
        in_range("generator_size", self.generator_size, 0.01, 1, what="from 0.01 to 1")
        in_range("discriminator_weight", self.discriminator_weight, 0, 10**6, what="at least 0")
        if self.objective not in (None, "rtd"):
            why = "is for --objective rtd; leave it out"
            left_out(self, ("generator_size", "discriminator_weight"), why)
        if self.objective == "clm":
            why = "has no effect: --objective clm masks nothing; leave it out"
            left_out(self, ("mask_share", "masking", "max_predictions"), why)
        if self.objective == "plm":
            why = "has no effect: --objective plm predicts spans; leave it out"
            left_out(self, ("masking", "max_predictions"), why)
        if self.preset is None:
            why = "is for a model from scratch: give --preset too"
            left_out(self, ("generator_size", "positions", "position_type"), why)


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateSettings:
    """Write: go on with a text, or read a text and write another, such as a summary or a reply.

    From a table with a text to read and one to write on each row; or from
    .txt files, to go on:

        heedful train generate --train mails.csv --label reply --out runs/replies

        heedful train generate --train book.txt --out runs/writer
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateSettings:
    """Translate: a text in one language for a text in another.

    From two files that are translations of each other line by line:

        heedful train translate --train train.de train.en --dev val.de val.en --out runs/de-en

    Or from a table with a column of each:

        heedful train translate --train pairs.tsv --text de --label en --out runs/de-en
    """

    arch: Literal["transformer", "rnn"] = "transformer"
    """Transformer, or recurrent network with additive attention."""
    preset: Literal["tiny", "small", "base", "big"] = "small"
    """Sizes of a model from scratch."""
    vocab_size: int = 8000
    """Size of the vocabulary to learn."""
    separate_vocabularies: bool = False
    """Learn a vocabulary of that size for each language."""
    max_ratio: float = 4.0
    """Skip pairs where one side has more than this many times the tokens of the other."""
    label_smoothing: float = 0.1
    """Label smoothing: probability spread over all tokens."""
    pre_norm: bool = False
    """Normalise the input of each sublayer (pre-norm) rather than its output (post-norm)."""
    cell: Literal["gru", "lstm"] = "gru"
    """Cell of the recurrent network."""

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
class TaskEntry:
    """Where a task stands, and which options ``heedful train`` has for it."""

    home: str
    """Module and class, imported when the task is used: help needs no torch."""
    title: str
    """Heading of the task's options in the help."""
    options: type
    """The settings of this task alone."""
    data: type[DataSettings | ParallelSettings] = DataSettings
    training: type[TrainSettings] = TrainSettings
    columns: bool = True
    """Whether the files are tables whose columns the user names."""


TASKS: dict[str, TaskEntry] = {
    "classify": TaskEntry(
        home="heedful.tasks.classify.Classify", title="Classification", options=ClassifySettings
    ),
    "regress": TaskEntry(
        home="heedful.tasks.regress.Regress", title="Regression", options=RegressSettings
    ),
    "tag": TaskEntry(home="heedful.tasks.tag.Tag", title="Tagging", options=TagSettings),
    "answer": TaskEntry(
        home="heedful.tasks.answer.Answer", title="Answers", options=AnswerSettings, columns=False
    ),
    "choose": TaskEntry(
        home="heedful.tasks.choose.Choose", title="Choices", options=ChooseSettings, columns=False
    ),
    "embed": TaskEntry(home="heedful.tasks.embed.Embed", title="Embedding", options=EmbedSettings),
    "pretrain": TaskEntry(
        home="heedful.tasks.pretrain.Pretrain",
        title="Pre-training",
        options=PretrainSettings,
        columns=False,
    ),
    "generate": TaskEntry(
        home="heedful.tasks.generate.Generate", title="Generation", options=GenerateSettings
    ),
    "translate": TaskEntry(
        home="heedful.tasks.translate.Translate",
        title="Translation",
        options=TranslateSettings,
        data=ParallelSettings,
        training=TranslateTrainSettings,
    ),
}
"""Every task, by the name that a run folder keeps and that stands after ``heedful train``."""
