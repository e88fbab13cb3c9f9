"""Tables of scores for the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from heedful.errors import count_of, shorten
from heedful.metrics.by_label import BY_LABEL, Mistake, mistakes_of, shown_labels
from heedful.metrics.texts import difference_text, score_text

LARGEST_MATRIX = 10
"""Most labels for a matrix to fit a terminal; above it, the most frequent mistakes are listed."""
MOST_MISTAKES = 15
MOST_CHANGED = 5
_MAX_NAME_LENGTH = 28


def summary(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return the overall scores, without the per-label scores and the confusion matrix."""
    return {key: score for key, score in scores.items() if key not in BY_LABEL}


def scores_table(scores: Mapping[str, Any], kept: str = "") -> Group:
    """Return the overall scores, below a table of each class's precision, recall, F1 and support.

    Of many classes, the table has those with the lowest F1.

    Args:
        scores: result of ``compute`` of one of this package's classes. Without ``per_class`` there
            is no table.
        kept: says where the scores of all classes are, after a table that leaves some out.
    """
    overall = [
        f"{key} {score_text(value)}" for key, value in scores.items() if isinstance(value, float)
    ]
    line = Text(f"{count_of(scores['items'], 'item')}: {', '.join(overall)}")
    if "per_class" not in scores:
        return Group(line)
    table = Table(box=None, pad_edge=False)
    table.add_column("label")
    for heading in ("precision", "recall", "f1", "support"):
        table.add_column(heading, justify="right")
    rows, num_hidden = shown_labels(scores)
    for row in rows:
        ratios = (f"{row[key]:.3f}" for key in ("precision", "recall", "f1"))
        table.add_row(_label_text(row["label"]), *ratios, f"{row['support']:,}")
    if not num_hidden:
        return Group(table, line)
    hidden = f"and {count_of(num_hidden, 'label')} with an equal or higher F1"
    return Group(table, Text(f"{hidden}{kept and f'; {kept}'}"), line)


def precision_table(scores: Mapping[str, Any]) -> Group:
    """Return a table of the int8 scores next to the scores of the wider dtype.

    A line below gives the number of answers that differ.

    Args:
        scores: scores from ``heedful evaluate --precision int8``.
    """
    wider = scores["wider"]
    table = Table(box=None, pad_edge=False)
    table.add_column("score")
    for heading in ("int8", wider["number_format"], "difference"):
        table.add_column(heading, justify="right")
    for name, score in wider["scores"].items():
        change = difference_text(scores[name] - score, scores[name], score)
        table.add_row(name, score_text(scores[name]), score_text(score), change)
    if "answers_changed" not in wider:
        return Group(table)
    line = f"int8 changed {wider['answers_changed']:,} of {scores['items']:,} answers"
    return Group(table, Text(line))


def comparison_table(comparison: Mapping[str, Any]) -> Group:
    """Return a table of the scores of two runs and their differences, and some changed items.

    Args:
        comparison: the result that ``heedful compare`` prints.
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("score")
    for heading in ("first", "second", "difference", "95 % from", "to", "p"):
        table.add_column(heading, justify="right")
    for name, row in comparison["scores"].items():
        both = row["first"], row["second"]
        signed = (difference_text(row[key], *both) for key in ("difference", "low", "high"))
        p_value = "<0.0001" if row["p_value"] < 1e-4 else f"{row['p_value']:.4f}"
        table.add_row(name, *map(score_text, both), *signed, p_value)
    line = f"{comparison['items_that_differ']:,} of {comparison['items']:,} answers differ"
    return Group(table, Text(line), *map(_changed_line, comparison["lost"][:MOST_CHANGED]))


def _changed_line(item: Mapping[str, Any]) -> Text:
    text = shorten(" | ".join(item["texts"].values()), 60)
    first, second, truth = (
        shorten(str(item[key]), _MAX_NAME_LENGTH) for key in ("first", "second", "truth")
    )
    return Text(f"worse: {text}: {first} became {second}, true is {truth}")


def confusion_table(scores: Mapping[str, Any]) -> Group:
    """Return a table of the confusion matrix, or for many labels its most frequent mistakes.

    Args:
        scores: result of :meth:`ClassificationScores.compute` for single-label data.
    """
    names = [row["label"] for row in scores["per_class"]]
    if len(names) > LARGEST_MATRIX:
        return _mistakes_table(mistakes_of(scores))
    table = Table(box=None, pad_edge=False)
    # Columns are headed by numbers: long names fit only at the start of a row.
    table.add_column("true \\ predicted as")
    for number in range(1, len(names) + 1):
        table.add_column(str(number), justify="right")
    for number, (name, counts) in enumerate(zip(names, scores["confusion"], strict=True), 1):
        cells = [
            Text(f"{count:,}", style="bold" if column == number else "") if count else Text(".")
            for column, count in enumerate(counts, 1)
        ]
        table.add_row(Text(f"{number} ") + _label_text(name), *cells)
    return Group(table)


def _mistakes_table(mistakes: list[Mistake]) -> Group:
    table = Table(box=None, pad_edge=False)
    table.add_column("true")
    table.add_column("predicted as")
    table.add_column("items", justify="right")
    table.add_column("of the true", justify="right")
    for one in mistakes[:MOST_MISTAKES]:
        names = (_label_text(one.true), _label_text(one.predicted))
        table.add_row(*names, f"{one.items:,}", f"{one.share:.1%}")
    num_hidden = len(mistakes) - MOST_MISTAKES
    return Group(
        table,
        *([Text(f"and {count_of(num_hidden, 'rarer kind')} of mistake")] if num_hidden > 0 else []),
    )


def _label_text(label: str) -> Text:
    """Return a label as a `Text`, so that it is never parsed as markup."""
    return Text(shorten(label, _MAX_NAME_LENGTH))
