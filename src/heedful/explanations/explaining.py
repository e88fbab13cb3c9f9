"""Compute the explanation of a record."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import torch

from heedful.explanation_target import Answered, ExplanationTarget, NothingToExplainError
from heedful.explanations.explanation import (
    ATTENTION_NOTE,
    AttentionMap,
    Attribution,
    Explanation,
)
from heedful.explanations.flow import rollout
from heedful.explanations.maps import attention_maps
from heedful.explanations.methods import METHODS
from heedful.explanations.subject import Subject
from heedful.explanations.words import by_words
from heedful.models.model import Model
from heedful.predictor import Predictor
from heedful.settings import ExplainSettings, PredictSettings


def explain_record(
    predictor: Predictor,
    record: Any,
    settings: ExplainSettings,
    computing: PredictSettings | None = None,
    *,
    check: Callable[[], None] = lambda: None,
) -> Explanation:
    """Predict the answer for a record, and explain it.

    Args:
        predictor: the predictor of the run.
        record: a record from the task's ``read`` or ``from_texts``.
        settings: the target and methods of the explanation.
        computing: prediction settings; by default the predictor's own.
        check: called before each batch is computed. An exception that it raises ends the
            explanation.

    Raises:
        NothingToExplainError: the record is empty, or has nothing that this run explains.
        UserError: there is no such target, or a method does not apply to this model.
    """
    subject, answer = subject_of(predictor, record, settings.target, computing)
    subject = replace(subject, check=check)
    explained = subject.target
    maps = () if settings.attention is False else _maps(subject)
    methods = [name for name in settings.method if name != "none"]
    attributions = tuple(METHODS[name](subject, settings.token) for name in methods)
    explanation = Explanation(
        task=predictor.task.name,
        model=predictor.name,
        answer=answer.to_dict(everything=True),
        sides=(*explained.sides, *(explained.decoder_tokens or ())),
        attention=maps,
        attributions=attributions,
        notes=tuple(_notes(predictor, answer, explained, maps, attributions)),
    )
    return by_words(explanation) if settings.words else explanation


def subject_of(
    predictor: Predictor,
    record: Any,
    target: str | None,
    computing: PredictSettings | None = None,
) -> tuple[Subject, Any]:
    """Return the subject of a record's explanation, and the answer.

    The answer is computed in the predictor's precision. The explanation is computed in at least
    fp32, because half precision is too coarse for differences of outputs.

    Raises:
        NothingToExplainError: the record is empty, or has nothing that this run explains.
        UserError: there is no such target.
    """
    task, settings = predictor.task, computing or predictor.settings
    (fitted,) = predictor.encode([record], settings)
    (outputs,) = predictor.computed([fitted], settings)
    if not fitted.pieces or not fitted.tokens_total:
        raise NothingToExplainError("the text is empty: there is nothing to explain")
    answer = task.decode(record, fitted, outputs, settings, predictor.tokenizer)
    computed = Answered(record=record, encoded=fitted, outputs=outputs, answer=answer)
    subject = Subject(
        model=_separate_modules(predictor.model),
        task=task,
        tokenizer=predictor.tokenizer,
        target=task.explanation_target(computed, target, predictor.tokenizer),
        batch_tokens=predictor.max_batch_tokens(settings),
    )
    return subject, answer


def _separate_modules(model: Model) -> Model:
    """Return a copy of the modules, so that hooks do not affect predictions of other threads.

    The copy shares the weights, except half-precision weights, which are converted to fp32 copies.
    """
    if next(model.parameters()).dtype in (torch.bfloat16, torch.float16):
        return copy.deepcopy(model).float()
    weights: dict[int, Any] = {
        id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())
    }
    return copy.deepcopy(model, weights)


def _maps(subject: Subject) -> tuple[AttentionMap, ...]:
    """Return the model's attention maps, and the rollout of each encoder map."""
    maps = attention_maps(subject)
    rolled = [
        AttentionMap(
            kind="rollout",
            rows=attention_map.rows,
            columns=attention_map.columns,
            weights=rollout(attention_map.weights)[:, None].astype(np.float32),
        )
        for attention_map in maps
        if attention_map.kind == "encoder"
    ]
    return (*maps, *rolled)


def _notes(
    predictor: Predictor,
    answer: Any,
    target: ExplanationTarget,
    maps: tuple[AttentionMap, ...],
    attributions: tuple[Attribution, ...],
) -> Iterator[str]:
    if answer.tokens_used < answer.tokens_total:
        yield (
            f"The model read {answer.tokens_used:,} of the text's {answer.tokens_total:,} tokens."
        )
    yield from target.notes
    if maps:
        yield ATTENTION_NOTE
    for one in attributions:
        check = one.completeness
        if check is not None and not check.held:
            yield (
                f"The scores of {one.method} add up to {check.total:.4f} and not, as they should, "
                f"to {check.difference:.4f}, even with {check.steps} steps: do not rely on them."
            )
        if one.note is not None:
            yield one.note
    if predictor.precision.int8:
        yield "The answer was computed in int8, and its explanation in fp32."
    elif predictor.precision.dtype is not torch.float32:
        yield "The answer was computed in half precision, and its explanation in fp32."
