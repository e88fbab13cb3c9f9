import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heedful.errors import UserError
from heedful.reading.answer_offsets import MisplacedAnswers, aligned_answers
from heedful.reading.squad import GoldAnswer, Question, read_questions
from heedful.scripts import is_unspaced

SKY = "The sky is blue. Grass is green."


def document(*questions: dict[str, Any], context: Any = SKY) -> str:
    paragraphs = [{"context": context, "qas": list(questions)}]
    return json.dumps({"version": "1.1", "data": [{"title": "Colours", "paragraphs": paragraphs}]})


def asked(name: str = "q1", answers: object = None, **more: object) -> dict[str, Any]:
    if answers is None:
        answers = [{"text": "blue", "answer_start": 11}]
    return {"id": name, "question": "What is the sky?", "answers": answers, **more}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, content: str) -> Path:
        path = tmp_path / name
        raw = content.encode()
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return path

    return write


Write = Callable[[str, str], Path]


def error_of(path: Path, *, labelled: bool = True) -> str:
    with pytest.raises(UserError) as caught:
        list(read_questions([path], labelled=labelled))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


@pytest.mark.parametrize("name", ["a.json", "a.JSON.gz"])
def test_squad(write: Write, name: str) -> None:
    two = [{"text": "green", "answer_start": 26}, {"text": "Grass is green", "answer_start": 17}]
    path = write(name.lower(), document(asked(), asked("q2", two), asked("q3", [])))
    first, second, third = read_questions([path])
    assert first == Question(
        question="What is the sky?",
        context=SKY,
        answers=(GoldAnswer(text="blue", start=11),),
        where=f"{path}, article 1, paragraph 1, question 'q1'",
    )
    assert second.answers == (
        GoldAnswer(text="green", start=26),
        GoldAnswer(text="Grass is green", start=17),
    )
    assert third.answers == ()


def test_squad_2_says_what_is_impossible(write: Write) -> None:
    plausible = asked("q2", [], is_impossible=True, plausible_answers=[{"text": "x"}])
    path = write("a.json", document(asked(is_impossible=False), plausible))
    assert [len(question.answers or ()) for question in read_questions([path])] == [1, 0]


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"data": rows}])
def test_an_array_of_rows(write: Write, wrap: Callable[[Any], Any]) -> None:
    rows = [asked(context=SKY), asked("q2", {"text": [], "answer_start": []}, context=SKY)]
    first, second = read_questions([write("a.json", json.dumps(wrap(rows)))])
    assert first.answers == (GoldAnswer(text="blue", start=11),)
    assert second.answers == ()
    assert first.where.endswith("a.json, row 1, question 'q1'")


def test_a_table_of_rows(tmp_path: Path) -> None:
    """As data libraries store SQuAD; missing fields of a row are null."""
    path = tmp_path / "a.parquet"
    columns = {"text": ["blue", "sky"], "answer_start": [11, 4]}
    rows = [
        asked(answers=columns, context=SKY),
        asked("q2", {"text": [], "answer_start": []}, context=SKY, is_impossible=True),
    ]
    pq.write_table(pa.Table.from_pylist(rows[::-1]).take([1, 0]), path)
    first, second = read_questions([path])
    assert first.answers == (GoldAnswer(text="blue", start=11), GoldAnswer(text="sky", start=4))
    assert (second.answers, second.where) == ((), f"{path}, row 2, question 'q2'")
    pq.write_table(pa.Table.from_pylist([rows[1], rows[0] | {"context": None}]), path)
    assert error_of(path) == ", row 2: 'context': expected text, found null"
    pq.write_table(pa.table({"question": ["What?"], "context": [SKY]}), path)
    (alone,) = read_questions([path], labelled=False)
    assert (alone.question, alone.answers) == ("What?", None)
    assert error_of(path) == ", row 1: no 'answers'; its keys: 'question', 'context'"


def test_lines(write: Write) -> None:
    rows = [
        {"question": "What?", "context": SKY, "answers": [{"text": "blue", "start": 11}]},
        {"question": "Why?", "context": SKY, "answers": [], "id": 7},
        # How data libraries write a list of objects.
        {"question": "Who?", "context": SKY, "answers": {"text": ["sky"], "answer_start": [4]}},
    ]
    path = write("a.jsonl.gz", "\n\n".join(map(json.dumps, rows)))
    questions = list(read_questions([path]))
    assert [question.answers for question in questions] == [
        (GoldAnswer(text="blue", start=11),),
        (),
        (GoldAnswer(text="sky", start=4),),
    ]
    assert [question.where for question in questions] == [
        f"{path}, line 1",
        f"{path}, line 3, question '7'",
        f"{path}, line 5",
    ]


