"""The result of a call works like the reference's; `pad` combines several."""

import copy
import pickle
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from heedful.errors import UserError
from heedful.tokens import BertTokenizer, Encoding


def test_it_is_a_mapping_that_a_model_takes(toy: BertTokenizer) -> None:
    def model(*, input_ids: Any, token_type_ids: Any, attention_mask: Any) -> list[Any]:
        return [input_ids, token_type_ids, attention_mask]

    encoding = toy("hello")
    assert isinstance(encoding, Mapping)
    assert model(**encoding) == [[2, 5, 3], [0, 0, 0], [1, 1, 1]]
    assert encoding["input_ids"] is encoding.input_ids
    assert "Encoding({'input_ids': [2, 5, 3]" in repr(encoding)


def test_items_may_be_changed(toy: BertTokenizer) -> None:
    encoding = toy(["hello", "world"], return_offsets_mapping=True)
    encoding["labels"] = [0, 1]
    assert encoding.labels == [0, 1]
    assert encoding.pop("offset_mapping") == [[(0, 0), (0, 5), (0, 0)]] * 2
    assert list(encoding) == ["input_ids", "token_type_ids", "attention_mask", "labels"]
    assert len(encoding) == 4


def test_a_missing_item_names_the_nearest(toy: BertTokenizer) -> None:
    encoding = toy("hello")
    with pytest.raises(AttributeError, match=r"no 'input_id' \(did you mean 'input_ids'"):
        _ = encoding.input_id
    with pytest.raises(KeyError, match="there are: input_ids, token_type_ids, attention_mask"):
        encoding["input_id"]
    with pytest.raises(KeyError):
        encoding[0]  # type: ignore[index]


def test_rows_are_counted(toy: BertTokenizer) -> None:
    encoding = toy(["hello world", "a"])
    assert encoding.tokens(1) == encoding.tokens(-1) == ["[CLS]", "a", "[SEP]"]
    for method in (encoding.tokens, encoding.word_ids, encoding.sequence_ids):
        with pytest.raises(UserError, match="row 2: this encoding has 2 rows, from 0"):
            method(2)


def test_to_moves_the_tensors(toy: BertTokenizer) -> None:
    encoding = toy("hello", return_tensors="pt")
    encoding["note"] = "kept"
    assert encoding.to("meta") is encoding
    assert encoding.input_ids.device.type == "meta"
    assert encoding.note == "kept"


def test_ids_stay_whole_numbers(toy: BertTokenizer) -> None:
    encoding = toy("hello", return_tensors="pt")
    with pytest.raises(TypeError, match="device"):
        encoding.to(torch.float16)
    assert encoding.input_ids.dtype == torch.int64


def test_copies(toy: BertTokenizer) -> None:
    encoding = toy("hello world", return_tensors="np")
    for again in (
        copy.deepcopy(encoding),
        copy.copy(encoding),
        pickle.loads(pickle.dumps(encoding)),
    ):
        assert again.input_ids.tolist() == [[2, 5, 6, 3]]
        assert again.word_ids() == [None, 0, 1, None]


FEATURES = [
    {"input_ids": [2, 5, 3], "token_type_ids": [0, 0, 0], "special_tokens_mask": [1, 0, 1]},
    {"input_ids": [2, 3], "token_type_ids": [0, 1], "special_tokens_mask": [1, 1]},
]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"return_tensors": "pt"},
        {"padding": "max_length", "max_length": 7, "return_tensors": "np"},
        {"pad_to_multiple_of": 4},
        {"return_attention_mask": False},
        {"padding": False},
    ],
)
def test_pad(uncased: BertTokenizer, reference: Any, options: dict[str, Any]) -> None:
    # The reference changes what it is given.
    theirs = reference.pad(copy.deepcopy(FEATURES), **options)
    ours = uncased.pad(FEATURES, **options)
    batch = {name: [feature[name] for feature in FEATURES] for name in FEATURES[0]}
    for found in (ours, uncased.pad(batch, **options), uncased.pad(Encoding(batch), **options)):
        if options.get("return_attention_mask", True):
            assert "attention_mask" in found
        for name in found:
            assert type(found[name]) is type(theirs[name])
            same = found[name] == theirs[name]
            assert same if isinstance(same, bool) else same.all()
    assert FEATURES[1]["input_ids"] == [2, 3]


def test_pad_one(uncased: BertTokenizer, reference: Any) -> None:
    options: dict[str, Any] = {"padding": "max_length", "max_length": 5}
    ours = uncased.pad(FEATURES[0], **options)
    assert dict(ours) == dict(reference.pad(copy.deepcopy(FEATURES[0]), **options))


def test_pad_takes_tensors_and_keeps_the_rest(uncased: BertTokenizer) -> None:
    features = [{"input_ids": torch.tensor([5, 6]), "label": 1}, {"input_ids": [7], "label": 0}]
    padded = uncased.pad(features, return_tensors="pt")
    assert padded.input_ids.tolist() == [[5, 6], [7, 0]]
    assert padded.attention_mask.tolist() == [[1, 1], [1, 0]]
    assert padded.label.tolist() == [1, 0]


@pytest.mark.parametrize(
    "labels", [[0.5, 1.0], [[0.5, 1.0], [0.0, 1.0]], [1, 0], [True, False]], ids=str
)
@pytest.mark.parametrize("kind", ["pt", "np"])
def test_pad_does_not_round_labels(
    uncased: BertTokenizer, reference: Any, labels: list[Any], kind: str
) -> None:
    features = [{"input_ids": [2, 3], "labels": label} for label in labels]
    found = uncased.pad(features, return_tensors=kind)["labels"]
    expected = reference.pad(features, return_tensors=kind)["labels"]
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist() == labels


@pytest.mark.parametrize("make", [torch.tensor, np.array])
def test_pad_makes_tensors_of_tensors(uncased: BertTokenizer, reference: Any, make: Any) -> None:
    features = [{"input_ids": make([2, 5, 3]), "label": 1}, {"input_ids": make([2, 3]), "label": 0}]
    batch = {"input_ids": make([[2, 3], [5, 3]])}
    one = [{"input_ids": make([2, 3])}] if make is torch.tensor else []  # not an array there
    for rows in (features, batch, *one):
        found, expected = uncased.pad(rows), reference.pad(copy.deepcopy(rows))
        assert set(found) == set(expected)
        for name in found:
            assert type(found[name]) is type(expected[name])
            assert found[name].dtype == expected[name].dtype
            assert found[name].tolist() == expected[name].tolist()
    listed = uncased.pad([{"input_ids": [2, 3]}, {"input_ids": [2]}])
    assert listed.input_ids == [[2, 3], [2, 0]]


def test_what_pad_refuses(uncased: BertTokenizer) -> None:
    with pytest.raises(UserError, match="no 'input_ids' among label"):
        uncased.pad([{"label": 1}])
    with pytest.raises(UserError, match=re.escape("padding 'long'")):
        uncased.pad(FEATURES, padding="long")
    with pytest.raises(UserError, match="not made from text"):
        uncased.pad(FEATURES).word_ids()
    with pytest.raises(UserError, match=re.escape("text: no tensor can hold ['a']")):
        uncased.pad([{"input_ids": [2, 3], "text": "a"}], return_tensors="pt")
    assert dict(uncased.pad([])) == {"input_ids": [], "attention_mask": []}
