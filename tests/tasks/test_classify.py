"""The labels of a classifier: their order, and what users may write between them."""

import json
import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.tasks.head_rate import times_the_encoders
from tests.tiny_folders import write_folder

import heedful
from heedful.batches import Batch, Fitted
from heedful.errors import UserError
from heedful.reading import Record
from heedful.reading.delimited import split_values
from heedful.settings import PredictSettings
from heedful.tasks.answers.labels import Prediction
from heedful.tasks.class_labels import class_weights, lookalike_labels, order_labels
from heedful.tasks.classify import Classify
from heedful.tasks.start_bias import bias_of_counts

LONG = "1" * 4400
"""More digits than Python turns into a number."""


@pytest.mark.parametrize(
    ("labels", "ordered"),
    [
        (["10", "9", "2"], ["2", "9", "10"]),
        (["10", "-1", "2"], ["-1", "2", "10"]),
        (["10", "0.5", "1e1", "-2.5e-3"], ["-2.5e-3", "0.5", "10", "1e1"]),
        ([LONG, "2"], ["2", LONG]),
        (["10", "9", "x"], ["10", "9", "x"]),
        (["10", "9", "nan"], ["10", "9", "nan"]),
        (["10", "9", "1_0"], ["10", "1_0", "9"]),
    ],
)
def test_numbers_are_sorted_as_numbers(labels: list[str], ordered: list[str]) -> None:
    assert order_labels(Counter(labels), None, multi_label=False) == tuple(ordered)


def test_labels_that_look_alike_are_told() -> None:
    assert list(lookalike_labels(["Food", "animal", "food", "food "])) == [
        ("Food", "food"),
        ("Food", "food "),
    ]
    assert list(lookalike_labels(["food", ' "food"', '"'])) == [("food", ' "food"')]
    assert list(
        lookalike_labels(["0", "1", "1.0", " 1", "True", "true", "10", "nan", LONG, LONG + "0"])
    ) == [
        ("1", "1.0"),
        ("1", " 1"),
        ("True", "true"),
    ]
    spelt = ["caf\u00e9", "cafe\u0301", "bill", "bill\u200b", "\uff42\uff49\uff4c\uff4c", "cafe"]
    assert list(lookalike_labels(spelt)) == [
        (spelt[0], spelt[1]),
        *((spelt[2], one) for one in spelt[3:5]),
    ]


@pytest.mark.parametrize("multi_label", [False, True])
def test_who_gives_several_labels_says_what_parts_them(multi_label: bool) -> None:
    task = Classify(labels=("fast", "red"), multi_label=multi_label)
    record = Record(text="a car", text_pair=None, labels=("red;fast",), source="a.csv", line=2)
    with pytest.raises(UserError) as error:
        task.targets(record)
    assert "a.csv, line 2: label 'red;fast' is not one of the model's" in str(error.value)
    assert ("--label-separator" in str(error.value)) == multi_label


@pytest.mark.parametrize(
    ("multi_label", "windows", "label"),
    [
        (False, [[0.0, 10.0], [4.0, 0.0], [4.0, 0.0]], "fast"),
        (True, [[-10.0, 4.0], [4.0, -4.0], [4.0, -4.0]], ["fast"]),
    ],
)
def test_logits_of_several_windows_leave_the_label_as_it_is(
    multi_label: bool, windows: list[list[float]], label: str | list[str]
) -> None:
    task = Classify(labels=("fast", "red"), multi_label=multi_label)
    record = Record(text="a car", text_pair=None, labels=None, source="a.csv", line=2)
    fitted: Fitted[Any] = Fitted(pieces=[], tokens_total=9, tokens_used=9)
    logits = torch.tensor(windows)
    probabilities = logits.sigmoid() if multi_label else logits.softmax(-1)
    usual, raw = (
        task.decode(record, fitted, list(rows), PredictSettings(raw=is_raw), tokenizer=None)
        for is_raw, rows in ((False, probabilities), (True, logits))
    )
    assert usual.label == raw.label == label
    assert raw.scores == pytest.approx(dict(zip(task.labels, logits.mean(0).tolist(), strict=True)))


