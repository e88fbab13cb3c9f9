"""Special tokens are where a model's layout puts them, in rows of one text and of two."""

import pytest
from tests.tiny import SPECIAL

from heedful.tokens import BertTokenizer, PairLayout, Vocabulary

BERT = PairLayout(begin=(1,), middle=(2,), end=(2,), second_type=1)
ROBERTA = PairLayout(begin=(0,), middle=(2, 2), end=(2,))
BARE = PairLayout()


@pytest.mark.parametrize(
    ("layout", "ids", "types", "start"),
    [
        (BERT, [1, 7, 8, 2, 9, 2], [0, 0, 0, 0, 1, 1], 4),
        (ROBERTA, [0, 7, 8, 2, 2, 9, 2], [0] * 7, 5),
        (BARE, [7, 8, 9], [0, 0, 0], 2),
        (BERT.without_special_tokens(), [7, 8, 9], [0, 0, 1], 2),
    ],
)
def test_rows_of_pairs(layout: PairLayout, ids: list[int], types: list[int], start: int) -> None:
    assert layout.ids([7, 8], [9]) == ids
    assert layout.types(2, 1) == types
    assert layout.values("ab", "c", special="-") == [
        {7: "a", 8: "b", 9: "c"}.get(token_id, "-") for token_id in ids
    ]
    assert layout.size(pair=True) == len(ids) - 3
    assert layout.second_start(2) == start
    assert layout.type_split(2) == (start if 1 in types else None)


@pytest.mark.parametrize(
    ("layout", "ids"), [(BERT, [1, 7, 8, 2]), (ROBERTA, [0, 7, 8, 2]), (BARE, [7, 8])]
)
def test_rows_of_one_text(layout: PairLayout, ids: list[int]) -> None:
    assert layout.ids([7, 8]) == ids
    assert layout.types(2) == [0] * len(ids)
    assert layout.values("ab", special="-") == [{7: "a", 8: "b"}.get(at, "-") for at in ids]
    assert layout.size(pair=False) == len(ids) - 2


def test_pieces_that_go_on_with_a_word() -> None:
    tokenizer = BertTokenizer(Vocabulary([*SPECIAL, "un", "##able", "##", "'", "s"]))
    assert [at for at in range(len(tokenizer)) if tokenizer.continues_word(at)] == [6, 7]
    assert tokenizer.text_of([2, 6, 5, 6, 8, 9, 3]) == "able unable's"
    assert tokenizer.decode([6, 5, 6]) == "##able unable"
    assert tokenizer.text_of([]) == ""


def test_words_of_chinese_are_joined_without_spaces() -> None:
    tokenizer = BertTokenizer(Vocabulary([*SPECIAL, "你", "好", "，", "bert", "##a"]))
    ids = [2, 5, 6, 7, 8, 9, 5, 6, 3]
    assert tokenizer.text_of(ids) == tokenizer.continuation(ids, [5]) == "你好，berta 你好"
    assert tokenizer.decode(ids[1:-1]) == "你 好 ， berta 你 好"  # as in the reference


def test_a_row_may_end_with_its_class_token_and_be_padded_on_the_left() -> None:
    layout = PairLayout(
        middle=(4,), end=(4, 3), second_type=1, closing_type=2, pads_left=True, padding_type=3
    )
    assert layout.ids([7, 8], [9]) == [7, 8, 4, 9, 4, 3]
    assert layout.types(2, 1) == [0, 0, 0, 1, 1, 2]
    assert layout.types(2) == [0, 0, 0, 2]
    assert layout.class_position(6) == 5
    assert BERT.class_position(6) == 0
    assert layout.padded([7, 8], [5]) == [5, 7, 8]
    assert BERT.padded([7, 8], [5]) == [7, 8, 5]
    assert layout.without_special_tokens().types(2) == [0, 0]
    assert layout.without_special_tokens().padded([7], [5]) == [5, 7]
