"""``heedful explain``: attribute a prediction to its tokens, and show the attention."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heedful import files
from heedful.commands.evaluate import labelled_records
from heedful.commands.inputs import files_of
from heedful.errors import UserError
from heedful.explanations.explanation import Explanation
from heedful.explanations.faithfulness import Faithfulness, faithfulness
from heedful.explanations.heads import HeadImportance, head_importance
from heedful.explanations.html import render
from heedful.explanations.pictures import save_heads_picture, save_picture
from heedful.predictor import Predictor
from heedful.settings import ColumnSettings
from heedful.task import Say


def _write_html(explanation: Explanation, path: Path) -> None:
    with files.new_file(path, overwrite=True) as partial:
        partial.write_text(render(explanation), encoding="utf-8")


def _write_json(result: Explanation | Faithfulness | HeadImportance, path: Path) -> None:
    with files.new_file(path, overwrite=True) as partial:
        files.write_json(partial, result.to_dict())


WRITERS: dict[str, Callable[[Explanation, Path], None]] = {
    ".html": _write_html,
    ".json": _write_json,
    ".png": save_picture,
    ".svg": save_picture,
}
"""Functions that write an explanation, by file extension."""

FAITHFULNESS_WRITERS: dict[str, Callable[[Faithfulness, Path], None]] = {".json": _write_json}

HEADS_WRITERS: dict[str, Callable[[HeadImportance, Path], None]] = {
    ".json": _write_json,
    ".png": save_heads_picture,
    ".svg": save_heads_picture,
}


def check_out(path: Path, endings: Sequence[str], *, overwrite: bool) -> None:
    """Check that the output file can be written, before anything is computed.

    Raises:
        UserError: its extension is unknown, its folder does not exist, or the file exists.
    """
    if path.suffix.lower() not in endings:
        raise UserError(f"--out {path}: the file extension sets the format: {', '.join(endings)}")
    files.check_new_file(path, overwrite=overwrite)


def measure_methods(
    predictor: Predictor, data: Sequence[Path], columns: ColumnSettings, limit: int
) -> Faithfulness:
    """Measure the faithfulness of each method on texts of files; labels are ignored.

    Raises:
        UserError: the files are wrong, or hold fewer than two texts.
    """
    records = [*predictor.task.read(files_of(data), columns, labelled=False)]
    return faithfulness(predictor, _evenly_spaced(records, limit))


def measure_heads(
    predictor: Predictor, data: Sequence[Path], columns: ColumnSettings, limit: int, say: Say
) -> HeadImportance:
    """Measure the importance of each attention head on labelled files.

    Raises:
        UserError: the files are wrong, or the model's heads cannot be masked.
    """
    with labelled_records(predictor, data, columns, say) as records:
        return head_importance(predictor, _evenly_spaced([*records], limit))


def _evenly_spaced(records: Sequence[Any], limit: int) -> list[Any]:
    """Return up to ``limit`` records spread over the data, which may be sorted by label."""
    rows = np.linspace(0, len(records) - 1, min(len(records), limit)).astype(int)
    return [records[row] for row in rows]
