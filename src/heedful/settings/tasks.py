"""The table of tasks, and the options of each task.

A new task needs a file in ``heedful.tasks``, a settings class in this file, and an entry in the
table ``TASKS`` at the end. The command ``heedful train TASK`` is built from these: its options are
the fields of the settings class, and its help text is their docstrings.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from heedful.errors import UserError
from heedful.settings.data import DataSettings, ParallelSettings
from heedful.settings.ranges import in_range, refuse_options
from heedful.settings.training import TrainSettings, TranslateTrainSettings

ObjectiveName = Literal["mlm+nsp", "mlm", "sop", "rtd", "clm", "plm"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifySettings:
    """Classify texts, or pairs of texts.

    The file has a column of texts and a column of labels:

        heedful train classify --train tickets.csv --label team --out runs/tickets

    It can also classify images, from one folder of images for each label:

        heedful train classify --train digits --format images --preset mini
            --image-size 32 --patch-size 8 --out runs/digits
    """

    labels: str | None = None
    """Labels in the order of the model's outputs, separated by commas; default: sorted. A label
    with a comma needs double quotes, as in CSV: '"yes, now",no'."""
    class_weights: str | None = None
    """Weights of the classes in the loss: balanced, or label=weight, separated by commas; with
    --label-separator, weights of the items that have the label. A label with a comma needs double
    quotes, as in --labels."""
    preset: str | None = None
    """Images: train from scratch with these sizes (mini, tiny, small, base, large, huge), instead
    of from --model."""
    image_size: int | None = None
    """Images: height and width of the model's input in pixels; default: 224, or as in --model."""
    patch_size: int | None = None
    """Images, from scratch: height and width of a patch in pixels; default: 16."""
    grey: bool = False
    """Images, from scratch: convert them to greyscale."""
    shift: float | None = None
    """Images: shift them at random in training, by up to this share of their side; default: 0.1
    from scratch, else 0."""

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
    """Predict a number for texts, or pairs of texts, such as the similarity of two sentences.

    The label is a number:

        heedful train regress --train pairs.csv --text-pair other --label score
            --out runs/alike
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class TagSettings:
    """Find entities in texts, such as persons and places.

    The file has a word and its tag on each line, and an empty line between
    sentences; --text and --label are their column numbers, by default the
    first and the last:

        heedful train tag --train train.conll --dev dev.conll --out runs/names

    A .jsonl file has a text and its entities on each line, under these names
    unless you change them with --text and --label:

        {"text": "Ann is in Rome",
         "entities": [{"start": 10, "end": 14, "label": "place"}]}
    """

    scheme: Literal["BIO", "IOBES"] = "BIO"
    """Tagging scheme of the model; the scheme of a file is detected."""
    label_pieces: Literal["first", "all"] = "first"
    """Which pieces of a word are trained on its tag."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerSettings:
    """Answer questions with spans of a text, or say that it has no answer.

    The file is JSON in SQuAD's format, or .jsonl with a question and its
    answers on each line:

        heedful train answer --train squad.json --max-length 384 --out runs/answers

        {"question": "Who?", "context": "It was Ann.",
         "answers": [{"text": "Ann", "start": 7}]}
    """

    stride: int = 128
    """Overlap of neighbouring windows of a long text, in tokens; at most half a window."""
    max_answer_tokens: int = 30
    """Maximum number of tokens of an answer."""
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
    """Choose the text, out of several, that answers a question or continues a text.

    The file is .jsonl. Each line has a question, its choices, and the index or
    the text of the right one:

        heedful train choose --train questions.jsonl --out runs/quiz

        {"question": "What is the sky?", "choices": ["blue", "a fish"], "answer": 0}

    heedful also reads the format of CommonsenseQA.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedSettings:
    """Embed texts: give similar vectors to texts of similar meaning.

    The file has pairs of texts that belong together, such as questions and
    their answers. If --label names a column, it has pairs of texts and their
    similarity:

        heedful train embed --train faq.csv --text-pair answer --out runs/search

        heedful train embed --train pairs.csv --text-pair other --label score
            --out runs/alike
    """

    pooling: Literal["mean", "cls"] = "mean"
    """Vector of a text: the mean of its token vectors, or the vector of the first token."""
    scale: float = 20.0
    """Factor of the cosine similarities in the softmax over a batch of pairs."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("scale", self.scale, math.ulp(0.0), 1e6, what="a number above 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainSettings:
    """Pre-train on plain text: predict masked or next words, and whether sentences follow.

    Train from scratch, or adapt another model to your field:

        heedful train pretrain --train books/*.txt --documents gap
            --preset mini --vocabulary words --out runs/mini

        heedful train pretrain --train reports.txt --objective mlm
            --out runs/field

    A run reads up to 128 tokens at once, also of a longer model, unless you set --max-length.
    """

    arch: str = "bert"
    """Family of a model from scratch, such as bert, roberta or albert."""
    preset: str | None = None
    """Train from scratch with these sizes (tiny, mini, small, medium, base, large; some families
    have others), instead of from --model."""
    vocabulary: str | None = None
    """Vocabulary folder of a model from scratch; see heedful vocabulary."""
    positions: int | None = None
    """Number of positions of a model from scratch; default: --max-length."""
    position_type: Literal["absolute", "relative_key", "relative_key_query"] = "absolute"
    """Position embeddings of a model from scratch: absolute, or relative."""
    objective: ObjectiveName | None = None
    """Masked language modeling with next-sentence prediction, alone, or with sentence order
    prediction (sop); replaced token detection (rtd); causal (clm) or permutation language modeling
    (plm). Default: as in the family's paper, such as mlm+nsp for bert."""
    mask_share: float | None = None
    """Share of the tokens to predict; default: 0.15, and a sixth with plm."""
    masking: Literal["token", "word", "n-gram", "entity"] = "token"
    """Unit to mask: single tokens, whole words, up to three consecutive words, or whole entities or
    phrases."""
    phrases: Path | None = None
    """File of the phrases for --masking entity, one per line; default: phrases marked [[like
    this]] in the training text."""
    max_predictions: int | None = None
    """Maximum number of tokens to predict per sequence, except that a whole word or phrase may
    have more if it is the only one; default: no limit."""
    generator_size: float | None = None
    """Width of the generator (for DeBERTa, its depth) as a share of the discriminator's; default:
    as published."""
    discriminator_weight: float = 50.0
    """Weight of the replaced token detection loss, relative to the masked language model loss."""
    documents: Literal["blank-line", "gap", "file", "line"] = "blank-line"
    """End of a document: a blank line, two or more blank lines, or the end of a file or line."""
    sentences: Literal["punctuation", "line"] = "punctuation"
    """End of a sentence: punctuation, or the end of a line."""
    corpus: Path | None = None
    """Folder that keeps the tokenized text for other runs; default: in --out until the run is
    finished; with --stream: none."""
    stream: bool = False
    """Read the text shard by shard during training, for --steps steps: for text that exceeds disk
    or memory. --train takes patterns ('shards/*.txt') and URLs such as s3://bucket/*.txt.gz."""
    shuffle_buffer: int = 16384
    """Number of sequences in the shuffle buffer of --stream."""
    open_shards: int = 8
    """Number of shards that --stream reads in parallel."""
    workers: int | None = None
    """Processes that tokenize; default: one per core, or one for a small corpus; with --stream one
    per core if a GPU trains, else the training process itself."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and a model from scratch without a vocabulary.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("mask_share", self.mask_share, 0.001, 1, what="from 0.001 to 1")
        for name in ("positions", "max_predictions", "workers", "shuffle_buffer", "open_shards"):
            in_range(name, getattr(self, name), 1, 10**6, what="a whole number of at least 1")
        if not self.stream:
            why = "is for --stream; give that too, or leave it out"
            refuse_options(self, ("shuffle_buffer", "open_shards"), why)
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
                "or neither to continue from --model"
            )
        if self.preset is None and self.arch != "bert":
            raise UserError(f"--arch {self.arch} is for a model from scratch: give --preset too")
        in_range("generator_size", self.generator_size, 0.01, 1, what="from 0.01 to 1")
        in_range("discriminator_weight", self.discriminator_weight, 0, 10**6, what="at least 0")
        if self.objective not in (None, "rtd"):
            why = "is for --objective rtd; leave it out"
            refuse_options(self, ("generator_size", "discriminator_weight"), why)
        if self.objective == "clm":
            why = "has no effect: --objective clm masks nothing; leave it out"
            refuse_options(self, ("mask_share", "masking", "max_predictions"), why)
        if self.objective == "plm":
            why = "has no effect: --objective plm predicts spans; leave it out"
            refuse_options(self, ("masking", "max_predictions"), why)
        if self.preset is None:
            why = "is for a model from scratch: give --preset too"
            refuse_options(self, ("generator_size", "positions", "position_type"), why)


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateSettings:
    """Generate text: continue a text, or write a summary of it or a reply to it.

    Train on a table with an input and an output text in each row, or on .txt
    files, to continue texts:

        heedful train generate --train mails.csv --label reply --out runs/replies

        heedful train generate --train book.txt --out runs/writer
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateSettings:
    """Translate texts from one language into another.

    Train on two files that are translations of each other line by line:

        heedful train translate --train train.de train.en --dev val.de val.en --out runs/de-en

    Or on a table with a column for each language:

        heedful train translate --train pairs.tsv --text de --label en --out runs/de-en
    """

    arch: Literal["transformer", "rnn"] = "transformer"
    """Transformer, or RNN with additive attention."""
    preset: Literal["tiny", "small", "base", "big"] = "small"
    """Sizes of a model from scratch."""
    vocab_size: int = 8000
    """Size of the vocabulary to learn."""
    separate_vocabularies: bool = False
    """Learn a separate vocabulary of that size for each language."""
    max_ratio: float = 4.0
    """Skip pairs if one side has more than this many times the tokens of the other."""
    label_smoothing: float = 0.1
    """Label smoothing: probability spread over all tokens."""
    pre_norm: bool = False
    """Normalise the input of each sublayer (pre-norm) instead of its output (post-norm)."""
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
    """A task's class, and its options for ``heedful train``."""

    home: str
    """Module and class, imported on first use, so that the help does not import torch."""
    title: str
    """Heading of the task's options in the help."""
    options: type
    """The settings of this task alone."""
    data: type[DataSettings | ParallelSettings] = DataSettings
    training: type[TrainSettings] = TrainSettings
    columns: bool = True
    """Whether the files are tables with columns."""


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
"""All tasks, by their name in run folders and in ``heedful train``."""
