import gzip
import io
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.errors import UserError
from heedful.reading import fields, parquet
from heedful.reading.records import (
    ColumnSettings,
    Fingerprint,
    Record,
    fingerprint,
    read_records,
)

TEXT_ONLY = ColumnSettings(label=None)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        raw = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return path

    return write


Write = Callable[[str, str | bytes], Path]


def error_of(paths: list[Path], columns: ColumnSettings, format: str | None = None) -> str:
    with pytest.raises(UserError) as caught:
        list(read_records(paths, replace(columns, format=format)))
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_the_header_of_a_csv_says_what_parts_its_columns(write: Write, mark: str) -> None:
    """As spreadsheets write it in countries where 0,5 is a half."""
    content = f'text{mark}label\n"good{mark} new, ""so"" so"{mark}pos\nan "open quote{mark}neg\n'
    records = read_records([write("a.csv", content)], ColumnSettings())
    rows = [(record.text, record.labels) for record in records]
    assert rows == [(f'good{mark} new, "so" so', ("pos",)), ('an "open quote', ("neg",))]


@pytest.mark.parametrize(
    "header", ["\n\ntext;label\n", '"the\ntext";label\n', '"the, \n""text""";label\n']
)
def test_a_header_may_go_over_several_lines(write: Write, header: str) -> None:
    path = write("a.csv", f'{header}"a;\nb";pos\n')
    (record,) = read_records([path], ColumnSettings(text="1"))
    assert (record.text, record.labels, record.line) == ("a;\nb", ("pos",), header.count("\n") + 1)


def test_a_comma_in_the_header_or_no_header_parts_by_commas(write: Write) -> None:
    path = write("a.csv", "text,label;urgent\na;b,pos\n")
    (record,) = read_records([path], ColumnSettings(label="label;urgent"))
    assert (record.text, record.labels) == ("a;b", ("pos",))
    quoted = write("b.csv", '"text;label"\na;b\n')
    (record,) = read_records([quoted], ColumnSettings(text="text;label", label=None))
    assert record.text == "a;b"
    bare = write("c.csv", "a;b\nc d\n")
    settings = ColumnSettings(header=False, text="1", label=None)
    assert [record.text for record in read_records([bare], settings)] == ["a;b", "c d"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.ndjson.gz", "a.CSV.GZ"])
def test_the_ending_says_the_format(write: Write, name: str) -> None:
    content = {
        "csv": 'label,text\r\npos,"good, new"\r\n',
        "tsv": "label\ttext\npos\tgood, new\n",
        "jso": '\n{"label": "pos", "text": "good, new"}\n',
        "ndj": '\n{"text": "good, new", "label": "pos"}\n',
    }[name[2:5].lower()]
    path = write(name, gzip.compress(content.encode()) if name.endswith("GZ") else content)
    assert list(read_records([path], ColumnSettings())) == [
        Record(text="good, new", text_pair=None, labels=("pos",), source=str(path), line=2)
    ]


ROWS = [
    {"text": "good\nnew", "label": ["b", 1.5]},
    {"label": None, "text": "[二]"},
    {"id": 7, "label": True, "text": ""},
]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
@pytest.mark.parametrize(
    "content",
    [
        json.dumps(ROWS, separators=(",", ":")),
        "\ufeff \n" + json.dumps(ROWS, indent=2, ensure_ascii=False) + "\n\n",
        json.dumps({"version": 1, "data": ROWS}),
        "\n".join(map(json.dumps, ROWS)),
        "\n\n".join(json.dumps(row, indent=1) for row in ROWS),
    ],
)
def test_an_array_is_read_as_lines_are(write: Write, name: str, content: str) -> None:
    lines = write("a.jsonl", "".join(f"{json.dumps(row)}\n" for row in ROWS))
    path = write(name, content)
    records = list(read_records([path], TEXT_ONLY, allow_empty=True))
    assert [record.text for record in records] == ["good\nnew", "[二]", ""]
    assert records == [
        replace(record, source=str(path), unit="row")
        for record in read_records([lines], TEXT_ONLY, allow_empty=True)
    ]
    assert records[1].where == f"{path}, row 2"
    assert next(read_records([path], ColumnSettings())).labels == ("b", "1.5")
    message = f"{path}, row 2, column 'label': expected a label, found null"
    assert error_of([path], ColumnSettings()) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ": holds no records"),
        (" \n", ": holds no records"),
        ("[]", ": holds no records"),
        ('{"data": []}', ": holds no records"),
        ('[{"text": "a"}, "b"]', ", row 2: expected a JSON object, found a string"),
        ('{"text": "a"}\n[]', ", row 2: expected a JSON object, found a list"),
        ('[[{"text": "a"}]]', ", row 1: expected a JSON object, found a list"),
        ("3", ", row 1: expected a JSON object, found the number 3"),
        ('{"data": ["a"]}', ", row 1: no column 'text'; columns: 'data'"),
        (
            '[{"text": "a"}, {"txt": "b"}]',
            ", row 2, column 'text': missing, though earlier rows have it",
        ),
        ('[{"text": "a"} {}]', ", line 1, column 16: not JSON: Expecting ',' delimiter"),
        ('[{"text": "a"},\n {"text": "b"}', ", line 2, column 15: not JSON: Expecting ','"),
        ('[{"text": "a"}]\n\n}', ", line 3, column 1: not JSON: Expecting value"),
        ('[{"text": "a",\n "text": "b"}]', ": 2 keys of one object are named 'text'"),
        ('{"text": {"0": "a"}, "label": {"0": "b"}}', ": one object of columns; give one object a"),
        ('{"text": ["a", "b"], "label": ["c", "d"]}', ": one object of columns; give one object"),
        ('{"text": ["a", "b"], "label": ["c"]}', ", row 1, column 'text': expected text, found a"),
        ('[{"text": NaN}]', ", row 1, column 'text': expected text, found the number nan"),
    ],
)
def test_an_array_that_is_wrong(write: Write, content: str, message: str) -> None:
    path = write("a.json", content)
    assert error_of([path], TEXT_ONLY).startswith(f"{path}{message}")


