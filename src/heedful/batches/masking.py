"""Hiding tokens for masked language modelling (Devlin et al. 2019, section 3.1, task 1).

The model predicts 15 % of a sequence's tokens; it sees 80 % of them as ``[MASK]``, 10 % as a random
token and 10 % unchanged. The draws depend on (seed, epoch, index) alone, so each epoch hides other
tokens, and the number of workers does not change them.

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
"""The label of padding and of tokens that are not predicted; no loss counts it."""


Choose = Callable[
    [NDArray[np.int32], NDArray[np.int64], NDArray[np.uint64], int, "MaskRule"], NDArray[np.int64]
]
"""Chooses the positions of a sequence to predict.

It is given the ids, shape (T,); the positions of ordinary tokens, shape (N,); a random number for
each token, shape (T,), evenly drawn from all of 64 bits; how many positions are wanted; and the
rule. There is at least one ordinary token, and at least one is wanted.
"""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MaskRule:
    """Which tokens may be hidden, how many, and what replaces them."""

    mask_id: int
    special: NDArray[np.bool_]
    """(V,) True = a special token, which is never hidden."""
    replacements: NDArray[np.int64]
    """Ids of all other tokens, from which random ones are drawn."""
    choose: Choose
    """Chooses which are predicted."""
    continues: NDArray[np.bool_]
    """(V,) True = a token that continues a word. Empty where tokens are chosen one by one."""
    ends: NDArray[np.bool_]
    """(V,) True = a token that ends a word, so that none continues it. Empty as above."""
    phrases: Phrases | None
    """What is a word, too, although it has spaces; None for nothing."""
    share: float
    """Share of the ordinary tokens to predict; at least one is."""
    most: int | None
    """The most tokens to predict in a sequence; None for no limit."""


def mask_rule(
    tokenizer: Tokenizer,
    *,
    share: float = 0.15,
    masking: str = "token",
    phrases: Sequence[str] = (),
    most: int | None,
) -> MaskRule:
    """Build the rule for a vocabulary.

    Args:
        tokenizer: has the vocabulary.
        share: see `MaskRule`.
        masking: what is hidden together, one of `MASKINGS`.
        phrases: what is a word, too, although it has spaces.
        most: see `MaskRule`.

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
    edges = [_edges(tokenizer, token_id) for token_id in range(count)]
    continues, ends = np.array(edges, np.bool_).reshape(-1, 2).T  # each (V,)
    return MaskRule(
        mask_id=tokenizer.mask_token_id,
        special=special,
        replacements=np.flatnonzero(~special),
        choose=MASKINGS[masking],
        continues=continues,
        ends=ends,
        phrases=Phrases(phrases, tokenizer) if phrases else None,
        share=share,
        most=most,
    )


_WITHOUT_SPACES = re.compile(f"[{HAN}{WIDE_MARKS}]")


def _edges(tokenizer: Tokenizer, token_id: int) -> tuple[bool, bool]:
    """Tell whether a token continues a word, and whether it ends one.

    To a tokenizer that tells words by spaces alone, a Chinese sentence is a single word: there a
    word begins and ends with each token, unless a segmenter says otherwise.
    """
    continues, text = tokenizer.continues_word(token_id), tokenizer.text_of([token_id])
    return (
        continues and not _WITHOUT_SPACES.match(text),
        _WITHOUT_SPACES.match(text[-1:]) is not None,
    )


