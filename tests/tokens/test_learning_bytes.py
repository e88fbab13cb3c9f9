"""Learnt pairs of bytes: the folder is RoBERTa's, for heedful and for the reference."""

from pathlib import Path

import pytest
from tests.tokens.test_learning import assert_always_the_same

import heedful
from heedful import RobertaTokenizer, UserError
from heedful.commands.vocabulary import learn
from heedful.settings import VocabularySettings
from heedful.tokens.bpe import ALPHABET
from heedful.tokens.learning import learn_bytes

TEXT = "the cat sat on the mat. The cat's mat was flat, the Café was shut 東京 \n" * 5
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def test_tokens_are_special_ones_bytes_and_pairs() -> None:
    tokens, merges = learn_bytes(["ab ab ab", "abc abc"], size=300)
    assert tokens[:260] == [*SPECIAL, *sorted(ALPHABET)]
    assert tokens[260:] == ["ab", "Ġab", "<mask>"]  # other pairs stood together once
    assert merges == [("a", "b"), ("Ġ", "ab")]
    assert learn_bytes(["ab ab ab", "abc abc"], size=262)[0] == [*tokens[:261], "<mask>"]


def test_equal_texts_give_equal_tokens() -> None:
    assert_always_the_same(
        "from heedful.tokens.learning import learn_bytes;"
        "texts = [a + b for a in 'xyzuvw' for b in 'abcdefgh'] * 2;"
        "print(*{str(learn_bytes(texts, size=280)[1]) for _ in range(10)}, sep=';')"
    )


def test_the_folder_is_read_by_heedful_and_the_reference(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    text = tmp_path / "a.txt"
    text.write_text(TEXT)
    made = learn([text], VocabularySettings(kind="bpe", size=300), tmp_path / "words")
    read = heedful.load_tokenizer(tmp_path / "words")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "words")
    assert type(read) is RobertaTokenizer
    assert type(theirs) is transformers.RobertaTokenizerFast
    assert read.get_vocab() == theirs.get_vocab() == dict(made.vocabulary.ids)
    assert read.mask_token_id == len(read) - 1
    lines = [*TEXT.split("\n"), "a <mask> Café 北京 isn't"]
    assert read(lines).input_ids == theirs(lines).input_ids
    assert "Ġthe" in read.get_vocab()


def test_a_model_is_pre_trained_with_it(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("\n\n".join([TEXT] * 3))
    learn([text], VocabularySettings(kind="bpe", size=300), tmp_path / "words")
    heedful.train(
        "pretrain",
        train=text,
        documents="gap",
        arch="roberta",
        objective="mlm",
        preset="tiny",
        vocabulary=str(tmp_path / "words"),
        max_length=32,
        steps=1,
        batch_size=2,
        out=tmp_path / "run",
    )
    tokenizer = heedful.load_tokenizer(tmp_path / "run")
    assert type(tokenizer) is RobertaTokenizer
    assert len(tokenizer) == heedful.load_model(tmp_path / "run").config.vocab_size


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        ("\n \n", {}, r"a\.txt: no words in there"),
        ("abc", {"size": 260}, "^--size 260: the special tokens and the 256 bytes alone make 261"),
    ],
)
def test_what_cannot_be_learnt_from(
    tmp_path: Path, content: str, settings: dict[str, int], message: str
) -> None:
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(UserError, match=message):
        learn([tmp_path / "a.txt"], VocabularySettings(kind="bpe", **settings), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["cased", "strip_accents", "alphabet"])
def test_options_of_another_kind_are_refused(option: str) -> None:
    name = option.replace("_", "-")
    with pytest.raises(UserError, match=f"^--{name} is for --kind wordpiece, not bpe$"):
        VocabularySettings(kind="bpe", **{option: True})