def test_several_files_are_one_stream(write: Write) -> None:
    paths = [
        write("a.tsv", "text\tlabel\none\tx\n"),
        write("b.csv", "label,text\ny,two\n"),
        write("c.jsonl", '{"text": "three", "label": 3}\n'),
    ]
    records = list(read_records(paths, ColumnSettings()))
    assert [(record.text, record.labels, record.line) for record in records] == [
        ("one", ("x",), 2),
        ("two", ("y",), 2),
        ("three", ("3",), 1),
    ]
    assert [record.source for record in records] == [str(path) for path in paths]


def test_plain_text_is_one_text_a_line(write: Write) -> None:
    path = write("a.txt", '\ufeffone, "two"\r\n\n three\t\n')
    records = list(read_records([path], TEXT_ONLY, allow_empty=True))
    assert [(record.line, record.text) for record in records] == [
        (1, 'one, "two"'),
        (2, ""),
        (3, " three\t"),
    ]
    assert {record.labels for record in records} == {None}
    assert error_of([path], TEXT_ONLY) == f"{path}, line 2, column 'text': empty text"


def test_standard_input_is_plain_text_unless_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    feed(b"one\ntwo\n")
    records = list(read_records([Path("-")], TEXT_ONLY))
    assert [(record.text, record.source) for record in records] == [
        ("one", "standard input"),
        ("two", "standard input"),
    ]
    feed(b'{"text": "one"}')
    assert next(read_records([Path("-")], replace(TEXT_ONLY, format="jsonl"))).text == "one"
    feed(b"")
    assert error_of([Path("-")], TEXT_ONLY) == "standard input: holds no records"


@pytest.mark.parametrize(
    ("columns", "text", "pair", "label"),
    [
        (ColumnSettings(text="body", label="class"), "b", None, "c"),
        (ColumnSettings(text="2", label="1"), "b", None, "c"),
        (ColumnSettings(text="title,body", label="class"), "t b", None, "c"),
        (ColumnSettings(text="3, 2", text_pair="a,b", label="1"), "t b", "p", "c"),
        (ColumnSettings(text="5", label="1"), "x", None, "c"),  # a column that is called 5
    ],
)
def test_columns_by_name_and_number(
    write: Write, columns: ColumnSettings, text: str, pair: str | None, label: str
) -> None:
    path = write("a.csv", 'class,body,title,"a,b",6,5\nc,b,t,p,y,x\n')
    [record] = read_records([path], columns)
    assert (record.text, record.text_pair, record.labels) == (text, pair, (label,))


