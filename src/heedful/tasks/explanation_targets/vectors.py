"""Explanation targets for embeddings.

Shapes: N copies of the examples in a batch, D embedding size.
"""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from heedful.batches import Batch
from heedful.errors import UserError
from heedful.explanation_target import Answered, ExplanationTarget, side_of, window_notes
from heedful.reading import Record
from heedful.tokens import Tokenizer


def vectors(
    computed: Answered[Record, Tensor, Any],
    target: str | None,
    tokenizer: Tokenizer,
    encode: Callable[[Callable[..., Any], Batch], Tensor],
) -> ExplanationTarget:
    """Explain the cosine of a pair, or the projection of an embedding on its own direction.

    Args:
        computed: the answer.
        target: must be None: there is only one number to explain.
        tokenizer: the model's tokenizer.
        encode: returns the embedding of each example for a model and a batch.

    Raises:
        UserError: a target is given.
    """
    if target is not None:
        raise UserError(f"--target {target!r}: an embed run has only one number; leave it out")
    fitted, record = computed.encoded, computed.record
    texts = [record.text] if record.text_pair is None else [record.text, record.text_pair]
    parts = [example.part for example in fitted.pieces]
    first_windows = [parts.index(number) for number in range(len(texts))]
    sides = tuple(
        side_of(name, [text], fitted.kept[first], tokenizer)
        for name, text, first in zip(("text", "other text"), texts, first_windows, strict=False)
    )
    direction = F.normalize(computed.answer.vector, dim=0)  # (D,)

    def projection(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        embeddings = encode(forward, batch)  # (N, D)
        return embeddings @ direction.to(embeddings)[:, None]

    def cosine(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        embeddings = encode(forward, batch)
        return F.cosine_similarity(embeddings[::2], embeddings[1::2])[:, None]

    single = len(texts) == 1
    return ExplanationTarget(
        description="the vector, along its direction" if single else "similarity of the two texts",
        examples=tuple(fitted.pieces[first] for first in first_windows),
        sides=sides,
        outputs=projection if single else cosine,
        notes=tuple(
            note
            for number in range(len(texts))
            for note in window_notes(0, parts.count(number), "the first")
        ),
    )
