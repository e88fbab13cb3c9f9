"""Memory that is kept between steps and batches."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from heedful.errors import UserError
from heedful.predictor import Predictor
from heedful.settings import TrainSettings
from heedful.training import device

ONEDNN, TORCH = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"
PAGES = "THP_MEM_ALLOC_ENABLE"


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


@pytest.mark.parametrize("said", [None, "0"])
@pytest.mark.parametrize("recomputed", [False, True])
def test_memory_that_is_handed_back_is_taken_in_huge_pages_unless_the_user_says_not(
    said: str | None, recomputed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PAGES, said or "")
    if said is None:
        monkeypatch.delenv(PAGES)
    monkeypatch.setattr(device, "return_big_buffers", lambda: True)  # for all of this process
    monkeypatch.setattr(device, "keep_big_buffers", lambda: True)
    device.prepare_device(TrainSettings(device="cpu", gradient_checkpointing=recomputed))
    assert os.environ.get(PAGES) == (said or ("1" if recomputed else None))


def test_no_tensor_is_made_before_that_can_be_said() -> None:
    code = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode

class Refuse(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} on import")

with Refuse():
    import heedful.cli, heedful.compiled.int8, heedful.training.run
    from heedful.tasks import TASKS, task_named
    for name in TASKS:
        task_named(name)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
