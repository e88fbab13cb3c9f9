"""How RoBERTa differs from BERT: its positions, and the names of its weights."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from tests import tiny
from tests.exact import assert_same_bits

from heedful.compiled.model import compile_model
from heedful.decoding.search import Search
from heedful.errors import UserError
from heedful.models import (
    BertModel,
    RobertaConfig,
    RobertaForCausalLM,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    RobertaModel,
    XLMRobertaModel,
    load_model,
)

PAD = 1
IDS = torch.tensor([[0, 7, 8, 9, 2], [0, 10, 2, PAD, PAD]])
MASK = IDS.ne(PAD)


def _config(**changes: Any) -> RobertaConfig:
    torch.manual_seed(0)
    return RobertaConfig(**{**tiny.SIZES, **tiny.STILL, **changes})


def test_positions_pass_over_padding() -> None:
    model = RobertaModel(_config()).eval()
    ids = torch.tensor([[PAD, 0, 7, PAD, 2]])
    assert model.embeddings.default_positions(ids, 0).tolist() == [[PAD, 2, 3, PAD, 4]]
    assert model.embeddings.default_positions(ids, 3).tolist() == [[PAD, 5, 6, PAD, 7]]
    assert model.embeddings.default_positions(torch.zeros(1, 3, 24), 3).tolist() == [5, 6, 7]
    left = model(torch.tensor([[PAD, PAD, 0, 7, 2]]), torch.tensor([[0, 0, 1, 1, 1]]))
    alone = model(torch.tensor([[0, 7, 2]]))
    torch.testing.assert_close(left.last_hidden_state[:, 2:], alone.last_hidden_state)


def test_the_longest_sequence_is_shorter_than_the_table() -> None:
    model = RobertaForMaskedLM(_config())
    assert model.max_positions == 10
    assert model(torch.full((1, 10), 5)).logits.shape == (1, 10, 50)
    with pytest.raises(UserError, match="the sequence has 11 tokens; the model takes 1 to 10"):
        model(torch.full((1, 11), 5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pad_token_id": None}, "pad_token_id is None; positions are counted from it"),
        ({"max_position_embeddings": 2}, "with pad_token_id 1 it must be at least 3"),
    ],
)
def test_a_configuration_without_room_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _config(**changes)


def test_the_vector_of_the_padding_position_is_not_trained() -> None:
    model = RobertaModel(_config())
    table = model.embeddings.position_embeddings.weight
    assert table[PAD].eq(0).all()
    model(IDS, MASK).last_hidden_state.square().sum().backward()
    assert table.grad is not None
    assert table.grad[PAD].eq(0).all()
    assert table.grad[PAD + 1].ne(0).any()


def test_a_folder_has_the_names_of_the_reference(tmp_path: Path) -> None:
    model = RobertaForMaskedLM(_config()).eval()
    torch.nn.init.normal_(model.lm_head.bias)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"] == "roberta"
    assert (config["bos_token_id"], config["eos_token_id"]) == (0, 2)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        names = {name for name in file.keys() if name.startswith("lm_head")}  # noqa: SIM118
    parts = [f"{part}.{kind}" for part in ("dense", "layer_norm") for kind in ("weight", "bias")]
    assert names == {"lm_head.bias", *(f"lm_head.{part}" for part in parts)}
    again = load_model(tmp_path)
    assert type(again) is RobertaForMaskedLM
    assert again.config == model.config
    assert_same_bits(again(IDS).logits, model(IDS).logits, "stored")


def test_a_body_gets_a_fresh_head(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    RobertaForMaskedLM(_config()).save_pretrained(tmp_path)
    caplog.set_level(logging.INFO)
    model = load_model(tmp_path, head="sequence", id2label={0: "bad", 1: "good"})
    assert type(model) is RobertaForSequenceClassification
    fresh, unused = caplog.messages
    assert fresh.endswith("fresh weights, to be trained: classifier")
    assert "weights not used: lm_head.bias" in unused
    assert model(IDS, MASK, labels=torch.tensor([0, 1])).loss.isfinite()
    model.save_pretrained(tmp_path / "classifier")
    again = RobertaForSequenceClassification.from_pretrained(tmp_path / "classifier")
    assert_same_bits(again(IDS).logits, model(IDS).logits, "stored")


def test_another_familys_class_is_named(tmp_path: Path) -> None:
    RobertaModel(_config()).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="model_type is 'roberta'; expected 'bert'"):
        BertModel.from_pretrained(tmp_path)
    with pytest.raises(UserError, match="model_type is 'roberta'; expected 'xlm-roberta'"):
        XLMRobertaModel.from_pretrained(tmp_path)  # although its class derives from RoBERTa's
    message = "no head 'pretraining' for model_type 'roberta'; it has body, sequence, "
    with pytest.raises(UserError, match=message):
        load_model(tmp_path, head="pretraining")


def test_a_decoder_writes_on() -> None:
    model = RobertaForCausalLM(_config(is_decoder=True)).eval()
    search = Search(eos_token_id=2, num_beams=2, max_new_tokens=4)
    together = model.generate(IDS[:, :3], MASK[:, :3], search=search)
    alone = [model.generate(row[None, :3], search=search)[0] for row in IDS]
    assert [text.tokens for texts in together for text in texts] == [
        text.tokens for texts in alone for text in texts
    ]
    with pytest.raises(UserError, match="need 12 positions; the model has 10"):
        model.generate(IDS, search=Search(eos_token_id=2, max_new_tokens=8))


def test_a_generated_padding_token_has_the_position_of_padding() -> None:
    torch.manual_seed(0)
    model = RobertaForCausalLM(_config(is_decoder=True)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
        model.lm_head.bias[PAD] += 2
    search = Search(eos_token_id=2, max_new_tokens=7, num_beams=2, num_return_sequences=2)
    prompts = torch.tensor([[0, 5, PAD, 6], [0, 7, 8, 9]])
    plain = model.generate(prompts[:, :3], search=search)
    assert any(PAD in text.tokens[:-1] for texts in plain for text in texts)
    compiled = compile_model(model).model.generate(prompts[:, :3], search=search)
    for ours, theirs in zip(compiled, plain, strict=True):
        assert [text.tokens for text in ours] == [text.tokens for text in theirs]
        right = [text.log_probability for text in theirs]
        assert [text.log_probability for text in ours] == pytest.approx(right, abs=1e-4)
