"""Mask tokens for masked language modelling (Devlin et al. 2019, section 3.1, task 1).

The model predicts 15 % of a sequence's tokens. It sees 80 % of these as ``[MASK]``, 10 % as a
random token and 10 % unchanged. The draws depend only on (seed, epoch, index). So each epoch masks
different tokens, and the number of workers does not affect the result.

Shapes: T length of a sequence, V vocabulary.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heedful.batches.phrases import Phrases
from heedful.batches.segments import IN_WORD
from heedful.errors import UserError
from heedful.scripts import HAN, WIDE_MARKS
from heedful.tokens import Tokenizer

IGNORED = -100
"""Label of padding and of tokens that are not predicted. Every loss ignores it."""


Choose = Callable[
    [NDArray[np.int32], NDArray[np.int64], NDArray[np.uint64], int, "MaskRule"], NDArray[np.int64]
]
"""Chooses the positions of a sequence to predict.

Its arguments are the ids, shape (T,); the positions of ordinary tokens, shape (N,); a uniform
random 64-bit number for each token, shape (T,); the number of positions to choose; and the rule.
There is at least one ordinary token, and at least one is to be chosen.
"""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MaskRule:
    """Which tokens may be masked, how many, and their replacements."""

    mask_id: int
    special: NDArray[np.bool_]
    """(V,) True = a special token, which is never masked."""
    replacements: NDArray[np.int64]
    """Ids of all other tokens, from which random replacements are drawn."""
    choose: Choose
    """Chooses the tokens to predict."""
    continues: NDArray[np.bool_]
    """(V,) True = a token that continues a word. Empty if tokens are chosen individually."""
    ends: NDArray[np.bool_]
    """(V,) True = a token that ends a word, so no token continues it. Empty as above."""
    phrases: Phrases | None
    """Phrases that count as one word although they contain spaces; None for no phrases."""
    share: float
    """Share of the ordinary tokens to predict. At least one token is predicted."""
    max_predictions: int | None
    """Maximum tokens to predict per sequence; None for no limit."""


def mask_rule(
    tokenizer: Tokenizer,
    *,
    share: float = 0.15,
    masking: str = "token",
    phrases: Sequence[str] = (),
    max_predictions: int | None,
) -> MaskRule:
    """Build the rule for a tokenizer's vocabulary.

    Args:
        tokenizer: the tokenizer with the vocabulary.
        share: see `MaskRule`.
        masking: the unit of masking, one of `MASKINGS`.
        phrases: phrases that count as one word although they contain spaces.
        max_predictions: see `MaskRule`.

    Raises:
        UserError: the vocabulary has no mask token, or only special tokens.
    """
    assert 0 < share <= 1
    if tokenizer.mask_token_id is None:
        raise UserError(
            f"{tokenizer.vocabulary.source}: there is no {tokenizer.mask_token} in the vocabulary, "
            "so no token can be hidden; learn one with heedful vocabulary, or add a line for it"
        )
    special = np.zeros(len(tokenizer), np.bool_)
    special[tokenizer.all_special_ids] = True
    if special.all():
        raise UserError(f"{tokenizer.vocabulary.source}: the vocabulary has only special tokens")
    count = 0 if masking == "token" else len(tokenizer)
    boundaries = [_word_boundaries(tokenizer, token_id) for token_id in range(count)]
    continues, ends = np.array(boundaries, np.bool_).reshape(-1, 2).T  # each (V,)
    return MaskRule(
        mask_id=tokenizer.mask_token_id,
        special=special,
        replacements=np.flatnonzero(~special),
        choose=MASKINGS[masking],
        continues=continues,
        ends=ends,
        phrases=Phrases(phrases, tokenizer) if phrases else None,
        share=share,
        max_predictions=max_predictions,
    )


_WITHOUT_SPACES = re.compile(f"[{HAN}{WIDE_MARKS}]")


def _word_boundaries(tokenizer: Tokenizer, token_id: int) -> tuple[bool, bool]:
    """Return whether a token continues a word, and whether it ends one.

    A tokenizer that splits words only at spaces takes a Chinese sentence for a single word. In
    Chinese, each token is therefore a word of its own, unless a segmenter says otherwise.
    """
    continues, text = tokenizer.continues_word(token_id), tokenizer.text_of([token_id])
    return (
        continues and not _WITHOUT_SPACES.match(text),
        _WITHOUT_SPACES.match(text[-1:]) is not None,
    )


def mask_tokens(
    ids: NDArray[np.int32], rule: MaskRule, *, seed: int, epoch: int, index: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Mask tokens of a sequence.

    As in the original, the number of tokens to predict is not random. It is the rounded share of
    the ordinary tokens.

    Args:
        ids: the sequence, special tokens included. Ids may have the bit
            `heedful.batches.segments.IN_WORD` set. Shape (T,).
        rule: the masking rule.
        seed: determines the draws, with ``epoch`` and ``index``. Not negative.
        epoch: number of the epoch.
        index: number of the sequence.

    Returns:
        The model's input ids, and the labels: the original id of each token to predict, -100 for
        other tokens. Each of shape (T,).
    """
    stored, ids = ids, ids & ~IN_WORD
    seen = ids.astype(np.int64)
    labels = np.full(len(ids), IGNORED, np.int64)
    rng = np.random.PCG64(np.random.SeedSequence([seed, epoch, index]))
    # numpy guarantees its raw output. The modulus by a small number is close enough to uniform.
    sort_keys, fate_draws, id_draws = rng.random_raw(3 * len(ids)).reshape(3, -1)  # each (T,)
    ordinary = np.flatnonzero(~rule.special[ids])
    wanted = max(1, round(rule.share * len(ordinary)))
    wanted = min(
        wanted, len(ordinary), wanted if rule.max_predictions is None else rule.max_predictions
    )
    chosen = rule.choose(stored, ordinary, sort_keys, wanted, rule) if wanted else ordinary
    labels[chosen] = ids[chosen]
    fates = fate_draws[chosen] % 10
    seen[chosen[fates < 8]] = rule.mask_id
    replaced = chosen[fates == 8]
    seen[replaced] = rule.replacements[id_draws[replaced] % len(rule.replacements)]
    return seen, labels


