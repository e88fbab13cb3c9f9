"""The tokenizers of DeBERTa, v1 by bytes and v2 by SentencePiece, equal the reference's."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import SPECIAL
from tests.tokens import spiece, test_unigram
from tests.tokens.reference import assert_same_call
from tests.tokens.test_call import CUTS, EVERYTHING, PADS

from heedful.errors import UserError
from heedful.tokens import DebertaTokenizer, DebertaV2Tokenizer, load_tokenizer
from heedful.tokens.bpe import ALPHABET

MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("c", "a"), ("ca", "t"), ("Ġ", "Ġ")]
LONG = "the cat sat on the mat and the cat sat again " * 3
TEXTS = ["the café, isn't [MASK] it? 北京", "", LONG, "x[SEP]y", "\n", " the  cat [MASK]"]
OTHERS = ["No.\tIt was", LONG, "the short one", "", "y z", "[UNK] b"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a folder with a vocabulary and its merges, and nothing else."""
    folder = tmp_path_factory.mktemp("deberta")
    tokens = [*SPECIAL[:4], *ALPHABET, *("".join(pair) for pair in MERGES), "[MASK]"]
    ids = {token: number for number, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in MERGES)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "config.json").write_text('{"model_type": "deberta"}')
    return folder


def _theirs(folder: Path, **options: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    transformers.logging.set_verbosity_error()
    return transformers.AutoTokenizer.from_pretrained(folder, **options)


def _assert_same(
    ours: Any, theirs: Any, texts: list[str] = TEXTS, others: list[str] = OTHERS
) -> None:
    for number, (cut, pad) in enumerate(zip(CUTS * len(PADS), PADS * len(CUTS), strict=True)):
        options = {"max_length": 512, **cut} if cut.get("truncation") is True else dict(cut)
        options |= {**pad, **EVERYTHING, "add_special_tokens": number % 4 != 3}
        second = None if number % 3 == 0 else others
        assert_same_call(ours(texts, second, **options), theirs(texts, second, **options))
    for text in texts:
        ids = theirs.encode(text)
        for skip in (False, True):
            assert ours.decode(ids, skip) == theirs.decode(ids, skip_special_tokens=skip)
    assert {*ours.all_special_tokens} == {*theirs.all_special_tokens}
    for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"):
        assert getattr(ours, f"{name}_token_id") == getattr(theirs, f"{name}_token_id")


@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_bytes_and_folders(folder: Path, tmp_path: Path, add_prefix_space: bool) -> None:
    ours = DebertaTokenizer.from_pretrained(folder, add_prefix_space=add_prefix_space)
    theirs = _theirs(folder, add_prefix_space=add_prefix_space)
    if not add_prefix_space:
        assert type(load_tokenizer(folder)) is DebertaTokenizer
        _assert_same(ours, theirs)
    else:  # whose slices the reference moves by that space
        assert [ours.encode(text) for text in TEXTS] == [theirs.encode(text) for text in TEXTS]
    ours.save_pretrained(tmp_path / "ours")
    again = _theirs(tmp_path / "ours")
    assert type(again) is type(theirs)
    assert again(TEXTS, OTHERS)["input_ids"] == ours(TEXTS, OTHERS).input_ids
    theirs.save_pretrained(tmp_path / "theirs")
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / "theirs" / name).unlink(missing_ok=True)
    read = load_tokenizer(tmp_path / "theirs")
    assert type(read) is DebertaTokenizer
    assert read.identity() == ours.identity()


def test_pieces_and_folders(data_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece", reason="the reference needs it")
    (tmp_path / "spm").mkdir()
    folder = spiece.deberta_v2_folder(data_folder / "tokenizers/albert", tmp_path / "spm")
    ours, theirs = load_tokenizer(folder), _theirs(folder)
    assert type(ours) is DebertaV2Tokenizer
    known = test_unigram.TEXTS, test_unigram.OTHERS
    _assert_same(ours, theirs, *known)
    lower = DebertaV2Tokenizer.from_pretrained(folder, do_lower_case=True)
    assert lower.encode("THE Cat") == _theirs(folder, do_lower_case=True).encode("THE Cat")
    ours.save_pretrained(tmp_path / "ours")
    _assert_same(load_tokenizer(tmp_path / "ours"), _theirs(tmp_path / "ours"), *known)
    theirs.save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "spm.model").unlink(missing_ok=True)
    read = load_tokenizer(tmp_path / "theirs")
    assert type(read) is DebertaV2Tokenizer
    _assert_same(read, theirs, *known)
    (tmp_path / "ours" / "tokenizer_config.json").write_text('{"split_by_punct": true}')
    (tmp_path / "ours" / "config.json").write_text('{"model_type": "deberta-v2"}')
    with pytest.raises(UserError, match="split_by_punct"):
        load_tokenizer(tmp_path / "ours")
