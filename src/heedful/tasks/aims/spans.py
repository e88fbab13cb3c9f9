"""Answers that are slices of a context.

Shapes: N times that the example is in a batch, T tokens.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.aim import Aim, Computed, side_of, window_notes
from heedful.batches import Batch
from heedful.errors import UserError
from heedful.reading.squad import Question
from heedful.tasks.answers.candidates import SpanAnswer
from heedful.tokens import PairLayout, Tokenizer


def span(
    computed: Computed[Question, Tensor, SpanAnswer],
    target: str | None,
    tokenizer: Tokenizer,
    scores: Callable[[Callable[..., Any], Batch], Tensor],
) -> Aim:
    """Explain how well an answer starts and ends where it does: the sum of both scores.

    Args:
        computed: the answer.
        target: a slice of the context, where it scores highest if it stands there more than once;
            by default the answer, or that there is none.
        tokenizer: the model's tokenizer.
        scores: a model and a batch to both scores of each token, shape (N, T, 2).

    Raises:
        UserError: there is no such slice, or it stands whole in no window.
    """
    record, answer = computed.record, computed.answer
    slices: list[tuple[int | None, int | None]] = [(answer.start, answer.end)]
    if target is not None:
        matches = re.finditer(f"(?={re.escape(target)})", record.context) if target else ()
        slices = [(match.start(), match.start() + len(target)) for match in matches]
        if not slices:
            raise UserError(f"--target {target!r} is not a slice of the context")
    places = [
        (float(output[ends[0], 0] + output[ends[1], 1]), -window, ends, (start, end))
        for window, output in enumerate(computed.outputs)
        for start, end in slices
        if (ends := _ends(computed.fitted.offsets[window], start, end, tokenizer.layout))
        is not None
    ]
    if not places:
        raise UserError(f"--target {target!r} is not whole in any window that the model reads")
    _, window, ends, (start, end) = max(places)
    window = -window

    def outputs(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        both = scores(forward, batch)  # (N, T, 2)
        rows = torch.arange(len(positions), device=both.device)
        first, last = positions.T
        return (both[rows, first, 0] + both[rows, last, 1])[:, None]

    texts = (record.question, record.context)
    return Aim(
        target="no answer" if start is None else f"answer {record.context[start:end]!r}",
        examples=(computed.fitted.pieces[window],),
        sides=(side_of("question and context", texts, computed.fitted.kept[window], tokenizer),),
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
    """Return the first and the last token of a slice; of no answer the window's class token."""
    if start is None or end is None:
        silent = layout.class_position(len(offsets))
        return silent, silent
    inside = np.flatnonzero((offsets[:, 0] >= 0) & (offsets[:, 0] < end) & (offsets[:, 1] > start))
    if not len(inside) or offsets[inside[0], 0] > start or offsets[inside[-1], 1] < end:
        return None
    return int(inside[0]), int(inside[-1])
