"""Tagging from the command line on small files, its parts, and its wrong input."""

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from tests import tiny

import heedful
from heedful.batches.words import WordRule
from heedful.checkpoints.runs import outside_record
from heedful.cli import run
from heedful.explanation_target import Answered
from heedful.predictor import Predictor
from heedful.reading.conll import join_words
from heedful.reading.tagging import Entity, TaggedText
from heedful.settings import ColumnSettings, LongText, PredictSettings
from heedful.task import LengthLimit
from heedful.tasks import read_task
from heedful.tasks.answers.entities import Tagging
from heedful.tasks.explanation_targets.entities import _best_window
from heedful.tasks.tag import Tag
from heedful.tokens import BertTokenizer

Out = pytest.CaptureFixture[str]

CONLL = "".join(
    f"the O\n{thing} B-thing\nis O\n{words}"
    for thing in ("apple", "grass", "sky")
    for colour in ("red", "green", "blue")
    for words in (f"{colour} B-colour\n\n", f"very B-colour\n{colour} I-colour\n\n")
)


@pytest.fixture
def colours(tmp_path: Path) -> Path:
    """Provide CoNLL columns of things and their colours, of one word or two."""
    path = tmp_path / "colours.conll"
    path.write_text(CONLL)
    return path


def train(tiny_model: Path, data: Path, out: Path, *more: object) -> int:
    words = ["train", "tag", "--model", tiny_model, "--train", data, "--out", out]
    words += [
        "--steps",
        "60",
        "--batch-size",
        "6",
        "--learning-rate",
        "1e-2",
        "--dropout",
        "0",
    ]
    words += ["--head-learning-rate", "1e-2", "--precision", "fp32", *more]
    return run([str(word) for word in words])


def found(answer: Tagging) -> list[tuple[str, str]]:
    return [(entity.label, entity.text) for entity in answer.entities]


