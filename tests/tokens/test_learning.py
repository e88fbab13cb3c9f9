import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from heedful import BertTokenizer, UserError
from heedful.commands.vocabulary import learn
from heedful.settings import VocabularySettings
from heedful.tokens.learning import count_words, learn_vocabulary
from heedful.tokens.normalize import Normalizer

UNCASED = Normalizer(lower_case=True, strip_accents=True, split_ideographs=True, never_split=())
TEXT = "the cat sat on the mat. The cat's mat was flat, the Café was shut 東京 \n" * 5
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


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


def test_equal_counts_give_an_equal_vocabulary() -> None:
    # The trainer's hash tables are seeded anew in each process, and for each table.
    program = (
        "from heedful.tokens.learning import learn_vocabulary;"
        "words = {a + b: 2 for a in 'xyzuvw' for b in 'abcdefgh'};"
        "print(*{' '.join(learn_vocabulary(words, size=30)) for _ in range(10)}, sep=';')"
    )
    found = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
        for _ in range(2)
    }
    assert len(found) == 1
    assert ";" not in found.pop()


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
    with pytest.raises(UserError, match=r"a\.txt: no words in there"):
        learn([path], VocabularySettings(size=60), tmp_path / "out")
    with pytest.raises(UserError, match="no text file given"):
        learn([], VocabularySettings(size=60), tmp_path / "out")
    with pytest.raises(UserError, match="no such file"):
        learn([tmp_path / "b.txt"], VocabularySettings(size=60), tmp_path / "out")
    assert not (tmp_path / "out").exists()


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
