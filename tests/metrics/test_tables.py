from typing import Any

import torch
from rich.console import Console, RenderableType

from heedful.metrics import (
    ClassificationScores,
    confusion_table,
    precision_table,
    scores_table,
)
from heedful.metrics.tables import comparison_table


def _scores(confusion: list[list[int]], labels: list[str]) -> dict[str, Any]:
    scores = ClassificationScores(labels)
    for true, row in enumerate(confusion):
        for predicted, count in enumerate(row):
            certain = torch.eye(len(labels))[predicted].expand(count, -1)
            scores.update(certain, torch.full((count,), true))
    return scores.compute()


def _printed(table: RenderableType) -> list[str]:
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_scores_table() -> None:
    assert _printed(scores_table(_scores([[3, 1], [0, 1204]], ["[red]", "a\nb"]))) == [
        "label  precision  recall     f1  support",
        "[red]      1.000   0.750  0.857        4",
        "a b        0.999   1.000  1.000    1,204",
        "1,208 items: accuracy 0.9992, macro_f1 0.9284, matthews 0.8657, ece 0.000828",
    ]


def test_scores_table_of_multi_label_scores() -> None:
    scores = ClassificationScores(["a", "b"], multi_label=True)
    scores.update(torch.tensor([[0.9, 0.9]]), torch.tensor([[1, 0]]))
    last = _printed(scores_table(scores.compute()))[-1]
    assert last == "1 item: accuracy 0.0000, macro_f1 0.5000, micro_f1 0.6667"


def test_small_scores_keep_three_digits() -> None:
    scores = {"items": 4, "mse": 1.254e-14, "pearson": -0.00125, "spearman": 0.0}
    lines = _printed(scores_table(scores))
    assert lines == ["4 items: mse 1.25e-14, pearson -0.0013, spearman 0.0000"]
    wider = {"number_format": "float32", "scores": {"mse": 1e-14, "pearson": 0.9}}
    lines = _printed(precision_table({**scores, "pearson": 0.90001, "wider": wider}))
    assert [line.split() for line in lines[1:]] == [
        ["mse", "1.25e-14", "1e-14", "+2.54e-15"],
        ["pearson", "0.9000", "0.9000", "+0.0000"],
    ]


def test_small_scores_of_two_runs_keep_three_digits() -> None:
    row = {"first": 2e-14, "second": 1e-14, "difference": -1e-14, "low": -2e-14, "high": 0.0}
    comparison = {"scores": {"mse": row | {"p_value": 0.01}}, "lost": []}
    lines = _printed(comparison_table({**comparison, "items": 4, "items_that_differ": 4}))
    assert lines[1].split() == ["mse", "2e-14", "1e-14", "-1e-14", "-2e-14", "+0", "0.0100"]


def test_confusion_table() -> None:
    assert _printed(confusion_table(_scores([[3, 1], [0, 1204]], ["spam", "ham"]))) == [
        r"true \ predicted as  1      2",
        "1 spam               3      1",
        "2 ham                .  1,204",
    ]


def test_confusions_of_many_labels_are_listed_from_the_commonest() -> None:
    labels = [f"label {number}" for number in range(12)]
    confusion = [[20 * (row == column) for column in range(12)] for row in range(12)]
    confusion[7][2], confusion[0][11] = 30, 5
    assert _printed(confusion_table(_scores(confusion, labels))) == [
        "true     predicted as  items  of the true",
        "label 7  label 2          30        60.0%",
        "label 0  label 11          5        20.0%",
    ]


def test_a_cut_list_of_confusions_says_so() -> None:
    confusion = [[1] * 12 for _ in range(12)]
    lines = _printed(confusion_table(_scores(confusion, [str(number) for number in range(12)])))
    assert len(lines) == 1 + 15 + 1
    assert lines[-1] == "and 117 rarer kinds of mistake"
    confusion = [[int(row < 4 and column < 4) for column in range(12)] for row in range(12)]
    confusion[0][5] = confusion[0][6] = confusion[0][7] = confusion[0][8] = 1
    lines = _printed(confusion_table(_scores(confusion, [str(number) for number in range(12)])))
    assert lines[-1] == "and 1 rarer kind of mistake"


def test_of_many_labels_the_table_has_the_worst_and_says_where_all_are() -> None:
    labels = [f"label {number}" for number in range(300)]
    scores = ClassificationScores(labels)
    scores.update(torch.eye(300), torch.arange(300))
    scores.update(torch.eye(300)[[5, 6, 6]], torch.tensor([6, 6, 5]))
    lines = _printed(scores_table(scores.compute(), "runs/a/metrics.json has all"))
    assert len(lines) == 1 + 40 + 2
    assert lines[1].split()[:2] == ["label", "5"]
    assert lines[-2] == "and 260 labels with an equal or higher F1; runs/a/metrics.json has all"
    assert (
        _printed(scores_table(scores.compute()))[-2] == "and 260 labels with an equal or higher F1"
    )
    assert _printed(confusion_table(scores.compute()))[1:] == [
        "label 5  label 6           1        50.0%",
        "label 6  label 5           1        33.3%",
    ]