def test_lines_are_streamed(write: Write) -> None:
    path = write("a.jsonl", json.dumps(asked() | {"context": SKY}) + "\nnot JSON\n")
    questions = read_questions([path])
    assert next(questions).context == SKY
    with pytest.raises(UserError, match=r"a\.jsonl, line 2, column 1: not JSON"):
        next(questions)


def test_without_labels_answers_need_not_be_there(write: Write) -> None:
    path = write("a.json", document({"question": "What?"}, asked(answers="nonsense")))
    assert [question.answers for question in read_questions([path], labelled=False)] == [None] * 2
    table = write("a.csv", f'context,question\n"{SKY}",What?\n')
    (question,) = read_questions([table], labelled=False)
    assert (question.question, question.context) == ("What?", SKY)
    assert question.where == f"{table}, line 2"


def test_several_files_are_one_stream(write: Write) -> None:
    paths = [write("a.json", document(asked("1"))), write("b.json", document(asked("2")))]
    assert [question.where[-3:] for question in read_questions(paths)] == ["'1'", "'2'"]


def test_offsets_count_characters(write: Write) -> None:
    path = write(
        "a.json", document(asked(answers=[{"text": "🌍", "answer_start": 5}]), context="Où? 🙂🌍")
    )
    (question,) = read_questions([path])
    assert question.answers == (GoldAnswer(text="🌍", start=5),)


@pytest.mark.parametrize(
    ("text", "start", "fault"),
    [
        ("blue", 12, "the answer 'blue' is not at 12 of the context; it occurs at 11"),
        ("Blue", 11, "the answer 'Blue' is not at 11 of the context; it does not occur there"),
        ("green.", -6, "the answer 'green.' is not at -6 of the context; it occurs at 26"),
        ("blue", -1, "the answer 'blue' is not at -1 of the context; it occurs at 11"),
    ],
)
def test_answers_that_are_not_where_the_file_says(
    write: Write, text: str, start: int, fault: str
) -> None:
    answers = [{"text": text, "answer_start": start}, {"text": "sky", "answer_start": 4}]
    (question,) = read_questions([write("a.json", document(asked(answers=answers)))])
    assert question.misplaced == (fault,)
    assert question.answers == (GoldAnswer(text=text, start=None), GoldAnswer(text="sky", start=4))
    assert aligned_answers(question) == [(4, "sky")]
    places = MisplacedAnswers()
    assert list(places.count([question] * 2)) == [question] * 2
    message = "2 of 4 answers are not at their stated offsets, and are left; the first: "
    assert places.report("left") == f"{message}{question.where}: {fault}"
    with pytest.raises(
        UserError, match=r"\(2 of 4 answers are misplaced; starts count characters\)$"
    ):
        places.check()


@pytest.mark.parametrize(
    ("name", "questions", "misplaced", "alone"),
    [
        ("cmrc2018/dev", 3219, 200, 3),
        ("drcd/dev", 3524, 0, 0),
    ],
)
def test_chinese_data(
    data_folder: Path, name: str, questions: int, misplaced: int, alone: int
) -> None:
    places = MisplacedAnswers()
    records = list(places.count(read_questions([data_folder / f"zh/{name}.json.gz"])))
    assert (len(records), places.misplaced) == (questions, misplaced)
    assert sum(not aligned_answers(record) for record in records) == alone
    assert all(
        record.context.startswith(text, start)
        for record in records
        for start, text in aligned_answers(record)
    )
    assert all(is_unspaced(record.context) for record in records)
    places.check()


