"""No training step reads a number back from the device, so the host never waits for it.

The device is torch's ``meta``, which knows shapes and holds no numbers. Whoever asks it for one, or
for as many rows as it has numbers that are not zero, fails.
"""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import tiny_folders
from tests.golden.cases import CURVES, LOADED
from tests.golden.curves import START, distance
from torch.utils._python_dispatch import TorchDispatchMode

from heedful import predictor
from heedful.cli import run as run_words
from heedful.compiled.model import Compiled
from heedful.device_transfer import copy_to_device
from heedful.layers import multihead, varlen
from heedful.training import distil, loop, optimize
from heedful.training import fit as fitting
from heedful.training import run as running
from heedful.training.device import Precision
from heedful.training.distil import Distillation
from heedful.training.loop import Position, read_results, train

META = torch.device("meta")


class EnoughError(BaseException):
    """The requested steps were taken."""


class NoSteps(torch.optim.AdamW):
    """AdamW without its fused kernel, which the ``meta`` device lacks."""

    def step(self, closure: Any = None) -> None:
        """Check that the kernel receives whether the run has stopped."""
        assert self.found_inf.device == META  # type: ignore[attr-defined]


class Copies(TorchDispatchMode):
    """Refuses copies to the device that the host waits for."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operation."""
        options = kwargs or {}
        if options.get("device") == META and args and isinstance(args[0], torch.Tensor):
            assert args[0].device == META or options.get("non_blocking"), func
        return func(*args, **options)


def on_meta(run: fitting.Run) -> fitting.Outcome:
    """Take some steps on the device instead of a whole run."""
    model = run.work.model.to(META)
    learnt = getattr(run.work.loss, "__self__", None)
    if isinstance(learnt, Distillation):
        learnt.teacher.to(META)
    work = replace(run.work, device=META, optimizer=NoSteps(model.parameters(), lr=1e-3))
    with Copies():
        taken = list(train(work, Position(), total_steps=2, precision=run.precision, clip=1.0))
    assert [step.loss_and_norm.device for step in taken] == [META] * 2
    raise EnoughError


SCRATCH = ("pretrain", *("--train", "data/pretrain.txt", "--vocabulary", "body"))
DISTILLED = ("--teacher", "tag", "--student-layers", "1", "--hidden-weight", "1")

TRAININGS: dict[str, tuple[str, ...]] = {
    **{
        name: CURVES[name]
        for name in (
            *("classify-weights", "regress", "tag", "answer", "choose-fresh", "embed"),
            *("pretrain", "generate", "generate-pairs"),
            *("translate-few", "translate-gru"),
        )
    },
    "rtd": (*SCRATCH, "--objective", "rtd", "--arch", "electra", "--preset", "tiny"),
    "distil": ("tag", "--train", "data/tag.conll", *DISTILLED),
    "clm": (*SCRATCH, "--objective", "clm", "--arch", "gpt2", "--preset", "tiny"),
}


def steps_on_meta(monkeypatch: pytest.MonkeyPatch, words: Sequence[str], out: Path) -> None:
    """Run ``heedful train`` up to some steps on the device."""
    monkeypatch.setattr(running, "fit", on_meta)
    monkeypatch.setattr(distil, "compile_model", lambda model: Compiled(model, "plain", ""))
    # It is there to switch autocast off, which is off here and does not know the device.
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    with pytest.raises(EnoughError):
        run_words(["train", *words, "--steps", "2", "--precision", "fp32", "--out", str(out)])


@pytest.mark.parametrize("name", TRAININGS)
def test_no_number_comes_back(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(START)
    steps_on_meta(monkeypatch, TRAININGS[name], tmp_path / "out")


@pytest.mark.parametrize(
    "name", ["classify-weights", "tag", "answer", "embed", "pretrain", "clm", "translate-few"]
)
def test_no_number_comes_back_where_texts_attend_without_padding(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Torch's own kernel knows its shapes on this device, too."""
    monkeypatch.chdir(START)
    attended: list[torch.device] = []

    def attend(query: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        attended.append(query.device)
        return varlen.attend_varlen(query, *arguments, **options)

    monkeypatch.setattr(multihead, "has_kernel", lambda device, *_: device == META)
    monkeypatch.setattr(multihead, "attend_varlen", attend)
    steps_on_meta(monkeypatch, TRAININGS[name], tmp_path / "out")
    assert set(attended) == {META}


@pytest.mark.parametrize(("family", "objective"), [("big_bird", "mlm"), ("xlnet", "plm")])
def test_no_number_comes_back_in_odd_families(
    family: str, objective: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(START)
    tiny_folders.write_folder(family, tmp_path / "model")
    words = ["--train", "data/pretrain.txt", "--model", str(tmp_path / "model")]
    words += ["--objective", objective, "--batch-size", "2"]
    steps_on_meta(monkeypatch, ["pretrain", *words], tmp_path / "out")


@pytest.mark.parametrize("run", ["classify", "tag", "choose", "embed", "pretrain"])
def test_answers_are_read_once(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line that reads from the device is the one that takes the answers of a batch."""
    monkeypatch.chdir(START)
    fp32 = Precision(dtype=torch.float32, reason="test")
    monkeypatch.setattr(predictor, "choose_device", lambda name: META)
    monkeypatch.setattr(predictor, "choose_answer_precision", lambda name, device: fp32)
    asked = {name: record for name, record, _ in LOADED}.get(run, "the cat [MASK] red")
    with pytest.raises(NotImplementedError) as refused:
        predictor.Predictor.load(run)(asked)
    assert (refused.traceback[-1].path.name, refused.traceback[-1].name) == (
        "predictor.py",
        "compute",
    )


@pytest.mark.parametrize("look", [torch.Tensor.item, torch.Tensor.nonzero, torch.Tensor.tolist])
def test_the_device_refuses_who_looks(look: Callable[[torch.Tensor], object]) -> None:
    with pytest.raises((NotImplementedError, RuntimeError)):
        look(torch.ones(1, device=META))


def test_a_copy_that_waits_is_refused() -> None:
    with Copies():
        copy_to_device(torch.ones(1), META)
        with pytest.raises(AssertionError):
            torch.ones(1).to(META)


def test_steps_that_are_read_together_are_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run's folder does not depend on how often the host reads."""
    monkeypatch.chdir(START)
    words = ["train", *CURVES["classify-dev"], "--steps", "12", "--precision", "fp32"]
    words += ["--checkpoint-every", "4", "--out"]
    assert run_words([*words, str(tmp_path / "each")]) == 0
    for module in (fitting, loop, optimize):
        monkeypatch.setattr(module, "blocks_host", lambda device: True)
    monkeypatch.setattr(fitting, "_UNREAD_SECONDS", math.inf)
    reads: list[int] = []
    monkeypatch.setattr(
        fitting, "read_results", lambda taken: reads.append(len(taken)) or read_results(taken)
    )
    assert run_words([*words, str(tmp_path / "together")]) == 0
    assert reads == [4, 1, 3, 2, 2]  # checkpoints at 4, 8 and 12, evaluations at 5, 10 and 12
    each, together = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("each", "together")
    )
    for one, other in zip(each, together, strict=True):
        assert one["step"] == other["step"]
        assert distance(one.get("loss"), other.get("loss")) < 1e-4
        assert distance(one.get("dev"), other.get("dev")) < 1e-4
