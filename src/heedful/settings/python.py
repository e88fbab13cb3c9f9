"""The settings as keywords of Python calls. A test compares them with the settings classes."""

from collections.abc import Sequence
from dataclasses import fields
from os import PathLike
from typing import Any, Literal, TypedDict

from heedful.errors import UserError, check_known
from heedful.settings.answers import PredictSettings
from heedful.settings.data import DataFormat
from heedful.settings.explaining import MethodName
from heedful.settings.ranges import AnswerPrecision, LongText, PrecisionName
from heedful.settings.scoring import BleuTokenize
from heedful.settings.training import Schedule
from heedful.settings.values import checked_values


class ColumnOptions(TypedDict, total=False):
    """The fields of `ColumnSettings` as keywords of a Python call."""

    text: str
    text_pair: str | None
    label: str | None
    header: bool
    label_separator: str | None
    format: DataFormat | None
    encoding: str


class TrainOptions(ColumnOptions, total=False):
    """The keywords of `heedful.train`: the settings of all tasks. Each task accepts some of them.

    The settings classes document them.
    """

    # Data and model
    model: str | PathLike[str]
    revision: str | None
    max_length: int | None
    long_text: LongText | None
    dropout: float | None
    prune: float | None
    fresh_pooler: bool
    # Training
    epochs: int | None
    steps: int | None
    max_minutes: float | None
    batch_size: int
    batch_tokens: int | Literal["auto"]
    group_by_length: bool | None
    learning_rate: float | None
    head_learning_rate: float | None
    schedule: Schedule
    warmup: float
    weight_decay: float
    clip: float
    precision: PrecisionName
    device: str
    attention_dropout: float | None
    gradient_checkpointing: bool
    shard: bool
    seed: int
    evaluate_every: int | None
    metric: str | None
    patience: int | None
    checkpoint_every: int
    keep_checkpoints: int
    average: int
    ema: float | None
    tensorboard: bool
    # A teacher
    teacher: str | PathLike[str] | None
    student_layers: int | None
    temperature: float | None
    teacher_weight: float | None
    hidden_weight: float | None
    # The run folder
    resume: bool
    overwrite: bool
    # Classification
    labels: str | None
    class_weights: str | None
    image_size: int | None
    patch_size: int | None
    grey: bool
    shift: float | None
    # Tagging
    scheme: Literal["BIO", "IOBES"]
    label_pieces: Literal["first", "all"]
    # Answers
    stride: int
    max_answer_tokens: int
    no_answer_threshold: float
    # Embedding
    pooling: Literal["mean", "cls"]
    scale: float
    # Pre-training
    preset: str | None
    vocabulary: str | PathLike[str] | None
    positions: int | None
    position_type: Literal["absolute", "relative_key", "relative_key_query"]
    objective: Literal["mlm+nsp", "mlm", "sop", "rtd", "clm", "plm"] | None
    mask_share: float | None
    masking: Literal["token", "word", "n-gram", "entity"]
    phrases: str | PathLike[str] | None
    max_predictions: int | None
    generator_size: float | None
    discriminator_weight: float
    documents: Literal["blank-line", "gap", "file", "line"]
    sentences: Literal["punctuation", "line"]
    corpus: str | PathLike[str] | None
    stream: bool
    shuffle_buffer: int
    open_shards: int
    workers: int | None
    # Pre-training and translation
    arch: str
    # Translation
    vocab_size: int
    separate_vocabularies: bool
    max_ratio: float
    label_smoothing: float
    pre_norm: bool
    cell: Literal["gru", "lstm"]


class PredictOptions(TypedDict, total=False):
    """The fields of `PredictSettings` as keywords of a Python call."""

    precision: AnswerPrecision
    device: str
    long_text: LongText
    max_length: int | None
    batch_size: int
    batch_tokens: int | None
    top: int
    no_answer_threshold: float | None
    aggregation: Literal["first", "average", "max"]
    raw: bool
    piece_tags: bool
    token_vectors: bool
    targets: tuple[str, ...]
    beam: int
    max_new_tokens: int | None
    min_new_tokens: int
    length_penalty: float
    coverage_penalty: float
    repetition_penalty: float
    no_repeat_ngram: int
    alignments: bool
    whole_words: bool
    sample: bool
    temperature: float
    top_k: int
    top_p: float
    seed: int


class ExplainOptions(PredictOptions, total=False):
    """The keywords of `heedful.explain`: `PredictOptions` and the fields of `ExplainSettings`."""

    method: MethodName | Sequence[MethodName]
    target: str | None
    token: int | None
    attention: bool | None
    words: bool


class EvaluateOptions(PredictOptions, ColumnOptions, total=False):
    """The keywords of `heedful.evaluate`: predictions, columns and scoring."""

    bleu_tokenize: BleuTokenize | None


_PRINTED = {"all_scores": "to_dict(everything=True)", "plain": "plain()"}
"""Output options of ``heedful predict``, and the methods of an answer that replace them."""


def checked_options(options: PredictOptions) -> dict[str, Any]:
    """Return the options, after checking their names and types.

    Raises:
        UserError: a name is unknown (the message suggests the nearest), or a value has the wrong
            type.
    """
    names = [field.name for field in fields(PredictSettings)]
    for name in options:
        if name in _PRINTED:
            raise UserError(
                f"{name} is only for the command line; call {_PRINTED[name]} of an answer"
            )
        check_known("option", name, names)
    return checked_values(PredictSettings, options)
