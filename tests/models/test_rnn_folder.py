"""The recurrent model's folder and initial weights, and its invalid inputs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits
from torch.testing import assert_close

from heedful.decoding.search import Search
from heedful.errors import UserError
from heedful.files import read_tensors, write_tensors
from heedful.models import RnnConfig, RnnSearch

SIZES: dict[str, Any] = {"vocab_size": 13, "embedding_width": 6, "hidden_width": 8}
SEPARATE = {
    "share_encoder_decoder_embeddings": False,
    "tie_word_embeddings": False,
    "decoder_vocab_size": 11,
}
IDS = torch.ones(2, 3, dtype=torch.long)


def model_of(options: dict[str, Any] | None = None) -> RnnSearch:
    torch.manual_seed(0)
    return RnnSearch(RnnConfig(**{**SIZES, **(options or {})})).eval()


@pytest.mark.parametrize("options", [{}, {"cell": "lstm", **SEPARATE}])
def test_a_folder_gives_the_model_back(tmp_path: Path, options: dict[str, Any]) -> None:
    model = model_of(options)
    model.save_pretrained(tmp_path / "run")
    read = RnnSearch.from_pretrained(tmp_path / "run")
    assert read.config == model.config
    assert not read.training
    assert_same_bits(read(IDS, labels=IDS).logits, model(IDS, labels=IDS).logits, "stored")
    for parameter in read.parameters():
        assert parameter.requires_grad
        assert parameter.dtype == torch.float32
    again = RnnSearch.from_pretrained(tmp_path / "run", dropout=0.4)
    assert (again.config.dropout, again.dropout.p) == (0.4, 0.4)


def test_a_fresh_model_is_drawn_by_the_seed() -> None:
    config = RnnConfig(**SIZES, cell="lstm")
    torch.manual_seed(3)
    first = RnnSearch(config)
    torch.manual_seed(3)
    for one, other in zip(first.parameters(), RnnSearch(config).parameters(), strict=True):
        assert_same_bits(one, other, "same code")
    assert not first.embeddings.weight[12].any()
    gate = first.decoder.hidden.weight[8:16]
    assert_close(gate @ gate.T, torch.eye(8))
    assert first.decoder.hidden.bias.tolist() == [0] * 8 + [1] * 8 + [0] * 16
    assert first.encoder.backwards.hidden.bias.tolist() == [0] * 8 + [1] * 8 + [0] * 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cell": "rnn"}, "unknown cell 'rnn'"),
        ({"hidden_width": 0}, "hidden_width is 0; it must be an integer of at least 1"),
        ({"dropout": 1.0}, "dropout is 1.0; it must be a number of at least 0 and below 1"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings is 1; it must be true or false"),
        ({"decoder_vocab_size": 9}, "with share_encoder_decoder_embeddings they must be the same"),
        ({"eos_token_id": 13}, "eos_token_id is 13; it must be an integer of at least 0 and"),
        ({"eos_token_id": 4, "pad_token_id": 4}, "pad_token_id and eos_token_id are both 4"),
    ],
)
def test_a_wrong_value_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        RnnConfig(**{**SIZES, **change})


def test_ids_are_filled_in() -> None:
    config = RnnConfig(**{**SIZES, **SEPARATE})
    assert (config.pad_token_id, config.decoder_start_token_id) == (10, 10)
    assert RnnConfig(vocab_size=7).decoder_vocab_size == 7
    assert replace(config, pad_token_id=3).decoder_start_token_id == 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "marian"}, "model_type is 'marian'; expected 'heedful-rnn'"),
        ({"hiden_width": 8}, "unknown key 'hiden_width' .did you mean 'hidden_width'"),
        ({"cell": "tree"}, "unknown cell 'tree'"),
        ({"hidden_width": 9}, "has shape .*; the model expects"),
        ({"tie_word_embeddings": False}, "weights are missing: output.weight"),
    ],
)
def test_a_wrong_folder_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    model_of().save_pretrained(tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**values, **change}), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        RnnSearch.from_pretrained(tmp_path / "run")


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    model_of().save_pretrained(tmp_path / "run")
    path = tmp_path / "run" / "model.safetensors"
    tensors = read_tensors(path)
    write_tensors(path, {**tensors, "output_bias": tensors["output_bias"].long()})
    with pytest.raises(UserError, match=r"output_bias has type torch\.int64; weights are"):
        RnnSearch.from_pretrained(tmp_path / "run")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give decoder_input_ids or labels"),
        ({"labels": IDS[0]}, r"labels has shape \(3,\); it must be \(batch, length\)"),
        ({"labels": IDS[:1]}, "input_ids are of 2 texts, the target of 1"),
        ({"labels": IDS * 13}, "13"),
        ({"decoder_input_ids": IDS * 13}, "decoder_input_ids holds 13; the model knows 0 to 12"),
        ({"labels": IDS[:, :0]}, "labels has 0 tokens; the model takes 1 to 4"),
        ({"labels": torch.ones(2, 5, dtype=torch.long)}, "labels has 5 tokens; the model takes 1"),
        ({"input_ids": IDS * 13, "labels": IDS}, "input_ids holds 13; the model knows 0 to 12"),
        ({"input_ids": IDS[0], "labels": IDS}, r"input_ids has shape \(3,\)"),
        ({"attention_mask": IDS / 2, "labels": IDS}, "attention_mask holds .*; it must be bool"),
        ({"attention_mask": IDS[:, :2], "labels": IDS}, r"attention_mask has shape \(2, 2\)"),
        ({"attention_mask": IDS * 0, "labels": IDS}, "row 0 must be ones, then zeros"),
        (
            {"attention_mask": torch.tensor([[1, 1, 1], [0, 1, 1]]), "labels": IDS},
            "row 1 must be ones, then zeros",
        ),
    ],
)
def test_wrong_input_is_named(given: dict[str, Any], message: str) -> None:
    model = model_of({"max_position_embeddings": 4})
    with pytest.raises(UserError, match=message):
        model(**{"input_ids": IDS, **given})


def test_more_tokens_than_it_can_write_are_refused() -> None:
    model = model_of({"max_position_embeddings": 4})
    with pytest.raises(UserError, match="max_new_tokens is 5; the model generates at most 4"):
        model.generate(IDS, search=Search(eos_token_id=0, max_new_tokens=5))
    with pytest.raises(UserError, match=r"^give search=heedful\.Search\(eos_token_id"):
        model.generate(IDS, max_new_tokens=5)  # type: ignore[call-arg]
