"""Explanation targets for answers that are spans of a context.

Shapes: N copies of the example in a batch, T tokens.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.batches import Batch
from heedful.errors import UserError
from heedful.explanation_target import Answered, ExplanationTarget, side_of, window_notes
from heedful.reading.squad import Question
from heedful.tasks.answers.candidates import SpanAnswer
from heedful.tokens import PairLayout, Tokenizer


def span(
    computed: Answered[Question, Tensor, SpanAnswer],
    target: str | None,
    tokenizer: Tokenizer,
    scores: Callable[[Callable[..., Any], Batch], Tensor],
) -> ExplanationTarget:
    """Explain the score of an answer span: the sum of its start and end logits.

    Args:
        computed: the answer.
        target: a span of the context, the occurrence with the highest score; default: the answer,
            or no answer if that was given.
        tokenizer: the model's tokenizer.
        scores: returns the start and end logits for a model and a batch, shape (N, T, 2).

    Raises:
        UserError: the context has no such span, or no window contains the whole span.
    """
    record, answer = computed.record, computed.answer
    spans: list[tuple[int | None, int | None]] = [(answer.start, answer.end)]
    if target is not None:
        matches = re.finditer(f"(?={re.escape(target)})", record.context) if target else ()
        spans = [(match.start(), match.start() + len(target)) for match in matches]
        if not spans:
            raise UserError(f"--target {target!r} is not a slice of the context")
    candidates = [
        (float(output[ends[0], 0] + output[ends[1], 1]), -window, ends, (start, end))
        for window, output in enumerate(computed.outputs)
        for start, end in spans
        if (ends := _ends(computed.encoded.offsets[window], start, end, tokenizer.layout))
        is not None
    ]
    if not candidates:
        raise UserError(f"--target {target!r} is not completely in any window that the model reads")
    _, window, ends, (start, end) = max(candidates)
    window = -window

    def outputs(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        logits = scores(forward, batch)  # (N, T, 2)
        rows = torch.arange(len(positions), device=logits.device)
        first, last = positions.T
        return (logits[rows, first, 0] + logits[rows, last, 1])[:, None]

    texts = (record.question, record.context)
    return ExplanationTarget(
        description="no answer" if start is None else f"answer {record.context[start:end]!r}",
        examples=(computed.encoded.pieces[window],),
        sides=(side_of("question and context", texts, computed.encoded.kept[window], tokenizer),),
        outputs=outputs,
        positions=ends,
        notes=window_notes(
            window, len(computed.outputs), "where this answer has the highest score"
        ),
    )


def _ends(
    offsets: np.ndarray[Any, np.dtype[np.int32]],
    start: int | None,
    end: int | None,
    layout: PairLayout,
) -> tuple[int, int] | None:
    """Return the first and last token of a span; for no answer, the class token twice."""
    if start is None or end is None:
        class_position = layout.class_position(len(offsets))
        return class_position, class_position
    tokens = np.flatnonzero((offsets[:, 0] >= 0) & (offsets[:, 0] < end) & (offsets[:, 1] > start))
    if not len(tokens) or offsets[tokens[0], 0] > start or offsets[tokens[-1], 1] < end:
        return None
    return int(tokens[0]), int(tokens[-1])
