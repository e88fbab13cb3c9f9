"""The loop: accumulation equals the large batch, clipping, precision, checkpointing of blocks."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import tiny
from tests.exact import assert_same_bits
from tests.tiny_folders import write_folder
from torch import nn

from heedful import BertConfig, BertForSequenceClassification, load_model
from heedful.batches import Batch, Example, plan_epoch
from heedful.batches.collate import class_labels, collate
from heedful.errors import UserError
from heedful.models.model import Model
from heedful.tasks.classify import Classify
from heedful.training import loop, optimize
from heedful.training.device import Precision, choose_precision
from heedful.training.loop import Position, StepResult, TrainingSetup, read_results, train
from heedful.training.optimize import adamw, load_optimizer_tensors, optimizer_tensors

TASK = Classify(labels=("a", "b", "c"), multi_label=False)
FP32 = Precision(dtype=torch.float32, reason="test")


def model(dropout: float = 0.0) -> BertForSequenceClassification:
    torch.manual_seed(0)
    sizes = {**tiny.SIZES, "max_position_embeddings": 32}
    config = BertConfig(
        **sizes, num_labels=3, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
    )
    return BertForSequenceClassification(config)


def examples(count: int) -> list[Example]:
    draw = np.random.default_rng(0)
    return [
        Example(
            ids=draw.integers(5, 50, size=draw.integers(3, 30)).astype(np.int32),
            labels=(float(draw.integers(3)),),
        )
        for _ in range(count)
    ]


def batch_of(chosen: list[Example]) -> Batch:
    return collate(chosen, pad_id=0, targets={"labels": class_labels(chosen)})


def work_of(
    network: BertForSequenceClassification,
    data: list[Example],
    task: Classify = TASK,
    batch_size: int = 16,
    batch_tokens: int = 10**6,
) -> TrainingSetup:
    lengths = [len(example.ids) for example in data]
    return TrainingSetup(
        model=network,
        optimizer=adamw(network, learning_rate=1e-3),
        plan_epoch=lambda epoch: plan_epoch(
            lengths, batch_size=batch_size, batch_tokens=batch_tokens, seed=0, epoch=epoch
        ),
        load_batch=lambda rows, epoch: batch_of([data[row] for row in rows]),
        loss=task.loss,
        loss_divisor=task.loss_divisor,
        lr_factor=lambda step: 1.0,
    )


def run(
    network: BertForSequenceClassification,
    data: list[Example],
    *,
    batch_tokens: int,
    weights: tuple[float, ...] | None = None,
    steps: int = 3,
    batch_size: int = 16,
    clip: float = 1.0,
    precision: Precision = FP32,
) -> list[StepResult]:
    work = work_of(network, data, replace(TASK, weights=weights), batch_size, batch_tokens)
    taken = train(work, Position(), total_steps=steps, precision=precision, clip=clip)
    return [done for step in taken for done in read_results([step])]


@pytest.mark.parametrize("weights", [None, (0.2, 1.0, 3.0)])
def test_accumulation_equals_the_large_batch(weights: tuple[float, ...] | None) -> None:
    """40 items in batches of 16: the third step is a short window of 8, cut into micro-batches."""
    data = examples(40)
    whole, parts = model().double(), model().double()
    large = run(whole, data, batch_tokens=10**6, weights=weights)
    small = run(parts, data, batch_tokens=60, weights=weights)
    assert [done.num_items for done in small] == [16, 16, 8]
    assert max(done.padded_tokens for done in small) <= max(done.padded_tokens for done in large)
    for one, other in zip(large, small, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-12)
        assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-10)
    for (name, one), other in zip(whole.named_parameters(), parts.parameters(), strict=True):
        # AdamW divides by the gradient's size, so where that is nearly zero rounding shows.
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-8, msg=name)


def test_a_part_that_was_left_for_answers_learns_as_the_rest() -> None:
    """For example, an encoder that was loaded from its own folder."""
    data = examples(20)
    whole, parts = model(0.3), model(0.3)
    losses = []
    for network in (whole, parts):
        parts.bert.encoder.eval()
        torch.manual_seed(1)
        steps = train(work_of(network, data), Position(), total_steps=2, precision=FP32)
        for taken in steps:
            losses += [done.loss for done in read_results([taken])]
            network.bert.encoder.eval()  # between two steps, too
    assert_same_bits(losses[2:], losses[:2], "same code")


def test_a_step_is_the_references_step() -> None:
    """One step equals clipping and torch's AdamW on the mean loss, with the decay split."""
    data = examples(8)
    ours, plain = model(), model()
    (done,) = run(ours, data, batch_tokens=10**6, steps=1, batch_size=8, clip=0.1)
    decayed = [
        p for n, p in plain.named_parameters() if not n.endswith(("bias", "LayerNorm.weight"))
    ]
    rest = [p for n, p in plain.named_parameters() if n.endswith(("bias", "LayerNorm.weight"))]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    batch = batch_of(data)

    loss = nn.functional.cross_entropy(plain(**batch.inputs).logits, batch.targets["labels"])
    torch.autograd.backward(loss)
    norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.1)
    optimizer.step()
    assert done.loss == pytest.approx(loss.item(), rel=1e-5)
    assert done.gradient_norm == pytest.approx(norm.item(), rel=1e-5)
    assert done.gradient_norm > 0.1
    for (name, one), other in zip(ours.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-5, msg=name)


