"""Texts to examples: encoded, fitted to what a model takes, special tokens in their places."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from heedful.batches.examples import Example
from heedful.batches.windows import Fitted, fit_pair, fit_text
from heedful.errors import UserError
from heedful.reading import Text
from heedful.settings import LongText
from heedful.tokens import BertTokenizer

# Texts tokenized at once: enough to make the cost of a call vanish, few enough to stay small.
_TOGETHER = 1024
_WINDOW_SHARE = 4
"""Neighbouring windows share a quarter of their tokens, so that each word has context in one."""


def features(
    texts: Iterable[Text], tokenizer: BertTokenizer, *, max_length: int, rule: LongText
) -> Iterator[Fitted[Example]]:
    """Encode each text, or pair, into one example, or several where it is read in windows.

    Args:
        texts: single texts or pairs, all of one kind.
        tokenizer: the model's tokenizer.
        max_length: the most tokens of an example, special tokens included.
        rule: what is done with a text that is too long.

    Raises:
        UserError: single texts and pairs are mixed, or a pair leaves no room for a window.
    """
    source = iter(texts)
    while chunk := list(islice(source, _TOGETHER)):
        firsts = [text if isinstance(text, str) else text[0] for text in chunk]
        seconds = [text[1] for text in chunk if not isinstance(text, str)]
        if seconds and len(seconds) < len(firsts):
            raise UserError("give either single texts or pairs of texts, not both at once")
        encoded = tokenizer.encode_batch(firsts)
        room = max_length - tokenizer.num_special_tokens(pair=bool(seconds))
        stride = room // _WINDOW_SHARE
        if not seconds:
            for ids in encoded:
                text = fit_text(ids, limit=room, rule=rule, stride=stride)
                yield Fitted(
                    pieces=[_example(tokenizer, piece) for piece in text.pieces],
                    tokens_total=text.tokens_total,
                    tokens_used=text.tokens_used,
                )
            continue
        for first, second in zip(encoded, tokenizer.encode_batch(seconds), strict=True):
            pair = fit_pair(first, second, limit=room, rule=rule, stride=stride)
            yield Fitted(
                pieces=[_example(tokenizer, *piece) for piece in pair.pieces],
                tokens_total=pair.tokens_total,
                tokens_used=pair.tokens_used,
            )


def _example(
    tokenizer: BertTokenizer, first: Sequence[int], second: Sequence[int] | None = None
) -> Example:
    ids, types = tokenizer.build_inputs(first, second)
    split = None if second is None else types.index(1)
    return Example(ids=np.array(ids, dtype=np.int32), split=split)
