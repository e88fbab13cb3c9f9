"""RoBERTa folders are read as in the reference, and it reads ours; conflicts are reported."""

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heedful.errors import UserError
from heedful.tokens import RobertaTokenizer, Vocabulary, load_tokenizer
from heedful.tokens.bpe import ALPHABET
from heedful.tokens.vocabulary import read_merges

TEXTS = ["a slow, slower  <mask> a\n", "<e1> lo <s>low", "", "é lower"]


@pytest.fixture
def folder(toy_roberta: RobertaTokenizer, tmp_path: Path) -> Path:
    """Provide a folder with a vocabulary and its merges, and nothing else."""
    path = tmp_path / "model"
    toy_roberta.save_pretrained(path)
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        (path / name).unlink()
    return path


@pytest.fixture(scope="module")
def kinds() -> tuple[Any, Any]:
    """Provide the reference's two classes."""
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    transformers.logging.set_verbosity_error()
    return transformers.RobertaTokenizerFast, transformers.RobertaTokenizer


def _write(folder: Path, name: str = "tokenizer_config.json", **values: Any) -> None:
    (folder / name).write_text(json.dumps(values))


def _same(ours: RobertaTokenizer, theirs: Any) -> None:
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(text)
        if theirs.is_fast:  # the slow class puts spaces around added tokens
            assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text))
            if not ours.trim_offsets:
                offsets = theirs(text, return_offsets_mapping=True)["offset_mapping"]
                assert ours(text, return_offsets_mapping=True).offset_mapping == offsets
    for name in ("unk", "sep", "pad", "cls", "mask", "bos", "eos"):
        assert getattr(ours, f"{name}_token_id") == getattr(theirs, f"{name}_token_id")
    assert sorted(ours.all_special_ids) == sorted(theirs.all_special_ids)
    assert len(ours) == len(theirs)
    length = theirs.model_max_length
    assert ours.model_max_length == (length if length < 10**20 else None)


PLAIN = {"content": "<mask>", "lstrip": False, "rstrip": False, "normalized": False}


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"add_prefix_space": True, "model_max_length": 77},
        {"clean_up_tokenization_spaces": True, "errors": "replace", "trim_offsets": True},
        {"tokenizer_class": "RobertaTokenizerFast", "name_or_path": "x"},
        {"mask_token": {"__type": "AddedToken", "single_word": False, **PLAIN}},
        {"cls_token": "a", "bos_token": "a", "unk_token": "lo"},
        {"trim_offsets": False},
    ],
)
def test_a_folder_is_read_as_by_the_reference(
    folder: Path, tmp_path: Path, kinds: tuple[Any, Any], config: dict[str, Any]
) -> None:
    _write(folder, **config)
    ours = RobertaTokenizer.from_pretrained(folder)
    theirs = kinds[0].from_pretrained(folder)
    _same(ours, theirs)

    ours.save_pretrained(tmp_path / "ours")
    # The slow class puts no space behind a special token.
    for kind in kinds[: 1 if ours.add_prefix_space else 2]:
        _same(ours, kind.from_pretrained(tmp_path / "ours"))
    again = RobertaTokenizer.from_pretrained(tmp_path / "ours")
    _same(again, theirs)
    assert again.identity() == ours.identity()

    # With tokenizer.json beside the other files, and alone.
    theirs.save_pretrained(tmp_path / "theirs")
    _same(RobertaTokenizer.from_pretrained(tmp_path / "theirs"), theirs)
    (tmp_path / "theirs" / "vocab.json").unlink()
    (tmp_path / "theirs" / "merges.txt").unlink()
    _same(RobertaTokenizer.from_pretrained(tmp_path / "theirs"), theirs)


def test_added_tokens_come_behind_the_vocabulary(
    folder: Path, tmp_path: Path, kinds: tuple[Any, Any]
) -> None:
    added = pytest.importorskip("tokenizers").AddedToken("<e2>", lstrip=True, special=True)
    for kind in kinds:
        theirs = kind.from_pretrained(folder)
        theirs.add_special_tokens({"additional_special_tokens": ["<e1>", added]})
        theirs.save_pretrained(tmp_path / "theirs")
        ours = RobertaTokenizer.from_pretrained(tmp_path / "theirs")
        _same(ours, theirs)
        assert ours.tokenize("a <e1>  <e2>") == ["a", "Ġ", "<e1>", "<e2>"]
        ours.save_pretrained(tmp_path / "ours")
        _same(ours, kind.from_pretrained(tmp_path / "ours"))
        again = RobertaTokenizer.from_pretrained(tmp_path / "ours")
        assert again.identity() == ours.identity()