@pytest.mark.parametrize(
    "options", [[], ["--scheme", "IOBES", "--label-pieces", "all"]], ids=["BIO", "IOBES"]
)
def test_train_evaluate_predict(
    tiny_model: Path, colours: Path, tmp_path: Path, capsys: Out, options: list[str]
) -> None:
    out = tmp_path / "run"
    dev = ["--dev", colours, "--evaluate-every", "60"]
    assert train(tiny_model, colours, out, *dev, *options) == 0, capsys.readouterr().err
    assert "Finds entities of 2 types: colour, thing." in capsys.readouterr().err
    assert run(["evaluate", str(out), "--data", str(colours)]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert [scores[name] for name in ("items", "precision", "recall", "f1")] == [18, 1, 1, 1]
    assert "per_class" not in scores
    stored = json.loads((out / "metrics.json").read_text())
    assert [(row["label"], row["support"]) for row in stored["per_class"]] == [
        ("colour", 18),
        ("thing", 18),
    ]

    predict = heedful.load(out)
    text = "The  SKY is very blue"
    answer = predict(text)
    assert found(answer) == [("thing", "SKY"), ("colour", "very blue")]
    for entity in answer.entities:
        assert text[entity.start : entity.end] == entity.text
        assert 0 < entity.score <= 1
    assert (answer.tokens_total, answer.tokens_used, answer.windows) == (5, 5, 1)
    config = json.loads((out / "config.json").read_text())
    ends = ["O", "S-thing"] if options else ["O", "I-thing"]
    assert [
        config["id2label"][number] for number in ("0", str(len(config["id2label"]) - 1))
    ] == ends
    assert "Finds entities of 2 types" in (out / "MODEL_CARD.md").read_text()


ROWS = [
    (f"𠀀{name}在{place}。", {"name": {name: [[1, 2]]}, "address": {place: [[4, 5]]}})
    for name in ("王三", "李四", "张五")
    for place in ("北京", "上海")
]


@pytest.mark.parametrize("kind", ["bmes", "json"])
def test_chinese(tiny_model: Path, tmp_path: Path, capsys: Out, kind: str) -> None:
    model, data, out = tmp_path / "model", tmp_path / f"data.{kind}", tmp_path / "run"
    shutil.copytree(tiny_model, model)
    characters = sorted({one for text, _ in ROWS for one in text})
    vocabulary = (model / "vocab.txt").read_text().splitlines()
    vocabulary[-len(characters) :] = characters
    (model / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    if kind == "json":
        rows = [{"text": text, "label": label} for text, label in ROWS]
        data.write_text("\n".join(json.dumps(row, ensure_ascii=False, indent=2) for row in rows))
    else:
        tags = ["O", "B-name", "E-name", "O", "B-address", "E-address", "O"]
        lines = [
            f"{one} {tag}"
            for text, _ in ROWS
            for one, tag in zip(f"{text}\n", [*tags, ""], strict=True)
        ]
        data.write_text("\n".join(line.strip() for line in lines))
    assert train(model, data, out, "--scheme", "IOBES") == 0, capsys.readouterr().err
    assert run(["evaluate", str(out), "--data", str(data)]) == 0
    assert json.loads(capsys.readouterr().out)["f1"] == 1
    text = " 𠀀 李四 在上海 。"
    answer = heedful.load(out)(text)
    assert found(answer) == [("name", "李四"), ("address", "上海")]
    assert [text[one.start : one.end] for one in answer.entities] == ["李四", "上海"]


def test_two_entities_in_one_word_are_told_apart_by_pieces(
    tiny_model: Path, tmp_path: Path, capsys: Out
) -> None:
    rows = ["the 5kg", "so 7kg", "is 5kg red"]
    data = tmp_path / "a.jsonl"
    with data.open("w") as file:
        for text in rows:
            at = text.index("kg")
            spans = [(at - 1, at, "number"), (at, at + 2, "unit")]
            entities = [dict(zip(("start", "end", "label"), span, strict=True)) for span in spans]
            file.write(json.dumps({"text": text, "entities": entities}) + "\n")
    assert train(tiny_model, data, tmp_path / "run") == 0, capsys.readouterr().err
    answer = heedful.load(tmp_path / "run")("so 7kg red")
    assert found(answer) == [("number", "7"), ("unit", "kg")]


def test_two_entities_in_one_word_are_scored_by_their_characters(
    tiny_model: Path, colours: Path, tmp_path: Path, capsys: Out
) -> None:
    data = tmp_path / "test.jsonl"
    spans = [{"start": 0, "end": 1, "label": "thing"}, {"start": 1, "end": 3, "label": "colour"}]
    data.write_text(json.dumps({"text": "sky is red", "entities": spans}))
    assert train(tiny_model, colours, tmp_path / "run", "--dev", data) == 0, capsys.readouterr().err
    assert run(["evaluate", str(tmp_path / "run"), "--data", str(data)]) == 0
    assert json.loads(capsys.readouterr().out)["recall"] == 0


def test_characters_of_a_latin_word_are_one_word(finished: Path) -> None:
    text = "the sky is red"
    words = tuple((at, at + 1) for at, character in enumerate(text) if character != " ")
    record = TaggedText(text=text, words=words, entities=None, source="f", line=1)
    (answer,) = heedful.load(finished).answers([record])
    assert found(answer) == [("thing", "sky"), ("colour", "red")]
    tags = [word.tag for word in answer.words]
    assert tags == [*"OOO", "B-thing", "I-thing", "I-thing", *"OO", "B-colour", *["I-colour"] * 2]
    s, k, y = answer.words[3:6]
    assert max(s.scores, key=s.scores.__getitem__) == "B-thing"
    assert k.probabilities == pytest.approx(s.probabilities)
    assert y.probabilities == pytest.approx(s.probabilities)


@pytest.mark.parametrize("seed", range(5))
def test_a_word_is_explained_where_its_answer_is_from(finished: Path, seed: int) -> None:
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdef", k=draw.randint(1, 7))) for _ in range(60)]
    predictor = heedful.load(finished, max_length=draw.randint(12, 20), precision="fp32")
    (record,) = predictor.records([" ".join(words)])
    (fitted,) = predictor.encode([record], predictor.settings)
    ((*outputs,),) = predictor.computed([fitted], predictor.settings)
    (answer,) = predictor.decode([record], [fitted], predictor.settings)
    computed = Answered(record=record, encoded=fitted, outputs=outputs, answer=answer)
    assert answer.windows > 5
    for word in answer.words:
        window, position = _best_window(computed, word)
        assert outputs[window][position].tolist() == pytest.approx(word.probabilities)


@pytest.fixture(scope="module")
def finished(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a run that has learnt the colours."""
    folder = tmp_path_factory.mktemp("tag")
    (folder / "colours.conll").write_text(CONLL)
    assert train(tiny_model, folder / "colours.conll", folder / "run") == 0
    return folder / "run"


def test_predicting_from_the_command_line(finished: Path, tmp_path: Path, capsys: Out) -> None:
    assert run(["predict", str(finished), "the sky is very blue", "", "--all-scores"]) == 0
    one, nothing = map(json.loads, capsys.readouterr().out.splitlines())
    assert [{**entity, "score": 0} for entity in one["entities"]] == [
        {"label": "thing", "start": 4, "end": 7, "text": "sky", "score": 0},
        {"label": "colour", "start": 11, "end": 20, "text": "very blue", "score": 0},
    ]
    words = one["words"]
    assert [(word["text"], word["tag"]) for word in words] == [
        ("the", "O"),
        ("sky", "B-thing"),
        ("is", "O"),
        ("very", "B-colour"),
        ("blue", "I-colour"),
    ]
    assert one["entities"][1]["score"] == pytest.approx(
        (words[3]["scores"]["B-colour"] + words[4]["scores"]["I-colour"]) / 2, abs=1e-5
    )
    assert sum(words[0]["scores"].values()) == pytest.approx(1, abs=1e-4)
    assert nothing == {"entities": [], "words": [], "tokens_total": 0, "tokens_used": 0}


def test_what_is_printed_plain_can_be_evaluated(
    finished: Path, tmp_path: Path, capsys: Out
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("the sky is blue\nThe grass is very red\n")
    assert run(["predict", str(finished), "--input", str(texts), "--plain"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("the\tO\nsky\tB-thing\nis\tO\nblue\tB-colour\n\nThe\tO\ngrass\tB-")
    (tmp_path / "found.conll").write_text(printed)
    assert run(["evaluate", str(finished), "--data", str(tmp_path / "found.conll")]) == 0
    assert json.loads(capsys.readouterr().out)["f1"] == 1.0


def test_texts_given_as_words(finished: Path, tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "words.conll"
    path.write_text("the\nSKY\n\u200b\nis\nred\n\nthe\n")
    assert run(["predict", str(finished), "--input", str(path), "--plain"]) == 0
    printed = capsys.readouterr().out
    assert printed == "the\tO\nSKY\tB-thing\n\u200b\tO\nis\tO\nred\tB-colour\n\nthe\tO\n\n"


def test_training_on_places_in_texts(tiny_model: Path, tmp_path: Path, capsys: Out) -> None:
    rows = []
    for thing in ("apple", "grass", "sky"):
        for colour in ("red", "green", "blue"):
            text = f"The {thing}: very {colour}."
            entities = [
                {"start": text.index(part), "end": text.index(part) + len(part), "label": label}
                for part, label in ((thing, "thing"), (f"very {colour}", "colour"))
            ]
            rows.append(json.dumps({"body": text, "spans": entities}) + "\n")
    data = tmp_path / "colours.jsonl"
    data.write_text("".join(rows))
    columns = ["--text", "body", "--label", "spans"]
    out = tmp_path / "run"
    assert train(tiny_model, data, out, *columns) == 0, capsys.readouterr().err
    assert run(["evaluate", str(out), "--data", str(data), *columns]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["f1"] == 1.0
    assert run(["predict", str(out), "--input", str(data), "--text", "body"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert [entity["text"] for entity in first["entities"]] == ["apple", "very red"]


@pytest.mark.parametrize("aggregation", ["first", "average", "max"])
def test_long_texts_are_read_whole(
    finished: Path, aggregation: Literal["first", "average", "max"]
) -> None:
    text = "the skies are very blue. " * 20
    settings = PredictSettings(precision="fp32", max_length=16, aggregation=aggregation)
    answer = Predictor.load(finished, settings)(text)
    assert answer.windows > 10
    assert answer.tokens_used == answer.tokens_total > 200
    assert [word.text for word in answer.words] == text.replace(".", " .").split()
    assert all(word.scores is not None for word in answer.words)
    ends = [0]
    for entity in answer.entities:
        assert text[entity.start : entity.end] == entity.text
        assert entity.start >= ends[-1]
        ends.append(entity.end)
    assert ends[-1] > 400


@pytest.mark.parametrize(("rule", "read"), [("head", range(14)), ("head-tail", None)])
def test_what_is_left_out_has_no_entities(
    finished: Path, rule: LongText, read: Sequence[int] | None
) -> None:
    settings = PredictSettings(precision="fp32", max_length=16, long_text=rule)
    answer = Predictor.load(finished, settings)("the sky is very blue . " * 20)
    assert (answer.tokens_total, answer.tokens_used) == (120, 14)
    assert len(answer.words) == 120
    given = [number for number, word in enumerate(answer.words) if word.scores is not None]
    assert given == list(read or [*range(4), *range(110, 120)])
    assert {word.tag for word in answer.words if word.scores is None} == {"O"}
    assert answer.entities


# The parts.


TASK = Tag(labels=("O", "B-X", "I-X"), scheme="BIO", label_pieces="first")


@pytest.fixture
def encoded(tiny_model: Path) -> Callable[..., Any]:
    """Provide a function that encodes a record."""
    tokenizer = BertTokenizer.from_pretrained(tiny_model)

    def call(
        record: TaggedText,
        label_pieces: Literal["first", "all"] = "first",
        words: WordRule = "tokenizer",
        *,
        max_length: int = 40,
        rule: LongText = "window",
        labelled: bool = True,
    ) -> Any:
        task = replace(TASK, label_pieces=label_pieces, words=words)
        fit = LengthLimit(max_length=max_length, long_text=rule)
        [fitted] = task.encode([record], tokenizer, fit, labelled=labelled)
        return fitted

    return call


def record(text: str, *entities: Entity, words: Sequence[str] | None = None) -> TaggedText:
    spans = None if words is None else join_words(words)[1]
    return TaggedText(text=text, words=spans, entities=entities, source="f", line=3)


def test_labels_of_pieces(encoded: Callable[..., Any]) -> None:
    # blue ##s | sky | is | red ##s | . | g ##o
    blues = record("blues sky is reds.go", Entity(0, 9, "X"), Entity(13, 20, "X"))
    [example] = encoded(blues).pieces
    assert example.labels == (-100, 1, -100, 2, 0, 1, -100, 2, 2, -100, -100)
    [example] = encoded(blues, "all").pieces
    assert example.labels == (-100, 1, 1, 2, 0, 1, 1, 2, 2, 2, -100)
    [example] = encoded(blues, labelled=False).pieces
    assert example.labels == ()


def test_labels_where_spaces_part_words(encoded: Callable[..., Any]) -> None:
    # blue ##s | sky | is | red ##s . g ##o | .
    blues = record("blues sky is reds.go.", Entity(0, 9, "X"), Entity(13, 20, "X"))
    [example] = encoded(blues, "first", "spaces").pieces
    assert example.labels == (-100, 1, -100, 2, 0, 1, -100, -100, -100, -100, 0, -100)
    [example] = encoded(blues, "all", "spaces").pieces
    assert example.labels == (-100, 1, 1, 2, 0, 1, 1, 1, 1, 1, 0, -100)
    # Scored, not learnt: two entities in a word.
    encoded(record("red-sky", Entity(0, 3, "X"), Entity(4, 7, "X")), "first", "spaces")


@pytest.mark.parametrize("label_pieces", ["first", "all"])
def test_split_words_have_the_tags_of_whole_ones(
    tiny_model: Path, label_pieces: Literal["first", "all"]
) -> None:
    labels = ("O", "B-X", "I-X", "E-X", "S-X")
    task = Tag(labels=labels, scheme="IOBES", label_pieces=label_pieces, words="spaces")
    # blue ##s | sky | is | red ##s . g ##o | .
    blues = record("blues sky is reds.go.", Entity(0, 9, "X"), Entity(13, 20, "X"))
    fit = LengthLimit(max_length=40, long_text="window")
    [fitted] = task.encode([blues], BertTokenizer.from_pretrained(tiny_model), fit, labelled=True)
    pieces = [1, 1, 3, 0, 4, 4, 4, 4, 4, 0]
    if label_pieces == "first":
        pieces = [-100 if n in (1, 5, 6, 7, 8) else tag for n, tag in enumerate(pieces)]
    assert fitted.pieces[0].labels == (-100, *pieces, -100)


@pytest.mark.parametrize(
    ("text", "entities", "words"),
    [
        ("from U.N., Bonn", [(5, 8), (11, 15)], "spaces"),
        ("'Ann's'", [(1, 4)], "spaces"),
        ("Ann", [], "spaces"),
        ("Bonn-based", [(0, 4)], "tokenizer"),
        ("see #tag", [(5, 8)], "tokenizer"),
        ("5kg", [(0, 1)], "tokenizer"),
        ("서울 갔다", [(0, 2)], "spaces"),
        ("서울에서", [(0, 2)], "pieces"),
        ("東京は", [(0, 2)], "spaces"),
        ("今日ソニーは", [(2, 5)], "pieces"),
        ("KBS에", [(0, 3)], "pieces"),
    ],
)
def test_what_a_word_is(
    text: str, entities: list[tuple[int, int]], words: WordRule, tmp_path: Path
) -> None:
    rows = [
        {"text": text, "entities": [{"start": a, "end": b, "label": "X"} for a, b in entities]},
        {"text": "a red sky", "entities": [{"start": 6, "end": 9, "label": "X"}]},
    ]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert Tag.from_training_data(tiny.recipe("tag", [path])) == replace(TASK, words=words)


def test_a_run_that_does_not_say_what_a_word_is() -> None:
    saved = {"labels": ["O", "B-X", "I-X"], "scheme": "BIO", "label_pieces": "first"}
    assert read_task(outside_record("tag", saved, 8)) == TASK


@pytest.mark.parametrize("words", ["tokenizer", "spaces"])
def test_columns_and_texts_are_learnt_the_same(
    encoded: Callable[..., Any], words: WordRule
) -> None:
    text, entity = "sky is reds.go", Entity(7, 14, "X")
    whole, columns = record(text, entity), record(text, entity, words=["sky", "is", "reds.go"])
    labels = [[*encoded(item, words=words).pieces[0].labels] for item in (whole, columns)]
    assert labels[0] == labels[1]


def test_windows_have_the_labels_of_their_words(encoded: Callable[..., Any]) -> None:
    text = "the sky is very blues and the grass is greens"
    entities = [Entity(4, 7, "X"), Entity(11, 21, "X"), Entity(30, 35, "X"), Entity(39, 45, "X")]
    [whole] = encoded(record(text, *entities)).pieces
    fitted = encoded(record(text, *entities), max_length=10)
    assert len(fitted.pieces) > 1
    ids, labels = whole.ids.tolist()[1:-1], whole.labels[1:-1]
    for example, offsets in zip(fitted.pieces, fitted.offsets, strict=True):
        inner = example.ids.tolist()[1:-1]
        [at] = [start for start in range(len(ids)) if ids[start : start + len(inner)] == inner]
        assert example.labels == (-100, *labels[at : at + len(inner)], -100)
        assert offsets.shape == (len(example.ids), 2)
        assert offsets[[0, -1]].tolist() == [[-1, -1], [-1, -1]]


def decoded(
    tiny_model: Path,
    fitted: Any,
    item: TaggedText,
    rows: list[list[float]],
    words: WordRule = "tokenizer",
) -> Tagging:
    """Decode the probabilities of an example's tokens."""
    tokenizer = BertTokenizer.from_pretrained(tiny_model)
    task = replace(TASK, words=words)
    return task.decode(item, fitted, [torch.tensor(rows)], PredictSettings(), tokenizer)


def test_impossible_sequences_are_mended(encoded: Callable[..., Any], tiny_model: Path) -> None:
    item = record("red sky")
    rows = [[0, 0, 0], [0.1, 0.3, 0.6], [0.2, 0.2, 0.6], [0, 0, 0]]
    answer = decoded(tiny_model, encoded(item), item, rows)
    assert [word.tag for word in answer.words] == ["B-X", "I-X"]
    [entity] = answer.entities
    assert (entity.text, entity.score) == ("red sky", pytest.approx(0.45))
    rows[2] = [0.5, 0.0, 0.5]
    rows[1] = [0.8, 0.1, 0.1]
    answer = decoded(tiny_model, encoded(item), item, rows)
    assert [word.tag for word in answer.words] == ["O", "O"]
    assert answer.entities == ()


def test_a_damaged_model_is_told(encoded: Callable[..., Any], tiny_model: Path) -> None:
    item = record("red")
    with pytest.raises(heedful.UserError, match="the model is damaged"):
        decoded(tiny_model, encoded(item), item, [[0.0] * 3, [float("nan")] * 3, [0.0] * 3])


def test_an_entity_does_not_reach_over_what_was_left_out(
    encoded: Callable[..., Any], tiny_model: Path
) -> None:
    item = record("red " * 20)
    fitted = encoded(item, max_length=10, rule="head-tail")
    rows = [[0, 0, 0], [0, 1, 0], *[[0.0, 0.1, 0.9]] * 7, [0, 0, 0]]
    answer = decoded(tiny_model, fitted, item, rows)
    assert [entity.text for entity in answer.entities] == ["red red", "red red red red red red"]
    assert [entity.end for entity in answer.entities] == [7, 79]


def test_given_words_have_the_tag_of_their_first_part(
    encoded: Callable[..., Any], tiny_model: Path
) -> None:
    item = record("sky's \u200b red", words=["sky's", "\u200b", "red"])
    rows = [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0.0, 1], [0, 0, 0]]
    answer = decoded(tiny_model, encoded(item), item, rows)
    assert [(word.text, word.tag) for word in answer.words] == [
        ("sky's", "B-X"),
        ("\u200b", "I-X"),  # which the tokenizer drops: the tags must be those of the entity
        ("red", "I-X"),
    ]
    assert [entity.text for entity in answer.entities] == ["sky's \u200b red"]


def test_words_of_plain_text_have_the_tag_of_their_first_piece(
    encoded: Callable[..., Any], tiny_model: Path
) -> None:
    item = record("very red-sky. is red-sky")
    fitted = encoded(item, words="spaces", max_length=8, rule="head")
    rows = [[0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 0, 0]]
    answer = decoded(tiny_model, fitted, item, rows, "spaces")
    assert [(word.text, word.tag) for word in answer.words] == [
        ("very", "B-X"),
        ("red-sky", "I-X"),
        (".", "O"),
        ("is", "O"),
        ("red-sky", "O"),
    ]
    assert [word.scores is None for word in answer.words] == [False] * 4 + [True]
    assert [entity.text for entity in answer.entities] == ["very red-sky"]


# Wrong input.


GOOD = "Ann B-PER\nis O\n\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.conll", GOOD + "in\n", "line 4: 1 column, expected 2 as in line 1"),
        ("a.conll", GOOD + "in O O\n", "line 4: 3 columns, expected 2 as in line 1"),
        ("a.txt", GOOD + "in O\nRome I-LOC\n", "line 5: tag 'I-LOC' cannot follow 'O' in BIO"),
        (
            "a.csv",
            "Ann,B-PER\n",
            "a.csv: entities are read from CoNLL columns, JSON or Parquet, not csv",
        ),
        ("a.tsv", "Ann\tPER\n", "line 1: tag 'PER': must be O, or a prefix and a type"),
        ("a.conll", "", "a.conll: holds no sentences"),
        ("a.conll", "Ann O\nis O\n", "the training data has no entities: every word is tagged O"),
        ("a.jsonl", '{"text": "Ann", "entities": []}', "the training data has no entities"),
        ("a.jsonl", '{"text": "", "entities": []}', "line 1, column 'text': empty text"),
        (
            "a.jsonl",
            '{"text": "Ann", "entities": [{"start": 0, "end": 4, "label": "PER"}]}',
            "line 1, column 'entities', entity 1: 0–4 is outside the text",
        ),
        (
            "a.jsonl",
            '{"text": "sky", "entities": [{"start": 0, "end": 1, "label": "N"}, '
            '{"start": 1, "end": 3, "label": "U"}]}',
            "line 1: two entities, the second 'ky', share the word 'sky'; a word has one tag",
        ),
    ],
)
def test_what_cannot_be_learnt_from(
    tiny_model: Path, tmp_path: Path, capsys: Out, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    assert train(tiny_model, tmp_path / name, tmp_path / "run") == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in error
    assert not (tmp_path / "run" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "csv"], "entities are read from CoNLL columns, JSON or Parquet, not csv"),
        (["--text-pair", "other"], "leave out --text-pair and --label-separator"),
        (["--label-separator", ";"], "leave out --text-pair and --label-separator"),
        (["--format", "jsonl"], "colours.conll, line 1, column 1: not JSON"),
        (["--label", "5"], "no column 5; columns are numbered 1 to 2"),
        (["--scheme", "IOB1"], "IOB1"),
        (["--metric", "accuracy"], "unknown --metric 'accuracy'"),
        (["--dev", "none.conll"], "none.conll: no such file"),
    ],
)
def test_options_that_make_no_sense(
    tiny_model: Path, colours: Path, tmp_path: Path, capsys: Out, options: list[str], message: str
) -> None:
    assert train(tiny_model, colours, tmp_path / "run", *options) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_a_type_that_the_model_does_not_have(
    finished: Path, tiny_model: Path, colours: Path, tmp_path: Path, capsys: Out
) -> None:
    data = tmp_path / "new.conll"
    data.write_text("the O\nsky B-thing\n\nred B-color\n")
    for command in (
        ["evaluate", str(finished), "--data", str(data)],
        [
            "train",
            "tag",
            "--model",
            str(tiny_model),
            "--train",
            str(colours),
            "--dev",
            str(data),
            "--out",
            str(tmp_path / "run"),
        ],
    ):
        assert run(command) == 2
        assert (
            "new.conll, line 4: 'color' is not one of the model's entity types "
            "(did you mean 'colour'?): colour, thing"
        ) in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_pairs_are_refused(finished: Path) -> None:
    with pytest.raises(heedful.UserError, match="tag takes single texts, not pairs"):
        heedful.load(finished)(("the sky", "is blue"))


def test_one_type_is_enough(tiny_model: Path, tmp_path: Path, capsys: Out) -> None:
    data = tmp_path / "one.conll"
    data.write_text("sky B-thing\nis O\n\n" * 6)
    assert train(tiny_model, data, tmp_path / "run") == 0, capsys.readouterr().err
    assert found(heedful.load(tmp_path / "run")("sky is")) == [("thing", "sky")]


def test_columns_of_conll_have_no_header(colours: Path) -> None:
    with pytest.raises(heedful.UserError, match="--no-header is for CSV and TSV"):
        Tag.read([colours], ColumnSettings(header=False), labelled=True)
