"""On a GPU a model learns what it learns on a CPU, in every precision, and the host never waits.

None of this has a meaning without one; what can be tested on a CPU is in ``test_waiting.py``,
``test_memory.py`` and ``test_device.py``.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import tiny
from tests.exact import assert_same_bits
from tests.golden.cases import CURVES
from tests.golden.curves import START, distance
from tests.training.test_loop import FP32, examples, model, work_of
from tests.training.test_memory import learn
from torch import nn

import heedful
from heedful import BertConfig, BertModel
from heedful.cli import run as run_words
from heedful.layers import fused, multihead, varlen
from heedful.training import fit
from heedful.training.loop import Position, train

pytestmark = pytest.mark.cuda

GPU = torch.device("cuda")
TRAININGS = (
    *("classify", "classify-weights", "classify-many", "regress", "tag", "answer", "choose"),
    *("embed", "embed-scored", "pretrain", "generate", "generate-pairs", "translate-few"),
    "translate-gru",
)


def losses_of(name: str, out: Path, *options: str) -> list[float]:
    """Train without dropout, and return the losses."""
    words = ["train", *CURVES[name], "--dropout", "0", "--steps", "10", "--out", str(out)]
    assert run_words([*words, *options]) == 0
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


@pytest.mark.parametrize("name", TRAININGS)
def test_every_task_learns_what_it_does_on_a_cpu(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(START)
    options = ("--precision", "fp32", "--device")
    there = losses_of(name, tmp_path / "gpu", *options, "cuda")
    assert there == pytest.approx(
        losses_of(name, tmp_path / "cpu", *options, "cpu"), rel=1e-3, abs=1e-5
    )


@pytest.mark.parametrize("name", TRAININGS)
def test_the_host_does_not_wait(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After the warm-up, torch itself refuses operations that would wait."""
    monkeypatch.chdir(START)

    def steps(*arguments: Any, **options: Any) -> Any:
        for number, taken in enumerate(train(*arguments, **options)):
            torch.cuda.set_sync_debug_mode("default")
            yield taken
            torch.cuda.set_sync_debug_mode("error" if number >= 1 else "default")

    monkeypatch.setattr(fit, "train", steps)
    try:
        losses_of(name, tmp_path / "out", "--precision", "fp32", "--device", "cuda")
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("decoder", [False, True])
def test_texts_without_padding_learn_the_same(
    dtype: torch.dtype, decoder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not varlen.has_kernel(GPU, dtype, 16):
        pytest.skip("no kernel for texts without padding")
    torch.manual_seed(0)
    sizes = {**tiny.SIZES, "hidden_size": 64, "is_decoder": decoder}
    network = BertModel(BertConfig(**sizes, **tiny.STILL)).to(GPU, dtype).train()
    ids = torch.randint(5, 50, (5, 9), device=GPU)
    mask = torch.arange(9, device=GPU) < torch.tensor([9, 3, 5, 1, 7], device=GPU)[:, None]
    learnt = []
    for kernels in (("varlen", "varlen"), ("fused", "fused")):
        network.zero_grad()
        output = network(ids, mask, output_kernels=True)
        assert output.kernels == kernels
        hidden = output.last_hidden_state[mask]
        hidden.float().sin().sum().backward()
        gradients = [p.grad.float() for p in network.parameters() if p.grad is not None]
        learnt.append([hidden.detach().float(), *gradients])
        monkeypatch.setattr(multihead, "has_kernel", lambda *about: False)
    for ours, padded in zip(*learnt, strict=True):
        # The gradient of the keys' biases is 0, up to rounding.
        most = max(float(padded.abs().max()), 1e-3)
        torch.testing.assert_close(ours, padded, rtol=0.05, atol=0.05 * most)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_kernels_of_rows_round_as_little(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values and gradients are as close to float64 as those of torch's own operations."""
    assert fused.why_no_kernels(GPU) is None
    monkeypatch.setattr(fused, "_MIN_SIZE_TRAINING", 0)
    torch.manual_seed(0)
    sizes = {**tiny.SIZES, "hidden_size": 96, "intermediate_size": 200}
    network = BertModel(BertConfig(**sizes, **tiny.STILL)).to(GPU).train()
    ids = torch.randint(5, 50, (4, 9), device=GPU)
    learnt = []
    for narrow, kind in ((torch.float64, "none"), (dtype, "none"), (dtype, "cuda")):
        monkeypatch.setattr(fused, "_DEVICE_TYPE", kind)
        network.to(narrow).zero_grad()
        hidden = network(ids).last_hidden_state
        hidden.double().sin().sum().backward()
        named = {n: p.grad.double() for n, p in network.named_parameters() if p.grad is not None}
        learnt.append({"hidden": hidden.detach().double(), **named})
    right, plain, ours = learnt
    assert ours.keys() == right.keys()
    for name, exact in right.items():
        errors = [float((each[name] - exact).norm()) for each in (ours, plain)]
        assert errors[0] <= 1.5 * errors[1] + 1e-3 * float(exact.norm()) + 1e-6, name


def test_the_kernels_of_rows_drop_by_the_state_of_the_generator() -> None:
    count, width = 500, 768
    dense, norm = (
        each.to(GPU, torch.bfloat16) for each in (nn.Linear(8, width), nn.LayerNorm(width))
    )
    with torch.no_grad():
        dense.weight.zero_()
        dense.bias.fill_(1)
    inner = torch.zeros(count, 8, device=GPU, dtype=torch.bfloat16)
    hidden = torch.zeros(count, width, device=GPU, dtype=torch.bfloat16)
    state = torch.cuda.get_rng_state(GPU)
    kept = [fused.dropout_add_norm(inner, dense, hidden, norm, dropout=0.25) > 0 for _ in range(2)]
    torch.cuda.set_rng_state(state, GPU)
    again = fused.dropout_add_norm(inner, dense, hidden, norm, dropout=0.25) > 0
    assert_same_bits(again, kept[0], "same code")
    agree = float((kept[0] == kept[1]).double().mean())
    assert agree == pytest.approx(0.75**2 + 0.25**2, abs=0.01)
    assert float(again.double().mean()) == pytest.approx(0.75, abs=0.01)
    assert float(again.double().mean(0).min()) > 0.6
    assert float(again.double().mean(1).min()) > 0.6


@pytest.mark.parametrize("precision", ["bf16", "fp16", "tf32"])
def test_every_precision_learns(
    precision: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(START)
    wide = losses_of("classify", tmp_path / "wide", "--precision", "fp32", "--device", "cuda")
    narrow = losses_of("classify", tmp_path / "out", "--precision", precision, "--device", "cuda")
    torch.set_float32_matmul_precision("highest")
    assert narrow == pytest.approx(wide, rel=0.1)


def test_a_run_goes_on_with_the_same_batches_and_draws(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(START)
    words = ["train", *CURVES["classify"], "--steps", "8", "--checkpoint-every", "4"]
    words += ["--device", "cuda", "--precision", "fp32"]
    assert run_words([*words, "--out", str(tmp_path / "whole")]) == 0
    save = fit._save

    def save_and_die(*arguments: Any) -> None:
        save(*arguments)
        raise MemoryError

    with monkeypatch.context() as dying:
        dying.setattr(fit, "_save", save_and_die)
        with pytest.raises(MemoryError):
            run_words([*words, "--out", str(tmp_path / "killed")])
    assert run_words([*words, "--out", str(tmp_path / "killed"), "--resume"]) == 0
    whole, killed = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "killed")
    )
    assert distance([row["loss"] for row in whole], [row["loss"] for row in killed]) < 1e-4


def test_a_loss_that_is_not_finite_leaves_the_weights() -> None:
    network = model().to(GPU)
    work = work_of(network, examples(8))
    bad = replace(
        work, device=GPU, loss=lambda forward, batch: work.loss(forward, batch) + float("inf")
    )
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    list(train(bad, Position(), total_steps=2, precision=FP32))
    assert_same_bits(network.state_dict(), before, "stored")


def test_a_step_that_does_not_fit_is_done_in_halves() -> None:
    """The device refuses more than some memory; the batch alone would take more."""
    network = model().to(GPU)
    work = replace(work_of(network, examples(4096), batch_size=4096), device=GPU)
    torch.cuda.empty_cache()
    whole = torch.cuda.get_device_properties(GPU).total_memory
    most = torch.cuda.memory_reserved(GPU) + 2**27
    torch.cuda.set_per_process_memory_fraction(most / whole)
    try:
        said = learn(work, 1)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert any(line.startswith("out of memory at step 1: repeating it") for line in said)


def numbers(value: object) -> list[float]:
    """Return all numbers of a JSON value, in order."""
    if isinstance(value, dict):
        return [number for each in value.values() for number in numbers(each)]
    if isinstance(value, list):
        return [number for each in value for number in numbers(each)]
    return [float(value)] if isinstance(value, int | float) else []


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("classify", ["the blue horse sleeps"]),
        ("classify", ["the blue horse sleeps", "--attention"]),
        ("classify", ["the blue horse sleeps", "--method", "leave-one-out", "--method", "rollout"]),
        ("tag", ["Dan Miller lives near New Lima"]),
        ("translate", ["Das hund ist rot!", "--attention"]),
    ],
)
def test_explanations_are_those_of_a_cpu(
    run: str,
    words: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(START)
    told = []
    for device in ("cpu", "cuda"):
        assert run_words(["explain", run, *words, "--json", "--device", device]) == 0
        told.append(numbers(json.loads(capsys.readouterr().out)))
    assert told[1] == pytest.approx(told[0], rel=1e-2, abs=1e-3)


@pytest.mark.parametrize(
    ("run", "data"),
    [
        ("classify", ["data/classify.csv"]),
        ("tag", ["data/tag.conll"]),
        ("answer", ["data/answer.jsonl"]),
        ("embed", ["data/embed.csv", "--text-pair", "other"]),
        ("translate", ["data/translate.de", "data/translate.en"]),
        ("writer", ["data/generate.txt"]),
    ],
)
def test_a_run_scores_what_it_does_on_a_cpu(
    run: str,
    data: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    scores = []
    shutil.copytree(START, tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs")  # a run keeps its scores
    for device in ("cpu", "cuda"):
        words = ["evaluate", run, "--data", *data, "--precision", "fp32", "--device", device]
        assert run_words(words) == 0
        told = json.loads(capsys.readouterr().out)
        told.pop("tokens_per_second", None)
        scores.append(numbers(told))
    assert scores[1] == pytest.approx(scores[0], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("run", ["classify", "tag", "embed"])
def test_answers_without_padding_are_those_with_it(
    run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(START)
    texts = ["the blue horse sleeps", "a cold soup", "Dan Miller lives near New Lima in the north"]
    gpu = heedful.load(run, device="cuda", precision="bf16")
    assert gpu.kernel == "unpadded"
    told = [each.to_dict() for each in gpu(texts)]
    wanted = [each.to_dict() for each in heedful.load(run, device="cpu", precision="fp32")(texts)]
    assert numbers(told) == pytest.approx(numbers(wanted), rel=0.05, abs=0.05)


def test_a_server_answers_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    outside = pytest.importorskip("tests.serving.outside", reason="needs the extra [serve]")
    monkeypatch.chdir(START)
    texts = ["the blue horse sleeps", "a cold soup"]
    with outside.serving("classify", "--device", "cuda", "--precision", "fp32") as server:
        address = f"{server.url}/api/runs/classify/predict"
        answer = outside.httpx.post(address, json={"texts": texts})
    assert answer.status_code == 200
    plain = heedful.load("classify", device="cpu", precision="fp32")
    there = [each["label"] for each in answer.json()["answers"]]
    assert there == [each.label for each in plain(texts)]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("classify", ["the blue horse sleeps"]),
        ("tag", ["Dan Miller lives near New Lima"]),
        ("translate", ["Das hund ist rot!", "Der hund"]),
        ("writer", ["the cat"]),
    ],
)
def test_answers_are_those_of_a_cpu(
    run: str,
    words: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(START)
    answers = []
    for device in ("cpu", "cuda"):
        words_ = ["predict", run, *words, "--plain", "--precision", "fp32", "--device", device]
        assert run_words(words_) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