def test_measurements_are_pointed_to_regression(tiny_model: Path, tmp_path: Path) -> None:
    said: dict[int, str] = {}
    for count in (20, 21):
        rows = [{"text": "a", "label": number / 2} for number in range(count)]
        lines: list[str] = []
        out = tmp_path / str(count)
        settings = {"model": str(tiny_model), "steps": 1, "say": lines.append}
        heedful.train("classify", train=rows, out=out, **settings)
        said[count] = "\n".join(lines)
    assert "train regress" not in said[20]
    assert "the 21 labels are numbers with fractions, and each of them counts as a" in said[21]


def test_a_label_with_a_comma_is_quoted_as_in_csv(tiny_model: Path, tmp_path: Path) -> None:
    weighed = class_weights('"a, b"=2, "c=d=3",e=4', ["a, b", "c=d", "e"], Counter("e"))
    assert weighed == (2, 3, 4)
    rows = [{"text": "x", "label": label} for label in ("a, b", 'the "c"', " d")]
    labels, run = 'the "c", "a, b"," d"', tmp_path / "run"
    heedful.train("classify", train=rows, out=run, model=str(tiny_model), labels=labels, steps=1)
    goal = json.loads((run / "heedful.json").read_text())["goal"]
    assert goal["labels"] == ['the "c"', "a, b", " d"]
    with pytest.raises(UserError, match=r"labels 'a\\nb': a line break must be in double quotes"):
        heedful.train("classify", train=rows, out=tmp_path / "b", labels="a\nb", steps=1)


def test_spaces_around_labels(tiny_model: Path, tmp_path: Path) -> None:
    assert class_weights("b=2, a=3", ["a", "b"], Counter("ab")) == (3, 2)
    rows = [{"text": "a", "label": "b"}, {"text": "b", "label": " a"}, {"text": "c", "label": "a"}]
    lines: list[str] = []
    heedful.train(
        "classify",
        train=rows,
        out=tmp_path / "run",
        model=str(tiny_model),
        labels="b, a,a",
        steps=1,
        say=lines.append,
    )
    goal = json.loads((tmp_path / "run" / "heedful.json").read_text())["goal"]
    assert goal["labels"] == ["b", " a", "a"]
    assert "labels ' a' and 'a' differ only in how they are written, and count as two" in lines


@pytest.mark.parametrize(
    ("label", "plain"),
    [
        ("late\r\ndelivery", "late delivery"),
        ("two  spaces", "two  spaces"),
        ("yes, now", "yes, now"),
        (["late\ndelivery", "refund"], "late delivery,refund"),
        (["no", "yes, now", " b"], '"no","yes, now"," b"'),
        (['a "b"', "c"], '"a ""b""","c"'),
        (["a", " b"], "a, b"),
        ([], ""),
    ],
)
def test_a_plain_answer_is_one_line(label: str | list[str], plain: str) -> None:
    if label and isinstance(label, list):
        assert split_values("labels", plain) == [" ".join(one.splitlines()) for one in label]
    prediction = Prediction(
        label=label, score=None, scores={}, tokens_total=3, tokens_used=3, windows=1
    )
    assert prediction.plain() == plain


