"""``heedful evaluate --predictions FILE``: write each prediction with its label."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from heedful import files
from heedful.errors import UserError
from heedful.item_results import AnyItemScorer, prediction_row, score_items
from heedful.spreadsheets import cell

ENDINGS = (".jsonl", ".csv")


@dataclass(frozen=True, slots=True)
class PredictionsFile:
    """A file of predictions, one per line."""

    path: Path
    """Path of the file; its extension sets the format."""
    overwrite: bool = False
    resume: bool = False
    """Whether the file may exist with the same predictions."""

    def __post_init__(self) -> None:
        """Check that the file can be created, before anything is computed.

        Raises:
            UserError: the extension is unknown, or see `heedful.files.check_new_file`.
        """
        if self.path.suffix.lower() not in ENDINGS:
            raise UserError(
                f"--predictions {self.path}: the name must end in {' or '.join(ENDINGS)}"
            )
        files.check_new_file(self.path, overwrite=self.overwrite or self.resume)

    def write(self, scorer: AnyItemScorer, answered: Iterable[tuple[Any, Any]]) -> None:
        """Write predictions as they arrive; the file appears when all are written.

        Raises:
            UserError: with ``resume`` but not ``overwrite``, the file exists with other contents.
        """
        rows = (prediction_row(scorer, item) for item in score_items(scorer, answered))
        lines = _csv_rows if self.path.suffix.lower() == ".csv" else _json_lines
        with files.new_file(self.path, overwrite=self.overwrite or self.resume) as partial:
            with partial.open(
                "w", encoding="utf-8", errors="backslashreplace", newline=""
            ) as stream:
                lines(rows, stream)
            must_match = self.path.exists() and not self.overwrite
            if must_match and files.sha256(self.path) != files.sha256(partial):
                raise UserError(
                    f"--predictions {self.path}: the existing file holds other answers; move it, "
                    "or give --overwrite"
                )


def _json_lines(rows: Iterator[Mapping[str, Any]], stream: TextIO) -> None:
    for row in rows:
        stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def _csv_rows(rows: Iterator[Mapping[str, Any]], stream: TextIO) -> None:
    """Write rows with the same keys; lists and objects become JSON in their cells."""
    writer = csv.writer(stream)
    for number, row in enumerate(rows):
        if not number:
            writer.writerow(row)
        writer.writerow([_flat(value) for value in row.values()])


def _flat(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False)
    return cell(value)