def test_columns_by_number_without_a_header(write: Write) -> None:
    path = write("a.csv", "1,a,b\n2,,d\n3, ,\n")
    columns = ColumnSettings(text="2,3", label="1", header=False)
    records = list(read_records([path], columns, allow_empty=True))
    assert [(record.text, record.labels) for record in records] == [
        ("a b", ("1",)),
        ("d", ("2",)),
        ("", ("3",)),
    ]
    assert error_of([path], columns) == f"{path}, line 3, columns '2', '3': empty text"


@pytest.mark.parametrize(
    ("cell", "labels"),
    [("a", ("a",)), ("b; a ;b", ("b", "a")), ("", ()), (" ", ()), ("a,c", ("a,c",))],
)
def test_labels_split_by_a_separator(write: Write, cell: str, labels: tuple[str, ...]) -> None:
    path = write("a.tsv", f"text\tlabel\nx\t{cell}\n")
    [record] = read_records([path], ColumnSettings(label_separator=";"))
    assert record.labels == labels


@pytest.mark.parametrize(
    ("value", "labels"),
    [
        ("a b", ("a b",)),
        (" a", (" a",)),
        (1, ("1",)),
        (-0.5, ("-0.5",)),
        (5.0, ("5.0",)),
        (2**70, (str(2**70),)),
        (True, ("true",)),
        (False, ("false",)),
        (["b", 1, "b"], ("b", "1")),
        ([], ()),
    ],
)
def test_labels_of_json_and_parquet(write: Write, value: object, labels: tuple[str, ...]) -> None:
    path = write("a.jsonl", json.dumps({"text": "x", "label": value}))
    assert next(read_records([path], ColumnSettings())).labels == labels
    if value not in (2**70, ["b", 1, "b"]):  # Arrow has neither such integers nor mixed lists
        path = path.with_suffix(".parquet")
        pq.write_table(pa.table({"text": ["x"], "label": [value]}), path)
        assert next(read_records([path], ColumnSettings())).labels == labels


@pytest.mark.parametrize(("ending", "mark"), [("csv", ","), ("csv", ";"), ("tsv", "\t")])
def test_rows_without_anything_are_empty_lines(write: Write, ending: str, mark: str) -> None:
    lines = ["text,label,more", "a,x,", ",,", "b,y,1", ",,", ",,"]
    path = write(f"a.{ending}", "".join(f"{line}\n" for line in lines).replace(",", mark))
    read = [(record.text, record.line) for record in read_records([path], ColumnSettings())]
    assert read == [("a", 2), ("b", 4)]
    texts = read_records([path], ColumnSettings(label=None), allow_empty=True)
    assert [record.text for record in texts] == ["a", "", "b", "", ""]
    path = write(f"b.{ending}", f"text{mark}label\n{mark}\n {mark}\n")
    assert error_of([path], ColumnSettings()).endswith("line 3, column 'text': empty text")


def test_what_json_lacks_is_passed_over_where_it_is_not_read(write: Write) -> None:
    path = write("a.jsonl", '{"text": "a", "label": 1, "more": {"x": [NaN, -Infinity]}}\n')
    assert next(read_records([path], ColumnSettings())).labels == ("1",)


@pytest.mark.parametrize(
    ("kind", "values", "labels"),
    [
        (pa.decimal128(10, 2), ["1.50", "-0.10"], ["1.5", "-0.1"]),
        (pa.decimal128(18, 0), ["7", "-999999999999999999"], ["7", "-999999999999999999"]),
        (pa.decimal128(38, 0), ["5", "9007199254740993"], ["5", "9007199254740993"]),
        (pa.decimal256(40, 0), ["7", "9" * 40], ["7", "9" * 40]),
    ],
)
def test_decimals_of_parquet_are_numbers(
    tmp_path: Path, kind: pa.DataType, values: list[str], labels: list[str]
) -> None:
    path = tmp_path / "a.parquet"
    column = pa.array([*map(Decimal, values)], kind)
    pq.write_table(pa.table({"text": ["a", "b"], "label": column}), path)
    read = [record.labels for record in read_records([path], ColumnSettings())]
    assert read == [(label,) for label in labels]