def test_the_real_folder(data_folder: Path, roberta: RobertaTokenizer, tmp_path: Path) -> None:
    real = data_folder / "tokenizers/roberta-base"
    shutil.copy(real / "tokenizer_config.json", tmp_path)
    with gzip.open(real / "tokenizer.json.gz") as packed:
        (tmp_path / "tokenizer.json").write_bytes(packed.read())
    read = load_tokenizer(tmp_path)
    assert isinstance(read, RobertaTokenizer)
    assert read.identity() == roberta.identity()
    assert (read.model_max_length, roberta.model_max_length) == (512, None)


def test_arguments_win_over_the_folder(folder: Path) -> None:
    _write(folder, add_prefix_space=True, model_max_length=5, clean_up_tokenization_spaces=True)
    ours = RobertaTokenizer.from_pretrained(
        folder, add_prefix_space=False, model_max_length=9, clean_up_tokenization_spaces=False
    )
    assert (ours.add_prefix_space, ours.model_max_length) == (False, 9)
    assert ours.decode(ours.encode_batch(["a ."])[0]) == "a ."
    read = RobertaTokenizer.from_pretrained(folder)
    assert (read.add_prefix_space, read.model_max_length) == (True, 5)
    assert read.decode(read.encode_batch(["a ."])[0]) == " a."
    from_files = RobertaTokenizer(folder / "vocab.json", folder / "merges.txt")
    assert from_files.identity() == ours.identity()


