"""What processes cannot share is refused before any of them waits for another."""

import sys
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from heedful.errors import UserError
from heedful.settings import TrainSettings
from heedful.task import Recipe, Start
from heedful.training import ranks
from heedful.training.trained import trained


def recipe_of(objective: str, *, shard: bool = False) -> Recipe:
    options = SimpleNamespace(objective=objective)
    return cast(Recipe, SimpleNamespace(options=options, training=TrainSettings(shard=shard)))


def test_a_model_that_is_called_in_passes_is_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "size", lambda: 2)
    start = cast(Start, SimpleNamespace(model=SimpleNamespace(supports_checkpointing=False)))
    device = torch.device("cpu")
    with pytest.raises(UserError, match=r"--objective plm .* leave out --shard"):
        trained(start, recipe_of("plm", shard=True), device)
    whole, same = trained(start, recipe_of("plm"), torch.device("cuda"))
    assert whole.exchange is None
    assert same is start


def test_a_torch_that_cannot_save_the_parts_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "size", lambda: 2)
    start = cast(Start, SimpleNamespace(model=SimpleNamespace(supports_checkpointing=False)))
    name = "torch.distributed.checkpoint.hf_storage"
    older = SimpleNamespace(HuggingFaceStorageWriter=lambda path, thread_count=1: None)
    for module in (None, older):
        monkeypatch.setitem(sys.modules, name, module)
        with pytest.raises(UserError, match=r"--shard: torch .* cannot save the parts .*; update"):
            trained(start, recipe_of("mlm", shard=True), torch.device("cpu"))
