"""How GPT-2 differs from encoders: its files, and the vector that represents a text."""

from pathlib import Path
from typing import Any

import pytest
import torch

from heedful.errors import UserError
from heedful.files import read_tensors, write_tensors
from heedful.models import GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel, GPT2Model

TINY: dict[str, Any] = {
    "vocab_size": 50,
    "n_positions": 12,
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 4,
}


def _model(kind: type[Any] = GPT2LMHeadModel, **changes: Any) -> Any:
    torch.manual_seed(0)
    model = kind(GPT2Config(**{**TINY, "initializer_range": 0.5, **changes}))
    return model.eval()


def test_old_files_hold_their_masks_among_the_weights(tmp_path: Path) -> None:
    model = _model()
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = read_tensors(path)
    masks = {f"h.{number}.attn.bias": torch.ones(1, 1, 12, 12) for number in range(2)}
    masks |= {f"h.{number}.attn.masked_bias": torch.tensor(-1e4) for number in range(2)}
    old = {name.removeprefix("transformer."): tensor.clone() for name, tensor in weights.items()}
    path.unlink()
    write_tensors(path, old | masks)
    ids = torch.tensor([[1, 2, 3]])
    again = GPT2LMHeadModel.from_pretrained(tmp_path)
    torch.testing.assert_close(again(ids).logits, model(ids).logits)


def test_a_file_with_a_product_too_narrow_is_refused(tmp_path: Path) -> None:
    model = _model()
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = {name: tensor.clone() for name, tensor in read_tensors(path).items()}
    weights["transformer.h.0.attn.c_attn.weight"] = torch.zeros(24, 71)
    path.unlink()
    write_tensors(path, weights)
    with pytest.raises(UserError, match=r"attention.self.\w+.weight has shape \(2[34], 24\)"):
        GPT2LMHeadModel.from_pretrained(tmp_path)


def test_a_text_is_classified_by_its_last_token_whatever_stands_behind_it() -> None:
    model = _model(GPT2ForSequenceClassification)
    alone = model(torch.tensor([[5, 6, 7]])).logits
    beside = model(
        torch.tensor([[5, 6, 7, 9, 9], [1, 2, 3, 4, 5]]),
        torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
    ).logits
    torch.testing.assert_close(beside[:1], alone)


def test_a_padding_token_can_be_named_once_the_model_is_made() -> None:
    model = _model(GPT2ForSequenceClassification)
    padded = torch.tensor([[5, 6, 7, 9, 9], [1, 2, 3, 4, 5]])
    before = model(padded).logits
    model.config.pad_token_id = 9
    after = model(padded).logits
    torch.testing.assert_close(after[:1], model(torch.tensor([[5, 6, 7]])).logits)
    torch.testing.assert_close(after[1:], before[1:])
    assert not torch.allclose(after[:1], before[:1])


def test_a_text_of_no_tokens_does_not_depend_on_its_batch() -> None:
    model = _model(GPT2ForSequenceClassification)
    alone = model(torch.tensor([[9]]), torch.tensor([[0]])).logits
    beside = model(
        torch.tensor([[9, 9, 9], [1, 2, 3]]), torch.tensor([[0, 0, 0], [1, 1, 1]])
    ).logits
    torch.testing.assert_close(beside[:1], alone)


def test_no_token_is_without_a_gradient() -> None:
    model = _model(GPT2Model, pad_token_id=0)
    model(torch.tensor([[0, 1]])).last_hidden_state.square().sum().backward()
    words = model.get_input_embeddings().weight.grad
    assert words is not None
    assert words[0].ne(0).any()


def test_what_blocks_add_starts_small() -> None:
    torch.manual_seed(0)
    model = GPT2Model(GPT2Config(**{**TINY, "n_embd": 64, "n_layer": 8}))
    for block in model.encoder.blocks:
        for part in (block.attention.output.dense, block.output.dense):
            assert 0.9 < float(part.weight.detach().std()) / (0.02 / 4) < 1.1
        assert 0.9 < float(block.intermediate.dense.weight.detach().std()) / 0.02 < 1.1


def test_sizes_that_cannot_be() -> None:
    with pytest.raises(UserError, match="n_embd 25 is not a multiple of n_head 4"):
        GPT2Config(**{**TINY, "n_embd": 25})


def test_added_tokens_can_be_token_types() -> None:
    model = _model()
    model.resize_token_embeddings(len(model.get_input_embeddings().weight) + 2)
    newest = len(model.get_input_embeddings().weight) - 1
    ids = torch.tensor([[5, 6, 7]])
    assert not torch.allclose(
        model(ids, token_type_ids=torch.full_like(ids, newest)).logits, model(ids).logits
    )


def test_the_last_token_of_a_mask_with_a_row_per_query() -> None:
    model = _model(GPT2ForSequenceClassification, pad_token_id=0)
    ids = torch.tensor([[5, 6, 7, 9], [1, 2, 3, 4]])
    mask = torch.ones(2, 4, 4).tril()
    mask[0, :, 2:] = 0
    logits = model(ids, attention_mask=mask).logits
    torch.testing.assert_close(logits[:1], model(ids[:1, :2]).logits)
    torch.testing.assert_close(logits[1:], model(ids[1:]).logits)


def test_blocks_that_are_kept_are_scaled_by_their_new_numbers(tmp_path: Path) -> None:
    model = _model(GPT2Model, n_layer=3, scale_attn_by_inverse_layer_idx=True)
    model.keep_blocks([0, 2])
    model.save_pretrained(tmp_path / "kept")
    ids = torch.tensor([[5, 6, 7]])
    again = GPT2Model.from_pretrained(tmp_path / "kept")
    torch.testing.assert_close(again(ids).last_hidden_state, model(ids).last_hidden_state)
