"""Devices and precisions: which are refused where, and fp16 with its loss scale."""

from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.exact import assert_same_bits
from tests.golden.cases import CURVES
from tests.golden.curves import START, distance, read
from tests.training.test_loop import examples, model, work_of

from heedful.checkpoints import steps
from heedful.cli import run as run_words
from heedful.errors import UserError
from heedful.training import device, fit, run
from heedful.training.device import Precision, choose_answer_precision, choose_precision
from heedful.training.loop import Position, train
from heedful.training.loop import read_results as read_steps

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
FP16 = Precision(dtype=torch.float16, reason="test")


def some_gpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU")


def test_tf32_is_for_gpus_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="precision tf32 needs a GPU that has it; give fp32"):
        choose_precision("tf32", CPU)
    some_gpu(monkeypatch, (7, 5))
    with pytest.raises(UserError, match="precision tf32 needs a GPU that has it: Some GPU"):
        choose_answer_precision("tf32", CUDA)
    assert choose_precision("auto", CUDA).name == "float32"
    some_gpu(monkeypatch, (9, 0))
    assert choose_answer_precision("tf32", CUDA).name == "tf32"
    assert choose_precision("auto", CUDA).name == "bfloat16"
    assert choose_precision("fp16", CUDA).name == "float16"
    assert not choose_precision("tf32", CUDA).mixed


def test_tf32_is_asked_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", asked.append)
    some_gpu(monkeypatch, (9, 0))
    device.prepare_products(choose_precision("fp32", CUDA))
    assert asked == []
    device.prepare_products(choose_precision("tf32", CUDA))
    assert asked == ["high"]


def test_fp16_learns_what_fp32_learns() -> None:
    data = examples(32)
    wide, narrow = model(), model()
    losses = [
        [
            done.loss
            for taken in train(work, Position(), total_steps=20, precision=precision, scaler=scaler)
            for done in read_steps([taken])
        ]
        for work, precision, scaler in (
            (work_of(wide, data), Precision(dtype=torch.float32, reason="test"), None),
            (work_of(narrow, data), FP16, torch.amp.GradScaler("cpu")),
        )
    ]
    assert losses[0][-1] < 0.95 * losses[0][0]
    assert losses[1][-1] == pytest.approx(losses[0][-1], rel=0.05)
    assert next(narrow.parameters()).dtype is torch.float32


def test_a_run_in_fp16_goes_on_with_its_scale(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first steps overflow and change nothing; the scale they leave goes into checkpoints."""
    monkeypatch.chdir(START)
    monkeypatch.setattr(run, "choose_precision", lambda name, device: FP16)
    scaler = partial(torch.amp.GradScaler, init_scale=2.0**24, growth_interval=4)
    monkeypatch.setattr(torch.amp, "GradScaler", scaler)
    words = ["train", *CURVES["classify-dev"], "--steps", "24", "--checkpoint-every", "12"]
    assert run_words([*words, "--out", str(tmp_path / "whole")]) == 0

    save = fit._save

    def save_and_die(*arguments: object) -> None:
        save(*arguments)  # type: ignore[arg-type]
        if (tmp_path / "killed" / "checkpoints" / "step-12").is_dir():
            raise MemoryError

    with monkeypatch.context() as dying:
        dying.setattr(fit, "_save", save_and_die)
        with pytest.raises(MemoryError):
            run_words([*words, "--out", str(tmp_path / "killed")])
    state = steps.load(tmp_path / "killed" / "checkpoints" / "step-12").state
    assert state.loss_scale is not None
    assert state.loss_scale < 2.0**24
    assert run_words([*words, "--out", str(tmp_path / "killed"), "--resume"]) == 0

    whole, killed = read(tmp_path / "whole"), read(tmp_path / "killed")
    assert whole is not None
    assert killed is not None
    rows = [row for row in whole["rows"] if "loss" in row]
    overflowed = [row["step"] for row in rows if row["gradient_norm"] is None]
    assert overflowed[0] == 1
    assert 0 < len(overflowed) < 20
    for one, other in zip(whole["rows"], killed["rows"], strict=True):
        assert distance(one.get("loss"), other.get("loss")) == 0
    weights = (load_file(tmp_path / name / "model.safetensors") for name in ("killed", "whole"))
    assert_same_bits(*weights, "stored")
