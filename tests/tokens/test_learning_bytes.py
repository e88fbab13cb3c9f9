"""Learnt byte pairs: the folder is that of the family, for heedful and for the reference."""

import random
from pathlib import Path
from typing import Any

import pytest
from tests.tokens.test_learning import assert_always_the_same

import heedful
from heedful import UserError
from heedful.commands.vocabulary import family_options, learn
from heedful.settings import VocabularySettings
from heedful.tokens.bpe import ALPHABET
from heedful.tokens.learning import FRAMINGS, learn_bytes, learn_unigram

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
        "from heedful.tokens.learning import learn_bytes, learn_unigram;"
        "texts = [a + b for a in 'xyzuvw' for b in 'abcdefgh'] * 2;"
        "print(*{str(learn_bytes(texts, size=280)[1]) for _ in range(10)}, sep=';')"
    )


@pytest.mark.parametrize(
    ("arch", "first", "last"),
    [
        (None, SPECIAL, "<mask>"),
        ("roberta", SPECIAL, "<mask>"),
        ("gpt2", [], "<|endoftext|>"),
        ("deberta", ["[PAD]", "[CLS]", "[SEP]", "[UNK]"], "[MASK]"),
    ],
)
def test_the_folder_is_read_by_heedful_and_the_reference(
    tmp_path: Path, arch: Any, first: list[str], last: str
) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    text = tmp_path / "a.txt"
    text.write_text(TEXT)
    made = learn([text], VocabularySettings(kind="bpe", arch=arch, size=300), tmp_path / "words")
    read = heedful.load_tokenizer(tmp_path / "words")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "words")
    name = {"gpt2": "GPT2", "deberta": "Deberta"}.get(arch, "Roberta")
    assert type(read).__name__ == f"{name}Tokenizer"
    assert type(theirs).__name__ == f"{name}TokenizerFast"
    assert read.get_vocab() == theirs.get_vocab() == dict(made.vocabulary.ids)
    assert read.convert_ids_to_tokens([*range(len(first)), len(read) - 1]) == [*first, last]
    lines = [*TEXT.split("\n"), f"a {last} Café 北京 isn't"]
    assert read(lines).input_ids == theirs(lines).input_ids
    assert read(lines, lines[::-1]).input_ids == theirs(lines, lines[::-1]).input_ids
    assert "Ġthe" in read.get_vocab()


@pytest.mark.parametrize(
    ("kind", "arch"),
    [
        ("bpe", "roberta"),
        ("bpe", "gpt2"),
        ("bpe", "deberta"),
        ("unigram", "xlm-roberta"),
        ("unigram", "xlnet"),
    ],
)
def test_a_model_is_pre_trained_with_it(tmp_path: Path, kind: Any, arch: Any) -> None:
    text = tmp_path / "a.txt"
    text.write_text("\n\n".join([TEXT] * 3))
    settings = VocabularySettings(kind=kind, arch=arch, size=300)
    assert f"--arch {arch} " == family_options(settings)
    made = learn([text], settings, tmp_path / "words")
    heedful.train(
        "pretrain",
        train=text,
        documents="gap",
        arch=arch,
        preset="tiny",
        vocabulary=str(tmp_path / "words"),
        max_length=32,
        steps=1,
        batch_size=2,
        out=tmp_path / "run",
    )
    tokenizer = heedful.load_tokenizer(tmp_path / "run")
    assert type(tokenizer) is type(made)
    assert tokenizer.all_special_ids == made.all_special_ids
    assert len(tokenizer) == heedful.load_model(tmp_path / "run").config.vocab_size


@pytest.mark.parametrize(
    ("content", "kind", "size", "message"),
    [
        ("\n \n", "bpe", 300, r"a\.txt: no words in it"),
        ("\n \n", "unigram", 300, r"a\.txt: no words in it"),
        ("abc", "bpe", 260, "^--size 260: the special tokens and the 256 bytes alone make 261"),
    ],
)
def test_what_cannot_be_learnt_from(
    tmp_path: Path, content: str, kind: Any, size: int, message: str
) -> None:
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(UserError, match=message):
        learn([tmp_path / "a.txt"], VocabularySettings(kind=kind, size=size), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["cased", "strip_accents", "alphabet"])
def test_options_of_another_kind_are_refused(option: str) -> None:
    name = option.replace("_", "-")
    with pytest.raises(UserError, match=f"^--{name} is for --kind wordpiece, not bpe$"):
        VocabularySettings(kind="bpe", **{option: True})


def test_a_switched_off_option_of_another_kind_is_refused() -> None:
    with pytest.raises(UserError, match=r"^--no-cased is for --kind wordpiece, not bpe$"):
        VocabularySettings(kind="bpe", cased=False)


# Unigram.


