"""How MPNet differs from BERT: its bias, its positions, and missing parts."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from tests import tiny
from tests.exact import assert_same_bits

from heedful.errors import UserError
from heedful.models import MPNetConfig, MPNetForMaskedLM, MPNetModel, load_model

PAD = 1
IDS = torch.tensor([[0, 7, 8, 9, 11, 12, 2], [0, 10, 2, PAD, PAD, PAD, PAD]])
MASK = IDS.ne(PAD)


def _config(**changes: Any) -> MPNetConfig:
    torch.manual_seed(0)
    return MPNetConfig(**{**tiny.SIZES, **tiny.STILL, "initializer_range": 0.3, **changes})


def _ids(rows: int, length: int) -> torch.Tensor:
    return torch.randint(3, 50, (rows, length))


def test_the_longest_sequence_is_shorter_than_the_table() -> None:
    model = MPNetForMaskedLM(_config())
    assert model.max_positions == 10
    assert model(_ids(1, 10)).logits.shape == (1, 10, 50)
    with pytest.raises(UserError, match="the sequence has 11 tokens; the model takes 1 to 10"):
        model(_ids(1, 11))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pad_token_id": 0}, "pad_token_id is 0; an MPNet counts positions from its padding"),
        ({"pad_token_id": None}, "pad_token_id is None; "),
        ({"max_position_embeddings": 2}, "max_position_embeddings is 2; it must be at least 3"),
        ({"relative_attention_num_buckets": 16}, "is 16; it must be at least 32"),
        ({"relative_attention_num_buckets": "32"}, "is '32'; it must be an integer"),
        ({"is_decoder": True}, "is_decoder is True; mpnet supports only False"),
        ({"type_vocab_size": 2}, "type_vocab_size is 2; mpnet supports only 0"),
        ({"position_embedding_type": "relative_key"}, "mpnet supports only 'absolute'"),
    ],
)
def test_a_configuration_that_is_none_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _config(**changes)


def test_token_types_are_not_read() -> None:
    model = MPNetModel(_config()).eval()
    with_types = model(IDS, token_type_ids=torch.ones_like(IDS)).last_hidden_state
    assert_same_bits(with_types, model(IDS).last_hidden_state, "same code")


def test_the_bias_does_not_read_position_ids() -> None:
    model = MPNetModel(_config()).eval()
    with torch.no_grad():
        model.embeddings.position_embeddings.weight.zero_()
        ids = _ids(1, 6)
        somewhere = torch.tensor([[9, 3, 5, 5, 2, 7]])
        same = model(ids, position_ids=somewhere).last_hidden_state
        torch.testing.assert_close(same, model(ids).last_hidden_state)
        turned = model(ids.flip(1)).last_hidden_state.flip(1)
    assert (turned - same).abs().max() > 0.1  # the order counts all the same


@pytest.mark.parametrize("with_mask", [False, True])
def test_pruned_heads_are_those_that_are_masked(with_mask: bool) -> None:
    model = MPNetModel(_config(attention_probs_dropout_prob=0.0))
    head_mask = torch.tensor([[1.0, 0, 1, 0], [0, 1, 1, 1]])
    mask = MASK if with_mask else None
    expected = model(IDS, mask, head_mask=head_mask).last_hidden_state
    model.prune_heads({0: [1, 3], 1: [0]})
    assert [block.attention.self.heads for block in model.encoder.blocks] == [(0, 2), (1, 2, 3)]
    found = model(IDS, mask).last_hidden_state
    torch.testing.assert_close(found[MASK], expected[MASK])
    model.encoder.zero_grad()
    found[MASK].square().sum().backward()
    assert model.encoder.relative_attention_bias.weight.grad[:, 0].any()


def test_training_leaves_padding_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MPNetModel(_config()).train()
    gradients = []
    for packed in (True, False):
        if not packed:
            monkeypatch.setattr("heedful.models.inputs.packing", lambda tokens, device: None)
        model.zero_grad()
        model(IDS, MASK, only_first=True).pooler_output.square().sum().backward()
        gradients.append({name: value.grad for name, value in model.named_parameters()})
    assert gradients[0]["encoder.relative_attention_bias.weight"].any()
    torch.testing.assert_close(gradients[0], gradients[1])


def test_a_folder_has_the_names_of_the_reference(tmp_path: Path) -> None:
    model = MPNetForMaskedLM(_config()).eval()
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"] == "mpnet"
    assert {"type_vocab_size", "is_decoder", "classifier_dropout"}.isdisjoint(config)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        names = set(file.keys())
    assert "mpnet.encoder.relative_attention_bias.weight" in names
    block = {name for name in names if name.startswith("mpnet.encoder.layer.0.attention")}
    parts = ("attn.q", "attn.k", "attn.v", "attn.o", "LayerNorm")
    assert block == {
        f"mpnet.encoder.layer.0.attention.{part}.{kind}"
        for part in parts
        for kind in ("weight", "bias")
    }
    again = load_model(tmp_path)
    assert type(again) is MPNetForMaskedLM
    assert again.config == model.config
    assert_same_bits(again(IDS).logits, model(IDS).logits, "stored")


def test_a_folder_without_its_bias_is_refused(tmp_path: Path) -> None:
    model = MPNetModel(_config())
    weights = model.file_weights()
    del weights["encoder.relative_attention_bias.weight"]
    with pytest.raises(UserError, match=r"missing: encoder\.relative_attention_bias\.weight"):
        model.set_file_weights(weights, tmp_path)
