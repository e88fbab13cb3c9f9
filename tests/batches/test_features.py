"""Examples made of texts equal the tokenizer's own output; long texts are fitted."""

from pathlib import Path

import numpy as np
import pytest
from tests.tiny import byte_level_tokenizer

from heedful.batches import collate, features
from heedful.batches.features import row_offsets
from heedful.errors import UserError
from heedful.reading import Text
from heedful.tokens import BertTokenizer


@pytest.fixture
def tokenizer(tiny_model: Path) -> BertTokenizer:
    return BertTokenizer.from_pretrained(tiny_model)


def test_an_example_is_what_the_tokenizer_gives(tokenizer: BertTokenizer) -> None:
    texts = ["the sky is blue", "", "green grass!"] * 700  # more than are encoded at once
    found = list(features(texts, tokenizer, max_length=40, rule="window"))
    assert len(found) == len(texts)
    for text, fitted in zip(texts, found, strict=True):
        (example,) = fitted.pieces
        assert example.ids.tolist() == tokenizer.encode(text)
        assert example.split is None
        assert fitted.tokens_total == fitted.tokens_used == len(example.ids) - 2


def test_a_pair_is_split_where_its_token_types_change(tokenizer: BertTokenizer) -> None:
    (fitted,) = features([("the sky", "is blue")], tokenizer, max_length=40, rule="head")
    (example,) = fitted.pieces
    encoding = tokenizer("the sky", "is blue")
    assert example.ids.tolist() == encoding["input_ids"]
    assert example.split == encoding["token_type_ids"].index(1)


def test_a_pair_of_a_model_that_knows_no_types_has_no_split() -> None:
    byte_level = byte_level_tokenizer()
    (fitted,) = features([("low", " a")], byte_level, max_length=40, rule="head")
    (example,) = fitted.pieces
    assert example.ids.tolist() == byte_level("low", " a")["input_ids"]
    assert example.split is None
    assert "token_type_ids" not in collate([example], pad_id=byte_level.pad_token_id).inputs


def test_offsets_stand_where_the_tokens_of_their_text_do() -> None:
    byte_level = byte_level_tokenizer()
    offsets = np.array([[0, 1], [1, 3]], dtype=np.int32)
    alone = row_offsets(offsets, byte_level.layout)
    assert alone.tolist() == [[-1, -1], [0, 1], [1, 3], [-1, -1]]
    second = row_offsets(offsets, byte_level.layout, first=2)
    assert second.tolist() == [*[[-1, -1]] * 5, [0, 1], [1, 3], [-1, -1]]


def test_a_long_text_is_read_in_windows_that_overlap_by_a_quarter(
    tokenizer: BertTokenizer,
) -> None:
    (fitted,) = features(["the sky is blue " * 10], tokenizer, max_length=18, rule="window")
    assert [len(piece.ids) for piece in fitted.pieces] == [18, 18, 18]
    assert (fitted.tokens_total, fitted.tokens_used) == (40, 40)
    (head,) = features(["the sky is blue " * 10], tokenizer, max_length=18, rule="head")
    assert (head.tokens_total, head.tokens_used) == (40, 16)


def test_texts_and_pairs_do_not_mix(tokenizer: BertTokenizer) -> None:
    mixed: list[Text] = ["a text", ("a", "pair")]
    with pytest.raises(UserError, match="not both at once"):
        list(features(mixed, tokenizer, max_length=40, rule="head"))
