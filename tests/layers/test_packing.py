"""Batches without their padding compute the same as padded ones."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from heedful import (
    BertConfig,
    BertForSequenceClassification,
    Transformer,
    TransformerConfig,
)
from heedful.layers import packing as module
from heedful.layers.packing import Packing, packing
from heedful.models.translation import before_last_label

LENGTHS = torch.tensor([9, 3, 5, 1, 7])


def packed(lengths: Tensor, longest: int) -> Packing:
    made = packing(torch.arange(longest) < lengths[:, None])
    assert made is not None
    return made


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any))
def test_tokens_come_back_to_where_they_stood(lengths: list[int]) -> None:
    tokens = torch.arange(12) < torch.tensor(lengths)[:, None]
    made = packed(torch.tensor(lengths), 12)
    padded = torch.arange(len(lengths) * 24.0).view(len(lengths), 12, 2)
    rows = made.pack(padded)
    assert rows.shape[1] % module.MULTIPLE_OF == 0
    assert rows[0, : sum(lengths)].tolist() == padded[tokens].tolist()
    assert made.pad(rows)[tokens].tolist() == padded[tokens].tolist()
    ids = padded[..., 0].long()
    assert made.pack_ids(ids)[0, : sum(lengths)].tolist() == ids[tokens].tolist()


def test_gradients_go_to_tokens_alone() -> None:
    made, count = packed(LENGTHS, 12), int(LENGTHS.sum())
    padded = torch.randn(5, 12, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: made.pack(x)[:, :count], (padded,))
    rows = torch.randn(1, len(made.indices), 4, dtype=torch.float64, requires_grad=True)
    hidden = (torch.arange(12) < LENGTHS[:, None])[..., None]
    assert torch.autograd.gradcheck(lambda x: made.pad(x) * hidden, (rows,))


def test_the_first_token_of_each_sequence() -> None:
    made = packed(LENGTHS, 9)
    padded = torch.randn(5, 9, 4)
    assert made.first(made.pack(padded)).tolist() == padded[:, :1].tolist()


def test_little_padding_is_not_worth_it() -> None:
    tokens = torch.ones(4, 40, dtype=torch.bool)
    assert packing(tokens) is None
    tokens[0, 36:] = False
    assert packing(tokens) is None
    tokens[:2, 20:] = False
    assert packing(tokens) is not None
    assert packing(torch.zeros(4, 40, dtype=torch.bool)) is None


def test_what_a_decoder_needs_ends_with_the_last_label() -> None:
    labels = torch.tensor([[5, -100, 7, -100], [-100, -100, -100, -100], [1, 2, 3, 4]])
    assert before_last_label(labels).int().tolist() == [[1, 1, 1, 0], [0] * 4, [1] * 4]


def gradients(model: nn.Module, loss: Callable[[], Tensor]) -> dict[str, Tensor]:
    model.zero_grad()
    value = loss()
    value.backward()  # type: ignore[no-untyped-call]
    named = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"loss": value.detach(), **named}


def check_alike(
    model: nn.Module, loss: Callable[[], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare values and gradients with those of a padded batch."""
    used: list[Packing] = []
    plain_pack = Packing.pack
    monkeypatch.setattr(Packing, "pack", lambda self, x: used.append(self) or plain_pack(self, x))  # type: ignore[func-returns-value]
    ours = gradients(model, loss)
    assert used
    used.clear()
    monkeypatch.setattr(module, "LEAST_PADDING", 2.0)
    plain = gradients(model, loss)
    assert not used
    assert ours.keys() == plain.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("norm_before", [False, True])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_translator_learns_the_same(
    norm_before: bool, holes: bool, checkpointing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=40,
        decoder_vocab_size=40,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        dropout=0.0,
        normalize_before=norm_before,
    )
    model = Transformer(config).double().train()
    model.gradient_checkpointing = checkpointing
    ids, labels = torch.randint(3, 40, (5, 9)), torch.randint(3, 40, (5, 7))
    mask = torch.arange(9) < LENGTHS[:, None]
    labels[torch.arange(7) >= torch.tensor([2, 7, 4, 6, 1])[:, None]] = -100
    decoder_input_ids = None
    if holes:  # what is not scored may be read all the same
        decoder_input_ids = torch.randint(3, 40, (5, 7))
        labels[1, 2], labels[4] = -100, -100
    check_alike(
        model,
        lambda: model(ids, mask, decoder_input_ids=decoder_input_ids, labels=labels).loss,
        monkeypatch,
    )


@pytest.mark.parametrize("positions", ["absolute", "relative_key_query"])
@pytest.mark.parametrize("kind", [torch.bool, torch.int64])
def test_a_classifier_learns_the_same(
    positions: str, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        position_embedding_type=positions,
    )
    config = replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = BertForSequenceClassification(config).double().train()
    ids, labels = torch.randint(3, 40, (5, 9)), torch.tensor([0, 1, 0, 1, 1])
    mask = (torch.arange(9) < LENGTHS[:, None]).to(kind)
    types = torch.randint(2, (5, 9))
    check_alike(model, lambda: model(ids, mask, types, labels=labels).loss, monkeypatch)


def test_all_hidden_states_are_padded_where_they_are_asked_for() -> None:
    config = BertConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    )
    model = BertForSequenceClassification(config).train()
    ids, mask = torch.randint(3, 40, (5, 9)), torch.arange(9) < LENGTHS[:, None]
    states = model(ids, mask, output_hidden_states=True).hidden_states
    assert states is not None
    assert [state.shape for state in states] == [(5, 9, 16)] * 3
