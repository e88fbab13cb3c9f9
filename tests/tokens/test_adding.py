"""Tokens that a user adds are those of the reference, at once and when loaded again."""

import copy
import json
import pickle
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_folders import write_folder

import heedful
from heedful import AddedToken, UserError, load_tokenizer

FAMILIES = [
    *("bert", "mpnet", "roberta", "deberta", "gpt2"),
    *("albert", "xlm-roberta", "deberta-v2", "big_bird", "xlnet"),
]
CLASSES = {
    "bert": "BertTokenizer",
    "mpnet": "MPNetTokenizer",
    "roberta": "RobertaTokenizer",
    "deberta": "DebertaTokenizer",
    "gpt2": "GPT2Tokenizer",
    "albert": "AlbertTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "deberta-v2": "DebertaV2Tokenizer",
    "big_bird": "BigBirdTokenizer",
    "xlnet": "XLNetTokenizer",
}
TOKENS = ["<e1>", "COVID-19", "new york", "Ab", "b", "aé", "北a", "x>", "!?", "北", "b\tc"]
PARTS = [
    *TOKENS,
    *" \n\u2003_a1éb-\u0301\u200dⅷ",
    *("covid-19", "Covid-19s", "NEW YORK", "new  york", "AB", "abba", "b c", "[MASK]", "<mask>"),
    *("  ", "北北", " ab ", "a e\u0301"),
]


def _both(family: str, folder: Path) -> tuple[Any, Any]:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    write_folder(family, folder)
    name = CLASSES[family]
    theirs = getattr(transformers, f"{name}Fast").from_pretrained(folder)
    return getattr(heedful, name).from_pretrained(folder), theirs


def _assert_same(ours: Any, theirs: Any, texts: list[str]) -> None:
    assert len(ours) == len(theirs)
    for text in texts:
        expected = theirs.encode(text)
        assert ours.encode(text) == expected, ascii(text)
        assert ours(text, return_offsets_mapping=True)["input_ids"] == expected, ascii(text)


def _assert_many_are_the_same(ours: Any, texts: list[str]) -> None:
    """Compare texts with many, which array operations encode."""
    many = texts * 40
    assert ours(many, add_special_tokens=False)["input_ids"] == ours.encode_batch(texts) * 40
    located = ours(many, add_special_tokens=False, return_offsets_mapping=True)["input_ids"]
    assert located == ours.encode_batch(texts) * 40


@pytest.mark.parametrize("family", FAMILIES)
def test_any_tokens(tmp_path: Path, family: str) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    random_ = random.Random(family)
    switches = ("lstrip", "rstrip", "single_word", "normalized", "special")
    every = [*product((False, True), repeat=len(switches))]
    texts = ["".join(random_.choices(PARTS, k=random_.randrange(8))) for _ in range(40)]
    for number in range(4):
        ours, theirs = _both(family, tmp_path / f"model{number}")
        for token in random_.sample(TOKENS, 4):
            options = dict(zip(switches, random_.choice(every), strict=True))
            special = options["special"]
            expected = theirs.add_tokens([tokenizers.AddedToken(token, **options)], special)
            assert ours.add_tokens([AddedToken(token, **options)], special) == expected
        assert ours.get_added_vocab().items() >= theirs.get_added_vocab().items()
        _assert_same(ours, theirs, texts)
        _assert_many_are_the_same(ours, texts)
        ours.save_pretrained(tmp_path / f"ours{number}")
        theirs.save_pretrained(tmp_path / f"theirs{number}")
        assert load_tokenizer(tmp_path / f"ours{number}").identity() == ours.identity()
        for saved in (tmp_path / f"ours{number}", tmp_path / f"theirs{number}"):
            again = load_tokenizer(saved)
            _assert_same(again, type(theirs).from_pretrained(saved), texts)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_usual_calls(tmp_path: Path, family: str) -> None:
    ours, theirs = _both(family, tmp_path / "model")
    new = {"additional_special_tokens": ["<e1>", "</e1>"], "pad_token": "[PADDING]"}
    texts = ["a<e1>b</e1> [PADDING] COVID-19, covid-19 b", "new york b <E1>"]
    for tokenizer in (ours, theirs):
        assert tokenizer.add_tokens(["COVID-19", "new york"]) == 2
        assert tokenizer.add_tokens("COVID-19") == 0
        assert tokenizer.add_tokens([""]) == 0
        assert tokenizer.add_special_tokens(new) == 3
    assert ours.pad_token == theirs.pad_token
    assert ours.pad_token_id == theirs.pad_token_id == len(theirs) - 1
    assert ours.convert_tokens_to_ids("new york") == theirs.convert_tokens_to_ids("new york")
    assert {*ours.additional_special_tokens} >= {*theirs.additional_special_tokens}
    assert {*ours.additional_special_tokens_ids} >= {*theirs.additional_special_tokens_ids}
    decoder = {token_id: str(token) for token_id, token in theirs.added_tokens_decoder.items()}
    ours_decoder = {token_id: str(token) for token_id, token in ours.added_tokens_decoder.items()}
    assert ours_decoder.items() >= decoder.items()
    assert ours.added_tokens_encoder == ours.get_added_vocab()
    _assert_same(ours, theirs, texts)
    assert ours(texts, padding=True)["input_ids"] == theirs(texts, padding=True)["input_ids"]
    ids = theirs.encode(texts[0])
    for skip in (True, False):
        assert ours.decode(ids, skip, False) == theirs.decode(ids, skip, False)
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert copied.identity() == ours.identity()
        assert copied.encode(texts[0]) == ids
        assert copied.add_tokens("another") == 1
    assert len(ours) == len(theirs)


