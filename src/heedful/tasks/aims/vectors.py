"""Vectors of texts.

Shapes: N times that the examples are in a batch, D width of a vector.
"""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from heedful.aim import Aim, Computed, side_of, window_notes
from heedful.batches import Batch
from heedful.errors import UserError
from heedful.reading import Record
from heedful.tokens import Tokenizer


def vectors(
    computed: Computed[Record, Tensor, Any],
    target: str | None,
    tokenizer: Tokenizer,
    encode: Callable[[Callable[..., Any], Batch], Tensor],
) -> Aim:
    """Explain the cosine of a pair, or how far the vector of a text reaches in its direction.

    Args:
        computed: the answer.
        target: nothing, for there is one number to explain.
        tokenizer: the model's tokenizer.
        encode: a model and a batch to the vector of each example.

    Raises:
        UserError: a target is named.
    """
    if target is not None:
        raise UserError(f"--target {target!r}: an embed run has only one number; leave it out")
    fitted, record = computed.fitted, computed.record
    texts = [record.text] if record.text_pair is None else [record.text, record.text_pair]
    parts = [example.part for example in fitted.pieces]
    firsts = [parts.index(number) for number in range(len(texts))]
    sides = tuple(
        side_of(name, [text], fitted.kept[first], tokenizer)
        for name, text, first in zip(("text", "other text"), texts, firsts, strict=False)
    )
    direction = F.normalize(computed.answer.vector, dim=0)  # (D,)

    def reach(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        rows = encode(forward, batch)  # (N, D)
        return rows @ direction.to(rows)[:, None]

    def cosine(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        rows = encode(forward, batch)
        return F.cosine_similarity(rows[::2], rows[1::2])[:, None]

    single = len(texts) == 1
    return Aim(
        target="the vector, along its direction" if single else "how alike the two texts are",
        examples=tuple(fitted.pieces[first] for first in firsts),
        sides=sides,
        outputs=reach if single else cosine,
        notes=tuple(
            note
            for number in range(len(texts))
            for note in window_notes(0, parts.count(number), "the first")
        ),
    )
