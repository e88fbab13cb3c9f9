"""Folders of encoders and decoders with options, read by the reference and read from it."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from heedful.files import read_tensors
from heedful.models import BertConfig, BertModel

SIZES: dict[str, Any] = {
    "vocab_size": 20,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 10,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "pruned": {"pruned_heads": {0: [1, 3], 1: [2]}},
    "relative": {"position_embedding_type": "relative_key_query"},
    "decoder": {"is_decoder": True, "add_cross_attention": True},
    "chunks and own output": {"chunk_size_feed_forward": 5, "tie_word_embeddings": False},
    "all": {
        "pruned_heads": {1: [0, 2]},
        "position_embedding_type": "relative_key",
        "is_decoder": True,
        "add_cross_attention": True,
    },
}
IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 10, 3, 1, 1]])


def _call(model: Any, options: dict[str, Any]) -> torch.Tensor:
    given: dict[str, Any] = {"use_cache": False}
    if "is_decoder" in options:
        given["encoder_hidden_states"] = torch.randn(
            2, 3, 16, generator=torch.Generator().manual_seed(1)
        )
    with torch.no_grad():
        state: torch.Tensor = model.eval()(IDS, **given).last_hidden_state
    return state


def _same_weights(one: Path, other: Path) -> None:
    ours, theirs = (read_tensors(folder / "model.safetensors") for folder in (one, other))
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.equal(theirs[name]), name


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
def test_ours_to_theirs_and_back(
    reference: ModuleType, tmp_path: Path, options: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    config = BertConfig(**SIZES, **options)
    ours = BertModel(config)
    ours.save_pretrained(tmp_path / "ours")
    theirs = reference.BertModel.from_pretrained(tmp_path / "ours", attn_implementation="eager")
    for name, value in options.items():
        assert getattr(theirs.config, name) == value, name
    torch.testing.assert_close(_call(ours, options), _call(theirs, options))
    theirs.save_pretrained(tmp_path / "theirs")
    _same_weights(tmp_path / "ours", tmp_path / "theirs")
    again = BertModel.from_pretrained(tmp_path / "theirs")
    assert again.config == config
    assert _call(again, options).equal(_call(ours, options))


def test_a_model_that_the_reference_pruned(reference: ModuleType, tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs = reference.BertModel(reference.BertConfig(**SIZES, attn_implementation="eager"))
    theirs.prune_heads({0: [0, 2]})
    theirs.prune_heads({0: [3], 1: [1]})
    theirs.save_pretrained(tmp_path)
    ours = BertModel.from_pretrained(tmp_path)
    assert ours.config.pruned_heads == {0: [0, 2, 3], 1: [1]}
    torch.testing.assert_close(_call(ours, {}), _call(theirs, {}))
