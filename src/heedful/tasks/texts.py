"""Shared code of tasks whose items are texts or pairs of texts."""

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import Any

import torch

from heedful.batches import Example, Fitted, Store, features, write_store
from heedful.batches.windows import locating_errors
from heedful.errors import UserError, count_of, join_names
from heedful.models import Head
from heedful.models.loading import bidirectional_option, load_model, read_config
from heedful.models.model import Model
from heedful.reading import Record, Text, read_records
from heedful.reading.fields import kind_of
from heedful.settings import ColumnSettings, DataSettings, LongText
from heedful.sources import resolve
from heedful.task import (
    AnyTask,
    Input,
    LengthLimit,
    Recipe,
    Say,
    Start,
    StoreOf,
    check_max_length,
)
from heedful.tokens import Tokenizer, load_encoder_tokenizer
from heedful.training.progress import counted

MAX_TARGET = 1e15
"""Limit of target values: the sum of squares of larger numbers may overflow a float32."""


def read_table(
    paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
) -> Iterator[Record]:
    """Stream records.

    Raises:
        UserError: a record is invalid; names the file and line of the first one.
    """
    if not labelled:
        columns = replace(columns, label=None)
    return read_records(paths, columns, allow_empty=not labelled)


def refuse_columns(task: str, columns: ColumnSettings) -> None:
    """Refuse column options for file formats without columns.

    Raises:
        UserError: naming the task.
    """
    if columns != ColumnSettings(encoding=columns.encoding):
        raise UserError(f"the files of {task} have a format of their own: leave out column options")


_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
"""A number with a comma: a decimal comma or a thousands separator, which cannot be told apart."""


def target(record: Record) -> float:
    """Return the target value of a record.

    Raises:
        UserError: there is no value, several, or one that is too large; names file and line.
    """
    labels = record.labels or ()
    try:
        (text,) = labels
        value = math.nan if "_" in text else float(text)  # float accepts 1_000
    except ValueError:
        value = math.nan
    if not abs(value) <= MAX_TARGET:  # also true for NaN
        found = join_names([repr(label) for label in labels]) or "nothing"
        limit = "" if math.isnan(value) else f"; its absolute value may be at most {MAX_TARGET:g}"
        if len(labels) == 1 and _COMMA.fullmatch(labels[0]):
            limit = "; write a decimal point, as in 0.5"
        raise UserError(f"{record.where}: expected a number, found {found}{limit}")
    return value


def check_outputs(labels: Sequence[str], model: Model) -> None:
    """Refuse a model with another number of outputs than labels, and duplicate labels.

    Raises:
        UserError: the numbers differ, or two labels are the same.
    """
    if len(labels) != (outputs := model.config.num_labels):
        raise UserError(f"{count_of(len(labels), 'label')}, but its model has {outputs} outputs")
    for label, count in Counter(labels).items():
        if count > 1:
            raise UserError(f"{count} of its labels are {label!r}")


def checked_items(items: Any) -> Iterator[Any]:
    """Yield the items that a Python caller passes: a list, a table column or another iterable.

    Raises:
        UserError: immediately, for a single item, for a table (its columns are not items), and for
            an object that is not iterable.
    """
    type_name = type(items).__name__
    if isinstance(items, str | bytes | os.PathLike):
        raise UserError(
            "predict takes a list, found a single item; for one item, call model('a text')"
        )
    if isinstance(items, Mapping) or hasattr(items, "columns"):  # pandas, pyarrow, polars, ...
        raise UserError(
            f"expected a text, or a list of them, found a {type_name}; give the column of texts: "
            "model(data['text'])"
        )
    try:
        iterator = iter(items)
    except TypeError:
        message = f"expected a text, or a list of them, found {kind_of(items)}"
        raise UserError(message) from None
    # The values of a pyarrow column are pyarrow scalars.
    return (item.as_py() if hasattr(item, "as_py") else item for item in iterator)


