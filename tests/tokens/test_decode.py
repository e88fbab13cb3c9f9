"""Conversions between tokens, ids and text equal the reference's."""

from typing import Any

import numpy as np
import pytest
import torch

from heedful.errors import UserError
from heedful.tokens import BertTokenizer

TEXTS = [
    "Don't stop: we're \"here\", I've said, and it's Müller's 3.5% (or more)!",
    "a . b ! c ? d ' e n't 's [MASK] ##ing 北京 don ' t do not",
    "unaffable zxqv\u0378 \U0001d165",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("clean_up", [None, True, False])
@pytest.mark.parametrize("skip", [True, False])
def test_decode(
    uncased: BertTokenizer, reference: Any, text: str, clean_up: bool | None, skip: bool
) -> None:
    ids = uncased.encode(text)
    options: dict[str, Any] = {
        "skip_special_tokens": skip,
        "clean_up_tokenization_spaces": clean_up,
    }
    expected = reference.decode(ids, **options)
    assert uncased.decode(ids, **options) == expected
    assert uncased.decode(torch.tensor(ids), **options) == expected
    assert uncased.batch_decode(np.array([ids, ids]), **options) == [expected, expected]


def test_tokens_to_text(uncased: BertTokenizer, reference: Any) -> None:
    for text in TEXTS:
        tokens = uncased.tokenize(text)
        assert uncased.convert_tokens_to_string(tokens) == reference.convert_tokens_to_string(
            tokens
        )
    odd = ["##a", "##b", "##", "c", "##d##e", ".", "##.", "'", "s"]
    assert uncased.convert_tokens_to_string(odd) == reference.convert_tokens_to_string(odd)


def test_tokens_and_ids(uncased: BertTokenizer, reference: Any) -> None:
    tokens = ["[CLS]", "the", "##ing", "no such token", ""]
    ids = uncased.convert_tokens_to_ids(tokens)
    assert ids == reference.convert_tokens_to_ids(tokens)
    assert uncased.convert_tokens_to_ids("the") == reference.convert_tokens_to_ids("the")
    assert uncased.convert_ids_to_tokens(ids) == reference.convert_ids_to_tokens(ids)
    assert uncased.convert_ids_to_tokens(ids, skip_special_tokens=True) == ["the", "##ing"]
    assert uncased.convert_ids_to_tokens(ids[1]) == "the"
    assert uncased.convert_ids_to_tokens(torch.tensor(ids)) == uncased.convert_ids_to_tokens(ids)
    assert uncased.decode(ids[1]) == "the"
    assert uncased.get_vocab() == reference.get_vocab()
    assert uncased.vocab_size == len(uncased) == len(reference)
    assert sorted(uncased.all_special_ids) == sorted(reference.all_special_ids)


@pytest.mark.parametrize("at", [-1, 30522])
def test_an_id_outside_the_vocabulary(uncased: BertTokenizer, at: int) -> None:
    with pytest.raises(UserError, match=f"token id {at}: .* has the ids 0 to 30521"):
        uncased.decode([101, at])


@pytest.mark.parametrize("ids", ["abc", None, [1.5], ["the"], [[3, 4]], np.array([[3, 4]])])
def test_what_is_no_token_id_is_refused(uncased: BertTokenizer, ids: Any) -> None:
    with pytest.raises(UserError, match=r"^token ids .*: expected whole numbers; batch_decode"):
        uncased.decode(ids)


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_an_id_may_be_a_number_of_an_array(uncased: BertTokenizer, kind: Any) -> None:
    ids = uncased.encode("the cat")
    assert uncased.batch_decode(kind(ids)) == uncased.convert_ids_to_tokens(ids)
    assert uncased.decode(kind(ids)[1]) == "the"


@pytest.mark.parametrize("text", [None, ["the"], 3])
def test_one_text_is_cut_into_tokens(uncased: BertTokenizer, text: Any) -> None:
    with pytest.raises(UserError, match=f"^text is a {type(text).__name__}: tokenize takes one"):
        uncased.tokenize(text)
