"""Folders of the reference are read as it reads them, and it reads ours; conflicts are reported."""

import json
import random
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import SPECIAL
from tests.tokens.reference import assert_same_batch, assert_same_call

from heedful.errors import UserError
from heedful.tokens import (
    BertTokenizer,
    DistilBertTokenizer,
    ElectraTokenizer,
    SpecialTokens,
    Vocabulary,
    encoder,
    load_tokenizer,
)

TEXTS = ["Émile, ЁЛКА [MASK] 北京", "<e1> The U.N. isn't", ""]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide a folder with a vocabulary and nothing else."""
    tokens = [*SPECIAL, *"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,'北京Éé"]
    tokens += [f"##{token}" for token in tokens[5:]]
    path = tmp_path / "model"
    path.mkdir()
    (path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    return path


def _config(folder: Path, name: str = "tokenizer_config.json", **values: Any) -> None:
    (folder / name).write_text(json.dumps(values))


def _same(ours: BertTokenizer, theirs: Any) -> None:
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(text)
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text))
    for name in ("unk_token_id", "sep_token_id", "pad_token_id", "cls_token_id", "mask_token_id"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert sorted(ours.all_special_ids) == sorted(theirs.all_special_ids)
    assert len(ours) == len(theirs)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
        {"model_max_length": 77, "clean_up_tokenization_spaces": True, "padding_side": "right"},
        {"model_max_length": 1000000000000000019884624838656, "tokenizer_class": "BertTokenizer"},
        {"do_basic_tokenize": True, "never_split": None, "name_or_path": "x", "anything": [1]},
        {
            "cls_token": "A",
            "sep_token": {"__type": "AddedToken", "content": "B", "normalized": False},
        },
    ],
)
def test_a_folder_is_read_as_by_the_reference(
    folder: Path, tmp_path: Path, reference: Any, config: dict[str, Any]
) -> None:
    _config(folder, **config)
    ours = BertTokenizer.from_pretrained(folder)
    theirs = type(reference).from_pretrained(folder)
    _same(ours, theirs)
    known = theirs.model_max_length if theirs.model_max_length < 10**20 else None
    assert ours.model_max_length == known

    ours.save_pretrained(tmp_path / "ours")
    _same(ours, type(reference).from_pretrained(tmp_path / "ours"))
    again = BertTokenizer.from_pretrained(tmp_path / "ours")
    _same(again, theirs)
    assert again.model_max_length == known

    # With tokenizer.json beside the other files, and as the newest releases write it: alone.
    theirs.save_pretrained(tmp_path / "theirs")
    _same(BertTokenizer.from_pretrained(tmp_path / "theirs"), theirs)
    (tmp_path / "theirs" / "vocab.txt").unlink()
    _same(BertTokenizer.from_pretrained(tmp_path / "theirs"), theirs)


@pytest.mark.parametrize("config", [{"model_max_length": 4.0}, {"max_len": 4}])
def test_the_longest_row_may_be_written_in_other_ways(
    folder: Path, reference: Any, config: dict[str, Any]
) -> None:
    _config(folder, **config)
    ours = BertTokenizer.from_pretrained(folder)
    theirs = type(reference).from_pretrained(folder)
    assert ours.model_max_length == theirs.model_max_length == 4
    cut = theirs(TEXTS, truncation=True, max_length=4)  # it slices by the number as it is written
    assert ours(TEXTS, truncation=True)["input_ids"] == cut["input_ids"]


def test_arguments_win_over_the_folder(folder: Path, reference: Any) -> None:
    _config(folder, do_lower_case=True, strip_accents=True, never_split=["U.N."])
    changed: dict[str, Any] = {
        "do_lower_case": False,
        "strip_accents": False,
        "tokenize_chinese_chars": False,
        "model_max_length": 9,
    }
    ours = BertTokenizer.from_pretrained(folder, never_split=(), **changed)
    _same(ours, type(reference).from_pretrained(folder, **changed))
    assert ours.model_max_length == 9
    assert ours.never_split == ()
    assert BertTokenizer.from_pretrained(folder).never_split == ("U.N.",)
    with pytest.raises(UserError, match=r"unknown option 'lowercase'.*'do_lower_case'"):
        BertTokenizer.from_pretrained(folder, lowercase=False)  # type: ignore[call-arg]


def test_added_tokens_come_behind_the_vocabulary(
    folder: Path, tmp_path: Path, reference: Any
) -> None:
    theirs = type(reference).from_pretrained(folder)
    theirs.add_special_tokens({"additional_special_tokens": ["<e1>", "[EVENT]"]})
    theirs.save_pretrained(tmp_path / "theirs")
    ours = BertTokenizer.from_pretrained(tmp_path / "theirs")
    _same(ours, theirs)
    assert ours.encode("x<e1>y", add_special_tokens=False)[1] == len(ours) - 2
    for name in ("tokenizer.json", "added_tokens.json"):
        (tmp_path / "theirs" / name).unlink()
        _same(BertTokenizer.from_pretrained(tmp_path / "theirs"), theirs)
    ours.save_pretrained(tmp_path / "ours")
    _same(BertTokenizer.from_pretrained(tmp_path / "ours"), theirs)
    _same(ours, type(reference).from_pretrained(tmp_path / "ours"))


@pytest.mark.parametrize("listed", [False, True], ids=["added", "in vocab.txt"])
@pytest.mark.parametrize("at_once", [False, True])
def test_words_are_cut_to_the_tokens_of_the_vocabulary_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: bool, at_once: bool
) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    if at_once:
        for name in ("BULK", "MIN_BULK_CHARACTERS"):
            monkeypatch.setattr(encoder, name, 0)
    added = ["foo", "[Ê]", "##bar", "ß", "maske"]
    if listed:
        with (folder / "vocab.txt").open("a", encoding="utf-8") as stream:
            stream.write("".join(f"{token}\n" for token in added))
    words = ["foo", "FOO", "Foo", "fo", "o", "bar", "BAR", "[ê]", "ß", "ẞ", "maske", "MASKE", "##"]
    random_ = random.Random(0)
    texts = ["".join(random_.choices([*words, " ", " "], k=9)) for _ in range(300)]
    for kind in (transformers.BertTokenizer, transformers.BertTokenizerFast):
        made = kind.from_pretrained(folder)
        more = {"mask_token": "maske", "additional_special_tokens": added[:-1]}
        made.add_special_tokens(more)
        made.save_pretrained(theirs_at := tmp_path / f"{kind.__name__}")
        theirs = transformers.BertTokenizerFast.from_pretrained(theirs_at)
        assert (theirs.tokenize("FOO") == ["foo"]) is listed
        ours = BertTokenizer.from_pretrained(theirs_at)
        ours.save_pretrained(ours_at := tmp_path / f"ours-{kind.__name__}")
        again = BertTokenizer.from_pretrained(ours_at)
        assert again.identity() == ours.identity()
        for one in (theirs, transformers.BertTokenizerFast.from_pretrained(ours_at)):
            expected = one.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
            for tokenizer in (ours, again):
                assert_same_batch(texts, tokenizer._encoder.batch(texts, located=True), expected)


def test_old_folders_name_added_tokens_in_a_file_of_their_own(folder: Path) -> None:
    size = len((folder / "vocab.txt").read_text().splitlines())
    _config(folder, "added_tokens.json", **{"<e1>": size})
    ours = BertTokenizer.from_pretrained(folder)
    assert (ours.encode("<E1>")[1], ours.vocabulary.special.ordinary) == (size, ("<e1>",))
    _config(folder, "special_tokens_map.json", additional_special_tokens=["<e1>"])
    assert BertTokenizer.from_pretrained(folder).encode("<e1>")[1] == size
    _config(folder, "added_tokens.json", **{"<e1>": size + 3})
    with pytest.raises(
        UserError, match=f"has id {size + 3}; its vocabulary of {size} tokens has no token there"
    ):
        BertTokenizer.from_pretrained(folder)


def _added(**changed: Any) -> dict[str, Any]:
    return {"added_tokens_decoder": {"5": {"content": "a", "special": True} | changed}}


def _lowercase(value: bool) -> dict[str, Any]:
    return {"normalizer": {"type": "BertNormalizer", "lowercase": value}}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tokenizer_config": {"do_lower_case": "no"}}, "do_lower_case 'no' is a str"),
        ({"tokenizer_config": {"model_max_length": "512"}}, "model_max_length '512' is a str"),
        ({"tokenizer_config": {"model_max_length": 4.5}}, "model_max_length 4.5: must be a whole"),
        ({"tokenizer_config": {"max_len": 0}}, "max_len 0: must be a whole number from 1"),
        ({"tokenizer_config": {"max_len": float("nan")}}, "max_len nan: must be a whole number"),
        ({"tokenizer_config": {"max_len": float("-inf")}}, "max_len -inf: must be a whole number"),
        ({"tokenizer_config": {"never_split": "abc"}}, "never_split 'abc' is a str"),
        ({"tokenizer_config": {"do_basic_tokenize": False}}, "do_basic_tokenize False"),
        ({"tokenizer_config": {"truncation_side": "left"}}, "truncation_side 'left'"),
        ({"tokenizer_config": {"tokenizer_class": "RobertaTokenizerFast"}}, "RobertaTokenizerFast"),
        (
            {"tokenizer_config": _added(content="Z")},
            "'Z' has id 5; its vocabulary of .* has 'a' there",
        ),
        (
            {"tokenizer_config": {"do_lower_case": True}, "tokenizer": _lowercase(False)},
            "says do_lower_case True, tokenizer.json beside it says lowercase False",
        ),
        (
            {"tokenizer": {"model": {"type": "WordPiece", "unk_token": "a"}}},
            r"its unknown token is 'a', not '\[UNK\]'",
        ),
        (
            {"tokenizer_config": {"cls_token": "a"}, "special_tokens_map": {"cls_token": "b"}},
            "says cls_token 'a', special_tokens_map.json beside it says 'b'",
        ),
        # Damaged, or made to do harm.
        ({"tokenizer_config": _added(content=7)}, "added token '5' is"),
        ({"tokenizer_config": {"added_tokens_decoder": {"x": {"content": "a"}}}}, "token 'x' is"),
        (
            {"tokenizer_config": {"added_tokens_decoder": ["a"]}},
            "added_tokens_decoder .* is a list",
        ),
        ({"tokenizer_config": {"cls_token": ["a"]}}, "cls_token .* is a tuple"),
        ({"tokenizer_config": {"cls_token": 3}}, "special token 3: must be text"),
        ({"tokenizer_config": {"additional_special_tokens": "abc"}}, "'abc' is a str"),
        ({"tokenizer_config": {"additional_special_tokens": [3]}}, "special token 3: must be text"),
        ({"added_tokens": {"a": "5"}}, "'a' has the id '5'"),
        ({"added_tokens": {"a": {"content": "b"}}}, r"'a' has the id \{'content': 'b'\}"),
        ({"tokenizer": {"model": "WordPiece"}}, "model 'WordPiece' is a str"),
        ({"tokenizer": {"added_tokens": ["a"]}}, "added token None is 'a'"),
        ({"tokenizer": {"model": {"type": "WordPiece", "vocab": ["a"]}}}, "vocab .* is a list"),
        ({"tokenizer": {"model": {"type": "WordPiece", "vocab": {"a": "b"}}}}, "whole numbers"),
        ({"special_tokens_map": {"cls_token": "[cls]"}}, r"the cls_token '\[cls\]' is not in it"),
    ],
)
def test_what_a_folder_may_not_say(
    folder: Path, files: dict[str, dict[str, Any]], message: str
) -> None:
    for name, values in files.items():
        _config(folder, f"{name}.json", **values)
    with pytest.raises(UserError, match=message) as caught:
        BertTokenizer.from_pretrained(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("normalizer", None, "normalizer null is not supported, only 'BertNormalizer'"),
        ("normalizer", {"type": "Lowercase"}, "normalizer: type 'Lowercase' is not supported"),
        ("normalizer", {"type": "BertNormalizer", "clean_text": False}, "clean_text False"),
        ("pre_tokenizer", None, "pre_tokenizer null is not supported, only 'BertPreTokenizer'"),
        ("pre_tokenizer", {"type": "WhitespaceSplit"}, "type 'WhitespaceSplit'"),
        ("post_processor", None, "post_processor null is not supported"),
        ("post_processor", {"type": "ByteLevel"}, "post_processor: type 'ByteLevel'"),
        ("post_processor", {"type": "BertProcessing"}, "does not put special tokens where"),
        (
            "post_processor",
            {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}]},
            "does not put special tokens where this class does",
        ),
        ("model", {"type": "BPE", "vocab": {}}, "model: type 'BPE' is not supported"),
        ("model", {"max_input_chars_per_word": 50}, "max_input_chars_per_word 50"),
    ],
)
def test_words_that_are_told_or_framed_another_way_are_refused(
    folder: Path, tmp_path: Path, reference: Any, part: str, value: Any, message: str
) -> None:
    """Read as BERT's, they would give other ids than the file specifies."""
    type(reference).from_pretrained(folder).save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs/tokenizer.json"
    compiled = json.loads(path.read_text())
    path.write_text(json.dumps(compiled | {part: value}))
    with pytest.raises(UserError, match=message):
        load_tokenizer(tmp_path / "theirs")
    ids = {"cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}
    path.write_text(json.dumps(compiled | {"post_processor": {"type": "BertProcessing", **ids}}))
    assert load_tokenizer(tmp_path / "theirs").encode("a") == [2, 5, 3]


def test_an_argument_settles_a_conflict(folder: Path) -> None:
    _config(folder, do_lower_case=True)
    _config(folder, "tokenizer.json", **_lowercase(False))
    assert not BertTokenizer.from_pretrained(folder, do_lower_case=False).do_lower_case


def test_what_only_one_file_says_counts(folder: Path) -> None:
    # The reference would take the default, lower case, over what tokenizer.json says.
    _config(folder, "tokenizer.json", **_lowercase(False))
    assert not BertTokenizer.from_pretrained(folder).do_lower_case


def test_two_vocabularies_have_to_be_one(folder: Path) -> None:
    model = {"type": "WordPiece", "vocab": {"[PAD]": 0, "b": 5}}
    _config(folder, "tokenizer.json", model=model)
    with pytest.raises(UserError, match=r"'b' is not on that line of vocab\.txt"):
        BertTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"vocab": {"[PAD]": 0, "b": 5}}, "expected the ids 0 to 1"),
        ({"vocab": {"[PAD]": 0}, "continuing_subword_prefix": "@@"}, "subword_prefix '@@'"),
        ({"vocab": {"[PAD]": 0}, "max_input_chars_per_word": 50}, "chars_per_word 50"),
        ({"vocab": {}}, "vocab.txt: no such file"),
    ],
)
def test_a_vocabulary_in_tokenizer_json_alone(
    folder: Path, model: dict[str, Any], message: str
) -> None:
    (folder / "vocab.txt").unlink()
    _config(folder, "tokenizer.json", model={"type": "WordPiece", **model})
    with pytest.raises(UserError, match=message):
        BertTokenizer.from_pretrained(folder)


