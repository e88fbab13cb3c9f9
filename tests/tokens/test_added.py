"""Added tokens are kept whole as in the reference, with any of their options."""

import json
import os
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_folders import write_folder
from tests.tokens.reference import assert_same_batch

from heedful.errors import UserError
from heedful.tokens import RobertaTokenizer, SpecialTokens, Vocabulary, load_tokenizer
from heedful.tokens.added import AddedTokens, _is_word
from heedful.tokens.characters import IN_WORDS, LETTERS

SWITCHES = ("lstrip", "rstrip", "single_word", "normalized", "special")
TOKENS = ["<e1>", "<e1>x", "low", "x>", "wlo", "北", "!?"]
PARTS = [
    *TOKENS,
    *" \n\u2003_a1é-\u0301\u200dⅷⓐ",
    "<mask>",
    "<s>",
    "  ",
    "lo",
    "w",
    "北北",
    " low ",
]


def _texts(random_: random.Random) -> list[str]:
    return ["".join(random_.choices(PARTS, k=random_.randrange(9))) for _ in range(150)]


def test_any_switches(toy_roberta: RobertaTokenizer, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    random_ = random.Random(0)
    toy_roberta.save_pretrained(tmp_path / "plain")
    every = [*product((False, True), repeat=len(SWITCHES))]
    for number in range(24):
        theirs = transformers.RobertaTokenizerFast.from_pretrained(tmp_path / "plain")
        for token in random_.sample(TOKENS, 4):
            flags = dict(zip(SWITCHES, random_.choice(every), strict=True))
            theirs.add_tokens([tokenizers.AddedToken(token, **flags)], flags["special"])
        theirs.save_pretrained(tmp_path / str(number))
        ours = load_tokenizer(tmp_path / str(number))
        assert isinstance(ours, RobertaTokenizer)
        ours.save_pretrained(tmp_path / "ours")
        again = load_tokenizer(tmp_path / "ours")
        assert again.identity() == ours.identity()
        texts = _texts(random_)
        for one in (theirs, transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")):
            expected = one.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
            assert_same_batch(texts, ours._encoder.batch(texts, located=True), expected)
            assert len(ours) == len(one)
        for ids in (encoding.ids for encoding in expected):
            assert ours.decode(ids, skip_special_tokens=True) == theirs.decode(
                ids, skip_special_tokens=True
            )


@pytest.mark.parametrize("special", [*product((False, True), repeat=3)], ids=str)
def test_tokens_that_are_the_same_in_normalized_text(
    tmp_path: Path, special: tuple[bool, ...]
) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    write_folder("albert", folder := tmp_path / "albert")
    theirs = transformers.AlbertTokenizerFast.from_pretrained(folder)
    for token, flag in zip(("Foo", "foo", "FOO"), special, strict=True):
        added = tokenizers.AddedToken(token, normalized=True, special=flag)
        theirs.add_tokens([added], special_tokens=flag)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_tokenizer(tmp_path / "theirs")
    for text in ("a foo", "Foo", "FOO, foo"):
        assert ours.encode(text) == theirs.encode(text)


def test_what_touches_a_word() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    learner: Any = tokenizers.Tokenizer(tokenizers.models.BPE())
    learner.add_tokens([tokenizers.AddedToken("a", single_word=True)])
    pace = 1 if "HEEDFUL_SWEEP" in os.environ else 64
    borders = {code for ranges in (LETTERS, IN_WORDS) for pair in ranges.pairs() for code in pair}
    for code in sorted({*range(0, 0x110000, pace), *borders, *(code + 1 for code in borders)}):
        if not 0xD800 <= code < 0xE000 and chr(code) != "a":
            is_token = bool(learner.encode(f"a{chr(code)}").ids)
            assert _is_word(chr(code)) is not is_token, hex(code)


def test_what_there_has_to_be() -> None:
    special = SpecialTokens(ordinary=("new",))
    with pytest.raises(UserError, match="the added token 'new' is not in it"):
        Vocabulary(["[UNK]", "[SEP]", "[PAD]", "[CLS]"], special)
    added = AddedTokens(Vocabulary(["[UNK]", "[SEP]", "[PAD]", "[CLS]", "new"], special))
    assert [*added.ids] == ["[UNK]", "[SEP]", "[PAD]", "[CLS]", "new"]
    assert added.may_contain("a new one")
    assert not added.may_contain("a ne w one")


def test_many_tokens_that_take_the_spaces_after_them() -> None:
    special = SpecialTokens(ordinary=("new",), rstrip=frozenset({"new"}))
    added = AddedTokens(Vocabulary(["[UNK]", "[SEP]", "[PAD]", "[CLS]", "new"], special))
    count = 500_000
    ends = [(part.start, part.stop) for part in added.split("new  " * count)]
    assert ends == [(start, start + 5) for start in range(0, 5 * count, 5)]


@pytest.mark.parametrize("family", ["roberta", "albert", "xlm-roberta", "deberta-v2", "big_bird"])
def test_tokens_that_only_the_old_file_names(tmp_path: Path, family: str) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    write_folder(family, folder := tmp_path / family)
    plain = load_tokenizer(folder)
    added = {"<ent>": len(plain)}
    if family == "deberta-v2":  # its mask is one, too
        added["[MASK]"] = len(plain) - 1
    (folder / "added_tokens.json").write_text(json.dumps(added))
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = load_tokenizer(folder)
    for text in ("  a  b <ent> c", "a<ent>b", "<ent>", " <ent>  <mask> a"):
        assert ours.encode(text) == theirs.encode(text), text


@pytest.mark.parametrize("told", ["<mask>", {"content": "<mask>", "lstrip": False}])
def test_of_two_old_files_that_of_special_tokens_counts(tmp_path: Path, told: Any) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    write_folder("roberta", folder := tmp_path / "model")
    described = {"__type": "AddedToken", "content": "<mask>", "rstrip": True, "lstrip": True}
    config = {"mask_token": {**described, "normalized": False, "single_word": False}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "special_tokens_map.json").write_text(json.dumps({"mask_token": told}))
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    text = "a <mask> b"
    assert load_tokenizer(folder).encode(text) == theirs.encode(text)
