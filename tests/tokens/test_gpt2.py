"""GPT-2's tokenizer equals the reference's: no special tokens around texts, slices with spaces."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.tokens.reference import assert_same_call

from heedful.tokens import GPT2Tokenizer, load_tokenizer

TEXTS = ["the cat <|endoftext|>  sat", "", "北京 isn't\n\n here ", " a"]
OPTIONS: dict[str, Any] = {"return_offsets_mapping": True, "return_special_tokens_mask": True}


@pytest.fixture(scope="module")
def folder(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the folder of a whole tiny GPT-2."""
    folder = tmp_path_factory.mktemp("gpt2")
    for path in (data_folder / "tokenizers/tiny-gpt2").iterdir():
        packed = path.suffix == ".gz"
        content = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
        (folder / path.name.removesuffix(".gz")).write_bytes(content)
    return folder


def _same(ours: Any, theirs: Any) -> None:
    assert_same_call(ours(TEXTS, **OPTIONS), theirs(TEXTS, **OPTIONS))
    assert_same_call(ours(TEXTS, TEXTS[::-1], **OPTIONS), theirs(TEXTS, TEXTS[::-1], **OPTIONS))
    typed = OPTIONS | {"return_token_type_ids": True}
    assert_same_call(ours(TEXTS, TEXTS[::-1], **typed), theirs(TEXTS, TEXTS[::-1], **typed))
    for text in TEXTS:
        ids = theirs.encode(text)
        assert ours.decode(ids) == theirs.decode(ids)
        assert ours.decode(ids, skip_special_tokens=True) == theirs.decode(
            ids, skip_special_tokens=True
        )
    for name in ("bos", "eos", "unk"):
        assert getattr(ours, f"{name}_token_id") == getattr(theirs, f"{name}_token_id")
    assert (len(ours), ours.model_max_length) == (len(theirs), theirs.model_max_length)
    assert ours.all_special_tokens == theirs.all_special_tokens


def test_a_whole_folder(folder: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    ours = load_tokenizer(folder)
    assert type(ours) is GPT2Tokenizer
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    _same(ours, theirs)
    assert ours.pad_token_id == ours.eos_token_id
    assert ours(["a b", "a"], padding=True).input_ids[1] == [64, 50256]

    ours.save_pretrained(tmp_path / "ours")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert type(again) is type(theirs)
    assert again.special_tokens_map == theirs.special_tokens_map
    _same(ours, again)

    theirs.save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "vocab.json").unlink()
    read = load_tokenizer(tmp_path / "theirs")
    assert type(read) is GPT2Tokenizer
    assert read.identity() == ours.identity()
    _same(read, theirs)


def test_a_token_of_its_own_for_padding(folder: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    theirs.add_special_tokens({"pad_token": "<pad>"})
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_tokenizer(tmp_path / "theirs")
    assert isinstance(ours, GPT2Tokenizer)
    _same(ours, theirs)
    assert ours(TEXTS, padding=True).input_ids == theirs(TEXTS, padding=True).input_ids
    ours.save_pretrained(tmp_path / "ours")
    assert json.loads((tmp_path / "ours/special_tokens_map.json").read_text())["pad_token"]
    _same(ours, transformers.AutoTokenizer.from_pretrained(tmp_path / "ours"))


def test_slices_are_trimmed_where_that_is_asked_for(folder: Path) -> None:
    whole, trimmed = (
        GPT2Tokenizer.from_pretrained(folder, trim_offsets=trim) for trim in (False, True)
    )
    text = "a  cat"
    slices = [[text[slice(*each)] for each in one.pieces(text).offsets] for one in (whole, trimmed)]
    assert slices == [["a", " ", " cat"], ["a", "", "cat"]]