def checked_texts(texts: Any) -> Iterator[Text]:
    """Yield the texts, or tuples of texts, that a Python caller passes.

    Raises:
        UserError: see `checked_items`; or during iteration for an item that is not a text, with its
            number.
    """
    return (
        item if isinstance(item, str) else _several(item, f"text {number}")
        for number, item in enumerate(checked_items(texts), start=1)
    )


def _several(item: Any, where: str) -> Any:
    """Return an item of several texts as a tuple; refuse any other."""
    if isinstance(item, Mapping):
        raise UserError(f"{where}: expected text, found a dict; give the text in it: row['text']")
    is_scalar = getattr(item, "shape", None) == ()  # 0-d arrays and tensors only seem iterable
    if is_scalar or isinstance(item, bytes | AbstractSet) or not isinstance(item, Iterable):
        raise UserError(f"{where}: expected text, found {kind_of(item)}")
    texts = tuple(item)
    for text in texts:
        if not isinstance(text, str):
            raise UserError(f"{where}: expected only texts in it, found {kind_of(text)}")
    return texts


def text_records(texts: Sequence[Text], first: int = 1) -> list[Record]:
    """Make records from texts or pairs, numbered from ``first``.

    Raises:
        UserError: an item has more than two texts.
    """
    for number, text in enumerate(texts, start=first):
        if not isinstance(text, str) and len(text) != 2:
            raise UserError(
                f"text {number}: a list of {count_of(len(text), 'text')}; give a single text, or "
                "two"
            )
    return [
        Record(text=first, text_pair=second, labels=None, source="text", line=number)
        for number, text in enumerate(texts, start=first)
        for first, second in [(text, None) if isinstance(text, str) else text]
    ]


def text_example(*, pairs: bool | None) -> str:
    """Return example command-line arguments for texts or pairs; see ``Task.example``."""
    return '"a text" --context "another text"' if pairs else '"a text"'


def text_inputs(*, pairs: bool | None) -> tuple[Input, ...]:
    """Return the inputs of `text_records`: a text, or a pair; for None, either."""
    if pairs is None:
        return Input(name="text"), Input(name="second text", optional=True)
    names = ("first text", "second text") if pairs else ("text",)
    return tuple(Input(name=name) for name in names)


def encode_texts(
    records: Iterable[Record],
    tokenizer: Tokenizer,
    fit: LengthLimit,
    *,
    pairs: bool | None,
    labels: Callable[[Record], tuple[float, ...]] | None,
) -> Iterator[Fitted[Example]]:
    """Encode each record: one example, or one per window of a long text.

    Args:
        records: single texts or pairs, not mixed.
        tokenizer: the model's tokenizer.
        fit: the length limit of each example.
        pairs: whether the records must be pairs; None if they may be either.
        labels: returns the labels of a record, for all its examples; None for no labels.

    Raises:
        UserError: a record is a pair instead of a single text or vice versa, or is too long and may
            not be cut; names file and line.
    """
    records, copies = tee(records)
    texts = (_text(item, pairs) for item in copies)
    encoded = features(texts, tokenizer, max_length=fit.max_length, rule=fit.long_text)
    for record in records:
        with locating_errors(record):
            fitted = next(encoded)
        if labels is None:
            yield fitted
        else:
            values = labels(record)
            yield replace(fitted, pieces=[replace(piece, labels=values) for piece in fitted.pieces])


def combine_texts(texts: Sequence[Fitted[Example]], labels: tuple[float, ...]) -> Fitted[Example]:
    """Combine several texts as the parts of one item.

    Args:
        texts: the encoded texts.
        labels: the labels of every example.
    """
    return Fitted(
        pieces=[
            replace(example, part=number, labels=labels)
            for number, text in enumerate(texts)
            for example in text.pieces
        ],
        tokens_total=sum(text.tokens_total for text in texts),
        tokens_used=sum(text.tokens_used for text in texts),
        kept=[kept for text in texts for kept in text.kept],
    )


