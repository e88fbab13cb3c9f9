import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.tiny import SPECIAL

from heedful import BertTokenizer, UserError
from heedful.commands.vocabulary import learn
from heedful.settings import VocabularySettings
from heedful.tokens import TextTokenizer
from heedful.tokens.learning import (
    count_strings_between_spaces,
    count_words,
    learn_pieces,
    learn_translation,
    learn_vocabulary,
)
from heedful.tokens.normalize import Normalizer
from heedful.tokens.text import BYTES, EOS, PAD, SPACE, UNKNOWN

UNCASED = Normalizer(lower_case=True, strip_accents=True, split_ideographs=True, never_split=())
TEXT = "the cat sat on the mat. The cat's mat was flat, the Café was shut 東京 \n" * 5


def test_words_are_those_that_the_tokenizer_sees() -> None:
    counts = count_words(["The café, THE", " Cafe"], UNCASED)
    assert counts == Counter({"the": 2, "cafe": 2, ",": 1})


def test_tokens_are_special_ones_letters_and_pieces() -> None:
    words = {"ab": 3, "abc": 2, "d": 1}
    tokens = learn_vocabulary(words, size=100)
    assert tokens == [*SPECIAL, "a", "b", "c", "d", "##b", "##c", "ab", "abc"]
    assert learn_vocabulary(words, size=12) == tokens[:12]


def test_pairs_that_stood_together_once_are_not_joined() -> None:
    assert learn_vocabulary({"ab": 1}, size=100)[-2:] == ["b", "##b"]


def test_many_occurrences_are_counted() -> None:
    # More than are told to the trainer at once, and the rest of them decides.
    tokens = learn_vocabulary({"ab": 2**13 + 2, "cd": 2**13 + 1, "ef": 2**13 + 3}, size=17)
    assert tokens[-3:] == ["ef", "ab", "cd"]


def assert_always_the_same(program: str) -> None:
    """Check that a program that learns ten times, and prints what differs, always prints one.

    The trainer's hash tables are seeded anew in each process, and for each table.
    """
    found = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
        for _ in range(2)
    }
    assert len(found) == 1
    assert ";" not in found.pop()


def test_equal_counts_give_an_equal_vocabulary() -> None:
    program = (
        "from heedful.tokens.learning import learn_vocabulary;"
        "words = {a + b: 2 for a in 'xyzuvw' for b in 'abcdefgh'};"
        "print(*{' '.join(learn_vocabulary(words, size=30)) for _ in range(10)}, sep=';')"
    )
    assert_always_the_same(program)


def test_rare_characters_are_left_out() -> None:
    words = {"aa": 9, "bb": 5, "xy": 1, "xz": 1}
    tokens = learn_vocabulary(words, size=100, alphabet=3)
    assert tokens == [*SPECIAL, "a", "b", "x", "##a", "##b", "aa", "bb"]


def test_of_equally_rare_characters_the_first_are_kept() -> None:
    tokens = learn_vocabulary(dict.fromkeys("zyxwvutsrq", 1), size=100, alphabet=5)
    assert tokens == [*SPECIAL, *"qrstu"]


