import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heedful.errors import UserError
from heedful.reading.spans import read_spans
from heedful.reading.tagging import Entity, TaggedText

TEXT = "Zoë 🙂 met Ann in Rome"
ANN = {"start": 10, "end": 13, "label": "PER"}


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_texts_and_their_entities(tmp_path: Path) -> None:
    rome = {"start": 17, "end": 21, "label": "LOC", "text": "Rome", "score": 0.5}
    path = write(
        tmp_path / "f.jsonl",
        {"text": TEXT, "entities": [rome, {"start": 0, "end": 3, "label": "PER"}, ANN]},
        {"id": 7, "entities": [], "text": "none"},
    )
    one, two = read_spans(path)
    assert one == TaggedText(
        text=TEXT,
        words=None,
        entities=(Entity(0, 3, "PER"), Entity(10, 13, "PER"), Entity(17, 21, "LOC")),
        source=str(path),
        line=1,
    )
    assert (two.text, two.entities, two.line) == ("none", (), 2)


def test_other_keys(tmp_path: Path) -> None:
    path = write(tmp_path / "f.jsonl", {"body": TEXT, "spans": [ANN]})
    [record] = read_spans(path, text="body", entities="spans")
    assert record.entities == (Entity(10, 13, "PER"),)


def test_touching_is_not_overlapping(tmp_path: Path) -> None:
    entities = [{"start": 1, "end": 3, "label": "X"}, {"start": 0, "end": 1, "label": "X"}]
    [record] = read_spans(write(tmp_path / "f.jsonl", {"text": "abc", "entities": entities}))
    assert record.entities == (Entity(0, 1, "X"), Entity(1, 3, "X"))