def test_saving_without_a_mask(tmp_path: Path) -> None:
    BertTokenizer(Vocabulary(SPECIAL[:4])).save_pretrained(tmp_path / "a" / "b")
    assert BertTokenizer.from_pretrained(tmp_path / "a" / "b").mask_token_id is None


def test_special_tokens_are_saved(tmp_path: Path) -> None:
    special = SpecialTokens(unk_token="u", additional_special_tokens=("x", "y"))
    ours = BertTokenizer(Vocabulary([*SPECIAL, "u", "x", "y"], special), never_split=["U.N."])
    ours.save_pretrained(tmp_path)
    again = BertTokenizer.from_pretrained(tmp_path)
    assert again.vocabulary.special == special
    assert again.never_split == ("U.N.",)
    shutil.copy(tmp_path / "tokenizer_config.json", tmp_path / "special_tokens_map.json")
    assert BertTokenizer.from_pretrained(tmp_path).vocabulary.special == special


@pytest.mark.parametrize("ours", [BertTokenizer, DistilBertTokenizer, ElectraTokenizer])
def test_each_class_is_its_namesake(
    folder: Path, tmp_path: Path, ours: type[BertTokenizer]
) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    made = ours.from_pretrained(folder, do_lower_case=False, model_max_length=64)
    made.save_pretrained(tmp_path / "ours")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert type(theirs) is getattr(transformers, f"{ours.__name__}Fast")
    _same(made, theirs)
    options: dict[str, Any] = {"return_offsets_mapping": True, "padding": True}
    for texts, types in product((TEXTS, [(TEXTS[0], TEXTS[1])]), (None, True, False)):
        row = made(texts, return_token_type_ids=types, **options)
        assert_same_call(row, theirs(texts, return_token_type_ids=types, **options))

    theirs.save_pretrained(tmp_path / "theirs")
    again = load_tokenizer(tmp_path / "theirs")
    assert type(again) is ours
    assert again.identity() == made.identity()


@pytest.mark.parametrize(
    "name", ["tokenizer_config", "special_tokens_map", "tokenizer", "added_tokens"]
)
def test_what_is_there_but_no_file_is_not_passed_over(folder: Path, name: str) -> None:
    path = folder / f"{name}.json"
    path.symlink_to(folder / "missing.json")
    with pytest.raises(UserError, match=rf"{name}\.json: no such file .a link to nowhere"):
        BertTokenizer.from_pretrained(folder)
    path.unlink()
    path.mkdir()
    with pytest.raises(UserError, match=rf"{name}\.json: no such file .it is a folder"):
        BertTokenizer.from_pretrained(folder)


def test_a_configuration_that_is_a_link_to_nowhere_is_not_passed_over(folder: Path) -> None:
    load_tokenizer(folder)
    (folder / "config.json").symlink_to(folder / "missing.json")
    with pytest.raises(UserError, match=r"config\.json: no such file .a link to nowhere"):
        load_tokenizer(folder)
