"""Input texts and answers of each task as tensors, for the Open Inference Protocol.

Shapes: B texts, L labels, D embedding size, N entities or words of all texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heedful.errors import unknown_name
from heedful.reading import Text
from heedful.serving.problem import Problem
from heedful.serving.tensors import Datatype, Tensor
from heedful.task import AnyTask
from heedful.tasks.classify import Classify
from heedful.tasks.regress import Regress


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """The tensors of a task."""

    inputs: tuple[str, ...]
    """Names of the input tensors, of shape (B,); ``choices`` is of shape (B, C)."""
    optional: tuple[str, ...] = ()
    """Names of the optional input tensors."""
    outputs: tuple[tuple[str, Datatype, int], ...]
    """Name, datatype and number of dimensions of each output tensor."""
    tensors: Callable[[Sequence[Any]], list[Tensor]]
    """Converts answers to tensors, in the order of the outputs."""


def _column(name: str, datatype: Datatype, data: Any, width: int | None = None) -> Tensor:
    return Tensor(name=name, datatype=datatype, data=data, width=width)


def _rows(name: str, rows: Sequence[Any]) -> Tensor:
    """Return rows of floats, (B, D), as a tensor."""
    array = np.asarray(rows, dtype=np.float32)
    return _column(name, "FP32", array.reshape(-1), array.shape[1])


def _labels(answers: Sequence[Any]) -> list[Tensor]:
    return [
        _column("label", "BYTES", [answer.label for answer in answers]),
        _column("score", "FP32", [answer.score for answer in answers]),
        *_label_scores(answers),
    ]


def _label_scores(answers: Sequence[Any]) -> list[Tensor]:
    return [
        _rows("scores", [list(answer.scores.values()) for answer in answers]),
        _column("labels", "BYTES", list(answers[0].scores)),
    ]


def _several_labels(answers: Sequence[Any]) -> list[Tensor]:
    chosen = [[label in answer.label for label in answer.scores] for answer in answers]
    flags = _column("chosen", "BOOL", np.array(chosen).reshape(-1), len(chosen[0]))
    return [flags, *_label_scores(answers)]


def _values(answers: Sequence[Any]) -> list[Tensor]:
    return [_column("value", "FP32", [answer.value for answer in answers])]


def _entities(answers: Sequence[Any]) -> list[Tensor]:
    rows = [(number, entity) for number, answer in enumerate(answers) for entity in answer.entities]
    return [
        _column("row", "INT64", [number for number, _ in rows]),
        _column("label", "BYTES", [entity.label for _, entity in rows]),
        _column("start", "INT64", [entity.start for _, entity in rows]),
        _column("end", "INT64", [entity.end for _, entity in rows]),
        _column("text", "BYTES", [entity.text for _, entity in rows]),
        _column("score", "FP32", [entity.score for _, entity in rows]),
    ]


def _spans(answers: Sequence[Any]) -> list[Tensor]:
    return [
        _column("answered", "BOOL", [answer.answer is not None for answer in answers]),
        _column("answer", "BYTES", [answer.answer or "" for answer in answers]),
        _column("start", "INT64", [answer.start or 0 for answer in answers]),
        _column("end", "INT64", [answer.end or 0 for answer in answers]),
        _column("score", "FP32", [answer.score for answer in answers]),
    ]


def _choices(answers: Sequence[Any]) -> list[Tensor]:
    return [
        _column("choice", "INT64", [answer.choice for answer in answers]),
        _column("text", "BYTES", [answer.text for answer in answers]),
        _rows("scores", [answer.scores for answer in answers]),
    ]


def _vectors(answers: Sequence[Any]) -> list[Tensor]:
    tensors = [_rows("embedding", [answer.vector.numpy() for answer in answers])]
    if answers[0].vector_pair is not None:
        tensors.append(_column("similarity", "FP32", [answer.similarity for answer in answers]))
    return tensors


def _words(answers: Sequence[Any]) -> list[Tensor]:
    if answers[0].next_sentence is not None:
        return [_column("next_sentence", "FP32", [answer.next_sentence for answer in answers])]
    rows = [
        (number, blank.start, one)
        for number, answer in enumerate(answers)
        for blank in answer.blanks
        for one in blank.candidates
    ]
    return [
        _column("text", "BYTES", [answer.text for answer in answers]),
        _column("row", "INT64", [number for number, _, _ in rows]),
        _column("start", "INT64", [start for _, start, _ in rows]),
        _column("token", "BYTES", [one.token for _, _, one in rows]),
        _column("score", "FP32", [one.score for _, _, one in rows]),
    ]


def _suspects(answers: Sequence[Any]) -> list[Tensor]:
    rows = [(number, word) for number, answer in enumerate(answers) for word in answer.replaced]
    return [
        _column("row", "INT64", [number for number, _ in rows]),
        _column("start", "INT64", [word.start for _, word in rows]),
        _column("end", "INT64", [word.end for _, word in rows]),
        _column("text", "BYTES", [word.text for _, word in rows]),
        _column("score", "FP32", [word.score for _, word in rows]),
    ]


def _generated(answers: Sequence[Any]) -> list[Tensor]:
    return [
        _column("text", "BYTES", [answer.text for answer in answers]),
        _column("score", "FP32", [answer.n_best[0].score for answer in answers]),
    ]


_SCORES: tuple[tuple[str, Datatype, int], ...] = (("scores", "FP32", 2), ("labels", "BYTES", 1))

_COLUMNS: dict[str, Columns] = {
    "classify": Columns(
        inputs=("text",),
        outputs=(("label", "BYTES", 1), ("score", "FP32", 1), *_SCORES),
        tensors=_labels,
    ),
    "regress": Columns(inputs=("text",), outputs=(("value", "FP32", 1),), tensors=_values),
    "tag": Columns(
        inputs=("text",),
        outputs=(
            ("row", "INT64", 1),
            ("label", "BYTES", 1),
            ("start", "INT64", 1),
            ("end", "INT64", 1),
            ("text", "BYTES", 1),
            ("score", "FP32", 1),
        ),
        tensors=_entities,
    ),
    "answer": Columns(
        inputs=("question", "context"),
        outputs=(
            ("answered", "BOOL", 1),
            ("answer", "BYTES", 1),
            ("start", "INT64", 1),
            ("end", "INT64", 1),
            ("score", "FP32", 1),
        ),
        tensors=_spans,
    ),
    "choose": Columns(
        inputs=("question", "choices"),
        outputs=(("choice", "INT64", 1), ("text", "BYTES", 1), ("scores", "FP32", 2)),
        tensors=_choices,
    ),
    "embed": Columns(
        inputs=("text",),
        optional=("text_pair",),
        outputs=(("embedding", "FP32", 2),),
        tensors=_vectors,
    ),
    "pretrain": Columns(
        inputs=("text",),
        optional=("text_pair",),
        outputs=(
            ("text", "BYTES", 1),
            ("row", "INT64", 1),
            ("start", "INT64", 1),
            ("token", "BYTES", 1),
            ("score", "FP32", 1),
        ),
        tensors=_words,
    ),
    "generate": Columns(
        inputs=("text",), outputs=(("text", "BYTES", 1), ("score", "FP32", 1)), tensors=_generated
    ),
    "translate": Columns(
        inputs=("text",),
        optional=("prefix",),
        outputs=(("text", "BYTES", 1), ("score", "FP32", 1)),
        tensors=_generated,
    ),
}

USED: tuple[tuple[str, Datatype, int], ...] = (
    ("tokens_total", "INT64", 1),
    ("tokens_used", "INT64", 1),
)
"""Output tensors of every task."""


_REPLACED = Columns(
    inputs=("text",),
    outputs=(
        ("row", "INT64", 1),
        ("start", "INT64", 1),
        ("end", "INT64", 1),
        ("text", "BYTES", 1),
        ("score", "FP32", 1),
    ),
    tensors=_suspects,
)
"""Tensors of a pretraining run with replaced-token detection."""


def columns_of(task: AnyTask) -> Columns:
    """Return the tensors of a run's task."""
    columns = _COLUMNS[task.name]
    if task.name == "pretrain" and "write" in task.abilities:
        columns = _COLUMNS["generate"]
    elif task.name == "pretrain" and "fill" not in task.abilities:
        columns = _REPLACED
    inputs, outputs, tensors = columns.inputs, columns.outputs, columns.tensors
    if isinstance(task, Classify) and task.multi_label:
        outputs, tensors = (("chosen", "BOOL", 2), *_SCORES), _several_labels
    optional = columns.optional
    if isinstance(task, Classify | Regress) and task.pairs is not False:
        pair_inputs = ("text", "text_pair")
        inputs, optional = (pair_inputs, ()) if task.pairs else (pair_inputs[:1], pair_inputs[1:])
    return Columns(inputs=inputs, optional=optional, outputs=(*outputs, *USED), tensors=tensors)