def test_likeliest_pieces() -> None:
    pytest.importorskip("tokenizers")
    compiled = learn_unigram(TEXT.split("\n"), size=60)
    tokens = [token for token, _ in compiled["model"]["vocab"]]
    assert tokens[:4] == SPECIAL
    assert tokens[-1] == "<mask>"
    assert "▁mat" in tokens
    assert len(tokens) <= 60


@pytest.mark.parametrize(
    ("arch", "name", "first"),
    [
        ("xlm-roberta", "XLMRobertaTokenizer", ["<s>", "<pad>", "</s>", "<unk>"]),
        ("albert", "AlbertTokenizer", ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]),
        ("big_bird", "BigBirdTokenizer", ["<pad>", "</s>", "<s>", "<unk>", "[CLS]", "[SEP]"]),
        ("deberta-v2", "DebertaV2Tokenizer", ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]),
        ("xlnet", "XLNetTokenizer", ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"]),
    ],
)
def test_the_reference_reads_those_of_a_family(
    tmp_path: Path, arch: Any, name: str, first: list[str]
) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    text = tmp_path / "a.txt"
    text.write_text(TEXT)
    settings = VocabularySettings(kind="unigram", arch=arch, size=60)
    made = learn([text], settings, tmp_path / "words")
    read = heedful.load_tokenizer(tmp_path / "words")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "words")
    assert type(theirs) is getattr(transformers, f"{name}Fast")
    assert type(read) is type(made) is getattr(heedful, name)
    assert read.get_vocab() == theirs.get_vocab()
    assert read.convert_ids_to_tokens(range(len(first))) == first
    lines = [
        *TEXT.split("\n"),
        f"a {read.mask_token} Café  北京 isn't {read.sep_token}",
        "ｆｕｌｌ ﬁ",
    ]
    asked = {"return_offsets_mapping": True, "return_token_type_ids": True}
    for texts in ((lines,), (["a"], ["b c"])):
        row, other = (one(*texts, **asked) for one in (read, theirs))
        for key in ("input_ids", "offset_mapping", "token_type_ids"):
            assert getattr(row, key) == other[key]


def test_a_family_without_such_pieces_is_refused() -> None:
    message = r"^--arch big_bird: with --kind bpe it must be one of: roberta, gpt2, deberta$"
    with pytest.raises(UserError, match=message):
        VocabularySettings(kind="bpe", arch="big_bird")
    with pytest.raises(UserError, match=r"^--arch gpt2: with --kind wordpiece it must be left out"):
        VocabularySettings(arch="gpt2")


def test_characters_that_have_no_room() -> None:
    with pytest.raises(UserError, match=r"^--size 9: the text's characters alone make \d+ tokens"):
        learn_unigram([TEXT], size=9)


@pytest.mark.parametrize("arch", FRAMINGS)
def test_a_unigram_vocabulary_is_never_larger_than_asked(arch: str) -> None:
    # Normalizing turns the characters into others, and some into several.
    texts = ["\ufb01\u339e \u338f ab\u00bd e\u0301 abc\u2460 cab"] * 9
    with pytest.raises(UserError, match=r"^--size 1: .* alone make \d+ tokens") as refused:
        learn_unigram(texts, size=1, arch=arch)
    floor = int(str(refused.value).split(" alone make ")[1].split()[0])
    for size in range(2, floor):
        with pytest.raises(UserError, match=rf"^--size {size}: .* alone make {floor} tokens"):
            learn_unigram(texts, size=size, arch=arch)
    assert len(learn_unigram(texts, size=floor, arch=arch)["model"]["vocab"]) == floor


@pytest.mark.parametrize("arch", FRAMINGS)
def test_what_is_spelt_like_a_special_token_has_one_id(arch: str) -> None:
    framing = FRAMINGS[arch]
    spelt = [*framing.first, framing.mask]
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=4)) for _ in range(300)]
    texts = [f"{word}{token}{word}" for word in words for token in spelt]
    tokens = [token for token, _ in learn_unigram(texts, size=600, arch=arch)["model"]["vocab"]]
    assert len(tokens) == len(set(tokens))


def test_likeliest_pieces_are_the_same_each_time() -> None:
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 5))) for _ in range(200)]
    rare = [f"{draw.choice(words)}{chr(0x4E00 + number)}" for number in range(60)]
    texts = [" ".join(draw.choices(words, k=9)) for _ in range(300)] + rare
    vocabularies = [learn_unigram(texts, size=400)["model"]["vocab"] for _ in range(6)]
    assert all(one == vocabularies[0] for one in vocabularies)
    scores = [score for _, score in vocabularies[0][4:-1]]
    assert scores == sorted(scores, reverse=True)
    rarest = [piece for piece, _ in vocabularies[0] if piece in {text[-1] for text in rare}]
    assert len(rarest) == 60
    assert rarest == sorted(rarest)
