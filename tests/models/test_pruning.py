"""Heads are measured, pruned, saved, and loaded without the pruned ones."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits
from torch import Tensor

from heedful.errors import UserError
from heedful.models import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    Transformer,
    TransformerConfig,
)
from heedful.models.pruning import (
    choose_heads,
    head_importance,
    importance_of_heads,
    least_important,
)

IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 10, 3, 0, 0], [2, 3, 0, 0, 0]])
MASK = (IDS != 0).long()
LABELS = torch.tensor([0, 2, 1])


def _heads(model: BertModel) -> list[tuple[int, ...]]:
    return [block.attention.self.heads for block in model.encoder.layer]


def test_a_model_without_heads_is_one_with_these_masked(config: BertConfig) -> None:
    model = BertModel(config).double().eval()
    mask = torch.tensor([[1, 0, 1, 0], [1, 1, 0, 1]])
    expected = model(IDS, MASK, head_mask=mask).last_hidden_state
    before = model.num_parameters()
    model.prune_heads({0: [3, 1], 1: [2]})
    torch.testing.assert_close(model(IDS, MASK).last_hidden_state, expected)
    # Of each head gone: its part of three products in and their biases, and of one product out.
    assert before - model.num_parameters() == 3 * (4 * 24 * 6 + 3 * 6)
    assert model.config.pruned_heads == {0: [1, 3], 1: [2]}


def test_heads_keep_their_numbers(config: BertConfig) -> None:
    one, two = BertModel(config).eval(), BertModel(config).eval()
    two.load_state_dict(one.state_dict())
    one.prune_heads({0: [0, 3], 1: []})
    two.prune_heads({0: [0]})
    two.prune_heads({0: [3]})
    assert _heads(one) == _heads(two) == [(1, 2), (0, 1, 2, 3)]
    assert one.config == two.config
    assert one.config.pruned_heads == {0: [0, 3]}
    assert_same_bits(one(IDS, MASK).pooler_output, two(IDS, MASK).pooler_output, "same code")
    masked = one(IDS, MASK, head_mask=torch.tensor([0.0, 1.0, 1.0, 0.0])).pooler_output
    assert not torch.allclose(masked, one(IDS, MASK).pooler_output)  # block 1 has heads 0 and 3


@pytest.mark.parametrize("positions", ["absolute", "relative_key"])
def test_a_pruned_model_is_saved_and_loaded(
    config: BertConfig, positions: str, tmp_path: Path
) -> None:
    values = {**config.to_dict(), "position_embedding_type": positions}
    model = BertForSequenceClassification(BertConfig.from_dict(values)).eval()
    model.bert.prune_heads({1: [0, 2]})
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["pruned_heads"] == {"1": [0, 2]}
    again = BertForSequenceClassification.from_pretrained(tmp_path)
    assert_same_bits(again(IDS, MASK).logits, model(IDS, MASK).logits, "stored")
    again.bert.prune_heads({1: [1]})
    assert _heads(again.bert) == [(0, 1, 2, 3), (3,)]
    assert again.config.pruned_heads == {1: [0, 1, 2]}


def test_a_pruned_model_learns(config: BertConfig) -> None:
    model = BertForSequenceClassification(config)
    model.bert.prune_heads({0: [0]})
    model(IDS, MASK, labels=LABELS).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
    frozen = BertModel(config).requires_grad_(False)
    frozen.prune_heads({0: [0]})
    assert not any(parameter.requires_grad for parameter in frozen.parameters())


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ({2: [0]}, "there is no block 2 to prune; there are 0 to 1"),
        ({-1: [0]}, "there is no block -1"),
        ({0: [4]}, "block 0 has no head 4 to prune; it has 0, 2, 3"),
        ({0: [1]}, "block 0 has no head 1 to prune; it has 0, 2, 3"),
        ({1: [2], 0: [0, 2, 3]}, r"pruning \[0, 2, 3\] leaves no head in block 0; keep one"),
    ],
)
def test_what_cannot_be_pruned_is_named_and_nothing_is(
    config: BertConfig, heads: dict[int, list[int]], message: str
) -> None:
    model = BertModel(config)
    model.prune_heads({0: [1]})
    with pytest.raises(UserError, match=message):
        model.prune_heads(heads)
    assert _heads(model) == [(0, 2, 3), (0, 1, 2, 3)]


def _loss(model: BertForSequenceClassification, row: int, mask: Tensor) -> Tensor:
    encoded = model.bert(IDS[row : row + 1], MASK[row : row + 1], head_mask=mask)
    logits = model.classifier(encoded.pooler_output)
    return torch.nn.functional.cross_entropy(logits, LABELS[row : row + 1])


def test_importance_is_the_mean_slope_of_the_loss(config: BertConfig) -> None:
    model = BertForSequenceClassification(config).double().train()
    model.bert.prune_heads({1: [2]})
    importance = head_importance(
        model, range(3), lambda row, mask: (_loss(model, row, mask.double()), 1), normalise=False
    )
    assert model.training
    model.eval()
    step = 1e-5
    for block, head in ((0, 0), (0, 3), (1, 1)):
        slopes = []
        for row in range(3):
            mask = torch.ones(2, 4, dtype=torch.float64)
            mask[block, head] += step
            higher = _loss(model, row, mask)
            mask[block, head] -= 2 * step
            slopes.append((higher - _loss(model, row, mask)).abs().item() / (2 * step))
        assert importance[block, head].item() == pytest.approx(sum(slopes) / 3, rel=1e-4)
    assert importance[1, 2] == 0
    assert all(parameter.grad is None for parameter in model.parameters())
    normal = head_importance(
        model, range(3), lambda row, mask: (_loss(model, row, mask.double()), 1)
    )
    torch.testing.assert_close(normal, importance / importance.norm(dim=1, keepdim=True))


def test_importance_of_several_losses_and_of_nothing_to_learn(config: BertConfig) -> None:
    model = BertForSequenceClassification(config).double()

    def loss(row: int, mask: Tensor) -> tuple[Tensor, Tensor]:
        one = _loss(model, row, mask.double())
        if row == 2:
            return 0 * torch.stack([one, one]), torch.tensor([0, 0])
        return torch.stack([one * 4, one * 2]), torch.tensor([4, 1])

    found = head_importance(model, range(3), loss, normalise=False)
    right = head_importance(
        model,
        range(2),
        lambda row, mask: (3 * _loss(model, row, mask.double()), 1),
        normalise=False,
    )
    torch.testing.assert_close(found, right * 2 / 3)


def test_importance_needs_an_example(config: BertConfig) -> None:
    with pytest.raises(UserError, match="nothing to measure the importance of heads on"):
        head_importance(BertModel(config), [], lambda _, mask: (mask.sum(), 1))


IMPORTANCE = torch.tensor([[0.5, 0.1, 0.2, 0.3], [0.9, 0.8, 0.7, 0.6]])


@pytest.mark.parametrize(
    ("number", "pruned", "chosen"),
    [
        (0, {}, {}),
        (1, {}, {0: [1]}),
        (2, {}, {0: [1, 2]}),
        (4, {}, {0: [1, 2, 3], 1: [3]}),  # head 0 of block 0 is its last
        (6, {}, {0: [1, 2, 3], 1: [1, 2, 3]}),
        (2, {0: [1]}, {0: [2, 3]}),
    ],
)
def test_the_least_important_are_chosen_and_never_the_last(
    config: BertConfig, number: int, pruned: dict[int, list[int]], chosen: dict[str, Any]
) -> None:
    values = {**config.to_dict(), "pruned_heads": pruned}
    assert least_important(IMPORTANCE, number, BertConfig.from_dict(values)) == chosen


def test_more_heads_than_there_are_to_spare(config: BertConfig) -> None:
    for number in (-1, 7):
        with pytest.raises(UserError, match=f"cannot prune {number} heads; .* has 6 to spare"):
            least_important(IMPORTANCE, number, config)


def test_heads_of_a_translator_are_weighed_together() -> None:
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=20,
        d_model=8,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=2,
        encoder_ffn_dim=8,
        decoder_ffn_dim=8,
        cross_attn_pruned_heads={1: [0]},
    )
    model = Transformer(config).double().train()

    def loss(row: int, masks: dict[str, Tensor]) -> tuple[Tensor, int]:
        masks = {name: mask.double() for name, mask in masks.items()}
        ids = torch.tensor([[5, 6, 7, 0]]) + row
        return model(ids, labels=ids.flip(1), **masks, reduction="sum").loss, 4

    importance = importance_of_heads(model, range(3), loss, normalise=False)
    assert model.training
    model.eval()
    shapes = {name: tuple(rows.shape) for name, rows in importance.items()}
    assert shapes == model.head_masks()
    step = 1e-5
    for name, rows in importance.items():
        for block, head in torch.cartesian_prod(*map(torch.arange, rows.shape)).tolist():
            slopes = []
            for row in range(3):
                masks = {key: torch.ones(shape).double() for key, shape in shapes.items()}
                masks[name][block, head] += step
                higher = loss(row, masks)[0]
                masks[name][block, head] -= 2 * step
                slopes.append((higher - loss(row, masks)[0]).abs().item() / (2 * step) / 4)
            expected = pytest.approx(sum(slopes) / 3, rel=1e-3, abs=1e-7)
            assert rows[block, head].item() == expected
    assert importance["cross_attn_head_mask"][1, 0] == 0

    rows = {
        "head_mask": torch.tensor([[0.1, 0.2, 0.3, 0.9]]),
        "decoder_head_mask": torch.tensor([[0.5, 0.0], [0.8, 0.7]]),
        "cross_attn_head_mask": torch.tensor([[0.4, 0.6], [0.0, 0.0]]),
    }
    assert choose_heads(rows, 4, config) == {
        "head_mask": {0: [0, 1, 2]},
        "decoder_head_mask": {0: [1]},
        "cross_attn_head_mask": {},
    }
    assert choose_heads(rows, 5, config)["cross_attn_head_mask"] == {0: [0]}
    with pytest.raises(UserError, match="cannot prune 7 heads; the model has 6 to spare"):
        choose_heads(rows, 7, config)
