import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heedful.errors import UserError
from heedful.reading.choices import Choices, read_choices

PLAIN = {"question": "How is it?", "choices": ["red", "blue", "green"], "answer": 1}
LABELLED = {
    "id": "7",
    "answerKey": "C",
    "question": {
        "question_concept": "colour",
        "stem": "How is it?",
        "choices": [
            {"label": "A", "text": "red"},
            {"label": "B", "text": "blue"},
            {"label": "C", "text": "green"},
        ],
    },
}


def _write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_both_layouts(tmp_path: Path) -> None:
    by_text = {**PLAIN, "answer": "green"}
    path = _write(tmp_path / "a.jsonl", PLAIN, LABELLED, by_text)
    records = list(read_choices([path]))
    assert records[0] == Choices(
        question="How is it?",
        choices=("red", "blue", "green"),
        answer=1,
        where=f"{path}, line 1",
    )
    assert [record.answer for record in records] == [1, 2, 2]
    assert {record.question for record in records} == {"How is it?"}
    assert {record.choices for record in records} == {("red", "blue", "green")}


def test_an_array(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([PLAIN, LABELLED]))
    assert [(record.answer, record.where) for record in read_choices([path])] == [
        (1, f"{path}, row 1"),
        (2, f"{path}, row 2"),
    ]


def test_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist([PLAIN, PLAIN | {"answer": 0}]), path)
    assert [record.answer for record in read_choices([path])] == [1, 0]
    pq.write_table(pa.Table.from_pylist([LABELLED]), path)
    (record,) = read_choices([path])
    assert (record.answer, record.where) == (2, f"{path}, row 1")


def test_choices_in_columns_as_data_libraries_keep_them(tmp_path: Path) -> None:
    texts, labels = ["red", "blue", "green"], ["A", "B", "C"]
    row = {"question": "How?", "choices": {"label": labels, "text": texts}, "answerKey": "B"}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    for path in (tmp_path / "a.parquet", _write(tmp_path / "a.jsonl", row)):
        (record,) = read_choices([path])
        assert (record.question, record.choices, record.answer) == ("How?", tuple(texts), 1)
    path = _write(tmp_path / "b.jsonl", row | {"choices": {"label": labels, "text": texts[:2]}})
    with pytest.raises(UserError, match="line 1: 'choices' has 3 labels, but 2 texts"):
        list(read_choices([path]))


def test_an_empty_cell_of_a_table_is_not_a_missing_column(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist([PLAIN, PLAIN | {"question": None}]), path)
    with pytest.raises(UserError, match="row 2: 'question': expected text, found null"):
        list(read_choices([path]))


def test_columns_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = {key: [value] for key, value in PLAIN.items()}
    names = [*columns, "id", "id"]
    pq.write_table(pa.table([*columns.values(), [1], [2]], names=names), path)
    with pytest.raises(UserError, match=r"a\.parquet: 2 columns are named 'id'$"):
        list(read_choices([path]))


def test_files_one_after_another_and_compressed(tmp_path: Path) -> None:
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(LABELLED).encode()))
    path = _write(tmp_path / "a.jsonl", PLAIN)
    assert [record.answer for record in read_choices([path, packed])] == [1, 2]


def test_answers_need_not_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_ = [
        {key: value for key, value in row.items() if key not in ("answer", "answerKey")}
        for row in (PLAIN, LABELLED)
    ]
    text = "".join(json.dumps(row) + "\n" for row in open_)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    records = list(read_choices([Path("-")], labelled=False))
    assert [record.answer for record in records] == [None, None]
    assert records[1].choices == ("red", "blue", "green")


def _labelled(**changes: Any) -> dict[str, Any]:
    return {**LABELLED, "question": {**LABELLED["question"], **changes}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query": "x"}, "line 2: no 'question'; its keys: 'query'"),
        ({"qestion": "x"}, r"no 'question' \(did you mean 'qestion'\?\)"),
        ({**PLAIN, "question": " "}, "line 2: 'question': empty text"),
        ({**PLAIN, "question": 3}, "'question': expected text, found the number 3"),
        ({**PLAIN, "choices": "red"}, "'choices': expected a list, found a string"),
        (
            {**PLAIN, "choices": ["red"], "answer": 0},
            "a question needs at least 2 choices; it has 1",
        ),
        ({**PLAIN, "choices": ["red", ""]}, "choice 1: empty text"),
        ({**PLAIN, "choices": ["red", 3]}, "choice 1: expected text, found the number 3"),
        ({**PLAIN, "answer": 3}, "'answer' is 3; the choices are 0 to 2"),
        ({**PLAIN, "answer": -1}, "'answer' is -1; the choices are 0 to 2"),
        ({**PLAIN, "answer": True}, "'answer': expected a number or a choice's text"),
        ({**PLAIN, "answer": None}, "'answer': expected a number or a choice's text"),
        (
            {**PLAIN, "answer": "gren"},
            r"'gren' is none of the choices \(did you mean 'green'\?\): red, blue, green",
        ),
        (
            {**PLAIN, "choices": ["red", "red"], "answer": "red"},
            "answer 'red' matches 2 choices",
        ),
        ({"question": "x", "choices": ["a", "b"]}, "no 'answer'; its keys: 'question', 'choices'"),
        ({**LABELLED, "answerKey": "D"}, "answerKey 'D' is none of the choices: A, B, C"),
        ({**LABELLED, "answerKey": ""}, "'answerKey': empty text"),
        (_labelled(stem=""), "line 2: 'stem': empty text"),
        (
            _labelled(choices=["red", "blue"]),
            "choice 0: expected an object with 'label', found a string",
        ),
        (_labelled(choices=[{"label": "A"}]), "line 2, choice 0: no 'text'; its keys: 'label'"),
        (_labelled(choices={}), "'choices': expected a list, found an object"),
        ([1], "line 2: expected a JSON object, found a list"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, row: Any, message: str) -> None:
    path = _write(tmp_path / "a.jsonl", PLAIN, row)
    with pytest.raises(UserError, match=message):
        list(read_choices([path]))


def test_files_that_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no data file given"):
        read_choices([])
    with pytest.raises(UserError, match=r"none\.jsonl: no such file"):
        read_choices([tmp_path / "none.jsonl"])
    with pytest.raises(UserError, match=r"a\.jsonl: holds no questions"):
        list(read_choices([_write(tmp_path / "a.jsonl")]))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.txt"])
def test_a_table_of_text_holds_no_questions(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"questions are read from JSON or Parquet, not '.[ct]"):
        read_choices([tmp_path / name])