@pytest.mark.parametrize(
    ("entities", "message"),
    [
        (None, "column 'entities': expected a list, found null"),
        ({}, "column 'entities': expected a list, found an object"),
        (
            [ANN, 3],
            "column 'entities', entity 2: expected an object with 'start', found the number 3",
        ),
        ([ANN | {"start": "0"}], "'start': expected a whole number, found a string"),
        ([ANN | {"start": True}], "'start': expected a whole number, found true"),
        ([ANN | {"end": 1.5}], "'end': expected a whole number, found the number 1.5"),
        ([{"start": 0, "label": "X"}], "no 'end'; its keys: 'start', 'label'"),
        ([{"start": 0, "end": 3}], "no 'label'; its keys: 'start', 'end'"),
        ([ANN | {"label": ""}], "'label': '' cannot name a type"),
        ([ANN | {"label": "PER "}], "'label': 'PER ' cannot name a type"),
        ([ANN | {"label": "A\tB"}], r"'label': 'A\tB' cannot name a type"),
        ([ANN | {"label": 3}], "'label': expected the name of a type, found the number 3"),
        ([ANN | {"end": 22}], "10–22 is outside the text of 21 characters"),
        ([ANN | {"start": -1}], "-1–13 is outside the text of 21 characters"),
        ([ANN | {"end": 10}], "10–10 is empty; an entity must end after its start"),
        ([ANN | {"end": 9}], "10–9 is empty; an entity must end after its start"),
        ([ANN | {"end": 14}], "10–14 'Ann ' begins or ends with a space; leave it out"),
        ([ANN | {"start": 9}], "9–13 ' Ann' begins or ends with a space; leave it out"),
        (
            [ANN | {"text": "Zoe"}],
            "10–13 is 'Ann', not 'Zoe'; offsets count characters",
        ),
        (
            [ANN, {"start": 4, "end": 11, "label": "LOC"}],
            "LOC 4–11 '🙂 met A' overlaps PER 10–13 'Ann'; entities may not overlap",
        ),
        ([ANN, ANN], "PER 10–13 'Ann' overlaps PER 10–13 'Ann'; entities may not overlap"),
    ],
)
def test_entities_that_cannot_be(tmp_path: Path, entities: object, message: str) -> None:
    path = write(
        tmp_path / "f.jsonl", {"text": "a", "entities": []}, {"text": TEXT, "entities": entities}
    )
    with pytest.raises(UserError) as caught:
        list(read_spans(path))
    assert str(caught.value).startswith(f"{path}, line 2, ")
    assert str(caught.value).endswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ": holds no texts"),
        ('{"text": "a", "entities": []', ", line 1, column 29: not JSON"),
        ("[1]", ", line 1: expected a JSON object, found a list"),
        ('{"text": "a"}', ", line 1: no column 'entities'; columns: 'text'"),
        ('{"txt": "a", "entities": []}', ", line 1: no column 'text' (did you mean 'txt'?)"),
        ('{"text": " ", "entities": []}', ", line 1, column 'text': empty text"),
        ('{"text": 3, "entities": []}', ", line 1, column 'text': expected text"),
    ],
)
def test_lines_that_cannot_be_read(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text(content)
    with pytest.raises(UserError) as caught:
        list(read_spans(path))
    assert str(caught.value).startswith(f"{path}{message}")


def test_a_missing_file_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_spans(tmp_path / "f.jsonl")


CLUENER = {"text": "\U00020000 Ann \u5728\u5317\u4eac\uff0c\u7231\u5317\u4eac"}
PLACES = {"name": {"Ann": [[2, 4]]}, "address": {"\u5317\u4eac": [[7, 8], [11, 12]]}}
EXPECTED = (Entity(2, 5, "name"), Entity(7, 9, "address"), Entity(11, 13, "address"))


@pytest.mark.parametrize("indent", [None, 2])
def test_entities_by_their_first_and_last_characters(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "f.json"
    rows = [CLUENER | {"label": PLACES}, CLUENER | {"label": {}}]
    path.write_text("\n".join(json.dumps(row, indent=indent) for row in rows))
    one, two = read_spans(path)
    assert (one.text, one.entities, one.line) == (CLUENER["text"], EXPECTED, 1)
    assert (two.entities, two.where) == ((), f"{path}, row 2")
    path.write_text(json.dumps(rows, indent=indent))
    assert list(read_spans(path)) == [one, two]


def test_a_table_fills_up_what_its_rows_lack(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    ann = {"start": 0, "end": 3, "label": "name", "text": "Ann"}
    bob = {"start": 8, "end": 11, "label": "name"}
    rows = [{"text": "Ann and Bob", "entities": [ann, bob]}, {"text": "Bob", "entities": []}]
    pq.write_table(pa.Table.from_pylist(rows), path)
    one, two = read_spans(path)
    assert one.entities == (Entity(0, 3, "name"), Entity(8, 11, "name"))
    assert (two.entities, two.where) == ((), f"{path}, row 2")


def test_entities_by_their_first_and_last_characters_on_one_line(tmp_path: Path) -> None:
    [one] = read_spans(write(tmp_path / "f.jsonl", CLUENER | {"label": PLACES}))
    assert one.entities == EXPECTED


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ({"x": 3}, r"row 1, column 'label', 'x': expected an object .*, found the number 3"),
        ({"x": {"Ann": [2, 4]}}, r"'x', 'Ann': expected \[\[first, last\]\]"),
        ({"x": {"Ann": [[2, True]]}}, r"'x', 'Ann': expected \[\[first, last\]\]"),
        ({"x": {"Ann": [[2, 5]]}}, r"2\u20136 'Ann ' begins or ends with a space"),
        ({"x": {"Ann": [[2, 3]]}}, r"2\u20134 'An' is .*not 'Ann'|is 'An', not 'Ann'"),
        (
            {"x": {"Ann": [[2, 4]]}, "y": {"nn": [[3, 4]]}},
            r"f\.json, row 1, column 'label': x 2\u20135 'Ann' overlaps y 3\u20135 'nn'",
        ),
    ],
)
def test_wrong_positions(tmp_path: Path, label: object, message: str) -> None:
    path = tmp_path / "f.json"
    path.write_text("\n" + json.dumps(CLUENER | {"label": label}, indent=1, ensure_ascii=False))
    with pytest.raises(UserError, match=message):
        list(read_spans(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"text": "a",\n"label": {}}\n{"text":\n',
            r"line 4, column 1: not JSON: Expecting value$",
        ),
        (
            '{"text": "a",\n "label": {},\n}\n',
            r"f\.json, line 2, column 13: not JSON|line 3, column 1",
        ),
        (
            '{"text": "a",\n "label": {}}\n{"text": "b",\n "label": {},\n "text": "c"}\n',
            r"f\.json: 2 keys of one object are named 'text'$",
        ),
        (
            '\n{"text": "a",\n "label": NaN}\n',
            r"f\.json, row 1, column 'label': expected a list, found the number nan",
        ),
        ("\n[[\n{}\n]]\n", "row 1: expected a JSON object, found a list"),
        ('{"text": "}{",\n "label": {}}\n}', "line 3, column 1: not JSON"),
    ],
)
def test_objects_over_several_lines_are_placed(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        list(read_spans(path))


def test_cluener(data_folder: Path) -> None:
    records = list(read_spans(data_folder / "zh/cluener/dev.json.gz"))
    assert len(records) == 1343
    entities = [entity for record in records for entity in record.entities or ()]
    assert len(entities) == 3072
    with pytest.raises(
        UserError, match=r"row [0-9]+, .*book 15\u201335 .* overlaps company 16\u201320"
    ):
        for _ in read_spans(data_folder / "zh/cluener/train.json.gz"):
            pass
