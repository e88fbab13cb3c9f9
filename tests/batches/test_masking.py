import math
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.tiny import SPECIAL, byte_level_tokenizer

from heedful import BertTokenizer, RobertaTokenizer, UserError
from heedful.batches.masking import IGNORED, MaskRule, mask_rule, mask_tokens, n_grams
from heedful.batches.segments import IN_WORD
from heedful.tokens.bpe import ALPHABET
from heedful.tokens.bytelevel_folder import ROBERTA
from heedful.tokens.vocabulary import Vocabulary

WORDS = [f"w{number}" for number in range(40)]
TOKENIZER = BertTokenizer(Vocabulary([*SPECIAL, *WORDS, *[f"##{word}" for word in WORDS]]))
MASK, FIRST = 4, len(SPECIAL)
PLAIN = mask_rule(TOKENIZER, max_predictions=None)
WHOLE = mask_rule(TOKENIZER, masking="word", max_predictions=None)
IN_A_ROW = mask_rule(TOKENIZER, masking="n-gram", max_predictions=None)


def sequence(length: int, *, seed: int = 0, pieces: bool = False) -> NDArray[np.int32]:
    high = FIRST + len(WORDS) * (2 if pieces else 1)
    text = np.random.default_rng(seed).integers(FIRST, high, length)
    text[length // 3] = 1  # an unknown word
    return np.array([2, *text[: length // 2], 3, *text[length // 2 :], 3], dtype=np.int32)


def draws(rule: MaskRule, count: int, ids: NDArray[np.int32]) -> list[NDArray[np.int64]]:
    rows = [mask_tokens(ids, rule, seed=1, epoch=2, index=index) for index in range(count)]
    return [np.stack(side) for side in zip(*rows, strict=True)]


def within(count: int, trials: int, share: float) -> bool:
    """Return whether a count is within five standard deviations of the binomial mean."""
    return abs(count - trials * share) <= 5 * math.sqrt(trials * share * (1 - share))


def test_the_shares_are_those_of_the_paper() -> None:
    ids = sequence(200)
    seen, labels = draws(PLAIN, 400, ids)
    chosen = labels != IGNORED
    assert (chosen.sum(1) == round(0.15 * 199)).all()  # one of the 200 is unknown
    total = int(chosen.sum())
    masked, kept = seen[chosen] == MASK, seen[chosen] == labels[chosen]
    assert within(int(masked.sum()), total, 0.8)
    # A random token is the true one in one case of 40, or of 80 with the pieces.
    assert within(int(kept.sum()), total, 0.1 + 0.1 / 80)
    # Every place is as likely as any other, and so is every token to be put there.
    ordinary = PLAIN.replacements
    for count in chosen.sum(0)[ids >= FIRST]:
        assert within(int(count), 400, 0.15)
    random = seen[chosen][~masked & ~kept]
    for count in np.bincount(random, minlength=len(ordinary) + FIRST)[FIRST:]:
        assert within(int(count), len(random), 1 / len(ordinary))


@pytest.mark.parametrize("rule", [PLAIN, WHOLE, IN_A_ROW], ids=["tokens", "words", "in a row"])
def test_special_tokens_are_neither_hidden_nor_drawn(rule: MaskRule) -> None:
    ids = sequence(30, pieces=True)
    seen, labels = draws(rule, 500, ids)
    special = ids < FIRST
    assert (labels[:, special] == IGNORED).all()
    assert (seen[:, special] == ids[special]).all()
    assert set(np.unique(seen[:, ~special])) <= {MASK, *range(FIRST, len(TOKENIZER))}


def test_what_is_not_chosen_stays_and_labels_are_the_truth() -> None:
    ids = sequence(60)
    seen, labels = draws(PLAIN, 50, ids)
    chosen = labels != IGNORED
    rows = np.broadcast_to(ids, labels.shape)
    assert (labels[chosen] == rows[chosen]).all()
    assert (seen[~chosen] == rows[~chosen]).all()


def test_a_draw_depends_on_seed_epoch_and_index_alone() -> None:
    ids = sequence(100)
    first = mask_tokens(ids, PLAIN, seed=1, epoch=2, index=3)
    again = mask_tokens(ids.copy(), PLAIN, seed=1, epoch=2, index=3)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    for seed, epoch, index in [(0, 2, 3), (1, 0, 3), (1, 2, 0), (2, 1, 3), (1, 3, 2)]:
        other = mask_tokens(ids, PLAIN, seed=seed, epoch=epoch, index=index)
        assert (first[1] != other[1]).any()


def test_the_draws_stay_those_of_today() -> None:
    # A run must resume on any platform and with any version of numpy.
    seen, labels = mask_tokens(np.arange(20, dtype=np.int32), PLAIN, seed=0, epoch=0, index=0)
    assert (int(seen.sum()), np.flatnonzero(labels != IGNORED).tolist()) == (183, [11, 13])


@pytest.mark.parametrize(
    ("length", "share", "most", "count"),
    [(1, 0.15, None, 1), (100, 0.15, None, 15), (100, 0.4, None, 40), (100, 0.15, 7, 7)],
)
def test_how_many_are_chosen(length: int, share: float, most: int | None, count: int) -> None:
    ids = np.array([2, *[FIRST] * length, 3], dtype=np.int32)
    rule = mask_rule(TOKENIZER, share=share, max_predictions=most)
    _, labels = mask_tokens(ids, rule, seed=0, epoch=0, index=0)
    assert (labels != IGNORED).sum() == count


@pytest.mark.parametrize("rule", [PLAIN, WHOLE, IN_A_ROW], ids=["tokens", "words", "in a row"])
def test_a_sequence_of_special_tokens_is_left_alone(rule: MaskRule) -> None:
    ids = np.array([2, 1, 1, 3], dtype=np.int32)
    seen, labels = mask_tokens(ids, rule, seed=0, epoch=0, index=0)
    assert (seen == ids).all()
    assert (labels == IGNORED).all()


def test_words_are_hidden_whole() -> None:
    ids = sequence(200, pieces=True)
    _, labels = draws(WHOLE, 200, ids)
    continues = ids >= FIRST + len(WORDS)
    chosen = labels != IGNORED
    for place in range(1, len(ids)):
        if continues[place] and ids[place - 1] >= FIRST:
            assert (chosen[:, place] == chosen[:, place - 1]).all()
    sums = chosen.sum(1)
    wanted = round(0.15 * 199)
    assert sums.max() <= wanted
    assert sums.mean() > wanted - 0.5
    assert chosen.any(0)[ids >= FIRST].all()


def test_words_of_bytes_are_hidden_whole() -> None:
    byte_level = byte_level_tokenizer()
    rule = mask_rule(byte_level, share=0.5, masking="word", max_predictions=None)
    ids = np.array(byte_level.encode("a lower  low-er a"), dtype=np.int32)
    tokens = byte_level.convert_ids_to_tokens(ids)
    assert tokens[1:-1] == ["a", "Ġlow", "er", "Ġ", "Ġlow", "-", "er", "Ġa"]
    words = [[1], [2, 3], [4], [5, 6, 7], [8]]
    hidden = [mask_tokens(ids, rule, seed=0, epoch=0, index=index)[1] for index in range(40)]
    chosen = np.array([labels != IGNORED for labels in hidden])
    assert chosen.any(0)[1:-1].all()
    for word in words:
        assert (chosen[:, word].all(1) == chosen[:, word].any(1)).all()


def test_a_chinese_sentence_is_not_one_word_to_a_tokenizer_that_splits_at_spaces() -> None:
    merges = []
    for character in "中国很大，":
        first, second, third = (ALPHABET[byte] for byte in character.encode())
        merges += [(first, second), (first + second, third)]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *ALPHABET, *map("".join, merges), "<mask>"]
    tokenizer = RobertaTokenizer(Vocabulary(tokens, ROBERTA), merges)
    ids = np.array(tokenizer.encode("ab很大，中国x 国好"), dtype=np.int32)
    ids[7] |= IN_WORD  # as a segmenter says of 中国
    words = [[1, 2], [3], [4], [5], [6, 7], [8], [9], [10], [11, 12, 13]]
    for masking in ("word", "n-gram", "entity"):
        rule = mask_rule(tokenizer, masking=masking, share=0.4, max_predictions=None)
        chosen = draws(rule, 100, ids)[1] != IGNORED
        assert chosen.any(0)[1:-1].all()
        assert not chosen[:, 1:-1].all(1).any()
        assert all((chosen[:, word].any(1) == chosen[:, word].all(1)).all() for word in words)
        assert all((chosen[:, a[0]] != chosen[:, b[0]]).any() for a, b in pairwise(words))


def runs_of(words: NDArray[np.bool_]) -> list[int]:
    """Return the length of each run of adjacent masked words."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], words, [False]]).astype(int)))
    return (edges[1::2] - edges[::2]).tolist()


def test_up_to_three_words_in_a_row_are_hidden() -> None:
    # So few of so many words that what is chosen rarely meets.
    ids = np.array([2, *[FIRST] * 500, 3], dtype=np.int32)
    rule = mask_rule(TOKENIZER, share=0.02, masking="n-gram", max_predictions=None)
    _, labels = draws(rule, 400, ids)
    chosen = labels[:, 1:-1] != IGNORED
    assert (chosen.sum(1) == 10).all()
    counts = np.bincount([length for row in chosen for length in runs_of(row)], minlength=4)
    total = int(counts.sum())
    # The last of a sequence may be cut short, and two may meet by chance.
    for length, share in ((1, 6 / 11), (2, 3 / 11), (3, 2 / 11)):
        assert abs(counts[length] / total - share) < 0.06
    assert counts[4:].sum() < 0.06 * total


def test_words_in_a_row_are_whole_and_stay_on_one_side() -> None:
    ids = sequence(200, pieces=True)
    _, labels = draws(IN_A_ROW, 200, ids)
    continues = ids >= FIRST + len(WORDS)
    chosen = labels != IGNORED
    for at in range(1, len(ids)):
        if continues[at] and ids[at - 1] >= FIRST:
            assert (chosen[:, at] == chosen[:, at - 1]).all()
    sums = chosen.sum(1)
    wanted = round(0.15 * 199)
    assert wanted - 2 < sums.mean() <= sums.max() <= wanted
    assert chosen.any(0)[ids >= FIRST].all()
    # Three in a row are drawn from the first word on, but a special token stands behind it.
    ids = np.array([2, FIRST, 3, FIRST, FIRST, 3], dtype=np.int32)
    order = np.array([0, 9, 0, 30, 20, 0], dtype=np.uint64)
    chosen = n_grams(ids, np.array([1, 3, 4]), order, 2, IN_A_ROW)
    assert chosen.tolist() == [1, 4]


def test_a_word_longer_than_the_share_is_hidden_all_the_same() -> None:
    ids = np.array([2, FIRST, *[FIRST + len(WORDS)] * 8, 3], dtype=np.int32)
    for rule in (WHOLE, IN_A_ROW):
        _, labels = mask_tokens(ids, rule, seed=0, epoch=0, index=0)
        assert (labels[1:-1] != IGNORED).all()


def test_a_piece_behind_a_special_token_begins_a_word() -> None:
    ids = np.array([2, FIRST, 3, FIRST + len(WORDS), 3], dtype=np.int32)
    _, labels = draws(WHOLE, 20, ids)
    assert ((labels != IGNORED).sum(1) == 1).all()


def test_a_vocabulary_without_a_mask_is_named() -> None:
    tokenizer = BertTokenizer(Vocabulary([*SPECIAL[:4], "a"], source="models/odd/vocab.txt"))
    message = r"^models/odd/vocab.txt: there is no \[MASK\] in the vocabulary"
    with pytest.raises(UserError, match=message):
        mask_rule(tokenizer, max_predictions=None)
    with pytest.raises(UserError, match="only special tokens"):
        mask_rule(BertTokenizer(Vocabulary(SPECIAL)), max_predictions=None)


def test_characters_of_a_segmented_word_are_hidden_together() -> None:
    ids = np.array([2, *range(FIRST, FIRST + 12), 3], np.int32)
    words = [[1, 2, 3], [4], [5, 6], [7, 8], [9], [10, 11, 12]]
    for word in words:
        ids[word[1:]] |= IN_WORD
    seen, labels = draws(
        mask_rule(TOKENIZER, masking="word", share=0.3, max_predictions=None), 200, ids
    )
    assert labels[labels != IGNORED].max() < IN_WORD > seen.max()
    chosen = labels != IGNORED
    for word in words:
        assert (chosen[:, word].any(1) == chosen[:, word].all(1)).all()
        assert chosen[:, word[0]].any()
    assert (seen[:, [0, -1]] == [2, 3]).all()
    alone, _ = draws(PLAIN, 200, ids)
    assert alone.max() < IN_WORD