LONE = r"a lone surrogate (\ud83d) is not a character"
HEAD = "text,label\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", ": empty"),
        ("a.csv", "\n\r\n", ": empty"),
        ("a.csv", HEAD, ": holds no records"),
        ("a.jsonl", "\n \n", ": holds no records"),
        ("a.csv", HEAD + "one\n", ", line 2: 1 field, expected 2 as in line 1"),
        ("a.tsv", "text\tlabel\na\tb\tc\n", ", line 2: 3 fields, expected 2 as in line 1"),
        ("a.csv", HEAD + "one,\n", ", line 2, column 'label': empty label"),
        ("a.csv", HEAD + "one,\t\n", ", line 2, column 'label': empty label"),
        ("a.csv", HEAD + "ok,x\n ,x\n", ", line 3, column 'text': empty text"),
        (
            "a.csv",
            "id,texts,label\n1,b,c\n",
            ": no column 'text' (did you mean 'texts'?); columns: 'id', 'texts', 'label'",
        ),
        ("a.csv", "text,label,text\na,b,c\n", ": 2 columns are named 'text'"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\nnot\n',
            ", line 2, column 1: not JSON: Expecting value",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": 1\n',
            ", line 1, column 25: not JSON: Expecting ',' delimiter",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n\n{"text": "a", "label": 1, "text": "b"}\n',
            ", line 3: 2 keys of one object are named 'text'",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": 1, "more": [{"x": 1, "y": 2, "x": 1, "x": 3}]}\n',
            ", line 1: 3 keys of one object are named 'x'",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n\ufeff{"text": "a", "label": 1}\n',
            ", line 2, column 1: not JSON: a byte order mark",
        ),
        ("a.jsonl", '{"text": "a"} {}', ", line 1, column 15: not JSON: Extra data"),
        (
            "a.jsonl",
            '["a", 1]\n',
            ", line 1: expected a JSON object, found a list; the name of a file that holds one "
            "array must end in .json",
        ),
        (
            "a.jsonl",
            '[\n{"text": "a"},\n{"text": "b"}\n]\n',
            ", line 1: not a JSON object; the name of a file that holds one array must end in "
            ".json",
        ),
        ("a.jsonl", "7\n", ", line 1: expected a JSON object, found the number 7"),
        (
            "a.jsonl",
            '{"text": NaN, "label": 1}\n',
            ", line 1, column 'text': expected text, found the number nan",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": -Infinity}\n',
            ", line 1, column 'label': expected a label, found the number -inf",
        ),
        (
            "a.jsonl",
            '{"text": ' + "1" * 5000 + "}",
            ", line 1: not JSON: Exceeds the limit (4300 digits) for integer string conversion: "
            "value has 5000 digits",
        ),
        ("a.jsonl", "[" * 100_000, ", line 1: JSON nested too deeply"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": "a", "lable": 1}\n',
            ", line 2, column 'label': missing, though earlier lines have it"
            " (did you mean 'lable'?); columns: 'text', 'lable'",
        ),
        (  # not like a column that is read as something else
            "a.jsonl",
            '{"label": "a", "text": "b"}\n{"text": "a"}\n',
            ", line 2, column 'label': missing, though earlier lines have it; columns: 'text'",
        ),
        (
            "a.jsonl",
            '{"text": 5, "label": 1}',
            ", line 1, column 'text': expected text, found the number 5",
        ),
        (
            "a.jsonl",
            '{"text": true, "label": 1}',
            ", line 1, column 'text': expected text, found true",
        ),
        ("a.jsonl", '{"text": null, "label": 1}', ", line 1, column 'text': empty text"),
        (
            "a.jsonl",
            '{"text": "a", "label": null}',
            ", line 1, column 'label': expected a label, found null",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": {}}',
            ", line 1, column 'label': expected a label, found an object",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": [[]]}',
            ", line 1, column 'label': expected a label, found a list",
        ),
        ("a.jsonl", '{"text": "a", "label": [""]}', ", line 1, column 'label': empty label"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1e999}',
            ", line 1, column 'label': expected a label, found the number inf",
        ),
        ("a.jsonl", r'{"text": "a\ud83d", "label": 1}', f", line 1, column 'text': {LONE}"),
        ("a.jsonl", r'{"text": "a", "label": ["\ud83d"]}', f", line 1, column 'label': {LONE}"),
    ],
)
def test_what_is_wrong_inside_a_file(write: Write, name: str, content: str, message: str) -> None:
    path = write(name, content)
    assert error_of([path], ColumnSettings()) == f"{path}{message}"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (ColumnSettings(text="4", label="1"), "no column 4; columns are numbered 1 to 3"),
        (ColumnSettings(text="0", label="1"), "no column 0; columns are numbered 1 to 3"),
        (
            ColumnSettings(text="2", label="9" * 5000),
            f"no column {'9' * 5000}; columns are numbered 1 to 3",
        ),
        (ColumnSettings(text="1,", label="2"), "no column ''; columns: 'a', 'b', 'c'"),
        (
            ColumnSettings(text="a", text_pair="d", label=None),
            "no column 'd'; columns: 'a', 'b', 'c'",
        ),
        (
            ColumnSettings(text="2", label="label", header=False),
            "no column 'label'; read without a header, columns are numbered 1 to 3",
        ),
    ],
)
def test_columns_that_are_not_there(write: Write, columns: ColumnSettings, message: str) -> None:
    path = write("a.csv", "a,b,c\n1,2,3\n")
    assert error_of([path], columns) == f"{path}: {message}"