def _text(record: Record, pairs: bool | None) -> Text:
    if pairs is not None and (record.text_pair is not None) != pairs:
        expected = "a pair" if pairs else "a single text"
        second = ": --text-pair names the second text, or give --context" if pairs else ""
        raise UserError(f"{record.where}: expected {expected}, as in training{second}")
    return record.text if record.text_pair is None else (record.text, record.text_pair)


# Training.


def start_encoder(
    recipe: Recipe,
    *,
    head: Head,
    num_labels: int | None = None,
    id2label: dict[int, str] | None = None,
    problem_type: str | None = None,
    fresh_head: bool = False,
) -> Start:
    """Load the tokenizer and the model of a task that encodes texts.

    Args:
        recipe: names the model, and says which parts of it start fresh.
        head: the type of the head.
        num_labels: number of outputs of a classifier.
        id2label: name of each output.
        problem_type: see ``BertConfig``.
        fresh_head: whether to initialise the head although the checkpoint has weights for it.

    Raises:
        UserError: the model does not exist or does not fit the task.
    """
    data: DataSettings = recipe.data
    torch.manual_seed(recipe.training.seed)
    tokenizer = load_encoder_tokenizer(data.model, data.revision)
    # A decoder trained by ``generate`` becomes an encoder: it may now attend to later tokens.
    is_decoder = bidirectional_option(data.model, data.revision)
    model: Model = load_model(
        data.model,
        head=head,
        num_labels=num_labels,
        id2label=id2label,
        problem_type=problem_type,
        dropout=data.dropout,
        is_decoder=is_decoder,
        fresh_head=fresh_head,
        revision=data.revision,
    )
    if data.fresh_pooler:
        reinitialize_pooler(model)
    return Start(
        tokenizer=tokenizer,
        model=model,
        max_length=check_max_length(data.max_length or model.default_length, model.max_positions),
    )


def pretrained_labels(data: DataSettings) -> tuple[str, ...]:
    """Return the labels of the model to start from, in order; empty if it has none."""
    config = read_config(resolve(data.model, data.revision))
    return tuple(getattr(config, "id2label", {}).values())


def reinitialize_pooler(model: Model) -> None:
    """Reinitialise the weights of a model's pooler.

    Raises:
        UserError: it has no pooler.
    """
    pooler = getattr(model.body, "pooler", None)
    if pooler is None:
        raise UserError(
            "--fresh-pooler: the model of this task has no pooler; leave the option out"
        )
    model.reinitialize(pooler)


def encode_training_records(
    task: AnyTask,
    recipe: Recipe,
    start: Start,
    folder: Path,
    say: Say,
    *,
    rule: LongText,
    records: Iterable[Any] | None = None,
) -> StoreOf:
    """Encode the training records into one file, and report the tokens lost from long texts.

    Args:
        task: the task, which reads and encodes the records.
        recipe: names the data files.
        start: the tokenizer and the maximum length.
        folder: the folder of the file.
        say: shows the user a line.
        rule: the default treatment of texts that are too long; the recipe can override it.
        records: the records; default: all training records of the recipe.
    """
    fit = LengthLimit(max_length=start.max_length, long_text=recipe.data.long_text or rule)
    if records is None:
        records = task.read(recipe.data.train, recipe.columns, labelled=True)
    texts = tokens = 0

    def examples() -> Iterator[Example]:
        nonlocal texts, tokens
        encoded = task.encode(records, start.tokenizer, fit, labelled=True)
        for item in counted(encoded, "texts tokenized"):
            texts += item.tokens_used < item.tokens_total
            tokens += item.tokens_total - item.tokens_used
            yield from item.pieces

    write_store(folder / "train.arrow", examples())
    if texts:
        say(
            f"{'1 text is' if texts == 1 else f'{texts:,} texts are'} longer than "
            f"{start.max_length} tokens: {count_of(tokens, 'token')} "
            f"{'is' if tokens == 1 else 'are'} not used for training; see --long-text and "
            "--max-length"
        )
    store = Store(folder / "train.arrow")
    return lambda epoch: store