def hide_tokens(
    ids: NDArray[np.int32], rule: MaskRule, *, seed: int, epoch: int, index: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Hide tokens of a sequence.

    As in the original, the number of tokens to predict is not drawn: it is the share of the tokens,
    rounded.

    Args:
        ids: the sequence, special tokens included, perhaps with the bit
            `heedful.batches.segments.IN_WORD`. Shape (T,).
        rule: what to hide.
        seed: determines the draws together with ``epoch`` and ``index``. Not negative.
        epoch: number of the epoch.
        index: number of the sequence.

    Returns:
        The ids that the model sees, and the labels: the true id of each token to predict, else
        -100. Each of shape (T,).
    """
    stored, ids = ids, ids & ~IN_WORD
    seen = ids.astype(np.int64)
    labels = np.full(len(ids), IGNORED, np.int64)
    bits = np.random.PCG64(np.random.SeedSequence([seed, epoch, index]))
    # numpy promises its raw output; the modulus by a small number is close enough to uniform.
    order, fate, other = bits.random_raw(3 * len(ids)).reshape(3, -1)  # each (T,)
    ordinary = np.flatnonzero(~rule.special[ids])
    wanted = max(1, round(rule.share * len(ordinary)))
    wanted = min(wanted, len(ordinary), wanted if rule.most is None else rule.most)
    chosen = rule.choose(stored, ordinary, order, wanted, rule) if wanted else ordinary
    labels[chosen] = ids[chosen]
    fates = fate[chosen] % 10
    seen[chosen[fates < 8]] = rule.mask_id
    replaced = chosen[fates == 8]
    seen[replaced] = rule.replacements[other[replaced] % len(rule.replacements)]
    return seen, labels


def single_tokens(
    ids: NDArray[np.int32],
    ordinary: NDArray[np.int64],
    order: NDArray[np.uint64],
    wanted: int,
    rule: MaskRule,
) -> NDArray[np.int64]:
    """Choose each token by itself."""
    return ordinary[np.argsort(order[ordinary], kind="stable")[:wanted]]


def whole_words(
    ids: NDArray[np.int32],
    ordinary: NDArray[np.int64],
    order: NDArray[np.uint64],
    wanted: int,
    rule: MaskRule,
) -> NDArray[np.int64]:
    """Choose words in random order while they fit; one word if all are longer."""
    words, shuffled = _shuffled_words(ids, ordinary, order, rule)
    chosen: list[NDArray[np.int64]] = []
    room = wanted
    for number in shuffled:
        if len(words[number]) <= room:
            chosen.append(words[number])
            room -= len(words[number])
        if not room:
            break
    return np.concatenate(chosen or [words[shuffled[0]]])


def n_grams(
    ids: NDArray[np.int32],
    ordinary: NDArray[np.int64],
    order: NDArray[np.uint64],
    wanted: int,
    rule: MaskRule,
) -> NDArray[np.int64]:
    """Choose up to three words in a row, while they fit (Lan et al. 2020, section 4.1).

    How many is drawn with probabilities as 1, 1/2 and 1/3. Fewer are taken where a special token, a
    word that was chosen before, or the end of the room is nearer. One word is, if all are longer.
    """
    words, shuffled = _shuffled_words(ids, ordinary, order, rule)
    taken = np.zeros(len(words), np.bool_)
    room = wanted
    for number in shuffled:
        length = _LENGTHS[int(order[words[number][0]]) % len(_LENGTHS)]
        for at in range(number, min(number + length, len(words))):
            word = words[at]
            apart = at > number and word[0] != words[at - 1][-1] + 1
            if taken[at] or apart or len(word) > room:
                break
            taken[at] = True
            room -= len(word)
        if not room:
            break
    if not taken.any():
        taken[shuffled[0]] = True
    return np.concatenate([words[number] for number in np.flatnonzero(taken)])


_LENGTHS = (1,) * 6 + (2,) * 3 + (3,) * 2
"""Each length as often as in 11 draws on average."""


def _shuffled_words(
    ids: NDArray[np.int32], ordinary: NDArray[np.int64], order: NDArray[np.uint64], rule: MaskRule
) -> tuple[list[NDArray[np.int64]], list[int]]:
    """Return the positions of each word, and the numbers of the words in random order."""
    words = _words(ids, ordinary, rule)
    firsts = [word[0] for word in words]
    shuffled: list[int] = np.argsort(order[firsts], kind="stable").tolist()
    return words, shuffled


def _words(
    ids: NDArray[np.int32], ordinary: NDArray[np.int64], rule: MaskRule
) -> list[NDArray[np.int64]]:
    """Divide the positions of ordinary tokens into words."""
    # The token after a special token begins a word, even if the word's first piece was cut off.
    goes_on = (ids & IN_WORD != 0)[ordinary]
    ids = ids & ~IN_WORD
    goes_on |= rule.continues[ids[ordinary]] & ~rule.ends[ids[ordinary - 1]]
    begins = ~goes_on | (np.diff(ordinary, prepend=-2) > 1)
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
    "entity": whole_words,  # of a rule with phrases
}
"""What is hidden together, by the name that users give."""
