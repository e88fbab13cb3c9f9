"""``heedful predict``: texts in, one line an answer out."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from heedful.batches import Text, read_records
from heedful.errors import UserError
from heedful.predictor import Prediction
from heedful.settings import ColumnSettings
from heedful.tasks.classify import text_of


def texts_of(texts: Sequence[str], path: Path | None, columns: ColumnSettings) -> Iterable[Text]:
    """Return the texts given as arguments, in a file, or on standard input one a line.

    Raises:
        UserError: texts are given twice over, or not at all.
    """
    if texts and path is not None:
        raise UserError("give texts as arguments or with --input, not both")
    if texts:
        if columns.text_pair is not None:
            raise UserError("--text-pair is for --input; as arguments only single texts are taken")
        return texts
    if path is None and sys.stdin.isatty():
        raise UserError('no text: give "a text", --input FILE, or pipe one text a line in')
    return _read(path or Path("-"), columns)


def _read(path: Path, columns: ColumnSettings) -> Iterator[Text]:
    plain = path == Path("-") or path.name.removesuffix(".gz").endswith(".txt")
    file_format = columns.format or ("text" if plain else None)
    wanted = columns.columns(labelled=False)
    return map(text_of, read_records([path], wanted, file_format, allow_empty=True))


def line_of(prediction: Prediction, *, all_scores: bool, plain: bool) -> str:
    """Format one answer: a JSON object, or with ``plain`` the label (labels with commas)."""
    label = prediction.label
    if plain:
        return label if isinstance(label, str) else ",".join(label)
    row: dict[str, object] = {"label": label}
    if prediction.score is not None:
        row["score"] = round(prediction.score, 6)
    if all_scores or prediction.score is None:
        row["scores"] = {name: round(value, 6) for name, value in prediction.scores.items()}
    row |= {"tokens_total": prediction.tokens_total, "tokens_used": prediction.tokens_used}
    return json.dumps(row, ensure_ascii=False)
