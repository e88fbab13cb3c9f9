"""``heedful evaluate --predictions FILE``: each answer beside its truth."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from heedful import files
from heedful.errors import UserError
from heedful.judging import AnyJudge, judge_all, row_of
from heedful.spreadsheets import cell

ENDINGS = (".jsonl", ".csv")


@dataclass(frozen=True, slots=True)
class PredictionsFile:
    """A file of answers, one a line."""

    path: Path
    """Its ending says the format."""
    overwrite: bool = False
    resume: bool = False
    """Whether it may be there already, with the same answers."""

    def __post_init__(self) -> None:
        """Refuse a file that cannot be made, before anything is computed.

        Raises:
            UserError: the ending is unknown, or see `heedful.files.check_new_file`.
        """
        if self.path.suffix.lower() not in ENDINGS:
            raise UserError(
                f"--predictions {self.path}: the name must end in {' or '.join(ENDINGS)}"
            )
        files.check_new_file(self.path, overwrite=self.overwrite or self.resume)

    def write(self, judge: AnyJudge, answered: Iterable[tuple[Any, Any]]) -> None:
        """Write answers as they come; the file is there when all are.

        Raises:
            UserError: with ``resume`` alone, a file is there that holds something else.
        """
        rows = (row_of(judge, judged) for judged in judge_all(judge, answered))
        lines = _csv_rows if self.path.suffix.lower() == ".csv" else _json_lines
        with files.new_file(self.path, overwrite=self.overwrite or self.resume) as partial:
            with partial.open(
                "w", encoding="utf-8", errors="backslashreplace", newline=""
            ) as stream:
                lines(rows, stream)
            there = self.path.exists() and not self.overwrite
            if there and files.sha256(self.path) != files.sha256(partial):
                raise UserError(
                    f"--predictions {self.path}: the file that is there holds other answers; "
                    "move it, or give --overwrite"
                )


def _json_lines(rows: Iterator[Mapping[str, Any]], stream: TextIO) -> None:
    for row in rows:
        stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def _csv_rows(rows: Iterator[Mapping[str, Any]], stream: TextIO) -> None:
    """Write rows of the same keys; lists and objects go into their cells as JSON."""
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