PARAGRAPH = ", article 1, paragraph 1"
PLACE = f"{PARAGRAPH}, question 'q1': "


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (
            asked(answers=[{"text": "blue", "answer_start": "11"}]),
            PLACE + "'answer_start': expected a whole number, found a string",
        ),
        (
            asked(answers=[{"text": "blue", "answer_start": True}]),
            PLACE + "'answer_start': expected a whole number, found true",
        ),
        (asked(answers=[{"text": "blue"}]), PLACE + "no 'start'; its keys: 'text'"),
        (asked(answers=[{"answer_start": 1}]), PLACE + "no 'text'; its keys: 'answer_start'"),
        (
            asked(answers=[{"text": " ", "answer_start": 3}]),
            PLACE + "empty answer; a question without one has an empty list",
        ),
        (asked(answers="blue"), PLACE + "'answers': expected a list, found a string"),
        (asked(answers=["blue"]), PLACE + "'answers': expected objects, found a string"),
        (
            asked(answers={"text": ["blue"], "answer_start": []}),
            PLACE + "1 text of answers, but 0 starts",
        ),
        (asked(is_impossible=True), PLACE + "'is_impossible' is True, with 1 answer"),
        (
            asked(answers=[], is_impossible=False),
            PLACE + "'is_impossible' is False, with 0 answers",
        ),
        (asked() | {"question": " \n"}, PLACE + "empty question"),
        (asked() | {"question": 4}, PLACE + "'question': expected text, found the number 4"),
        (
            asked() | {"question": "\ud800"},
            PLACE + "'question': a lone surrogate (\\ud800) is not a character",
        ),
        (asked() | {"id": [1]}, PARAGRAPH + ": 'id': expected text or a number, found a list"),
        (
            {"id": "q1", "answer": [], "question": "What?"},
            PLACE + "no 'answers' (did you mean 'answer'?); its keys: 'id', 'answer', 'question'",
        ),
        ({"id": "q1", "answers": []}, PLACE + "no 'question'; its keys: 'id', 'answers'"),
        ("q1", ", article 1, paragraph 1: 'qas': expected objects, found a string"),
    ],
)
def test_a_question_that_is_wrong(write: Write, item: dict[str, Any], expected: str) -> None:
    assert error_of(write("a.json", document(item))) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (document(asked(), context=" "), PLACE + "empty context"),
        (document(asked(), context=None), PARAGRAPH + ": 'context': expected text, found null"),
        (
            document(asked(), asked()),
            PLACE + "this id is used twice, first in {path}, article 1, paragraph 1",
        ),
        ("{}", ", article 1: no 'paragraphs'; its keys: none"),
        ("[]", ": holds no questions"),
        ("[3]", ", row 1: expected a JSON object, found the number 3"),
        ('[{"context": "a"}]', ", row 1: no 'question'; its keys: 'context'"),
        ('[{"question": "a"}]', ", row 1: no 'context'; its keys: 'question'"),
        ('{"data": {}}', ", article 1: no 'paragraphs'; its keys: 'data'"),
        (
            '{"data": [{"paragraph": []}]}',
            ", article 1: no 'paragraphs' (did you mean 'paragraph'?); its keys: 'paragraph'",
        ),
        (
            '{"data": [{"paragraphs": [{"qas": []}]}]}',
            ", article 1, paragraph 1: no 'context'; its keys: 'qas'",
        ),
        ('{"data": []}', ": holds no questions"),
        ("", ": holds no questions"),
        ('{"data" 3}', ", line 1, column 9: not JSON: Expecting ':' delimiter"),
        ('{"data":\n [}', ", line 2, column 3: not JSON: Expecting value"),
        ('{"data": [],\n "data": []}', ": 2 keys of one object are named 'data'"),
        ("[" * 100_000, ": JSON nested too deeply"),
    ],
)
def test_a_document_that_is_wrong(write: Write, content: str, expected: str) -> None:
    path = write("a.json", content)
    assert error_of(path) == expected.format(path=path)


def test_an_id_may_stand_twice_where_nothing_is_scored(write: Write) -> None:
    path = write("a.json", document(asked(), asked()))
    assert len(list(read_questions([path], labelled=False))) == 2


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            "[1]",
            ", line 1: expected a JSON object, found a list; the name of a file that holds one "
            "array must end in .json",
        ),
        ('{"question": "What?"}', ", line 1: no 'context'; its keys: 'question'"),
        ("\n", ": holds no questions"),
    ],
)
def test_a_line_that_is_wrong(write: Write, content: str, expected: str) -> None:
    assert error_of(write("a.jsonl", content)) == expected


def test_formats(write: Write) -> None:
    known = ": questions with answers are read from .json, .jsonl, .ndjson, .parquet, not '.csv'"
    assert error_of(write("a.csv", "question,context\na,b\n")) == known
    assert "not '.txt'" in error_of(write("a.txt", "What?"), labelled=False)
    assert ": no column 'question'" in error_of(write("b.csv", "a,b\n1,2\n"), labelled=False)
    with pytest.raises(UserError, match="no such file"):
        read_questions([Path("missing.json")])
    with pytest.raises(UserError, match="no data file given"):
        read_questions([])


@pytest.mark.parametrize(
    ("name", "questions", "answers"),
    [("squadshifts_new_wiki_v1.0.json.gz", 7938, 22794), ("xquad.en.json.gz", 1190, 1190)],
)
def test_real_data(data_folder: Path, name: str, questions: int, answers: int) -> None:
    found = list(read_questions([data_folder / "squad" / name]))
    assert len(found) == questions
    assert sum(len(question.answers or ()) for question in found) == answers
