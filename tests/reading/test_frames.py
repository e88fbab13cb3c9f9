"""Data in memory is stored as files while they are read."""

import datetime
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from heedful.errors import UserError
from heedful.reading import read_records
from heedful.reading.frames import as_files, data_name
from heedful.settings import ColumnSettings

ROWS = [{"text": "the sky is blue", "label": "blue"}]


def test_the_same_rows_may_be_asked_for_twice() -> None:
    with as_files(ROWS) as (train,), as_files(ROWS) as (dev,):
        assert train.read_text() == dev.read_text()
    assert not train.parent.exists()


def test_a_process_that_ends_leaves_the_rows_to_the_others() -> None:
    program = (
        "from heedful.reading.frames import as_files\n"
        f"with as_files({ROWS!r}) as (path,):\n"
        "    print(path)\n"
    )
    with as_files(ROWS) as (path,):
        command = [sys.executable, "-c", program]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert run.stdout == f"{path}\n"  # so that a run is resumed on the same file
        assert path.exists()
    assert not path.parent.exists()


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with as_files(ROWS) as (path,):
        folder = path.parent.name
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / folder).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="belongs to another user; set TMPDIR"), as_files(ROWS):
        pass
    assert not os.listdir(tmp_path / "elsewhere")


SPAN = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
"""Of a type that Parquet lacks."""


def labels(data: Any, columns: ColumnSettings) -> list[tuple[str, ...] | None]:
    with as_files(data, "train", columns) as paths:
        return [record.labels for record in read_records(paths, columns)]


@pytest.mark.parametrize(
    "data",
    [
        pa.table([["a"], ["x"], SPAN, [1], [2]], names=["text", "label", "when", "n", "n"]),
        pa.table({"text": ["a"], "label": ["x"], "answer": SPAN}),
        [{"text": "a", "label": "x", "price": float("nan"), ("a", "b"): 3}],
        [{"text": "a", "label": np.str_("x"), "when": datetime.date(2024, 1, 1)}],
    ],
)
def test_what_no_file_holds_may_be_in_columns_that_are_not_read(data: Any) -> None:
    assert labels(data, ColumnSettings()) == [("x",)]


@pytest.mark.parametrize(
    ("data", "columns", "message"),
    [
        (
            pa.table({"text": ["a"], "label": SPAN}),
            ColumnSettings(),
            "train, column 'label': cannot be read: Unhandled type for Arrow to Parquet",
        ),
        (
            pa.table({"when": SPAN, "text": ["a"]}),
            ColumnSettings(label="1"),
            "train, column 'when': cannot be read: ",
        ),
        (
            pa.table([["a"], ["b"], ["x"]], names=["text", "text", "label"]),
            ColumnSettings(),
            "train: 2 columns are named 'text'",
        ),
        (
            [*ROWS, {"text": "a", "label": float("nan")}],
            ColumnSettings(),
            "train, row 2, column 'label': a value that JSON cannot hold: Out of range float",
        ),
        (
            [{"body": "a", "head": datetime.date(2024, 1, 1), "label": "x"}],
            ColumnSettings(text="head, body"),
            "train, row 1, column 'head': a value that JSON cannot hold: a value of type date",
        ),
        (
            [{"question": "a", "context": float("inf")}],
            ColumnSettings(),
            "train, row 1, column 'context': a value that JSON cannot hold: ",
        ),
        (3, ColumnSettings(), "train is an int: expected a path"),
        (None, ColumnSettings(), "train is None: expected a path"),
        ([], ColumnSettings(), "train is empty: expected a path"),
        ("", ColumnSettings(), "train is empty: expected a path"),
        ({"text": ["a"]}, ColumnSettings(), "train is a dict: expected a path"),
        ([("a", "x")], ColumnSettings(), "train, item 1: expected a dict, .*, found a tuple$"),
        ([*ROWS, None], ColumnSettings(), "train, item 2: expected a dict, .*, found None$"),
        ([*ROWS, "a.csv"], ColumnSettings(), "train holds paths and dicts: give either"),
        (io.StringIO("text,label\n"), ColumnSettings(), "train is an open file; give its path"),
        (
            pa.RecordBatch.from_pylist(ROWS),
            ColumnSettings(),
            r"train is a pyarrow\.RecordBatch: expected .*; give what its to_pandas\(\) returns$",
        ),
    ],
)
def test_what_no_file_holds_is_named_where_it_is_read(
    data: Any, columns: ColumnSettings, message: str
) -> None:
    with pytest.raises(UserError, match=f"^{message}"):
        labels(data, columns)


