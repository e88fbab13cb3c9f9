"""Every code point is classified as in the reference, alone and among others."""

import os
import unicodedata
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from heedful.tokens.characters import KEPT_MARK_CLASSES, MARKS, MOVABLE, decomposition
from heedful.tokens.normalize import Normalizer

EXHAUSTIVE = "HEEDFUL_SWEEP" in os.environ
"""See ``test_sweep.py``. Then also the planes in which Unicode has assigned nothing, the private
ones but for their start, and all settings; a minute or two a setting."""

SURROGATES = range(0xD800, 0xE000)
CODES = [
    code
    for code in range(0x110000)
    if code not in SURROGATES
    and (EXHAUSTIVE or code < 0x34000 or 0xE0000 <= code < 0xE1000 or code & 0xFFFF < 0x100)
]

# (lower case, strip accents, split ideographs). Three touch every branch.
SETTINGS = [(True, True, True), (True, False, False), (False, False, True)]
if EXHAUSTIVE:
    SETTINGS = [(lower, strip, split) for lower, strip, split in product((True, False), repeat=3)]


def _normalizers(lower: bool, strip: bool, split: bool) -> tuple[Normalizer, Any]:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the reference tokenizer")
    ours = Normalizer(lower_case=lower, strip_accents=strip, split_ideographs=split, never_split=())
    theirs = tokenizers.normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=split, strip_accents=strip, lowercase=lower
    )
    words = tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    return ours, lambda text: [word for word, _ in words(theirs.normalize_str(text))]


def _blocks(size: int = 0x1000) -> Iterator[list[int]]:
    for start in range(0, len(CODES), size):
        yield CODES[start : start + size]


@pytest.mark.parametrize(("lower", "strip", "split"), SETTINGS)
def test_every_code_point_is_treated_as_by_the_reference(
    lower: bool, strip: bool, split: bool
) -> None:
    ours, theirs = _normalizers(lower, strip, split)
    for block in _blocks():
        text = " ".join(f"a{chr(code)}B" for code in block)
        assert ours.words(text) == theirs(text)


def test_every_code_point_takes_part_in_canonical_order_as_in_the_reference() -> None:
    # The class of the first mark is above that of the last, so they change places where what
    # stands between them has a class too, and keep them where it has none.
    ours, theirs = _normalizers(True, True, True)
    for block in _blocks():
        moved = [
            chr(code)
            for code in block
            if EXHAUSTIVE
            or unicodedata.category(chr(code)) in ("Mn", "Mc", "Me", "Cn")
            or unicodedata.decomposition(chr(code))
        ]
        text = " ".join(f"a\U0001d165{char}\u1b44" for char in moved)
        assert ours.words(text) == theirs(text)


def test_canonical_order_of_kept_marks_is_that_of_the_reference() -> None:
    ours, theirs = _normalizers(True, True, True)
    for first, second in product(KEPT_MARK_CLASSES, repeat=2):
        text = f"a{chr(first)}{chr(second)}"
        assert ours.words(text) == theirs(text)


def test_every_character_that_decomposes_into_one_that_is_moved_is_known() -> None:
    found = {
        code for code in CODES if set(decomposition(chr(code))) & set(map(chr, KEPT_MARK_CLASSES))
    }
    assert found == MOVABLE


def test_what_python_is_asked_about_is_older_than_any_python_we_run_on() -> None:
    # Unicode 9 is in every Python since 3.7, and what it says of a character never changes. The
    # frozen tables name nothing later, so the answers do not depend on the Python.
    assert all(unicodedata.category(chr(code)) != "Cn" for code in MARKS)
    # Composed since Unicode 13; the reference leaves it whole.
    assert decomposition("\U00011938") == "\U00011938"


def test_a_lone_surrogate_is_dropped_like_other_non_characters() -> None:
    # The reference refuses such text, which Python makes of undecodable file names.
    ours, _ = _normalizers(True, True, True)
    assert ours.words("a\ud800b \udfff c") == ["ab", "c"]
    assert list(ours.sourced_words("a\ud800b")) == [("ab", [0, 2])]
