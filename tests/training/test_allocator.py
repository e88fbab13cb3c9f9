"""What is kept in memory between steps and batches."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from heedful.errors import UserError
from heedful.predictor import Predictor
from heedful.settings import TrainSettings
from heedful.training import device

ONEDNN, TORCH = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"


def train(folder: Path) -> None:
    device.prepare_device(TrainSettings(device="no such device"))


@pytest.mark.parametrize("use", [train, Predictor.load])
def test_few_kernels_are_kept_unless_the_user_says_how_many(
    use: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ONEDNN, "7")
    monkeypatch.setenv(TORCH, "7")
    monkeypatch.delenv(TORCH)
    with pytest.raises(UserError):  # too late to keep more than was said
        use(tmp_path)
    assert os.environ[ONEDNN] == "7"
    assert 0 < int(os.environ[TORCH]) < 1024