@pytest.mark.parametrize(
    ("words", "size", "message"),
    [
        ({}, 10, "no words"),
        ({"a" * 101: 5}, 10, "no words"),
        ({"abc": 5}, 9, r"^--size 9: the text's characters alone make 10 tokens; give at least"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(
    words: dict[str, int], size: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        learn_vocabulary(words, size=size)


def test_the_folder_is_read_by_the_tokenizer(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text(TEXT)
    out = tmp_path / "vocabulary"
    made = learn([text], VocabularySettings(size=60), out)
    read = BertTokenizer.from_pretrained(out)
    assert read.get_vocab() == made.get_vocab()
    assert read.tokenize("The CAFÉ mat 東京") == ["the", "cafe", "mat", "東", "京"]
    assert read.mask_token_id is not None
    with pytest.raises(UserError, match="vocabulary exists"):
        learn([text], VocabularySettings(size=60), out)
    learn([text], VocabularySettings(size=70, cased=True), out, overwrite=True)
    cased = BertTokenizer.from_pretrained(out)
    assert cased.tokenize("The Café") == ["The", "Café"]


def test_the_reference_reads_the_folder_too(tmp_path: Path) -> None:
    from transformers import BertTokenizerFast

    text = tmp_path / "a.txt"
    text.write_text(TEXT)
    for cased in (False, True):
        out = tmp_path / f"cased-{cased}"
        ours = learn([text], VocabularySettings(size=70, cased=cased), out)
        theirs = BertTokenizerFast.from_pretrained(out)
        assert theirs(TEXT)["input_ids"] == ours(TEXT)["input_ids"]


def test_files_without_words_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(" \n\n")
    with pytest.raises(UserError, match=r"a\.txt: no words in it"):
        learn([path], VocabularySettings(size=60), tmp_path / "out")
    with pytest.raises(UserError, match="no text file given"):
        learn([], VocabularySettings(size=60), tmp_path / "out")
    with pytest.raises(UserError, match="no such file"):
        learn([tmp_path / "b.txt"], VocabularySettings(size=60), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_pipe_is_not_replaced_by_a_vocabulary(tmp_path: Path) -> None:
    text, out = tmp_path / "a.txt", tmp_path / "out"
    text.write_text(TEXT)
    os.mkfifo(out)
    with pytest.raises(UserError, match="out holds other files than a vocabulary"):
        learn([text], VocabularySettings(size=60), out, overwrite=True)
    assert out.is_fifo()


@pytest.mark.parametrize("name", ["notes.txt", "model.safetensors"])
def test_only_a_vocabulary_is_overwritten(name: str, tmp_path: Path) -> None:
    text, out = tmp_path / "a.txt", tmp_path / "out"
    text.write_text(TEXT)
    learn([text], VocabularySettings(size=60), out)
    (out / name).write_text("keep me")
    with pytest.raises(UserError, match="out holds other files than a vocabulary"):
        learn([text], VocabularySettings(size=60), out, overwrite=True)
    with pytest.raises(UserError, match="holds other files"):
        learn([text], VocabularySettings(size=60), out / name, overwrite=True)
    assert (out / name).read_text() == "keep me"


# Pieces of text, for translation.

SPACED = count_strings_between_spaces(
    ["Der Mann, 20 Jahre alt, sagt: „Nein!“", "Der  alte Mann.", "", "20\u00a0km\t…"] * 3
)
FIRST = [EOS, UNKNOWN, *BYTES, SPACE]


def test_words_of_pieces_stand_between_spaces() -> None:
    assert count_strings_between_spaces(["a  b, a", "b,"]) == Counter({"a": 2, "b,": 2, "": 1})


def test_pieces_are_bytes_characters_and_what_was_joined() -> None:
    tokens = learn_pieces({"ab,": 3, "ab": 2, "c7": 1}, size=300)
    assert tokens == [
        *FIRST,
        *[",", "7", "a", "b", "c"],
        *["▁a", "▁c"],
        "▁ab",
        PAD,
    ]
    assert learn_pieces({"ab,": 3, "ab": 2, "c7": 1}, size=len(tokens) - 1) == [*tokens[:-2], PAD]


def test_no_piece_mixes_letters_digits_and_punctuation() -> None:
    words = {"don't": 9, "a1b22,,": 9, "22": 9, "(ab)": 9, "x\u200dy": 9, "z\u00a0z": 9}
    learnt = learn_pieces(words, size=400)[len(FIRST) : -1]
    assert {"▁don", "22", ",,", "ab", "▁22"} <= {*learnt}
    longer = [piece.lstrip(SPACE) for piece in learnt if len(piece.lstrip(SPACE)) > 1]
    assert longer
    assert all(piece.isalpha() or piece.isdigit() or not piece.isalnum() for piece in longer)
    assert not any(one in piece for piece in longer for one in "\u200d\u00a0")


def test_marks_belong_to_their_letters() -> None:
    assert "▁ne\u0301" in learn_pieces({"ne\u0301": 9}, size=300)


def test_spaces_and_joiners_are_pieces_and_controls_are_not() -> None:
    tokens = learn_pieces({"a\u00a0b\tc\n▁d\u200c\ud800": 5}, size=300)
    assert {"\u00a0", "\u200c"} <= {*tokens}
    assert not {"\t", "\n", "\ud800"} & {*tokens}
    assert tokens.count(SPACE) == 1


def test_rare_characters_are_bytes_and_nothing_is_joined_across_them() -> None:
    tokens = learn_pieces({"aab": 9, "ccc": 5, "axb": 4}, size=300, alphabet=3)
    assert tokens[len(FIRST) : len(FIRST) + 5] == ["a", "b", "c", "▁a", "▁c"]
    assert "▁ab" not in tokens


def test_pieces_fit_the_tokenizer_however_long_a_word_is() -> None:
    TextTokenizer(learn_pieces({"ab" * 300: 50, "a": 1}, size=400))


def test_learnt_pieces_give_any_text_back() -> None:
    tokenizer = TextTokenizer(learn_pieces(SPACED, size=400))
    texts = ["Der Mann, 21 Jahre alt.", "", "  „Ja!“\n", "日本 …", "\u00a0"]
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_batch(texts)] == texts


def test_equal_counts_give_equal_pieces() -> None:
    program = (
        "from heedful.tokens.learning import learn_pieces;"
        "words = {a + b: 2 for a in 'xyzuvw' for b in 'abcdefgh'};"
        "print(*{' '.join(learn_pieces(words, size=295)) for _ in range(10)}, sep=';')"
    )
    assert_always_the_same(program)


@pytest.mark.parametrize(
    ("words", "size", "message"),
    [
        ({}, 300, "no words"),
        ({"": 3}, 300, "no words"),
        ({"abc": 5}, 263, r"^--vocab-size 263: the bytes and the text's characters alone make 264"),
    ],
)
def test_pieces_that_cannot_be_learnt_are_refused(
    words: dict[str, int], size: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        learn_pieces(words, size=size)


def test_both_sides_of_a_translation_share_pieces() -> None:
    pair = learn_translation(Counter({"aa": 9, "b": 2}), Counter({"aa": 1, "cc": 5}), size=290)
    assert pair.joint
    assert pair.source is pair.target
    assert {"▁aa", "▁cc", "b"} <= pair.source.ids.keys()


def test_separate_sides_have_one_id_for_padding() -> None:
    long = Counter({"abcdefgh": 9})
    pair = learn_translation(long, Counter({"xx": 9}), size=290, separate=True)
    assert not pair.joint
    assert pair.source.vocab_size > pair.target.vocab_size
    assert pair.source.pad_token_id == pair.target.pad_token_id == pair.target.vocab_size - 1
    assert "▁xx" in pair.target.ids
    assert "▁xx" not in pair.source.ids
    (ids,) = pair.source.encode_batch(["abcdefgh"])
    assert pair.source.decode(ids) == "abcdefgh"
    assert len(ids) == 1
