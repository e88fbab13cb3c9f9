"""The tags of words given in columns, from those of the words that the model reads."""

from typing import Literal

import numpy as np
import pytest

from heedful.reading.tagging import TaggedText, labels_of
from heedful.tasks.answers.entities import tagging


@pytest.mark.parametrize(
    ("scheme", "tag", "expected"),
    [
        ("BIO", "B-x", "O B-x I-x I-x O"),
        ("IOBES", "S-x", "O B-x I-x E-x O"),
        ("BIO", "O", "O O O O O"),
    ],
)
def test_words_that_are_read_as_one(
    scheme: Literal["BIO", "IOBES"], tag: str, expected: str
) -> None:
    labels = tuple(labels_of(["x"], scheme))
    # The third is in the word, but nothing that the tokenizer reads.
    given = tuple((at, at + 1) for at in range(5))
    record = TaggedText(text="ab\u200bc\u200b", words=given, entities=None, source="f", line=1)
    certain = np.eye(len(labels))
    words = [(0, 1), (1, 4)]
    values = {(0, 1): certain[labels.index("O")], (1, 4): certain[labels.index(tag)]}
    answer = tagging(
        record,
        words,
        values,
        labels=labels,
        scheme=scheme,
        tokens_total=2,
        tokens_used=2,
        windows=1,
    )
    assert [word.tag for word in answer.words] == expected.split()
    _, first, second, third, last = answer.words
    assert second.probabilities == pytest.approx(first.probabilities)
    assert third.probabilities == pytest.approx(first.probabilities)
    assert first.scores is not None
    assert max(first.scores, key=first.scores.__getitem__) == tag
    assert last.scores is None