@pytest.mark.parametrize("kind", [list, iter, pa.Table.from_pylist])
def test_what_is_wrong_in_memory_is_named_by_its_row(kind: Any) -> None:
    rows = [*ROWS, {"text": "a", "label": ""}]
    with pytest.raises(UserError, match=r"^train, row 2, column 'label': empty label$"):
        labels(kind(rows), ColumnSettings())
    with pytest.raises(UserError, match=r"^train(, row 1)?: no column 'name'.*columns: "):
        labels(kind(rows), ColumnSettings(label="name"))


def test_a_lone_surrogate_matters_only_where_it_is_read() -> None:
    rows = [{"text": "ab", "label": "x", "other": "\ud800"}]
    assert labels(rows, ColumnSettings()) == [("x",)]
    with pytest.raises(UserError, match=r"^train, row 1, .*: a lone surrogate \(\\ud800\)"):
        labels(rows, ColumnSettings(label="other"))


def test_a_file_of_ones_own_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "a", "label": ""}\n')
    with pytest.raises(UserError, match=r"/train\.jsonl, line 1, column 'label'"):
        labels(path, ColumnSettings())
    assert data_name(path) == str(path)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_narrow_numbers_are_the_decimals_that_were_meant(kind: type) -> None:
    scores = np.array([3.3, -0.1, 2], kind)
    rows = [{"text": "a", "label": score} for score in scores]
    assert labels(rows, ColumnSettings()) == [("3.3",), ("-0.1",), ("2.0",)]
    several = [{"text": "a", "label": scores}]
    assert labels(several, ColumnSettings()) == [("3.3", "-0.1", "2.0")]


@pytest.mark.parametrize("narrow", [pa.float16(), pa.float32()])
@pytest.mark.parametrize("kind", [lambda narrow: narrow, pa.list_, pa.large_list])
def test_narrow_numbers_of_tables_are_so_too(
    kind: Callable[[pa.DataType], pa.DataType], narrow: pa.DataType
) -> None:
    scores = [*np.array([3.3, -0.1, 2], narrow.to_pandas_dtype())]
    type_ = kind(narrow)
    column = pa.array(scores if type_ == narrow else [[score] for score in scores], type_)
    table = pa.table({"text": ["a", "b", "c"], "label": column})
    assert labels(table, ColumnSettings()) == [("3.3",), ("-0.1",), ("2.0",)]


def test_numbers_and_arrays_of_numpy_are_labels() -> None:
    rows = [{"text": "a", "label": np.int64(3)}, {"text": "b", "label": np.array(["x", "y"])}]
    assert labels(rows, ColumnSettings()) == [("3",), ("x", "y")]


def test_a_column_of_mixed_types_in_a_table_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    data = pandas.DataFrame({"text": ["a", "b"], "label": ["x", "y"], "id": [1, "A7"]})
    assert labels(data, ColumnSettings()) == [("x",), ("y",)]
    with pytest.raises(UserError, match=r"^train, column 'id': cannot be read: Could not convert"):
        labels(data, ColumnSettings(label="id"))


def test_columns_that_pandas_counts_are_not_taken_for_others() -> None:
    pandas = pytest.importorskip("pandas")
    data = pandas.DataFrame([["a", "x"], ["b", "y"]])
    with pytest.raises(UserError, match=r"^train: column 0 has a number as its name, but"):
        labels(data, ColumnSettings(text="1", label="2"))
    data.columns = ["said", "kind"]
    assert labels(data, ColumnSettings(text="1", label="2")) == [("x",), ("y",)]
