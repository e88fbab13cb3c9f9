"""What processes cannot share is refused before any of them waits for another."""

from types import SimpleNamespace
from typing import cast

import pytest
import torch

from heedful.errors import UserError
from heedful.settings import TrainSettings
from heedful.task import Start
from heedful.training import ranks
from heedful.training.trained import trained


def test_a_model_that_is_called_in_passes_is_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "size", lambda: 2)
    start = cast(Start, SimpleNamespace(model=SimpleNamespace(supports_checkpointing=False)))
    device = torch.device("cpu")
    with pytest.raises(UserError, match=r"--objective plm .* leave out --shard"):
        trained(start, TrainSettings(shard=True), device, in_passes=True)
    whole, same = trained(start, TrainSettings(), torch.device("cuda"), in_passes=True)
    assert whole.exchange is None
    assert same is start
