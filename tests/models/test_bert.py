"""Properties of BERT that hold for any weights."""

import copy
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits
from torch import Tensor, nn
from torch.func import functional_call

from heedful.errors import UserError
from heedful.models import BertConfig, BertForSequenceClassification, BertModel

IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 10, 3, 0, 0], [2, 3, 0, 0, 0]])
MASK = (IDS != 0).long()
LABELS = torch.tensor([0, 2, 1])


def _gradients(model: BertForSequenceClassification) -> dict[str, Tensor]:
    torch.manual_seed(4)
    model.zero_grad()
    model(IDS, MASK, labels=LABELS).loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("training", [False, True])
def test_padding_changes_nothing(still: BertConfig, training: bool) -> None:
    model = BertModel(still).double().train(training)
    kept = MASK.bool()
    first = model(IDS, MASK)
    other = model(torch.where(kept, IDS, 17), MASK, torch.where(kept, 0, 1))
    torch.testing.assert_close(first.last_hidden_state[kept], other.last_hidden_state[kept])
    torch.testing.assert_close(first.pooler_output, other.pooler_output)
    unmasked = model(IDS)
    assert not torch.allclose(first.pooler_output[1], unmasked.pooler_output[1])


def test_a_text_does_not_depend_on_its_neighbours(config: BertConfig) -> None:
    model = BertModel(config).double().eval()
    together = model(IDS, MASK).last_hidden_state
    for row, length in enumerate(MASK.sum(1).tolist()):
        alone = model(IDS[row : row + 1, :length]).last_hidden_state
        torch.testing.assert_close(together[row, :length], alone[0])


def test_a_text_of_nothing_is_harmless(config: BertConfig) -> None:
    model = BertForSequenceClassification(config)
    output = model(IDS, torch.zeros_like(IDS), labels=LABELS)
    output.loss.backward()
    assert output.loss.isfinite()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_every_parameter_gets_a_gradient(config: BertConfig) -> None:
    model = BertForSequenceClassification(config)
    gradients = _gradients(model)
    assert set(gradients) == set(dict(model.named_parameters()))
    # A shift of all keys changes no softmax, so the key's bias alone has a gradient of zero.
    silent = {name for name, gradient in gradients.items() if gradient.abs().max() < 1e-8}
    assert silent == {f"bert.encoder.layer.{n}.attention.self.key.bias" for n in range(2)}


def test_evaluation_repeats_and_training_follows_the_seed(config: BertConfig) -> None:
    model = BertModel(config)
    assert not torch.allclose(model(IDS).pooler_output, model(IDS).pooler_output)
    torch.manual_seed(1)
    first = model(IDS).pooler_output
    torch.manual_seed(1)
    assert_same_bits(model(IDS).pooler_output, first, "same code")
    model.eval()
    assert_same_bits(model(IDS).pooler_output, model(IDS).pooler_output, "same code")


@pytest.mark.parametrize(
    "name", ["hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"]
)
def test_each_dropout_works_alone(still: BertConfig, name: str) -> None:
    values: dict[str, Any] = {**still.to_dict(), name: 0.5}
    model = BertForSequenceClassification(BertConfig.from_dict(values))
    assert not torch.allclose(model(IDS).logits, model(IDS).logits)
    model.eval()
    assert_same_bits(model(IDS).logits, model(IDS).logits, "same code")


def test_recomputing_blocks_saves_memory_and_changes_nothing(config: BertConfig) -> None:
    model = BertForSequenceClassification(config).double()
    found: list[tuple[dict[str, Tensor], int]] = []
    for recompute in (False, True):
        model.gradient_checkpointing = recompute
        kept = 0

        def count(tensor: Tensor) -> Tensor:
            nonlocal kept
            kept += tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            torch.manual_seed(4)
            loss = model(IDS, MASK, labels=LABELS).loss
        found.append((_gradients(model), kept))
        assert loss.isfinite()
    (plain, plain_kept), (again, again_kept) = found
    assert again_kept < plain_kept / 2
    for name in plain:
        torch.testing.assert_close(again[name], plain[name])
    assert model.bert.gradient_checkpointing is model.gradient_checkpointing is True


