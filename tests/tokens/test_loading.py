"""The tokenizer of a folder follows from its class, else its model, else its files."""

import json
from pathlib import Path

import pytest
from tests.tiny import SPECIAL

import heedful
from heedful.errors import UserError
from heedful.tokens import (
    BertTokenizer,
    RobertaTokenizer,
    TextTokenizer,
    TranslationTokenizer,
    load_encoder_tokenizer,
    load_tokenizer,
)
from heedful.tokens.loading import KINDS, kind_of
from heedful.tokens.text import BYTES, EOS, PAD, UNKNOWN

SIDE = TextTokenizer([EOS, UNKNOWN, *BYTES, "▁", "a", PAD])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide a folder with the files of every kind of tokenizer, which names none."""
    TranslationTokenizer(SIDE, SIDE).save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in SPECIAL))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    _say(tmp_path, None, None)
    return tmp_path


def _say(folder: Path, tokenizer_class: str | None, model_type: str | None) -> None:
    config = {"segmentation": "longest-match"}
    if tokenizer_class is not None:
        config["tokenizer_class"] = tokenizer_class
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))


@pytest.mark.parametrize(
    ("tokenizer_class", "model_type", "expected"),
    [
        ("BertTokenizer", None, "BertTokenizer"),
        ("ElectraTokenizerFast", "marian", "ElectraTokenizer"),
        ("DistilBertTokenizer", "bert", "DistilBertTokenizer"),
        (None, "distilbert", "DistilBertTokenizer"),
        (None, "electra", "ElectraTokenizer"),
        ("RobertaTokenizerFast", "bert", "RobertaTokenizer"),
        ("MarianTokenizer", "bert", "MarianTokenizer"),
        (None, "bert", "BertTokenizer"),
        ("MPNetTokenizerFast", "bert", "MPNetTokenizer"),
        (None, "mpnet", "MPNetTokenizer"),
        ("BigBirdTokenizerFast", "bert", "BigBirdTokenizer"),
        (None, "big_bird", "BigBirdTokenizer"),
        (None, "roberta", "RobertaTokenizer"),
        (None, "marian", "MarianTokenizer"),
        ("PreTrainedTokenizerFast", "heedful-rnn", "MarianTokenizer"),
        ("PreTrainedTokenizerFast", "unheard-of", "BertTokenizer"),
    ],
)
def test_the_class_decides_before_the_model(
    folder: Path, tokenizer_class: str | None, model_type: str | None, expected: str
) -> None:
    _say(folder, tokenizer_class, model_type)
    assert kind_of(folder).classes[0] == expected


def test_older_folders_name_the_class_beside_the_model(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": null}')
    model = folder / "config.json"
    for model_type in ("albert", "gpt2"):
        model.write_text(
            json.dumps({"model_type": model_type, "tokenizer_class": "BertTokenizerFast"})
        )
        assert kind_of(folder).classes[0] == "BertTokenizer"
    model.write_text('{"model_type": "bert", "tokenizer_class": "BertJapaneseTokenizer"}')
    message = r"config\.json: tokenizer_class 'BertJapaneseTokenizer' is not supported"
    with pytest.raises(UserError, match=message):
        load_tokenizer(folder)
    model.write_text('{"model_type": "bert"}')
    assert kind_of(folder).classes[0] == "BertTokenizer"


def test_else_the_files_decide(folder: Path, toy_roberta: RobertaTokenizer) -> None:
    (folder / "config.json").unlink()
    assert type(heedful.load_tokenizer(folder)) is BertTokenizer
    (folder / "vocab.txt").unlink()
    with pytest.raises(UserError, match="the cls_token '<s>' is not in it"):
        load_tokenizer(folder)  # RoBERTa's, but with the vocabulary of a translator
    (folder / "merges.txt").unlink()
    assert type(load_tokenizer(folder)) is TranslationTokenizer
    toy_roberta.save_pretrained(folder)
    (folder / "tokenizer_config.json").unlink()
    assert type(load_encoder_tokenizer(folder)) is RobertaTokenizer


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["<|endoftext|>"], "GPT2Tokenizer"),
        (["<s>", "</s>", "<unk>", "<|endoftext|>"], "RobertaTokenizer"),
        (["[CLS]", "[SEP]", "[UNK]"], "DebertaTokenizer"),
        (["a"], "RobertaTokenizer"),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_vocabulary_of_bytes_is_told_by_its_special_tokens(
    tmp_path: Path, tokens: list[str], expected: str, compiled: bool
) -> None:
    ids = {token: at for at, token in enumerate(tokens)}
    if compiled:
        model = {"type": "BPE", "vocab": ids, "merges": []}
        (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model}))
    else:
        (tmp_path / "vocab.json").write_text(json.dumps(ids))
        (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    assert kind_of(tmp_path).classes[0] == expected


def test_a_tokenizer_in_one_file_is_told_by_its_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no tokenizer in it; expected vocab\.txt"):
        load_tokenizer(tmp_path)
    vocabulary = {token: at for at, token in enumerate(SPECIAL)}
    for model, expected in (
        ({"type": "WordPiece", "vocab": vocabulary}, "BertTokenizer"),
        ({"type": "BPE", "vocab": {}}, "RobertaTokenizer"),
        ({"merges": []}, "RobertaTokenizer"),
    ):
        (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model}))
        assert kind_of(tmp_path).classes[0] == expected
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": "Unigram"}}))
    with pytest.raises(UserError, match="no tokenizer in it"):
        load_tokenizer(tmp_path)


def test_a_mask_may_be_an_added_token(tmp_path: Path) -> None:
    """As in DeBERTa v2's and v3's file, which has no piece for it."""
    pieces = [[token, 0.0] for token in ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "a")]
    compiled = {"model": {"type": "Unigram", "vocab": pieces}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(compiled))
    with pytest.raises(UserError, match="no tokenizer in it"):
        kind_of(tmp_path)
    added = [{"id": 5, "content": "[MASK]", "special": True}]
    (tmp_path / "tokenizer.json").write_text(json.dumps(compiled | {"added_tokens": added}))
    assert kind_of(tmp_path).classes[0] == "DebertaV2Tokenizer"


def test_a_model_may_read_the_pieces_of_another_family(tmp_path: Path) -> None:
    """As multilingual BERTs read XLM-RoBERTa's, whose folders name the general class."""
    compiled = tmp_path / "tokenizer.json"
    _say(tmp_path, "PreTrainedTokenizerFast", "bert")
    pieces = [[token, -1.0] for token in ("<s>", "<pad>", "</s>", "<unk>", "a", "<mask>")]
    compiled.write_text(json.dumps({"model": {"type": "Unigram", "vocab": pieces}}))
    assert kind_of(tmp_path).classes[0] == "XLMRobertaTokenizer"
    _say(tmp_path, None, "roberta")
    vocabulary = {token: at for at, token in enumerate(SPECIAL)}
    compiled.write_text(json.dumps({"model": {"type": "WordPiece", "vocab": vocabulary}}))
    assert kind_of(tmp_path).classes[0] == "BertTokenizer"
    compiled.write_text(json.dumps({"model": {"type": "WordLevel", "vocab": vocabulary}}))
    assert kind_of(tmp_path).classes[0] == "RobertaTokenizer"  # which says what is wrong


def test_a_model_of_one_token_type_is_told_none(folder: Path) -> None:
    for types, told in ((2, True), (1, False), (0, True)):
        config = {"model_type": "bert", "type_vocab_size": types}
        (folder / "config.json").write_text(json.dumps(config))
        tokenizer = load_encoder_tokenizer(folder)
        assert isinstance(tokenizer, BertTokenizer)
        assert ("token_type_ids" in tokenizer("[MASK]", "[MASK]")) is told
        assert (tokenizer.layout.type_split(1) == 3) is told


def test_other_classes_are_named(folder: Path) -> None:
    _say(folder, "BartTokenizer", "bert")
    message = "tokenizer_class 'BartTokenizer' is not supported .did you mean 'BertTokenizer'"
    with pytest.raises(UserError, match=message) as caught:
        load_tokenizer(folder)
    for kind in KINDS:
        assert kind.classes[0] in str(caught.value)


def test_a_translator_encodes_no_texts(folder: Path) -> None:
    _say(folder, None, "marian")
    with pytest.raises(UserError, match="holds a translator; give a model that encodes texts"):
        load_encoder_tokenizer(folder)
    _say(folder, None, "bert")
    assert load_encoder_tokenizer(folder).all_special_tokens