def test_a_list_of_columns_stays_short(write: Write) -> None:
    names = [f"{number}\n" + "x" * 100 for number in range(1000)]
    path = write("a.csv", ",".join(f'"{name}"' for name in names) + "\n")
    message = error_of([path], ColumnSettings())
    assert message.endswith("xxx' and 988 more")
    assert len(message) < 2000


def test_json_objects_have_no_column_numbers(write: Write) -> None:
    path = write("a.jsonl", '{"a": "x", "b": "y"}')
    message = f"{path}, line 1: no column '1'; columns: 'a', 'b'"
    assert error_of([path], ColumnSettings(text="1", label="b")) == message


def test_json_keys_may_come_in_any_order(write: Write) -> None:
    path = write("a.jsonl", '{"text": "a", "label": "x"}\n{"label": "y", "z": 0, "text": "b"}\n')
    records = [(record.text, record.labels) for record in read_records([path], ColumnSettings())]
    assert records == [("a", ("x",)), ("b", ("y",))]


def test_a_json_row_without_a_column_that_others_have_says_so(write: Write) -> None:
    path = write("a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b"}\n')
    message = f"{path}, line 2, column 'label': missing, though earlier lines have it"
    assert error_of([path], ColumnSettings()) == f"{message}; columns: 'text'"


@pytest.mark.parametrize(
    ("name", "format", "columns", "message"),
    [
        (
            "a.cvs",
            None,
            ColumnSettings(),
            ": unknown ending '.cvs' (did you mean '.csv'?); known: .csv .tsv .jsonl .ndjson .json "
            ".parquet .txt, or give the format: csv, tsv, jsonl, parquet, text",
        ),
        (
            "a.xlsx",
            None,
            ColumnSettings(),
            ": a spreadsheet; save each sheet as CSV in UTF-8 and give that",
        ),
        (
            "a.txt",
            None,
            ColumnSettings(),
            ": read as plain text, which has one text per line and no columns; for a table, "
            "give the format: csv, tsv, jsonl or parquet",
        ),
        (
            "a.csv",
            "text",
            ColumnSettings(text_pair="b", label=None),
            ": read as plain text, which has one text per line and no columns; for a table, "
            "give the format: csv, tsv, jsonl or parquet",
        ),
        (
            "a.txt",
            None,
            ColumnSettings(text="message", label=None),
            ": read as plain text, which has one text per line and no columns; for a table, "
            "give the format: csv, tsv, jsonl or parquet",
        ),
        (
            "a.parquet.gz",
            None,
            ColumnSettings(),
            ": Parquet is read from uncompressed files only, not from stdin",
        ),
    ],
)
def test_formats_that_cannot_be(
    write: Write, name: str, format: str | None, columns: ColumnSettings, message: str
) -> None:
    path = write(name, "a")
    assert error_of([path], columns, format) == f"{path}{message}"


