"""Alignments between the words of a translation and those of its text."""

import tracemalloc

import numpy as np

from heedful.tasks.answers.translations import align_words
from heedful.tokens import TextTokenizer, TranslationTokenizer
from heedful.tokens.text import BYTES

SIDE = TextTokenizer(["</s>", "<unk>", *BYTES, "\u2581A", "\u2581b", "\u2581", "x", "<pad>"])
TOKENIZER = TranslationTokenizer(SIDE, SIDE)


def test_each_word_is_linked_to_what_its_pieces_attended_to_most() -> None:
    read = SIDE.encode_batch(["A b Ax", "b"])
    written = SIDE.encode_batch(["bx Ax", "A"])
    first = np.array([[1, 0, 5, 2, 9], [1, 0, 2, 2, 9], [4, 3, 0, 0, 0], [0, 3, 0, 0, 0]])
    attention = [first.astype(np.float32), np.array([[1, 7]], np.float32)]
    links = align_words("A b Ax b", read, "bx Ax A", written, attention, TOKENIZER)
    assert links is not None
    assert links.source_words == ((0, 1), (2, 3), (4, 6), (7, 8))
    assert links.target_words == ((0, 2), (3, 5), (6, 7))
    assert links.links == ((2, 0), (1, 1), (3, 2))  # what follows a part's pieces does not count


def test_links_where_sentences_stand_apart() -> None:
    # The text of the first part is "A b A": what was cut into sentences has single spaces.
    read, written = SIDE.encode_batch(["A b A", "x"]), SIDE.encode_batch(["b A b", "A"])
    attention = [np.eye(3, dtype=np.float32)[[2, 1, 0]], np.ones((1, 2), np.float32)]
    text = "\t A  b \u2028A   x "
    links = align_words(text, read, "b A b A", written, attention, TOKENIZER)
    assert links is not None
    assert [text[start:end] for start, end in links.source_words] == ["A", "b", "A", "x"]
    assert links.links == ((2, 0), (1, 1), (0, 2), (3, 3))
    assert align_words("A b b", read, "b A b A", written, attention, TOKENIZER) is None


def test_links_where_lines_are_joined_without_a_space() -> None:
    side = TextTokenizer(["</s>", "<unk>", *BYTES, "\u2581", "\u2581甲", "乙", "丙", "丁", "<pad>"])
    read, text = side.encode_batch(["甲乙", "甲丁"]), " 甲\n乙\u3000甲\n丁"
    attention = [np.ones((1, 3), np.float32)] * 2
    written = side.encode_batch(["甲", "甲"])
    links = align_words(text, read, "甲甲", written, attention, TranslationTokenizer(side, side))
    assert links is not None
    assert [text[start:end] for start, end in links.source_words] == ["甲", "乙", "甲", "丁"]
    assert links.target_words == ((0, 1), (1, 2))
    assert links.links == ((0, 0), (2, 1))


def test_links_of_a_long_text_take_little_memory() -> None:
    count = 3000
    text, read = " ".join(["A b"] * count), SIDE.encode_batch(["A b"] * count)
    written = SIDE.encode_batch(["b"] * count)
    attention = [np.ones((1, 3), np.float32)] * count
    tracemalloc.start()
    links = align_words(text, read, " ".join(["b"] * count), written, attention, TOKENIZER)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert links is not None
    assert links.links == tuple((2 * number, number) for number in range(count))
    assert peak < count * 2000  # every word with every other: 48,000 bytes a word