def test_gradient_checkpointing_changes_nothing() -> None:
    """With dropout too: blocks computed again draw the same masks."""
    data = examples(20)
    plain, recomputed = model(dropout=0.2).double(), model(dropout=0.2).double()
    recomputed.gradient_checkpointing = True
    torch.manual_seed(1)
    run(plain, data, batch_tokens=10**6, batch_size=10)
    torch.manual_seed(1)
    run(recomputed, data, batch_tokens=10**6, batch_size=10)
    for (name, one), other in zip(plain.named_parameters(), recomputed.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-8, msg=name)


@pytest.mark.bf16
def test_bf16_learns_what_fp32_learns() -> None:
    try:
        bf16 = choose_precision("bf16", torch.device("cpu"))
    except UserError as refused:
        pytest.skip(str(refused))
    data = examples(32)
    wide, narrow = model(), model()
    losses = run(wide, data, batch_tokens=10**6, steps=60, batch_size=32)
    mixed = run(narrow, data, batch_tokens=10**6, steps=60, batch_size=32, precision=bf16)
    assert losses[-1].loss < 0.7 * losses[0].loss
    assert mixed[-1].loss == pytest.approx(losses[-1].loss, rel=0.1)
    assert next(narrow.parameters()).dtype is torch.float32


def test_a_device_computes_what_the_cpu_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without reading values back, a device computes everything that a CPU can skip."""
    data = examples(40)
    looked, blind = model(), model()
    seen = run(looked, data, batch_tokens=60, clip=0.3)
    without_looking(monkeypatch)
    unseen = run(blind, data, batch_tokens=60, clip=0.3)
    for one, other in zip(seen, unseen, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-12)
        assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-6)
    assert min(done.gradient_norm for done in seen) < 0.3 < seen[0].gradient_norm
    for (name, one), other in zip(looked.named_parameters(), blind.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6, msg=name)


def without_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the loop run on the CPU as on a device."""
    for module in (loop, optimize):
        monkeypatch.setattr(module, "blocks_host", lambda device: True)