def test_errors_that_need_no_reading_come_at_once(write: Write) -> None:
    good = write("train.csv", HEAD + "a,b\n")
    bad = good.with_name("trian.csv")
    with pytest.raises(
        UserError, match=r"trian\.csv: no such file \(did you mean 'train\.csv'\?\)"
    ):
        read_records([good, bad], ColumnSettings())
    with pytest.raises(
        UserError, match=r"^unknown format 'cvs' \(did you mean 'csv'\?\); allowed: "
    ):
        read_records([good], ColumnSettings(format="cvs"))
    with pytest.raises(UserError, match=r"^no data file given$"):
        read_records([], ColumnSettings())
    refused = "^standard input: Parquet is read from uncompressed files only, not from stdin$"
    with pytest.raises(UserError, match=refused):
        read_records([Path("-")], ColumnSettings(format="parquet"))
    with pytest.raises(UserError, match=r"^--label-separator: empty; give what stands between two"):
        ColumnSettings(label_separator="")


@pytest.mark.parametrize("name", ["UTF-8", "utf8", "U8"])
def test_every_name_of_utf_8_is_that_of_parquet(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"], "label": ["x"]}), path)
    (record,) = read_records([path], ColumnSettings(encoding=name))
    assert record.text == "a"
    with pytest.raises(UserError, match="--encoding is for text; a Parquet file"):
        read_records([path], ColumnSettings(encoding="latin-1"))


def test_the_format_can_be_said(write: Write) -> None:
    path = write("a.txt", 'text\tlabel\n"a\tb\n')
    assert next(read_records([path], ColumnSettings(format="tsv"))).text == '"a'


def test_parquet_columns_by_name_and_number(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table(
        {
            "b.c": pa.array(["one", "two"], pa.large_string()),
            "label": pa.array(["x", "y"]).dictionary_encode(),
            "title": pa.array([None, "T"]),
        }
    )
    pq.write_table(table, path)
    for text in ("title,b.c", "3,1"):
        records = list(read_records([path], ColumnSettings(text=text)))
        assert [(record.text, record.labels, record.line) for record in records] == [
            ("one", ("x",), 1),
            ("T two", ("y",), 2),
        ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": ["a"], "label": [None]}, ", row 1, column 'label': expected a label, found null"),
        ({"text": [1], "label": [1]}, ", row 1, column 'text': expected text, found the number 1"),
        (
            {"text": [b"a"], "label": [1]},
            ", row 1, column 'text': expected text, found a value of type bytes",
        ),
        (
            {"text": ["a"], "label": [float("nan")]},
            ", row 1, column 'label': expected a label, found the number nan",
        ),
        (
            {"text": ["a", "b"], "label": pa.array([None, 2**62], pa.timestamp("us"))},
            ", row 1, column 'label': expected a label, found null",
        ),
        (
            {"text": ["a"], "label": pa.array([2**62], pa.timestamp("us"))},
            ", row 1, column 'label': a value of type timestamp[us] that Python's times cannot "
            "hold; store it as text",
        ),
        (
            {"texts": ["a"], "label": [1]},
            ": no column 'text' (did you mean 'texts'?); columns: 'texts', 'label'",
        ),
        (
            {"text": pa.array([], pa.string()), "label": pa.array([], pa.string())},
            ": holds no records",
        ),
    ],
)
def test_what_is_wrong_inside_parquet(
    tmp_path: Path, columns: dict[str, object], message: str
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    assert error_of([path], ColumnSettings()) == f"{path}{message}"


def test_parquet_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    text = pa.array([b"ok", b"caf\xe9"]).view(pa.string())
    pq.write_table(pa.table({"text": text}), path)
    assert error_of([path], TEXT_ONLY) == f"{path}, row 2: not UTF-8 at byte 4"


def test_parquet_columns_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table([["a"], ["b"], ["c"]], names=["text", "text", "label"]), path)
    assert (
        error_of([path], ColumnSettings(text="3", label="2"))
        == f"{path}: 2 columns are named 'text'"
    )


def test_damaged_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = [f"text {number}" for number in range(10_000)]
    pq.write_table(pa.table({"text": texts}), path, compression="gzip")
    whole = path.read_bytes()
    damage = {
        b"": "not a Parquet file, or damaged: ",
        b"text,label\na,b\n": "not a Parquet file, or damaged: ",
        whole[:-100]: "not a Parquet file, or damaged: ",
        whole[:5000] + bytes(5000) + whole[10_000:]: "not a Parquet file, or damaged: ",
    }
    for content, message in damage.items():
        path.write_bytes(content)
        assert error_of([path], TEXT_ONLY).startswith(f"{path}: {message}")


def test_parquet_checksums_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["one", "two", "three"]})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    path.write_bytes(path.read_bytes().replace(b"three", b"tiger", 1))
    assert error_of([path], TEXT_ONLY).startswith(f"{path}: not a Parquet file, or damaged: ")