def _compiled(**parts: Any) -> dict[str, Any]:
    return {"tokenizer": parts}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tokenizer_config": {"add_prefix_space": "no"}}, "add_prefix_space 'no' is a str"),
        ({"tokenizer_config": {"model_max_length": "512"}}, "model_max_length '512' is a str"),
        ({"tokenizer_config": {"errors": "strict"}}, "errors 'strict' is not supported"),
        ({"tokenizer_config": {"trim_offsets": "no"}}, "trim_offsets 'no' is a str"),
        ({"tokenizer_config": {"add_bos_token": True}}, "add_bos_token True is not supported"),
        ({"tokenizer_config": {"added_tokens_decoder": {"x": "y"}}}, "added token 'x' is 'y'"),
        ({"tokenizer_config": {"added_tokens_decoder": ["y"]}}, r"decoder \['y'\] is a list"),
        ({"added_tokens": {"x": "5"}}, "'x' has the id '5'"),
        ({"tokenizer_config": {"pad_token": ["<pad>"]}}, "pad_token .* is a tuple"),
        ({"tokenizer_config": {"pad_token": "a "}}, "'a ': must be text that neither"),
        ({"tokenizer_config": {"padding_side": "left"}}, "padding_side 'left' is not supported"),
        ({"tokenizer_config": {"tokenizer_class": "BertTokenizer"}}, "'BertTokenizer' is another"),
        ({"tokenizer_config": {"bos_token": "a", "cls_token": "<s>"}}, "bos_token 'a' and cls_tok"),
        ({"special_tokens_map": {"eos_token": "a", "sep_token": "b"}}, "eos_token 'a' and sep_tok"),
        ({"special_tokens_map": {"cls_token": "[cls]"}}, r"the cls_token '\[cls\]' is not in it"),
        (
            {
                "tokenizer_config": {"add_prefix_space": True},
                "tokenizer": {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}},
            },
            "says add_prefix_space True, tokenizer.json beside it says add_prefix_space False",
        ),
        (_compiled(normalizer={"type": "NFC"}), "a normalizer is not supported"),
        (
            _compiled(pre_tokenizer={"type": "Whitespace"}),
            "pre_tokenizer: type 'Whitespace'",
        ),
        (
            _compiled(post_processor={"type": "ByteLevel"}),
            "post_processor: type 'ByteLevel'",
        ),
        (
            _compiled(model={"type": "Unigram"}),
            "model: type 'Unigram' is not supported",
        ),
        (_compiled(model={"type": "BPE", "dropout": 0.1}), "model: dropout 0.1 is not supported"),
        (_compiled(model={"type": "BPE", "vocab": ["a"]}), "vocab .* is a list"),
        (_compiled(model={"type": "BPE", "vocab": {"a": "b"}}), "ids that are not whole numbers"),
        (_compiled(model={"type": "BPE", "vocab": {"a": 7}}), "its 'a' has another id in vocab.js"),
        (
            _compiled(model={"type": "BPE", "vocab": {"<s>": 0}, "merges": ["l o"]}),
            "its merges are not those of merges.txt beside it",
        ),
        (_compiled(model={"type": "BPE", "merges": ["l o w"]}), "merge 'l o w' is not of two tok"),
        (
            _compiled(model={"type": "BPE", "merges": [["l"]]}),
            r"merge \['l'\] is not of",
        ),
        (_compiled(model={"type": "BPE", "merges": [7]}), "merge 7 is not of two tokens"),
        (
            {"tokenizer": {"added_tokens": [{"id": 5, "content": "x", "rstrip": True}]}},
            "added token 'x' has id 5; its vocabulary of 267 tokens has 'ā' there",
        ),
    ],
)
def test_what_a_folder_may_not_say(
    folder: Path, files: dict[str, dict[str, Any]], message: str
) -> None:
    for name, values in files.items():
        _write(folder, f"{name}.json", **values)
    with pytest.raises(UserError, match=message) as caught:
        RobertaTokenizer.from_pretrained(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("merges", "message"),
    [
        ("#version: 0.2\nl o\nlo\n", r"merges\.txt, line 3: 'lo' is not two tokens"),
        ("l o w\n", "line 1: 'l o w' is not two tokens with a space between"),
        ("l \n", "line 1: 'l ' is not two tokens"),
        ("l o\n#version: 0.2\n", "merge 2 is of '#version:' and '0.2'"),
        ("l o\nl ow\n", "merge 2 is of 'l' and 'ow', but 'ow' is not in the vocabulary"),
        (None, r"merges\.txt: no such file"),
    ],
)
def test_damaged_merges(folder: Path, merges: str | None, message: str) -> None:
    (folder / "merges.txt").unlink()
    if merges is not None:
        (folder / "merges.txt").write_text(merges, encoding="utf-8")
    with pytest.raises(UserError, match=message) as caught:
        RobertaTokenizer.from_pretrained(folder)
    assert "\n" not in str(caught.value)


def test_merges_are_read_with_and_without_a_version(tmp_path: Path) -> None:
    path = tmp_path / "merges.txt"
    for text in ("#version: 0.2\n# #\r\nĠ a\n", "# #\nĠ a"):
        path.write_bytes(text.encode())
        assert read_merges(path) == [("#", "#"), ("Ġ", "a")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Ġ": None}, "no token 'Ġ' for the byte 0x20; texts may hold any"),
        ({"<pad>": None}, "the pad_token '<pad>' is not in it"),
        ({"x": 3}, r"vocab\.json: expected the ids 0 to \d+, each of one token"),
        ({"x": "3"}, r"vocab\.json: expected the ids 0 to \d+, each of one token"),
    ],
)
def test_damaged_vocabularies(folder: Path, change: dict[str, Any], message: str) -> None:
    ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8")) | change
    kept = [token for token, at in ids.items() if at is not None]
    if None in change.values():
        ids = {token: number for number, token in enumerate(kept)}
    _write(folder, "vocab.json", **ids)
    with pytest.raises(UserError, match=message):
        RobertaTokenizer.from_pretrained(folder)


def test_saving_without_a_mask(toy_roberta: RobertaTokenizer, tmp_path: Path) -> None:
    special = replace(toy_roberta.vocabulary.special, lstrip=frozenset())
    vocabulary = Vocabulary(["<s>", "<pad>", "</s>", "<unk>", *ALPHABET], special)
    RobertaTokenizer(vocabulary, []).save_pretrained(tmp_path / "a" / "b")
    assert RobertaTokenizer.from_pretrained(tmp_path / "a" / "b").mask_token_id is None
