import json
from pathlib import Path

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
