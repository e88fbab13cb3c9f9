"""Phrases are located in token ids as a reader locates them in the text, and masked as a whole."""

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.tiny import SPECIAL, byte_level_tokenizer

from heedful import BertTokenizer
from heedful.batches.masking import IGNORED, mask_rule, mask_tokens
from heedful.batches.phrases import Phrases
from heedful.tokens import Tokenizer
from heedful.tokens.vocabulary import Vocabulary

TEXT = "i live in new york city yorker and the times said . ( )"
WORDS = [*TEXT.split(), "##er", "##ly"]
CHINESE = [*"我在北京大学学习和工作。"]
PIECES = BertTokenizer(Vocabulary([*SPECIAL, *WORDS, *dict.fromkeys(CHINESE)]))
BYTES = byte_level_tokenizer()


def _found(tokenizer: Tokenizer, phrases: list[str], text: str) -> list[str]:
    ids = np.array(tokenizer.encode_batch([text])[0], np.int32)
    spans = Phrases(phrases, tokenizer).spans(ids)
    return [tokenizer.text_of(ids[start:end].tolist()).strip() for start, end in spans]


@pytest.mark.parametrize("tokenizer", [PIECES, BYTES], ids=["pieces", "bytes"])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("new york and the times", ["new york"]),
        ("i live in new york city and in new york", ["new york city", "new york"]),
        ("the new yorker said new", []),
        ("(new york) in new york.", ["new york", "new york"]),
        ("new york city new york", ["new york city", "new york"]),
        ("new new york york", ["new york"]),
    ],
)
def test_the_longest_phrase_between_words(
    tokenizer: Tokenizer, text: str, found: list[str]
) -> None:
    phrases = ["new  york", "new york city", "york city", "city new york times"]
    assert _found(tokenizer, phrases, text) == found


@pytest.mark.parametrize("tokenizer", [PIECES, BYTES], ids=["pieces", "bytes"])
def test_chinese_needs_no_spaces(tokenizer: Tokenizer) -> None:
    found = _found(tokenizer, ["北京", "北京大学", "学习"], "我在北京大学学习和工作。")
    assert [text.replace(" ", "") for text in found] == ["北京大学", "学习"]


def test_phrases_that_the_vocabulary_does_not_know_are_left_out() -> None:
    phrases = Phrases(["new york", "old york", "[MASK] york"], PIECES)
    assert phrases.size == 1
    assert _found(PIECES, ["old york"], "odd york") == []


def _sequence() -> NDArray[np.int32]:
    text = "i live in new york city and the times said i live in new york and in the city ."
    return np.array([2, *PIECES.encode_batch([text])[0], 3], np.int32)


def test_phrases_are_hidden_whole_and_all_else_as_words() -> None:
    ids = _sequence()
    phrases = ["new york city", "new york", "the times"]
    rule = mask_rule(PIECES, share=0.3, masking="entity", phrases=phrases, max_predictions=None)
    words = mask_rule(PIECES, share=0.3, masking="word", max_predictions=None)
    assert rule.phrases is not None
    spans = list(rule.phrases.spans(ids))
    assert [end - start for start, end in spans] == [3, 2, 2]
    whole, part = 0, 0
    for index in range(200):
        _, labels = mask_tokens(ids, rule, seed=0, epoch=0, index=index)
        for start, end in spans:
            hidden = labels[start:end] != IGNORED
            assert hidden.all() or not hidden.any()
            whole += bool(hidden.all())
        _, labels = mask_tokens(ids, words, seed=0, epoch=0, index=index)
        part += sum(len({*(labels[start:end] != IGNORED)}) == 2 for start, end in spans)
        again = mask_tokens(ids.copy(), rule, seed=0, epoch=0, index=index)
        assert (again[1] == mask_tokens(ids, rule, seed=0, epoch=0, index=index)[1]).all()
    assert whole > 100
    assert part > 100  # without the rule they are not


def test_time_grows_with_the_text_alone() -> None:
    """The work per token depends on the longest phrase, not on the number of phrases."""
    looked_at = 0

    class Counted(np.ndarray):  # type: ignore[type-arg]
        def __getitem__(self, at: object) -> object:
            nonlocal looked_at
            looked_at += isinstance(at, int)
            return super().__getitem__(at)  # type: ignore[index]

    ids = np.array([PIECES.vocabulary.ids["new"]] * 500, np.int32)
    phrases = Phrases(["new " * 3 + "york", *(f"new {word}" for word in WORDS[4:11])], PIECES)
    assert list(phrases.spans(ids.view(Counted))) == []
    assert looked_at < 500 * 8
