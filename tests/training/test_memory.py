"""Steps that do not fit into memory are repeated in smaller batches; ``auto`` plans ahead."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits
from tests.golden.cases import CURVES
from tests.golden.curves import START
from tests.training.test_loop import FP32, TASK, batch_of, examples, model, work_of
from torch import Tensor

from heedful.batches import Batch
from heedful.cli import run as run_words
from heedful.errors import UserError
from heedful.training import memory, run
from heedful.training.loop import Position, TrainingSetup, train
from heedful.training.memory import tokens_that_fit

CPU = torch.device("cpu")


def short_of_memory(work: TrainingSetup, most: int, *, only_once: bool = False) -> TrainingSetup:
    """Fail as a device does for too many tokens, after dropout has drawn its mask."""
    failed: list[int] = []

    def loss(forward: Callable[..., Any], batch: Batch) -> Tensor:
        total = work.loss(forward, batch)
        if batch.num_positions > most and not (failed and only_once):
            failed.append(batch.num_positions)
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return total

    return replace(work, loss=loss)


def learn(work: TrainingSetup, steps: int = 3) -> list[str]:
    said: list[str] = []
    for _ in train(work, Position(), total_steps=steps, precision=FP32, say=said.append):
        pass
    return said


def test_a_step_without_memory_is_done_again_in_halves() -> None:
    """Two batches a step: the first fits, the second does not."""
    data = examples(40)
    whole, halved = model().double(), model().double()
    assert learn(work_of(whole, data, batch_tokens=250)) == []
    said = learn(short_of_memory(work_of(halved, data, batch_tokens=250), 150))
    assert len(said) == 1
    assert said[0].startswith("out of memory at step 1: repeating it; from now on, at most")
    for (name, one), other in zip(whole.named_parameters(), halved.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10, msg=name)


def test_dropout_draws_from_where_the_step_began() -> None:
    """A random failure leaves no trace except the smaller batches."""
    data = examples(16)
    failed, small = model(dropout=0.2), model(dropout=0.2)
    torch.manual_seed(1)
    learn(short_of_memory(work_of(failed, data), 0, only_once=True), 2)
    work = work_of(small, data)
    torch.manual_seed(1)
    halves = replace(
        work,
        plan_epoch=lambda epoch: [
            [part for rows in step for part in (rows[:8], rows[8:])]
            for step in work.plan_epoch(epoch)
        ],
    )
    learn(halves, 2)
    assert_same_bits(failed.state_dict(), small.state_dict(), "stored")


@pytest.mark.parametrize(
    ("splits", "most", "what"),
    [
        (True, 0, "with one item at a time: give a smaller --max-length"),
        (False, 150, "cannot be computed separately; give a smaller --batch-size"),
    ],
)
def test_what_cannot_be_halved_is_said(splits: bool, most: int, what: str) -> None:
    network = model()
    before = copy.deepcopy(network.state_dict())
    work = short_of_memory(work_of(network, examples(16)), most)
    with pytest.raises(UserError, match=f"out of memory at step 1.*{what}"):
        learn(replace(work, can_split=splits))
    assert_same_bits(network.state_dict(), before, "stored")


def test_what_a_step_keeps_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the memory holds twice the tokens, in powers of two; no random number is drawn."""
    network, batch = model(dropout=0.1), batch_of(examples(4))
    memories = [2**20, 2**21, 2**40, 1]
    monkeypatch.setattr(memory, "_CPU_SHARE", 1.0)
    chosen = []
    before = torch.get_rng_state()
    for size in memories:
        monkeypatch.setattr(memory.os, "sysconf", {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": size}.get)
        chosen.append(
            tokens_that_fit(network, lambda: TASK.loss(network, batch), batch.num_positions, CPU)
        )
    assert_same_bits({"state": torch.get_rng_state()}, {"state": before}, "stored")
    assert chosen[1:] == [2 * chosen[0], 8192, 256]
    # 2 blocks of width 24 keep some kilobytes of each token.
    assert math.log2(chosen[0]).is_integer()
    assert 2**20 / 32768 < chosen[0] < 2**20 / 512


def test_auto_is_a_choice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(START)
    words = ["train", *CURVES["regress"], "--steps", "2", "--out", str(tmp_path / "out")]
    assert run_words([*words, "--batch-tokens", "auto"]) == 0
    assert "--batch-tokens auto: 8,192 tokens at once" in capsys.readouterr().err
    assert run_words([*words, "--batch-tokens", "0", "--overwrite"]) == 2
    assert "--batch-tokens 0: must be auto, or a whole number" in capsys.readouterr().err


def test_a_model_that_is_divided_is_not_measured() -> None:
    data = examples(4)
    work = replace(work_of(model(), data), before_backward=lambda last: None)
    with pytest.raises(UserError, match=r"^--batch-tokens auto works neither with"):
        run._choose_batch_tokens(work, data, FP32, print)  # type: ignore[arg-type]