def texts_of(columns: Columns, arrays: dict[str, Any]) -> list[Text]:
    """Return the inputs of a request, each a text or a tuple of texts.

    Raises:
        Problem: a tensor is missing, unknown, of the wrong shape, or of a different length.
    """
    for name in arrays:
        if name not in (*columns.inputs, *columns.optional):
            names = (*columns.inputs, *columns.optional)
            raise Problem("validation", str(unknown_name("input", name, names)))
    for name in columns.inputs:
        if name not in arrays:
            raise Problem("validation", f"no input {name!r}")
    present = [name for name in (*columns.inputs, *columns.optional) if name in arrays]
    parts = []
    for name in present:
        array = arrays[name]
        if name == "choices":
            if array.ndim != 2:
                raise Problem("validation", "choices: expected the shape [texts, choices]")
            parts.append([tuple(row) for row in array])
            continue
        if array.ndim == 2 and array.shape[1] == 1:  # clients often send batches in this shape
            array = array[:, 0]
        if array.ndim != 1:
            raise Problem("validation", f"{name}: expected one dimension, of texts")
        parts.append([(text,) for text in array])
    if len({len(part) for part in parts}) > 1 or not parts[0]:
        sizes = ", ".join(
            f"{len(part)} in {name}" for name, part in zip(present, parts, strict=True)
        )
        raise Problem("validation", f"expected as many texts in each, and at least one: {sizes}")
    joined: list[Any] = [sum(row, ()) for row in zip(*parts, strict=True)]
    return [row[0] if len(row) == 1 else row for row in joined]


def tensors_of(columns: Columns, answers: Sequence[Any]) -> list[Tensor]:
    """Return the output tensors of answers."""
    return [
        *columns.tensors(answers),
        _column("tokens_total", "INT64", [answer.tokens_total for answer in answers]),
        _column("tokens_used", "INT64", [answer.tokens_used for answer in answers]),
    ]