def test_a_parquet_column_whose_name_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["one"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"text", b"t\xe9xt"))
    assert error_of([path], TEXT_ONLY).startswith(
        f"{path}: not a Parquet file, or damaged: 'utf-8'"
    )


KINDS = ["csv", "tsv", "jsonl", "text", "parquet"]


@given(
    st.sampled_from(KINDS),
    st.booleans(),
    st.binary(max_size=60) | st.text(st.sampled_from('",\t\r\n{}[]:ab1\\\ufeff')).map(str.encode),
    st.sampled_from([b"", b"\x1f\x8b\x08\x00\x00\x00\x00\x00", b"PAR1", b"text\n", b'{"text": "']),
)
def test_any_bytes_are_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, kind: str, packed: bool, content: bytes, start: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / ("a.gz" if packed and kind != "parquet" else "a")
    path.write_bytes(start + content)
    message = ""
    try:
        records = list(read_records([path], replace(TEXT_ONLY, format=kind), allow_empty=True))
    except UserError as error:
        message = str(error)
    assert message.startswith(str(path)) if message else records
    assert "\n" not in message


def test_a_text_beyond_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "MAX_LINE_BYTES", 1000)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x" * 1000, "x" * 1001]}), path)
    message = f"{path}, row 2, column 'text': text longer than 1,000 characters"
    assert error_of([path], TEXT_ONLY) == message


def test_fingerprints(write: Write) -> None:
    paths = [write("a.csv", "abc"), write("b.csv", "")]
    assert fingerprint(paths) == [
        Fingerprint(
            file=str(paths[0]),
            bytes=3,
            sha256="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        Fingerprint(
            file=str(paths[1]),
            bytes=0,
            sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
    ]
    with pytest.raises(UserError, match=r"c\.csv: no such file"):
        fingerprint([paths[0].with_name("c.csv")])
    with pytest.raises(UserError, match=r"^standard input: not a regular file, so it cannot be"):
        fingerprint([Path("-")])


texts = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: text.strip())


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5), st.booleans())
def test_jsonl_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], ascii_only: bool
) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
    lines = [
        json.dumps({"text": text, "label": label}, ensure_ascii=ascii_only) for text, label in rows
    ]
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    records = [(record.text, record.labels) for record in read_records([path], ColumnSettings())]
    assert records == [(text, (label,)) for text, label in rows]


def _table(rows: int) -> Iterator[tuple[str, str]]:
    for number in range(rows):
        yield f"{number} " + '"a ""text"" of some\nlength, ' * 4, str(number % 7)


