"""A megabyte of any text is tokenized correctly, in time that grows linearly.

Were anything quadratic, a case would take hours. Nothing is: characters go through a table one by
one, a word is taken apart only up to 100 characters, special tokens are found by one pass of a
pattern of fixed strings, and marks are put in order by a sort.
"""

import pytest

from heedful.tokens import BertTokenizer

MEGA = 2**20
A, DOT, OPEN, UNKNOWN, MASK = 11, 14, 15, 1, 4

# What is repeated, what the ids of each are, and what they are of all of it where it is one word.
CASES: dict[str, tuple[str, list[int] | None, list[int] | None]] = {
    "one word": ("a", None, [UNKNOWN]),
    "words": ("a ", [A], None),
    "lines": ("a\n", [A], None),
    "spaces": (" ", [], None),
    "punctuation": (".", [DOT], None),
    "ideographs": ("中", [UNKNOWN], None),
    "unknown symbols": ("☃", None, [UNKNOWN]),
    "brackets": ("[", [OPEN], None),
    "almost special tokens": ("[MASK", [OPEN, UNKNOWN], None),
    "special tokens": ("[MASK]", [MASK], None),
    "controls": ("\0", [], None),
    "surrogates": ("\ud800", [], None),
    "syllables": ("가", None, [UNKNOWN]),
    "marks": ("\u0301", [], None),
    "marks that change places": ("\u0301\u0323", [], None),
    "marks that change places and stay": ("\U0001d165\u1b44", None, [UNKNOWN]),
    "marks around one that stays": ("\u0301\u302e\u0323\u0323\u0323", None, [UNKNOWN]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_megabyte(toy: BertTokenizer, name: str) -> None:
    part, each, together = CASES[name]
    for count in (MEGA // len(part), MEGA // len(part) // 8):
        expected = each * count if together is None and each is not None else together
        text = part * count
        assert (toy.encode_batch([text]) == [expected]) is True  # no megabyte in a message
    pieces = toy.pieces("a " + text + " a")
    assert (pieces.ids == [A, *(expected or []), A]) is True
    assert pieces.offsets[-1] == (len(text) + 3, len(text) + 4)


def test_a_megabyte_through_a_call(toy: BertTokenizer) -> None:
    text = "a " * (MEGA // 4)
    encoding = toy(text, truncation=True, stride=3, return_overflowing_tokens=True)
    assert len(encoding.input_ids) > MEGA // 4 // 14
    assert encoding.tokens(-1)[-2:] == ["a", "[SEP]"]