def test_gpt2_is_given_a_padding_token(tmp_path: Path) -> None:
    ours, theirs = _both("gpt2", tmp_path / "model")
    for tokenizer in (ours, theirs):
        tokenizer.pad_token = tokenizer.eos_token
    assert ours.pad_token_id == theirs.pad_token_id == ours.eos_token_id
    for tokenizer in (ours, theirs):
        tokenizer.add_special_tokens({"bos_token": "<|start|>", "pad_token": "<|pad|>"})
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        assert getattr(ours, name) == getattr(theirs, name)
        assert getattr(ours, f"{name}_id") == getattr(theirs, f"{name}_id")
    assert ours.special_tokens_map == theirs.special_tokens_map
    ours.save_pretrained(tmp_path / "ours")
    again = load_tokenizer(tmp_path / "ours")
    assert (
        again.special_tokens_map
        == type(theirs).from_pretrained(tmp_path / "ours").special_tokens_map
    )
    ours.pad_token_id = ours.eos_token_id
    assert ours.pad_token == ours.eos_token


@pytest.mark.parametrize("family", ["bert", "gpt2", "albert", "xlm-roberta"])
def test_special_tokens_when_a_folder_is_read(tmp_path: Path, family: str) -> None:
    ours, theirs = _both(family, tmp_path / "model")
    new: dict[str, Any] = {"pad_token": "<|pad|>", "additional_special_tokens": ["<e1>"]}
    if family == "gpt2":
        new["bos_token"] = "<|start|>"
    ours, theirs = (type(one).from_pretrained(tmp_path / "model", **new) for one in (ours, theirs))
    assert len(ours) == len(theirs)
    assert ours.pad_token_id == theirs.pad_token_id
    assert ours.encode("<|start|>a<e1><|pad|>") == theirs.encode("<|start|>a<e1><|pad|>")
    for option, near in (("pad_tokn", "pad_token"), ("model_max_len", "model_max_length")):
        with pytest.raises(UserError, match=f"unknown option '{option}' .did you mean '{near}'"):
            type(ours).from_pretrained(tmp_path / "model", **{option: "x"})


@pytest.mark.parametrize("family", FAMILIES)
def test_saving_over_another_tokenizer(tmp_path: Path, family: str) -> None:
    ours, theirs = _both(family, tmp_path / "model")
    theirs.add_tokens(["<e1>"])
    theirs.save_pretrained(tmp_path / "saved")
    ours.save_pretrained(tmp_path / "saved")
    assert load_tokenizer(tmp_path / "saved").identity() == ours.identity()
    _assert_same(ours, type(theirs).from_pretrained(tmp_path / "saved"), ["a <e1> b"])


@pytest.mark.parametrize("family", ["bert", "gpt2", "xlnet"])
def test_rows_padded_on_the_other_side(tmp_path: Path, family: str) -> None:
    ours, theirs = _both(family, tmp_path / "model")
    theirs.pad_token = ours.pad_token
    side = "right" if family == "xlnet" else "left"
    assert ours.padding_side == theirs.padding_side != side
    ours.padding_side = theirs.padding_side = side
    ours.save_pretrained(tmp_path / "ours")
    read = [type(ours).from_pretrained(tmp_path / "model", padding_side=side)]
    read.append(load_tokenizer(tmp_path / "ours"))
    assert type(theirs).from_pretrained(tmp_path / "ours").padding_side == side
    for tokenizer in (ours, *read):
        for texts in (["a b", "c"], [("a b", "c"), ("d", "e")]):
            expected = theirs(texts, padding=True, return_tensors="pt")
            given = tokenizer(texts, padding=True, return_tensors="pt")
            assert {name: given[name].tolist() for name in given} == {
                name: expected[name].tolist() for name in expected
            }
        alone = [tokenizer(text) for text in ("a b", "c")]
        padded = tokenizer.pad(alone)["input_ids"]
        assert padded == theirs.pad([theirs("a b"), theirs("c")])["input_ids"]


def test_a_new_class_token_begins_rows(tmp_path: Path) -> None:
    ours, _ = _both("bert", tmp_path / "model")
    ours.disable_token_types()
    ours.add_special_tokens({"cls_token": "[FIRST]"})
    assert ours.convert_ids_to_tokens(ours.encode("a"))[0] == "[FIRST]"
    assert ours.layout.uses_token_types is False


