"""What the tasks on single texts and pairs of texts from tables have in common."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import tee
from pathlib import Path

from heedful.batches import Example, Fitted, features
from heedful.batches.windows import NoRoomError
from heedful.errors import UserError
from heedful.reading import Record, Text, read_records
from heedful.settings import ColumnSettings
from heedful.tasks.task import Fit
from heedful.tokens import Tokenizer


def read(paths: Sequence[Path], columns: ColumnSettings, labelled: bool) -> Iterator[Record]:
    """Stream records.

    Raises:
        UserError: naming the file and line of the first record that cannot be used.
    """
    if not labelled:
        columns = replace(columns, label=None)
    return read_records(paths, columns, allow_empty=not labelled)


def from_texts(texts: Sequence[Text]) -> list[Record]:
    """Make records of texts or pairs."""
    return [
        Record(text=first, text_pair=second, labels=None, source="text", line=number)
        for number, text in enumerate(texts, start=1)
        for first, second in [(text, None) if isinstance(text, str) else text]
    ]


def encode_texts(
    records: Iterable[Record],
    tokenizer: Tokenizer,
    fit: Fit,
    *,
    pairs: bool,
    labels: Callable[[Record], tuple[float, ...]] | None,
) -> Iterator[Fitted[Example]]:
    """Turn each record into one example, or several where a long text is read in windows.

    Args:
        records: single texts or pairs, all of one kind.
        tokenizer: the model's tokenizer.
        fit: what each example must fit into.
        pairs: whether the records must be pairs of texts, or must not.
        labels: a record to the labels of its examples; None leaves them out.

    Raises:
        UserError: a record is a pair where single texts are wanted, or the other way round, or its
            two texts are too long for windows, with file and line.
    """
    records, copies = tee(records)
    texts = (_text(item, pairs) for item in copies)
    fitted = features(texts, tokenizer, max_length=fit.max_length, rule=fit.rule)
    for record in records:
        try:
            parts = next(fitted)
        except NoRoomError as error:
            raise UserError(f"{record.source}, line {record.line}: {error}") from None
        if labels is None:
            yield parts
        else:
            numbers = labels(record)
            yield replace(parts, pieces=[replace(piece, labels=numbers) for piece in parts.pieces])


def numbered(texts: Sequence[Fitted[Example]], labels: tuple[float, ...]) -> Fitted[Example]:
    """Put several texts of a record together, each example labelled with its text's number first.

    Args:
        texts: the examples of each.
        labels: further labels of every example.
    """
    return Fitted(
        pieces=[
            replace(piece, labels=(float(number), *labels))
            for number, text in enumerate(texts)
            for piece in text.pieces
        ],
        tokens_total=sum(text.tokens_total for text in texts),
        tokens_used=sum(text.tokens_used for text in texts),
    )


def _text(record: Record, pairs: bool) -> Text:
    if (record.text_pair is not None) != pairs:
        wanted = (
            "a pair, whose second text --text-pair or --context gives" if pairs else "a single text"
        )
        raise UserError(
            f"{record.source}, line {record.line}: expected {wanted}, as the run learnt from"
        )
    return record.text if record.text_pair is None else (record.text, record.text_pair)
