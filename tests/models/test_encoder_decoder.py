import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits
from tests.tiny_folders import write_folder

from heedful.decoding.search import Search
from heedful.errors import UserError
from heedful.models import (
    BertConfig,
    BertEncoderDecoder,
    BertLMHeadModel,
    BertModel,
    EncoderDecoderConfig,
)

IDS = torch.tensor([[2, 7, 8, 9, 3]])
WRITES: dict[str, Any] = {"is_decoder": True, "add_cross_attention": True}


def _model(still: BertConfig, start: int | None = 2, **changes: Any) -> BertEncoderDecoder:
    decoder = BertLMHeadModel(dataclasses.replace(still, **WRITES | changes))
    return BertEncoderDecoder(BertModel(still), decoder, decoder_start_token_id=start).eval()


def test_there_and_back_is_exact(still: BertConfig, tmp_path: Path) -> None:
    model = _model(still)
    model.save_pretrained(tmp_path / "a")
    again = BertEncoderDecoder.from_pretrained(tmp_path / "a")
    assert again.config == model.config
    assert_same_bits(again(IDS, labels=IDS).loss, model(IDS, labels=IDS).loss, "stored")


def test_what_joins_two_widths_is_kept(still: BertConfig, tmp_path: Path) -> None:
    model = _model(still, hidden_size=2 * still.hidden_size)
    assert len(model.fresh_head_parameters()) == len(model.head_parameters())
    model.save_pretrained(tmp_path / "a")
    assert BertEncoderDecoder.from_pretrained(tmp_path / "a").fresh_head_parameters() == []


def test_labels_are_what_is_written_after_the_start(still: BertConfig) -> None:
    model = _model(still)
    labels = torch.tensor([[5, 6, -100]])
    given = model(IDS, decoder_input_ids=torch.tensor([[2, 5, 6]]), labels=labels)
    torch.testing.assert_close(model(IDS, labels=labels).loss, given.loss)
    assert given.positions.tolist() == [0, 1]
    total = model(IDS, labels=labels, reduction="sum").loss
    torch.testing.assert_close(total, 2 * given.loss)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": IDS[0]}, r"labels have shape \(5,\); expected \(batch, length\)"),
        (
            {"labels": IDS, "decoder_input_ids": IDS[:, 1:]},
            r"labels have shape \(1, 5\); they must have \(1, 4\)",
        ),
        ({"labels": IDS + 45}, "labels hold 52; the classes are 0 to 49"),
    ],
)
def test_labels_that_do_not_fit_are_named(
    still: BertConfig, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        _model(still)(IDS, **arguments)


def test_what_is_missing_is_named(still: BertConfig) -> None:
    with pytest.raises(UserError, match="decoder_start_token_id is not set"):
        _model(still, start=None)(IDS, labels=IDS)
    with pytest.raises(UserError, match="decoder_start_token_id is not set"):
        _model(still, start=None).generate(IDS, search=Search(eos_token_id=3, max_new_tokens=4))
    with pytest.raises(UserError, match="has no pad_token_id"):
        _model(still, pad_token_id=None)(IDS, labels=IDS)
    with pytest.raises(UserError, match="needs is_decoder and add_cross_attention"):
        BertEncoderDecoder(BertModel(still), BertLMHeadModel(still))
    writer = dataclasses.replace(still, **WRITES)
    with pytest.raises(UserError, match=r"the encoder's config \(bert\) has is_decoder"):
        BertEncoderDecoder(BertModel(writer), BertLMHeadModel(writer))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "model_type is 'bert'; only 'encoder-decoder' is supported"),
        ({"tie_encoder_decoder": True}, "tie_encoder_decoder is True; only False"),
        ({"encoder": None}, "expected the configurations 'encoder' and 'decoder'"),
        ({"beams": 4}, "unknown key 'beams'"),
        ({"decoder": {"hidden_sise": 3}}, "decoder: unknown key 'hidden_sise'"),
    ],
)
def test_a_configuration_that_is_wrong_is_named(
    still: BertConfig, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(_model(still).config.to_dict() | change))
    with pytest.raises(UserError, match=message):
        EncoderDecoderConfig.read(path)


def test_a_decoder_cannot_be_what_reads(tmp_path: Path) -> None:
    write_folder("gpt2", tmp_path / "gpt2")
    with pytest.raises(UserError, match=r"the encoder's config \(gpt2\) has is_decoder"):
        BertEncoderDecoder.from_encoder_decoder_pretrained(tmp_path / "gpt2", tmp_path / "gpt2")