def test_what_cannot_be_added(tmp_path: Path) -> None:
    ours, _ = _both("bert", tmp_path / "model")
    for call, message in (
        (lambda: ours.add_tokens([" a"]), "neither begins nor ends with a space"),
        (lambda: ours.add_tokens([3]), "added token 3: must be a string"),
        (
            lambda: ours.add_special_tokens({"pad": "x"}),
            "'pad' is not a special .*'pad_token'",
        ),
        (lambda: ours.add_special_tokens({"pad_token": ["x"]}), "must be one token"),
        (lambda: ours.add_special_tokens({"additional_special_tokens": "x"}), "must be a list"),
        (lambda: setattr(ours, "pad_token", "[PAT]"), r"is not in the vocabulary.*'\[PAD\]'.*adds"),
        (lambda: setattr(ours, "vocabulary", 3), "cannot be set"),
    ):
        with pytest.raises(UserError, match=message):
            call()
    assert ours.add_tokens([]) == 0


def test_many_texts_with_a_rare_token(tmp_path: Path) -> None:
    ours, theirs = _both("bert", tmp_path / "model")
    ours.add_tokens([AddedToken("[X]", normalized=True)])
    theirs.add_tokens("[X]")
    texts = ["a bc d" * 30, "e [x]f[X] [y]", "b" * 90 + " [X"]
    _assert_same(ours, theirs, texts)
    _assert_many_are_the_same(ours, texts)


@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_and_names_are_those_of_the_reference(family: str, tmp_path: Path) -> None:
    ours, theirs = _both(family, tmp_path / "made")
    assert ours.name_or_path == theirs.name_or_path == str(tmp_path / "made")
    assert (ours.bos_token, ours.eos_token) == (theirs.bos_token, theirs.eos_token)
    assert (ours.bos_token_id, ours.eos_token_id) == (theirs.bos_token_id, theirs.eos_token_id)
    assert ours.truncation_side == theirs.truncation_side
    assert ours.max_len_single_sentence is ours.max_len_sentences_pair is None
    ours.model_max_length = theirs.model_max_length = 40
    assert ours.max_len_single_sentence == theirs.max_len_single_sentence
    assert ours.max_len_sentences_pair == theirs.max_len_sentences_pair
    # The reference's model lacks the mask token of DeBERTa v2 if it reads the SentencePiece file.
    before = ours.vocab_size
    assert before == theirs.vocab_size + (family == "deberta-v2")
    ours.add_tokens(["<e1>"])
    theirs.add_tokens(["<e1>"])
    assert (ours.vocab_size, len(ours)) == (before, len(theirs)) == (before, before + 1)
    theirs.save_pretrained(tmp_path / "theirs")
    again = type(ours).from_pretrained(tmp_path / "theirs")
    assert (again.vocab_size, len(again)) == (theirs.vocab_size, len(theirs))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_vocabulary_alone(family: str, tmp_path: Path) -> None:
    ours, theirs = _both(family, tmp_path / "made")
    ours.add_tokens(["<e1>"])
    theirs.add_tokens(["<e1>"])
    (tmp_path / "theirs").mkdir()
    expected = [Path(path) for path in theirs.save_vocabulary(str(tmp_path / "theirs"), "my")]
    written = [Path(path) for path in ours.save_vocabulary(tmp_path / "ours", "my")]
    assert [path.name for path in written] == [path.name for path in expected]
    for our, their in zip(written, expected, strict=True):
        if our.suffix == ".json":
            assert json.loads(our.read_text("utf-8")) == json.loads(their.read_text("utf-8"))
        else:
            assert our.read_bytes() == their.read_bytes()
    names = [Path(path).name for path in ours.save_vocabulary(tmp_path / "ours")]
    assert [f"my-{name}" for name in names] == [path.name for path in expected]


def test_a_vocabulary_file_is_a_tokenizer(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    write_folder("bert", tmp_path / "made")
    (tmp_path / "made" / "vocab.txt").rename(tmp_path / "my-vocab.txt")
    for options in ({}, {"do_lower_case": False}):
        theirs = transformers.BertTokenizer.from_pretrained(tmp_path / "my-vocab.txt", **options)
        ours = heedful.BertTokenizer.from_pretrained(tmp_path / "my-vocab.txt", **options)
        assert ours.name_or_path == str(tmp_path / "my-vocab.txt")
        for text in PARTS:
            assert ours.encode(text) == theirs.encode(text)
    with pytest.raises(UserError, match="BertTokenizer has no bos_token; it has unk_token, "):
        ours.bos_token = ours.cls_token


def test_no_sentencepiece_file_of_a_compiled_one(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    write_folder("albert", tmp_path / "made")
    made = transformers.AlbertTokenizerFast.from_pretrained(tmp_path / "made")
    made.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "AlbertTokenizer"}')
    tokenizer = load_tokenizer(tmp_path)
    assert isinstance(tokenizer, heedful.AlbertTokenizer)
    with pytest.raises(UserError, match=r"so there is no spiece\.model to write"):
        tokenizer.save_vocabulary(tmp_path / "none")
    assert not (tmp_path / "none").exists()
