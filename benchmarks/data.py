"""The data sets that the benchmarks use."""

import os
from pathlib import Path

from benchmarks.runner import ROOT
from heedful.reading import Record, read_records
from heedful.settings import ColumnSettings

FOLDER = Path(os.environ.get("HEEDFUL_DATA", ROOT.parent / "shared/data"))
LABELS = ["1", "2", "3", "4"]


def ag_news(part: str, limit: int | None = None) -> list[Record]:
    """Read AG News: ``train_pool``, or ``test`` with title and description joined."""
    text = "2" if part == "train_pool" else "2,3"
    columns = ColumnSettings(text=text, label="1", header=False)
    records = list(read_records([FOLDER / f"ag_news/{part}.csv.gz"], columns))
    return records if limit is None else records[:limit]
