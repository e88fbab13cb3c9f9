"""Users of the reference reach into models by its names, and replace their layers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits

import heedful
from heedful.errors import UserError

SIZES: dict[str, Any] = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
IDS = torch.arange(5)[None]


def _gpt2() -> heedful.GPT2LMHeadModel:
    config = heedful.GPT2Config(vocab_size=20, n_embd=8, n_layer=3, n_head=2, n_positions=9)
    return heedful.GPT2LMHeadModel(config).eval()


def test_a_configuration_follows_the_layers_of_a_model(tmp_path: Path) -> None:
    model = _gpt2()
    model.prune_heads({1: [0], 2: [1]})
    assert model.transformer.wte is model.get_input_embeddings()
    model.transformer.h = model.transformer.h[1:]
    assert (model.config.n_layer, model.config.pruned_heads) == (2, {0: [0], 1: [1]})
    model.config.n_layer = 2
    with pytest.raises(UserError, match="n_layer cannot change once a model has"):
        model.config.n_layer = 1
    model.save_pretrained(tmp_path)
    again = heedful.GPT2LMHeadModel.from_pretrained(tmp_path)
    assert_same_bits(again(IDS).logits, model(IDS).logits, "stored")


def test_shared_layers_do_not_change_the_depth() -> None:
    config = heedful.AlbertConfig(**SIZES, embedding_size=4, num_hidden_layers=3)
    assert heedful.AlbertModel(config).config.num_hidden_layers == 3


def test_the_stack_of_a_distilbert_has_its_name() -> None:
    sizes = {"n_layers": 3, "n_heads": 2, "dim": 8, "hidden_dim": 16}
    config = heedful.DistilBertConfig(vocab_size=20, **sizes)
    model = heedful.DistilBertModel(config).eval()
    whole = model(IDS, output_hidden_states=True).hidden_states
    model.transformer.layer = model.transformer.layer[:2]
    assert model.config.n_layers == 2
    torch.testing.assert_close(model(IDS).last_hidden_state, whole[2])


def test_embeddings_alone_count_positions_after_the_padding() -> None:
    torch.manual_seed(0)
    config = heedful.RobertaConfig(**SIZES, max_position_embeddings=12, pad_token_id=1)
    model = heedful.RobertaModel(config).eval()
    ids = torch.tensor([[0, 5, 6, 2], [0, 7, 2, 1]])
    expected = model(ids, output_hidden_states=True).hidden_states[0]
    assert_same_bits(model.embeddings(input_ids=ids), expected, "same code")
    positions = torch.tensor([[2, 3, 4, 5], [2, 3, 4, 1]])
    assert_same_bits(model.embeddings(ids, position_ids=positions), expected, "same code")


def test_a_cache_comes_from_calls_for_the_next_token_only() -> None:
    model = _gpt2()
    assert model(IDS).past_key_values.length == 5
    assert model(IDS, labels=IDS).past_key_values is None
    assert model(IDS, positions=torch.tensor([4])).past_key_values is None
    assert model(IDS, use_cache=False).past_key_values is None
    assert model.train()(IDS).past_key_values is None
    model.eval().config.use_cache = False
    assert model(IDS).past_key_values is None
    assert heedful.BertLMHeadModel(heedful.BertConfig(**SIZES)).eval()(IDS).past_key_values is None
