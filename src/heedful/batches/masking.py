"""Hiding tokens for masked language modelling (Devlin et al. 2019, section 3.1, task 1).

Of a sequence's tokens 15 % are to be predicted; of those the model sees 80 % as ``[MASK]``, 10 % as
a random token and 10 % as they are. What is drawn depends on (seed, epoch, index) alone, so each
epoch hides other tokens and no number of workers changes them.

Shapes: T length of a sequence, V vocabulary.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError
from heedful.tokens import Tokenizer

IGNORED = -100
"""The label of a token that is not to be predicted."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MaskRule:
    """Which tokens may be hidden, how many, and what takes their place."""

    mask_id: int
    special: NDArray[np.bool_]
    """(V,) True = a special token, which is never hidden."""
    replacements: NDArray[np.int64]
    """Ids of all others: what a random token is drawn from."""
    continues: NDArray[np.bool_] | None
    """(V,) True = a token that goes on with the word before it, to hide words whole; None hides
    single tokens."""
    share: float
    """Share of the ordinary tokens that are to be predicted, at least one of them."""
    most: int | None
    """The most tokens of a sequence that are to be predicted; None sets no bound."""


def mask_rule(
    tokenizer: Tokenizer, *, share: float = 0.15, whole_word: bool = False, most: int | None
) -> MaskRule:
    """Build the rule for a vocabulary.

    Raises:
        UserError: the vocabulary has no mask token, or none but special ones.
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
    continues = (
        np.array([tokenizer.continues_word(token_id) for token_id in range(len(tokenizer))])
        if whole_word
        else None
    )
    return MaskRule(
        mask_id=tokenizer.mask_token_id,
        special=special,
        replacements=np.flatnonzero(~special),
        continues=continues,
        share=share,
        most=most,
    )


def hide_tokens(
    ids: NDArray[np.int32], rule: MaskRule, *, seed: int, epoch: int, index: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Hide tokens of a sequence.

    As in the original, how many are to be predicted is not drawn but the share of the tokens,
    rounded. With whole words, words are taken in random order as long as they fit into that number.

    Args:
        ids: the sequence, special tokens included. Shape (T,).
        rule: what to hide.
        seed: with ``epoch`` and ``index``, all that decides what is drawn. Not negative.
        epoch: number of the epoch.
        index: number of the sequence.

    Returns:
        What the model sees, and the labels: the true ids where a token is to be predicted, else
        -100. Each of shape (T,).
    """
    seen = ids.astype(np.int64)
    labels = np.full(len(ids), IGNORED, np.int64)
    bits = np.random.PCG64(np.random.SeedSequence([seed, epoch, index]))
    # Raw output, which numpy keeps for ever; its modulus by small numbers is even enough.
    order, fate, other = bits.random_raw(3 * len(ids)).reshape(3, -1)  # each (T,)
    ordinary = np.flatnonzero(~rule.special[ids])
    wanted = max(1, round(rule.share * len(ordinary)))
    wanted = min(wanted, len(ordinary), wanted if rule.most is None else rule.most)
    if rule.continues is None:
        chosen = ordinary[np.argsort(order[ordinary], kind="stable")[:wanted]]
    else:
        chosen = _whole_words(ordinary, rule.continues[ids[ordinary]], order, wanted)
    labels[chosen] = ids[chosen]
    fates = fate[chosen] % 10
    seen[chosen[fates < 8]] = rule.mask_id
    replaced = chosen[fates == 8]
    seen[replaced] = rule.replacements[other[replaced] % len(rule.replacements)]
    return seen, labels


def _whole_words(
    places: NDArray[np.int64], continues: NDArray[np.bool_], order: NDArray[np.uint64], wanted: int
) -> NDArray[np.int64]:
    """Choose about ``wanted`` of the places, whole words only; one word where all are longer."""
    # What stands behind a special token begins a word, even if its first piece was cut off.
    begins = ~continues | (np.diff(places, prepend=-2) > 1)
    words = np.split(places, np.flatnonzero(begins)[1:])
    shuffled = [words[at] for at in np.argsort(order[places[begins]], kind="stable")]
    chosen: list[NDArray[np.int64]] = []
    room = wanted
    for word in shuffled:
        if len(word) <= room:
            chosen.append(word)
            room -= len(word)
        if not room:
            break
    return np.concatenate(chosen or shuffled[:1] or [places])
