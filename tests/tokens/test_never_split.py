"""Words that are never split. The compiled reference ignores them; its plain one does not."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.tiny import SPECIAL

from heedful.errors import UserError
from heedful.tokens import BertTokenizer, Vocabulary, encoder, wordpiece

TOKENS = [*SPECIAL, "U.N.", "C++", "foo", "##bar", "a", "##b", ".", "+", "n", "u", "c", "ab", "中"]
NEVER_SPLIT = ["U.N.", "C++", "No-Such", "foobar", "x[MASK]"]

TEXTS = [
    "U.N. C++ c++ u.n.",
    "U.N.. (U.N.) aU.N. C++a",
    "No-Such foobar FooBar foobars",
    "中U.N.中 C++\tC++\u3000C++",
    "[MASK] C++ [MASK]",
    "\0U.N.\u200b C\0++",
]


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_words_are_kept_as_by_the_plain_reference(reference: Any, text: str, lower: bool) -> None:
    from transformers.models.bert import tokenization_bert

    plain: Any = tokenization_bert
    # Its parts, since together they lower the case before they look for the words to keep.
    words = plain.BasicTokenizer(lower, never_split=[*NEVER_SPLIT, *SPECIAL]).tokenize(text)
    take_apart = plain.WordpieceTokenizer(TOKENS, "[UNK]").tokenize
    kept = {*NEVER_SPLIT, *SPECIAL}
    expected = [piece for word in words for piece in ([word] if word in kept else take_apart(word))]
    ours = BertTokenizer(Vocabulary(TOKENS), do_lower_case=lower, never_split=NEVER_SPLIT)
    ids = ours.convert_tokens_to_ids(expected)
    assert ours.encode_batch([text]) == [ids]
    assert ours.pieces(text).ids == ids


def test_offsets_of_words_that_are_kept() -> None:
    ours = BertTokenizer(Vocabulary(TOKENS), never_split=NEVER_SPLIT)
    text = "中U.N.\u200b No-Such. C\0++"
    pieces = ours.pieces(text)
    slices = [text[start:end] for start, end in pieces.offsets]
    assert slices == ["中", "U.N.", "No", "-", "Such", ".", "C\0++"]
    assert ours.convert_ids_to_tokens(pieces.ids)[-1] == "C++"


def test_they_are_kept_after_all_else_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordpiece, "MAX_WORDS", 1)
    monkeypatch.setattr(encoder, "MAX_CHUNKS", 1)
    ours = BertTokenizer(Vocabulary(TOKENS), never_split=NEVER_SPLIT)
    before = ours.encode_batch(NEVER_SPLIT)
    ours.encode_batch(["aab", "abb", "bab", "ba"])
    assert ours.encode_batch(NEVER_SPLIT) == before == [[5], [6], [1], [1], [1, 4]]


def test_without_such_words_nothing_changes(compiled: Callable[..., Any]) -> None:
    theirs = compiled(TOKENS, do_lower_case=True)
    ours = BertTokenizer(Vocabulary(TOKENS))
    for text in TEXTS:
        assert ours.encode_batch([text])[0] == theirs.encode(text).ids


@pytest.mark.parametrize("words", ["U.N.", ["a b"], [""], [" "], ["a\u3000b"], [3]])
def test_what_is_refused(words: Any) -> None:
    with pytest.raises(UserError, match="must be words, without spaces in them"):
        BertTokenizer(Vocabulary(TOKENS), never_split=words)
