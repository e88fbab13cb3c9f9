"""Encode texts as examples: tokenize, fit to the model's length, add special tokens."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from heedful.batches.examples import Example
from heedful.batches.windows import WINDOW_SHARE, Fitted, fit_pair, fit_text
from heedful.errors import UserError
from heedful.reading import Text
from heedful.settings import LongText
from heedful.tokens import PairLayout, Tokenizer

# Texts per tokenizer call: enough to make the call overhead negligible, few enough for memory.
_CHUNK_TEXTS = 1024


def features(
    texts: Iterable[Text], tokenizer: Tokenizer, *, max_length: int, rule: LongText
) -> Iterator[Fitted[Example]]:
    """Encode each text or pair as one example, or as several if it is split into windows.

    Args:
        texts: single texts or pairs, all of one kind.
        tokenizer: the model's tokenizer.
        max_length: maximum tokens per example, special tokens included.
        rule: how to handle a text that is too long.

    Raises:
        NoRoomError: a text is too long, and the rule is ``refuse``.
        UserError: single texts and pairs are mixed.
    """
    source = iter(texts)
    while chunk := list(islice(source, _CHUNK_TEXTS)):
        firsts = [text if isinstance(text, str) else text[0] for text in chunk]
        seconds = [text[1] for text in chunk if not isinstance(text, str)]
        if seconds and len(seconds) < len(firsts):
            raise UserError("give either single texts or pairs of texts, not both at once")
        encoded = tokenizer.encode_batch(firsts)
        room = max_length - tokenizer.layout.size(pair=bool(seconds))
        stride = room // WINDOW_SHARE
        if not seconds:
            for ids in encoded:
                text = fit_text(ids, limit=room, rule=rule, stride=stride)
                yield Fitted(
                    pieces=[_example(tokenizer, piece) for piece in text.pieces],
                    tokens_total=text.tokens_total,
                    tokens_used=text.tokens_used,
                    kept=text.kept,
                )
            continue
        for first, second in zip(encoded, tokenizer.encode_batch(seconds), strict=True):
            pair = fit_pair(first, second, limit=room, rule=rule, stride=stride)
            yield Fitted(
                pieces=[_example(tokenizer, *piece) for piece in pair.pieces],
                tokens_total=pair.tokens_total,
                tokens_used=pair.tokens_used,
                kept=pair.kept,
            )


def row_ids(ids: NDArray[np.int32], layout: PairLayout) -> NDArray[np.int32]:
    """Return the ids of a row: a text with special tokens. Shapes: (N,) to (T,)."""
    begin = len(layout.begin)
    row = np.empty(begin + len(ids) + len(layout.end), np.int32)
    row[:begin], row[begin : begin + len(ids)], row[begin + len(ids) :] = (
        layout.begin,
        ids,
        layout.end,
    )
    return row


def row_offsets(
    offsets: NDArray[np.int32], layout: PairLayout, first: int | None = None
) -> NDArray[np.int32]:
    """Return the offsets of a row's tokens in one of its texts, (-1, -1) for all other tokens.

    Args:
        offsets: start and end of each token of that text. Shape (N, 2).
        layout: the special tokens around texts.
        first: token count of the text before it; None if it is the first text.

    Shape:
        (T, 2).
    """
    num_before = len(layout.begin) if first is None else layout.second_start(first)
    row = np.full((num_before + len(offsets) + len(layout.end), 2), -1, dtype=np.int32)
    row[num_before : num_before + len(offsets)] = offsets
    return row


def _example(
    tokenizer: Tokenizer, first: Sequence[int], second: Sequence[int] | None = None
) -> Example:
    layout = tokenizer.layout
    ids = np.array(layout.ids(first, second), dtype=np.int32)
    if second is None:
        return Example(ids=ids, split=layout.single_type_split(len(ids)))
    return Example(ids=ids, split=layout.type_split(len(first)))
