"""A folder says which tokenizer it has: by its class, else its model, else its files."""

import json
from pathlib import Path

import pytest
from tests.tiny import SPECIAL

import heedful
from heedful.errors import UserError
from heedful.tokens import (
    BertTokenizer,
    TextTokenizer,
    TranslationTokenizer,
    load_encoder_tokenizer,
    load_tokenizer,
)
from heedful.tokens.loading import KINDS
from heedful.tokens.text import BYTES, EOS, PAD, UNKNOWN

SIDE = TextTokenizer([EOS, UNKNOWN, *BYTES, "▁", "a", PAD])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with the files of every kind of tokenizer, which says none."""
    TranslationTokenizer(SIDE, SIDE).save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in SPECIAL))
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
        ("BertTokenizer", None, BertTokenizer),
        ("ElectraTokenizerFast", "marian", BertTokenizer),
        ("MarianTokenizer", "bert", TranslationTokenizer),
        (None, "bert", BertTokenizer),
        (None, "marian", TranslationTokenizer),
        ("PreTrainedTokenizerFast", "heedful-rnn", TranslationTokenizer),
        ("PreTrainedTokenizerFast", "unheard-of", BertTokenizer),
    ],
)
def test_the_class_decides_before_the_model(
    folder: Path, tokenizer_class: str | None, model_type: str | None, expected: type
) -> None:
    _say(folder, tokenizer_class, model_type)
    assert type(heedful.load_tokenizer(folder)) is expected


def test_else_the_files_decide(folder: Path) -> None:
    (folder / "config.json").unlink()
    assert type(load_tokenizer(folder)) is BertTokenizer
    (folder / "vocab.txt").unlink()
    assert type(load_tokenizer(folder)) is TranslationTokenizer
    (folder / "vocab.json").unlink()
    with pytest.raises(UserError, match=r"no tokenizer in it; expected vocab\.txt"):
        load_tokenizer(folder)
    vocabulary = {token: at for at, token in enumerate(SPECIAL)}
    model = {"type": "WordPiece", "vocab": vocabulary}
    (folder / "tokenizer.json").write_text(json.dumps({"model": model}))
    (folder / "tokenizer_config.json").unlink()
    assert len(load_encoder_tokenizer(folder)) == len(SPECIAL)


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