def _write_rows(path: Path, rows: int) -> None:
    if path.suffix == ".parquet":
        names = ["text", "label"]
        columns = list(zip(*_table(rows), strict=True))
        pq.write_table(pa.table([list(column) for column in columns], names=names), path)
        return
    with gzip.open(path, "wt", compresslevel=1, encoding="utf-8", newline="") as file:
        if ".csv" in path.name:
            file.write("text,label\n")
        for text, label in _table(rows):
            quoted = text.replace('"', '""')
            plain = json.dumps({"text": text, "label": label})
            file.write(f'"{quoted}",{label}\n' if ".csv" in path.name else f"{plain}\n")


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz", "a.parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, name: str) -> None:
    peaks = []
    for rows in (1000, 10_000):
        path = tmp_path / name
        _write_rows(path, rows)
        tracemalloc.start()
        try:
            assert sum(1 for _ in read_records([path], ColumnSettings())) == rows
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100_000


def test_memory_of_arrow_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_BUFFER_BYTES", 4096)
    path = tmp_path / "a.parquet"
    pool = pa.default_memory_pool()
    peaks = []
    for rows in (2_000, 20_000):
        table = pa.table({"text": [f"{number:0200}" for number in range(rows)]})
        pq.write_table(table, path, compression="none", use_dictionary=False, data_page_size=2**14)
        del table
        before = pool.bytes_allocated()
        peak = 0
        for _ in read_records([path], TEXT_ONLY):
            peak = max(peak, pool.bytes_allocated() - before)
        peaks.append(peak)
    assert peaks[1] < 2 * peaks[0]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_no_header_is_for_tables_that_can_have_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"text": "a"}')
    with pytest.raises(UserError, match="--no-header is for CSV and TSV"):
        read_records([tmp_path / name], ColumnSettings(label=None, header=False))


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_empty_lines_of_one_column_are_empty_texts_to_predict(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_text("text\na cat\n\na dog\n\n")
    texts = [record.text for record in read_records([path], TEXT_ONLY, allow_empty=True)]
    assert texts == ["a cat", "", "a dog"]
    assert [record.text for record in read_records([path], TEXT_ONLY)] == ["a cat", "a dog"]


def texts_of(path: Path, **columns: Any) -> list[tuple[str, tuple[str, ...] | None, int]]:
    records = read_records([path], ColumnSettings(**columns))
    return [(record.text, record.labels, record.line) for record in records]


@pytest.mark.parametrize("mark", [";", "\t", ",", "|"])
@pytest.mark.parametrize("quoted", ["", '"'])
def test_a_first_line_may_name_what_parts_columns(write: Write, mark: str, quoted: str) -> None:
    rows = f"text{mark}label\r\na, b; c{mark}x\r\n".replace("a, b; c", '"a, b; c"')
    path = write("a.csv", f"{quoted}sep={mark}{quoted}\r\n{rows}")
    assert texts_of(path) == [("a, b; c", ("x",), 3)]
    path = write("b.csv", f"sep={mark}\r\nalone{mark}x\r\n")
    assert texts_of(path, header=False, text="1", label="2") == [("alone", ("x",), 2)]
    path = write("c.csv", f"sep={mark}\r\ntext{mark}label\r\na{mark}b{mark}c\r\n")
    with pytest.raises(UserError, match=r"c\.csv, line 3: 3 fields, expected 2 as in line 2"):
        texts_of(path)


@pytest.mark.parametrize(
    ("rows", "texts"),
    [
        (["it came twice;x", "late, and wet;y"], ["it came twice", "late, and wet"]),
        (["it came\tx", "late, wet\ty"], ["it came", "late, wet"]),
        (["it, came;x", "late;y"], ["it, came", "late"]),
        (["it came;twice,x", "late;wet,y"], ["it came;twice", "late;wet"]),
    ],
)
def test_rows_without_a_header_show_what_parts_columns(
    write: Write, rows: list[str], texts: list[str]
) -> None:
    found = texts_of(write("a.csv", "\n".join(rows)), header=False, text="1", label="2")
    assert found == [(texts[0], ("x",), 1), (texts[1], ("y",), 2)]


@pytest.mark.parametrize("rows", [["yes; no"], ["yes; no", "no"], ["yes; no", "no; no; no"]])
def test_rows_of_one_text_stay_whole(write: Write, rows: list[str]) -> None:
    found = texts_of(write("a.csv", "\n".join(rows)), header=False, text="1", label=None)
    assert [text for text, _, _ in found] == rows