@pytest.mark.parametrize("fp16", [False, True])
def test_a_device_stops_by_itself(fp16: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A non-finite loss is read some steps later, but the weights are those before it."""
    without_looking(monkeypatch)
    network = model()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0) if fp16 else None
    work = work_of(network, examples(40))
    good: list[dict[str, torch.Tensor]] = []

    def loss(forward: Callable[..., Any], batch: Batch) -> torch.Tensor:
        # Infinite, with a gradient that is finite.
        return work.loss(forward, batch) + (math.inf if len(good) == 3 else 0.0)

    taken = []
    for step in train(
        replace(work, loss=loss), Position(), total_steps=6, precision=FP32, scaler=scaler
    ):
        taken.append(step)
        good.append(copy.deepcopy(network.state_dict()))
    assert_same_bits(good[5], good[2], "stored")
    assert any(bool((good[2][name] != good[1][name]).any()) for name in good[2])
    reading = read_results(taken)
    assert [next(reading).step for _ in range(3)] == [1, 2, 3]
    with pytest.raises(
        UserError, match=r"stopped at step 4 \(epoch 2, step 1 of 3\): the loss is inf"
    ):
        next(reading)


def test_weights_are_untouched_by_a_gradient_that_is_not_finite() -> None:
    network = model()
    data = examples(8)
    with torch.no_grad():
        network.bert.embeddings.word_embeddings.weight[int(data[0].ids[0])] = float("inf")
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(UserError, match=r"step 1 \(epoch 1, step 1 of 1\): the loss is nan"):
        run(network, data, batch_tokens=10**6, steps=2, batch_size=8)
    assert_same_bits(network.state_dict(), before, "stored")


def test_the_optimizer_comes_back_as_it_was() -> None:
    data = examples(16)
    network = model()
    optimizer = adamw(network, learning_rate=1e-3)
    batch = batch_of(data)
    total = TASK.loss(network, batch)
    torch.autograd.backward(total)
    optimizer.step()
    saved = optimizer_tensors(network, optimizer)
    assert len(saved) == 3 * len(list(network.parameters()))
    fresh = adamw(network, learning_rate=1e-3)
    load_optimizer_tensors(network, fresh, saved)
    again = optimizer_tensors(network, fresh)
    assert_same_bits(again, saved, "stored")
    some = {name: value for name, value in saved.items() if not name.startswith("classifier.")}
    load_optimizer_tensors(network, fresh, some)  # what got no gradient has no state
    assert set(optimizer_tensors(network, fresh)) == set(some)
    del saved["classifier.bias/exp_avg"]
    with pytest.raises(UserError, match=r"'classifier.bias/exp_avg' is on one side only"):
        load_optimizer_tensors(network, fresh, saved)


def test_precision_is_refused_where_it_would_be_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    with pytest.raises(UserError, match=r"bf16 refused.*would emulate"):
        choose_precision("bf16", cpu)
    assert choose_precision("auto", cpu).dtype is torch.float32
    with pytest.raises(UserError, match="fp16 needs a GPU"):
        choose_precision("fp16", cpu)


def test_the_head_learns_at_its_own_rate_and_vectors_do_not_decay() -> None:
    network = model()
    rates = {"learning_rate": 1e-3, "head_learning_rate": 1e-2}
    optimizer = adamw(network, head=network.head_parameters(), weight_decay=0.5, **rates)
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    found = {
        names[id(parameter)]: (group["lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    assert len(found) == len(names)
    assert found["classifier.weight"] == (1e-2, 0.5)
    assert found["classifier.bias"] == (1e-2, 0.0)
    assert found["bert.pooler.dense.weight"] == (1e-2, 0.5)
    assert found["bert.embeddings.word_embeddings.weight"] == (1e-3, 0.5)
    assert found["bert.embeddings.LayerNorm.weight"] == (1e-3, 0.0)
    assert found["bert.encoder.layer.1.output.dense.bias"] == (1e-3, 0.0)


def _named(network: Model, parameters: list[nn.Parameter]) -> set[str]:
    ids = {id(parameter) for parameter in parameters}
    return {name for name, parameter in network.named_parameters() if id(parameter) in ids}


def test_what_is_from_a_folder_is_not_fresh(tmp_path: Path) -> None:
    network = model()
    classifier = {"classifier.weight", "classifier.bias"}
    pooler = {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}
    assert _named(network, network.fresh_head_parameters()) == classifier | pooler
    network.save_pretrained(tmp_path / "classifier")
    network.bert.save_pretrained(tmp_path / "encoder")
    again = load_model(tmp_path / "classifier", head="sequence")
    assert again.fresh_head_parameters() == []
    again.reinitialize(again.bert.pooler)
    assert _named(again, again.fresh_head_parameters()) == pooler
    for name, fresh_head in (("classifier", True), ("encoder", False)):
        other = load_model(tmp_path / name, head="sequence", fresh_head=fresh_head)
        assert _named(other, other.fresh_head_parameters()) == classifier | pooler
    assert load_model(tmp_path / "encoder").fresh_head_parameters() == []


@pytest.mark.parametrize("family", ["xlnet", "mpnet"])
def test_biases_of_distances_do_not_decay(family: str, tmp_path: Path) -> None:
    write_folder(family, tmp_path / "model")
    network = load_model(tmp_path / "model")
    optimizer = adamw(network, learning_rate=1e-3, weight_decay=0.5)
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    decay = {
        names[id(parameter)]: group["weight_decay"]
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    biases = [name for name in decay if "bias" in name]
    assert any(network.get_parameter(name).ndim > 1 for name in biases)
    assert {decay[name] for name in biases} == {0.0}
