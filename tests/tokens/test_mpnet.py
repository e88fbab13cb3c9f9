"""MPNet's tokenizer returns what the reference's returns, and its folders are read both ways."""

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tokens.reference import assert_same_call
from tests.tokens.test_call import CUTS, EVERYTHING, PADS

from heedful.errors import UserError
from heedful.tokens import MPNetTokenizer, load_tokenizer

LETTERS = [chr(code) for code in range(0x21, 0x100)] + list("中北οσς\u0307\u0301")
TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "[PAD]", "[UNK]", *LETTERS, "the", "##ing", "un"]
TOKENS += [*(f"##{letter}" for letter in LETTERS), "<mask>"]
ONE = "The café, isn't<mask> it? 北京 x</s>y [PAD] <pad>"
LONG = "the quick brown fox jumps over the lazy dog and nobody minds " * 2
TEXTS = [ONE, "", LONG, "x", "\n"]
PAIRS = ["No.\tIt was Müller's", LONG, "short one", "", "y z"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a folder with a vocabulary and nothing else."""
    folder = tmp_path_factory.mktemp("mpnet")
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def ours(folder: Path) -> MPNetTokenizer:
    return MPNetTokenizer.from_pretrained(folder, model_max_length=512)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    return _theirs(folder, model_max_length=512)


def _theirs(folder: Path, **options: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    transformers.logging.set_verbosity_error()
    return transformers.MPNetTokenizerFast.from_pretrained(folder, **options)


@pytest.mark.parametrize(
    ("pairs", "special", "cut", "pad"),
    [
        (pairs, special, cut, PADS[number % len(PADS)])
        for number, (cut, pairs, special) in enumerate(
            product(CUTS, (False, True), (True, False)), start=1
        )
    ],
)
def test_many_texts(
    ours: MPNetTokenizer,
    theirs: Any,
    pairs: bool,
    special: bool,
    cut: dict[str, Any],
    pad: dict[str, Any],
) -> None:
    options = {**cut, **pad, **EVERYTHING, "add_special_tokens": special}
    options["return_token_type_ids"] = not pairs  # the reference says 1, which no model has
    text_pair = PAIRS if pairs else None
    for overflow in (False, True):
        options["return_overflowing_tokens"] = overflow
        assert_same_call(ours(TEXTS, text_pair, **options), theirs(TEXTS, text_pair, **options))


def test_a_pair_has_two_separators_and_no_types(ours: MPNetTokenizer, theirs: Any) -> None:
    assert_same_call(ours(TEXTS, PAIRS), theirs(TEXTS, PAIRS))
    row = ours("un", "the", return_token_type_ids=True)
    assert row.tokens() == ["<s>", "un", "</s>", "</s>", "the", "</s>"]
    assert row.token_type_ids == [0] * 6
    assert "token_type_ids" not in ours("un", "the")


def test_special_tokens(ours: MPNetTokenizer, theirs: Any) -> None:
    for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"):
        for part in (f"{name}_token", f"{name}_token_id"):
            assert getattr(ours, part) == getattr(theirs, part)
    assert sorted(ours.all_special_ids) == sorted(theirs.all_special_ids)
    # The slice is the token's own: the reference's has the spaces before it.
    row = ours("x  <mask>", return_offsets_mapping=True)
    assert row.offset_mapping == [(0, 0), (0, 1), (3, 9), (0, 0)]
    assert row.input_ids == theirs("x  <mask>").input_ids


PARTS = st.one_of(
    st.characters(),
    st.sampled_from(["<mask>", "<s>", "</s>", "<pad>", "[UNK]", "<unk>", " ", "\t", "The", "Ä"]),
)


@given(text=st.lists(PARTS, max_size=20).map("".join))
def test_any_text_has_the_ids_of_the_reference(
    ours: MPNetTokenizer, theirs: Any, text: str
) -> None:
    if any(0xD800 <= ord(character) < 0xE000 for character in text):
        return  # the reference takes no lone surrogates
    row, expected = ours(text, return_offsets_mapping=True), theirs(text)
    assert row.input_ids == expected.input_ids
    assert row.word_ids() == expected.word_ids()
    assert ours.decode(row.input_ids) == theirs.decode(row.input_ids)


def test_folders_both_ways(ours: MPNetTokenizer, theirs: Any, tmp_path: Path) -> None:
    ours.save_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    (tmp_path / "compiled").mkdir()  # tokenizer.json alone, and what says the class
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tmp_path / "theirs" / name, tmp_path / "compiled")
    again = _theirs(tmp_path / "ours")
    assert again(TEXTS, PAIRS).input_ids == ours(TEXTS, PAIRS).input_ids
    assert again.model_max_length == 512
    for name in ("ours", "theirs", "compiled"):
        read = load_tokenizer(tmp_path / name)
        assert type(read) is MPNetTokenizer
        assert read.identity() == ours.identity()
        assert read(TEXTS, PAIRS).input_ids == ours(TEXTS, PAIRS).input_ids


def test_tokens_that_a_published_folder_adds(
    ours: MPNetTokenizer, theirs: Any, tmp_path: Path
) -> None:
    """That of all-mpnet-base-v2 has ``<unk>`` beside ``[UNK]``."""
    theirs.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    compiled = json.loads(path.read_text(encoding="utf-8"))
    unknown = {**compiled["added_tokens"][0], "id": 3, "content": "<unk>", "normalized": True}
    compiled["added_tokens"].insert(3, unknown)
    path.write_text(json.dumps(compiled), encoding="utf-8")
    read, expected = MPNetTokenizer.from_pretrained(tmp_path), _theirs(tmp_path)
    for text in ("x <unk>y", "a<unk><mask>", "[UNK]<unk>"):
        assert read(text).input_ids == expected(text).input_ids
    assert read("<unk>").tokens() == ["<s>", "<unk>", "</s>"]
    assert ours("<unk>").tokens() == ["<s>", "<", "un", "##k", ">", "</s>"]


def test_a_folder_of_berts_tokenizer_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "vocab.txt", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    with pytest.raises(UserError, match="'BertTokenizer' is another kind than 'MPNetTokenizer'"):
        MPNetTokenizer.from_pretrained(tmp_path)