@pytest.mark.parametrize("recompute", [False, True])
def test_weights_put_in_the_place_of_its_own_get_the_gradient(
    still: BertConfig, recompute: bool
) -> None:
    """As in bfloat16 training; the backward pass is outside the functional call."""
    model = BertForSequenceClassification(still)
    expected = _gradients(model)
    model.zero_grad()
    model.gradient_checkpointing = recompute
    other = {name: p.detach().double().requires_grad_() for name, p in model.named_parameters()}
    functional_call(model, other, (IDS, MASK), {"labels": LABELS}).loss.backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    for name, parameter in other.items():
        assert parameter.grad is not None, name
        torch.testing.assert_close(parameter.grad.float(), expected[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("way", ["autocast", "weights"])
def test_bfloat16_is_near(still: BertConfig, way: str, training: bool) -> None:
    model = BertForSequenceClassification(still).train(training)
    exact = model(IDS, MASK, labels=LABELS)
    if way == "weights":
        model = model.bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast"):
        output = model(IDS, MASK, labels=LABELS, output_attentions=True)
    assert output.logits.dtype == torch.bfloat16
    assert output.loss.dtype == torch.float32
    torch.testing.assert_close(output.logits.float(), exact.logits, rtol=0.05, atol=0.01)
    output.loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_fresh_weights_are_the_references(config: BertConfig) -> None:
    model = BertModel(BertConfig(hidden_size=96, num_hidden_layers=2, intermediate_size=192))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert parameter.eq(0).all(), name
        elif "LayerNorm" in name:
            assert parameter.eq(1).all(), name
        else:
            spread = parameter.std().item()
            assert spread == pytest.approx(0.02, rel=0.15), name
    assert model.embeddings.word_embeddings.weight[0].eq(0).all()
    assert model.embeddings.word_embeddings.weight[1].ne(0).all()
    assert BertModel(config).num_parameters() == sum(
        p.numel() for p in BertModel(config).parameters()
    )


def test_what_is_asked_for_is_returned(config: BertConfig) -> None:
    model = BertModel(config, add_pooling_layer=False)
    output = model(IDS, output_attentions=True, output_hidden_states=True)
    assert output.pooler_output is None
    assert [tuple(x.shape) for x in output.hidden_states] == [(3, 5, 24)] * 3
    assert output.hidden_states[-1] is output.last_hidden_state
    assert [tuple(x.shape) for x in output.attentions] == [(3, 4, 5, 5)] * 2
    assert model(IDS).keys() == ["last_hidden_state"]


def test_it_can_be_copied(config: BertConfig) -> None:
    model = BertModel(config).eval()
    assert_same_bits(copy.deepcopy(model)(IDS).pooler_output, model(IDS).pooler_output, "stored")


LONG = torch.ones(1, 13, dtype=torch.int64)
VECTORS = torch.zeros(3, 5, 24)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give either input_ids or inputs_embeds"),
        ({"input_ids": IDS, "inputs_embeds": VECTORS}, "input_ids or inputs_embeds, not both"),
        ({"input_ids": IDS.tolist()}, r"input_ids: expected a tensor, found a list; model"),
        ({"inputs_embeds": 3}, "inputs_embeds: expected a tensor, found an int"),
        ({"input_ids": IDS[0]}, r"input_ids has shape \(5,\); it must be \(batch, length\)"),
        ({"input_ids": IDS.float()}, "input_ids has type torch.float32"),
        ({"input_ids": IDS + 40}, "input_ids holds 50; the model knows 0 to 49"),
        ({"input_ids": IDS - 1}, "input_ids holds -1"),
        ({"input_ids": LONG}, "the sequence has 13 tokens; the model takes 1 to 12"),
        ({"input_ids": LONG[:, :0]}, "the sequence has 0 tokens; the model takes 1 to 12"),
        ({"inputs_embeds": VECTORS[0]}, r"inputs_embeds has shape \(5, 24\)"),
        ({"inputs_embeds": VECTORS[..., 1:]}, r"must be \(batch, length, 24\)"),
        ({"input_ids": IDS, "attention_mask": MASK[:, 1:]}, r"attention_mask has shape \(3, 4\)"),
        ({"input_ids": IDS, "attention_mask": MASK * 0.5}, "attention_mask holds 0.5; it must be"),
        ({"input_ids": IDS, "token_type_ids": MASK[:2]}, r"token_type_ids has shape \(2, 5\)"),
        ({"input_ids": IDS, "token_type_ids": MASK * 2}, "token_type_ids holds 2; .* 0 to 1"),
        ({"input_ids": IDS, "position_ids": MASK[0]}, r"position_ids has shape \(5,\)"),
        ({"input_ids": IDS, "position_ids": MASK * 12}, "position_ids holds 12; .* 0 to 11"),
    ],
)
def test_wrong_input_is_named(config: BertConfig, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        BertModel(config)(**given)


@pytest.mark.parametrize("kind", [BertModel, BertForSequenceClassification])
def test_a_misspelt_keyword_is_refused(config: BertConfig, kind: type[nn.Module]) -> None:
    with pytest.raises(TypeError, match="atention_mask"):
        kind(config)(input_ids=IDS, atention_mask=MASK)


def test_one_row_of_ids_serves_the_batch(config: BertConfig) -> None:
    model = BertModel(config).eval()
    types, positions = torch.tensor([[0, 0, 1, 1, 1]]), torch.tensor([[4, 3, 2, 1, 0]])
    one = model(IDS, token_type_ids=types, position_ids=positions).pooler_output
    rows = model(
        IDS, token_type_ids=types.expand(3, 5), position_ids=positions.expand(3, 5)
    ).pooler_output
    torch.testing.assert_close(one, rows)
    assert not torch.allclose(one, model(IDS, token_type_ids=types).pooler_output)


def test_a_larger_vocabulary_keeps_the_words_that_were_there(config: BertConfig) -> None:
    model = BertModel(config).eval()
    before, old = model(IDS).pooler_output, model.get_input_embeddings().weight
    new = model.resize_token_embeddings(70)
    assert model.get_input_embeddings() is new
    assert_same_bits(new.weight[:50], old, "moved")
    assert new.weight[50:].std().item() == pytest.approx(0.02, rel=0.2)
    assert (model.config.vocab_size, config.vocab_size) == (70, 50)
    assert_same_bits(model(IDS).pooler_output, before, "stored")
    model(IDS + 59)
    smaller = model.double().requires_grad_(False).resize_token_embeddings(20)
    assert smaller.weight.dtype == torch.float64
    assert_same_bits(smaller.weight, old[:20].double(), "moved")
    assert not smaller.weight.requires_grad
    assert smaller.padding_idx == 0
    with pytest.raises(UserError, match="input_ids holds 60; the model knows 0 to 19"):
        model(torch.full((1, 3), 60))


def test_a_vocabulary_of_no_size_is_refused(config: BertConfig) -> None:
    model = BertModel(config)
    with pytest.raises(UserError, match="vocab_size is 0"):
        model.resize_token_embeddings(0)
    assert model.config == config
    assert model.get_input_embeddings().num_embeddings == 50


def test_other_word_embeddings_can_be_set(config: BertConfig) -> None:
    model = BertModel(config)
    embeddings = nn.Embedding(9, 24)
    model.set_input_embeddings(embeddings)
    assert model.get_input_embeddings() is embeddings
    assert model.config.vocab_size == 9
    with pytest.raises(UserError, match="the embeddings have width 23; the model has 24"):
        model.set_input_embeddings(nn.Embedding(9, 23))


def test_a_model_tells_where_and_how_large_it_is(config: BertConfig) -> None:
    model = BertForSequenceClassification(config)
    assert (model.device, model.dtype) == (torch.device("cpu"), torch.float32)
    assert model.to("meta").double().device.type == "meta"
    assert model.dtype == torch.float64
    everything = model.num_parameters()
    assert everything == model.num_parameters(only_trainable=True)
    model.bert.requires_grad_(False)
    head = sum(parameter.numel() for parameter in model.classifier.parameters())
    assert model.num_parameters(only_trainable=True) == head < everything
