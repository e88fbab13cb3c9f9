"""What the tasks on single texts and pairs of texts from tables have in common."""

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
from heedful.batches.windows import naming
from heedful.errors import UserError, amount, listed
from heedful.models import Head
from heedful.models.loading import encodes, load_model, read_config
from heedful.models.model import Model
from heedful.reading import Record, Text, read_records
from heedful.reading.fields import kind_of
from heedful.settings import ColumnSettings, DataSettings, LongText
from heedful.sources import resolve
from heedful.task import AnyTask, Fit, Input, Recipe, Say, Start, StoreOf, check_max_length
from heedful.tokens import Tokenizer, load_encoder_tokenizer
from heedful.training.progress import counted

LARGEST = 1e15
"""Squares of larger numbers, added up, may be more than a float32 holds."""


def read_table(
    paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
) -> Iterator[Record]:
    """Stream records.

    Raises:
        UserError: naming the file and line of the first record that cannot be used.
    """
    if not labelled:
        columns = replace(columns, label=None)
    return read_records(paths, columns, allow_empty=not labelled)


def refuse_columns(task: str, columns: ColumnSettings) -> None:
    """Refuse options of columns where files have none.

    Raises:
        UserError: naming the task.
    """
    if columns != ColumnSettings(encoding=columns.encoding):
        raise UserError(f"the files of {task} have a format of their own: leave out column options")


_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
"""A number with a comma, of decimals or of thousands: whoever wrote it knows."""


def target(record: Record) -> float:
    """Return a record's number.

    Raises:
        UserError: there is none, or several, or it is too large, with file and line.
    """
    labels = record.labels or ()
    try:
        (text,) = labels
        value = math.nan if "_" in text else float(text)  # which takes 1_000 for 1000
    except ValueError:
        value = math.nan
    if not abs(value) <= LARGEST:  # nor where it is no number
        shown = listed([repr(label) for label in labels]) or "nothing"
        limit = "" if math.isnan(value) else f"; it may be up to {LARGEST:g}, above or below 0"
        if len(labels) == 1 and _COMMA.fullmatch(labels[0]):
            limit = "; decimals stand behind a point, as in 0.5"
        raise UserError(f"{record.where}: expected a number, found {shown}{limit}")
    return value


def check_outputs(labels: Sequence[str], model: Model) -> None:
    """Refuse a model that does not have an output for each label, and labels of one name.

    Raises:
        UserError: it has more, or fewer, or two labels are the same.
    """
    if len(labels) != (outputs := model.config.num_labels):
        raise UserError(f"{amount(len(labels), 'label')}, but its model has {outputs} outputs")
    for label, count in Counter(labels).items():
        if count > 1:
            raise UserError(f"{count} of its labels are {label!r}")


def checked_items(items: Any) -> Iterator[Any]:
    """Return one by one what Python callers give: a list, a column of a table, or an iterator.

    Raises:
        UserError: at once for a single item, for a table, whose columns are no items, and for what
            holds none.
    """
    kind = type(items).__name__
    if isinstance(items, str | bytes | os.PathLike):
        raise UserError("predict takes a list, found a single item; model('a text') answers for it")
    if isinstance(items, Mapping) or hasattr(items, "columns"):  # of pandas, pyarrow, polars, ...
        raise UserError(
            f"expected a text, or a list of them, found a {kind}; give the column of texts: "
            "model(data['text'])"
        )
    try:
        each = iter(items)
    except TypeError:
        message = f"expected a text, or a list of them, found {kind_of(items)}"
        raise UserError(message) from None
    # The values of a column of pyarrow are objects of its own.
    return (item.as_py() if hasattr(item, "as_py") else item for item in each)


def checked_texts(texts: Any) -> Iterator[Text]:
    """Return one by one what Python callers give, each a text or a tuple of texts.

    Raises:
        UserError: see `checked_items`; or during iteration for an item that is none, with its
            number.
    """
    return (
        item if isinstance(item, str) else _several(item, f"text {number}")
        for number, item in enumerate(checked_items(texts), start=1)
    )


def _several(item: Any, where: str) -> Any:
    """Return an item that is several texts as a tuple; refuse any other."""
    if isinstance(item, Mapping):
        raise UserError(f"{where}: expected text, found a dict; give the text in it: row['text']")
    number = getattr(item, "shape", None) == ()  # of an array or a tensor, which seem to iterate
    if number or isinstance(item, bytes | AbstractSet) or not isinstance(item, Iterable):
        raise UserError(f"{where}: expected text, found {kind_of(item)}")
    texts = tuple(item)
    for text in texts:
        if not isinstance(text, str):
            raise UserError(f"{where}: expected texts alone in it, found {kind_of(text)}")
    return texts


def text_records(texts: Sequence[Text], first: int = 1) -> list[Record]:
    """Make records of texts or pairs, numbered from ``first``.

    Raises:
        UserError: there are more than two texts where a pair is meant.
    """
    for number, text in enumerate(texts, start=first):
        if not isinstance(text, str) and len(text) != 2:
            raise UserError(
                f"text {number}: a list of {amount(len(text), 'text')}; give a single text, or two"
            )
    return [
        Record(text=first, text_pair=second, labels=None, source="text", line=number)
        for number, text in enumerate(texts, start=first)
        for first, second in [(text, None) if isinstance(text, str) else text]
    ]