def test_a_classifier_that_starts_at_the_bias_of_the_counts_has_the_lowest_loss() -> None:
    counts, weights = [90, 9, 1], [1.0, 2.0, 3.0]
    bias = torch.tensor(bias_of_counts(counts, weights, None)).requires_grad_()
    targets = torch.arange(3).repeat_interleave(torch.tensor(counts))
    logits = bias.expand(len(targets), 3)
    torch.nn.functional.cross_entropy(logits, targets, torch.tensor(weights)).backward()
    assert bias.grad is not None
    torch.testing.assert_close(bias.grad, torch.zeros(3))
    several = torch.tensor(bias_of_counts(counts, None, 100)).sigmoid()
    torch.testing.assert_close(several, torch.tensor([0.9, 0.09, 0.01]))
    assert bias_of_counts([5, 5], None, None) == (0, 0)
    assert bias_of_counts([0, 8], None, None) == bias_of_counts([1, 8], None, None)
    assert bias_of_counts([0, 8], None, 8) == (math.log(1 / 7), math.log(8))


def test_weights_of_several_labels_count_for_the_items_that_have_them() -> None:
    counts = Counter(common=9, rare=1, every=10)
    labels, records = ("common", "every", "never", "rare"), 10
    balanced = class_weights("balanced", labels, counts, records)
    assert balanced == (1 / 9, 1 / 10, 9, 9)
    bias = bias_of_counts([counts[label] for label in labels], balanced, records)
    torch.testing.assert_close(bias, (0.0, 0.0, 0.0, 0.0))
    weights = class_weights("rare=3", labels, counts, records)
    bias = torch.tensor(bias_of_counts([9, 10, 0, 1], weights, records)).requires_grad_()
    targets = torch.zeros(records, 4)
    targets[:9, 0], targets[9, 3] = 1, 1
    task = Classify(labels=labels, multi_label=True, weights=weights)
    batch = Batch(inputs={}, targets={"labels": targets}, num_tokens=0, num_positions=0)
    task.loss(lambda **_: SimpleNamespace(logits=bias.expand(records, 4)), batch).backward()
    assert bias.grad is not None
    torch.testing.assert_close(bias.grad[[0, 3]], torch.zeros(2))


@pytest.mark.parametrize(
    ("labels", "steps", "times"),
    [
        ("xy", 200, 4),
        ("xyz", 300, 6),
        ("abcdefghijkl", 200, 20),
        ("xy", 100, 8),
        ("xy", 1, 20),
    ],
)
def test_a_fresh_classifier_learns_faster_if_there_are_many_labels_or_few_steps(
    labels: str,
    steps: int,
    times: int,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [{"text": "a", "label": label} for label in labels]
    options = {"train": rows, "out": tmp_path / "run", "model": str(tiny_model), "steps": steps}
    rates = {"learning_rate": 1e-3, "head_learning_rate": 7e-3}
    assert times_the_encoders(monkeypatch, "classify", **options) == pytest.approx(times)
    assert times_the_encoders(monkeypatch, "classify", **options, **rates) == pytest.approx(7)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_fresh_classifier_starts_at_the_shares_of_the_labels(family: str, tmp_path: Path) -> None:
    write_folder(family, tmp_path / "model")
    still: dict[str, Any] = {"learning_rate": 1e-12, "head_learning_rate": 1e-12, "steps": 1}

    def bias(name: str, labels: str, model: Path, **options: Any) -> torch.Tensor:
        rows = [{"text": "a", "label": label} for label in labels.split()]
        out = tmp_path / name
        heedful.train("classify", train=rows, out=out, model=str(model), **still, **options)
        weights = load_file(out / "model.safetensors")
        return weights["classifier.bias" if family == "bert" else "classifier.out_proj.bias"]

    shares = bias("first", "x y y y y y y y", tmp_path / "model").softmax(-1)
    torch.testing.assert_close(shares, torch.tensor([0.125, 0.875]))
    trained = bias("on", "x x x y", tmp_path / "first").softmax(-1)
    torch.testing.assert_close(trained, shares)
    even = bias("even", "x y y y", tmp_path / "model", class_weights="balanced")
    torch.testing.assert_close(even, torch.zeros(2))
    several = bias("several", "x;y y y y", tmp_path / "model", label_separator=";").sigmoid()
    torch.testing.assert_close(several, torch.tensor([0.25, 0.8]))