def single_tokens(
    ids: NDArray[np.int32],
    ordinary: NDArray[np.int64],
    order: NDArray[np.uint64],
    wanted: int,
    rule: MaskRule,
) -> NDArray[np.int64]:
    """Choose tokens individually."""
    return ordinary[np.argsort(order[ordinary], kind="stable")[:wanted]]


def whole_words(
    ids: NDArray[np.int32],
    ordinary: NDArray[np.int64],
    order: NDArray[np.uint64],
    wanted: int,
    rule: MaskRule,
) -> NDArray[np.int64]:
    """Choose words in random order while they fit. If no word fits, choose one word."""
    words, shuffled = _shuffled_words(ids, ordinary, order, rule)
    chosen: list[NDArray[np.int64]] = []
    budget = wanted
    for word_index in shuffled:
        if len(words[word_index]) <= budget:
            chosen.append(words[word_index])
            budget -= len(words[word_index])
        if not budget:
            break
    return np.concatenate(chosen or [words[shuffled[0]]])


def n_grams(
    ids: NDArray[np.int32],
    ordinary: NDArray[np.int64],
    order: NDArray[np.uint64],
    wanted: int,
    rule: MaskRule,
) -> NDArray[np.int64]:
    """Choose n-grams of up to three words while they fit (Lan et al. 2020, section 4.1).

    The length n is drawn with probabilities proportional to 1, 1/2 and 1/3. An n-gram is shorter if
    it meets a special token or an already chosen word, or if the next word no longer fits. If no
    word fits, one word is chosen.
    """
    words, shuffled = _shuffled_words(ids, ordinary, order, rule)
    taken = np.zeros(len(words), np.bool_)
    budget = wanted
    for word_index in shuffled:
        length = _LENGTHS[int(order[words[word_index][0]]) % len(_LENGTHS)]
        for position in range(word_index, min(word_index + length, len(words))):
            word = words[position]
            is_gap = position > word_index and word[0] != words[position - 1][-1] + 1
            if taken[position] or is_gap or len(word) > budget:
                break
            taken[position] = True
            budget -= len(word)
        if not budget:
            break
    if not taken.any():
        taken[shuffled[0]] = True
    return np.concatenate([words[word_index] for word_index in np.flatnonzero(taken)])


_LENGTHS = (1,) * 6 + (2,) * 3 + (3,) * 2
"""Each n-gram length, as often as expected in 11 draws."""


def _shuffled_words(
    ids: NDArray[np.int32], ordinary: NDArray[np.int64], order: NDArray[np.uint64], rule: MaskRule
) -> tuple[list[NDArray[np.int64]], list[int]]:
    """Return the positions of each word, and the word indices in random order."""
    words = _words(ids, ordinary, rule)
    firsts = [word[0] for word in words]
    shuffled: list[int] = np.argsort(order[firsts], kind="stable").tolist()
    return words, shuffled


def _words(
    ids: NDArray[np.int32], ordinary: NDArray[np.int64], rule: MaskRule
) -> list[NDArray[np.int64]]:
    """Divide the positions of ordinary tokens into words."""
    # The token after a special token begins a word, even if the word's first piece is cut off.
    continues = (ids & IN_WORD != 0)[ordinary]
    ids = ids & ~IN_WORD
    continues |= rule.continues[ids[ordinary]] & ~rule.ends[ids[ordinary - 1]]
    begins = ~continues | (np.diff(ordinary, prepend=-2) > 1)
    if rule.phrases is not None:
        in_sequence = np.zeros(len(ids) + 1, np.bool_)
        in_sequence[ordinary] = begins
        for start, end in rule.phrases.spans(ids):
            in_sequence[start:end] = False
            in_sequence[[start, end]] = True
        begins = in_sequence[ordinary]
    return np.split(ordinary, np.flatnonzero(begins)[1:])


MASKINGS: dict[str, Choose] = {
    "token": single_tokens,
    "word": whole_words,
    "n-gram": n_grams,
    "entity": whole_words,  # in a rule with phrases
}
"""How to choose the tokens to mask, by user-facing name of the unit."""