def text_example(*, pairs: bool | None) -> str:
    """Return what shows a run of texts or pairs on a command line; see ``Task.example``."""
    return '"a text" --context "another text"' if pairs else '"a text"'


def text_inputs(*, pairs: bool | None) -> tuple[Input, ...]:
    """Return what the records of `text_records` consist of: a text, or a pair; None: either."""
    if pairs is None:
        return Input(name="text"), Input(name="second text", optional=True)
    names = ("first text", "second text") if pairs else ("text",)
    return tuple(Input(name=name) for name in names)


def encode_texts(
    records: Iterable[Record],
    tokenizer: Tokenizer,
    fit: Fit,
    *,
    pairs: bool | None,
    labels: Callable[[Record], tuple[float, ...]] | None,
) -> Iterator[Fitted[Example]]:
    """Turn each record into one example, or several where a long text is read in windows.

    Args:
        records: single texts or pairs, all of one kind.
        tokenizer: the model's tokenizer.
        fit: what each example must fit into.
        pairs: whether the records must be pairs of texts, or must not; None: they may be either.
        labels: a record to the labels of its examples; None leaves them out.

    Raises:
        UserError: a record is a pair where single texts are wanted, or the other way round, or is
            too long and may not be cut, with file and line.
    """
    records, copies = tee(records)
    texts = (_text(item, pairs) for item in copies)
    fitted = features(texts, tokenizer, max_length=fit.max_length, rule=fit.rule)
    for record in records:
        with naming(record):
            parts = next(fitted)
        if labels is None:
            yield parts
        else:
            numbers = labels(record)
            yield replace(parts, pieces=[replace(piece, labels=numbers) for piece in parts.pieces])


def as_parts(texts: Sequence[Fitted[Example]], labels: tuple[float, ...]) -> Fitted[Example]:
    """Put several texts together as the parts of one item.

    Args:
        texts: the examples of each.
        labels: of every example.
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
        raise UserError(f"{record.where}: expected {expected}, as the run learnt from{second}")
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
    """Load the tokenizer and the model of a task whose encoder reads texts.

    Args:
        recipe: names the model and says what is fresh.
        head: what the model decides.
        num_labels: number of outputs of a classifier.
        id2label: name of each output.
        problem_type: see ``BertConfig``.
        fresh_head: whether to start the head fresh although the folder has weights for it.

    Raises:
        UserError: there is no such model, or it does not suit.
    """
    data: DataSettings = recipe.data
    torch.manual_seed(recipe.training.seed)
    tokenizer = load_encoder_tokenizer(data.model, data.revision)
    # A run of generate could not look ahead, and now can.
    is_decoder = encodes(data.model, data.revision)
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
        renew_pooler(model)
    return Start(
        tokenizer=tokenizer,
        model=model,
        max_length=check_max_length(data.max_length or model.usual_positions, model.max_positions),
    )


def learnt_labels(data: DataSettings) -> tuple[str, ...]:
    """Return the labels that the model to start from tells apart, in order; none if it does not."""
    config = read_config(resolve(data.model, data.revision))
    return tuple(getattr(config, "id2label", {}).values())


def renew_pooler(model: Model) -> None:
    """Draw the weights of a model's pooler anew.

    Raises:
        UserError: it has none.
    """
    pooler = getattr(model.body, "pooler", None)
    if pooler is None:
        raise UserError(
            "--fresh-pooler: the model of this task has no pooler; leave the option out"
        )
    model.renew(pooler)


def store_records(
    task: AnyTask,
    recipe: Recipe,
    start: Start,
    folder: Path,
    say: Say,
    *,
    rule: LongText,
    records: Iterable[Any] | None = None,
) -> StoreOf:
    """Encode the training records into one file, and say what is left out of long texts.

    Args:
        task: reads and encodes them.
        recipe: names the files.
        start: the tokenizer and the length.
        folder: where the file goes.
        say: takes a line for the user.
        rule: what is learnt from a text that is too long, unless the recipe says.
        records: what to learn from; by default all that the recipe names.
    """
    fit = Fit(max_length=start.max_length, rule=recipe.data.long_text or rule)
    if records is None:
        records = task.read(recipe.data.train, recipe.columns, labelled=True)
    texts = tokens = 0

    def examples() -> Iterator[Example]:
        nonlocal texts, tokens
        encoded = task.encode(records, start.tokenizer, fit, labelled=True)
        for text in counted(encoded, "texts tokenized"):
            texts += text.tokens_used < text.tokens_total
            tokens += text.tokens_total - text.tokens_used
            yield from text.pieces

    write_store(folder / "train.arrow", examples())
    if texts:
        say(
            f"{'1 text is' if texts == 1 else f'{texts:,} texts are'} longer than "
            f"{start.max_length} tokens: {tokens:,} tokens are not learnt from; --long-text and "
            "--max-length decide that"
        )
    store = Store(folder / "train.arrow")
    return lambda epoch: store
