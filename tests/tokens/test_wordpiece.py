"""Words are split as in the reference, including edge cases."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.tiny import SPECIAL

from heedful.tokens import BertTokenizer, Vocabulary
from heedful.tokens.wordpiece import piece_ends

TOKENS = [*SPECIAL, "a", "##a", "aaa", "##aaaa", "b" * 100, "c" * 101, "##", "##d", "e", "#", "ä"]


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 9, 99, 100, 101, 200])
@pytest.mark.parametrize("letter", "abcdeä")
def test_words_of_all_lengths(compiled: Callable[..., Any], letter: str, length: int) -> None:
    ours = BertTokenizer(Vocabulary(TOKENS), do_lower_case=False)
    theirs = compiled(TOKENS, do_lower_case=False)
    for text in (letter * length, f"e{letter * length}", f"{letter * length}e", "##" + letter):
        expected = theirs.encode(text, add_special_tokens=False)
        assert ours.encode_batch([text])[0] == expected.ids
        assert ours.pieces(text).offsets == expected.offsets


def test_where_pieces_end() -> None:
    assert piece_ends(["un", "##aff", "##able"], "unaffable") == [2, 5, 9]
    assert piece_ends(["##able"], "##able") == [6]
    assert piece_ends(["[UNK]"], "x") == [1]
