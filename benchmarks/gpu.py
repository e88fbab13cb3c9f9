"""Compare heedful's speed on one device with the reference's: inference and training.

    python -m benchmarks.gpu [--presets base large] [--lengths 128 512] [--laps 5] [--compile]
        [--attention-dropout 0.1]

BERT models with random weights process random texts in bfloat16. The lengths are uniformly
distributed between a quarter of the maximum and the maximum. Both libraries get the same batches of
texts of similar length. The reference uses its fastest attention (``sdpa``), autocast, and torch's
fused AdamW; with ``--compile`` also ``torch.compile``. The two take turns, and each lap ends when
the device has finished. The table also has heedful's share of the peak, which is the fastest
bfloat16 matrix product measured in the same run; it counts only products of real tokens. In
training, both use the same attention dropout. For a quick test: ``--device cpu --presets tiny``.
"""

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import transformers
from torch import Tensor

from benchmarks.ceiling import best
from heedful import losses
from heedful.batches import Batch
from heedful.compiled.model import compile_model
from heedful.models import BertConfig, BertForMaskedLM, BertForSequenceClassification
from heedful.models.bert.presets import PRESETS
from heedful.models.model import Model
from heedful.training.device import Precision, choose_device
from heedful.training.loop import Position, TrainingSetup, train
from heedful.training.optimize import adamw

VOCABULARY, MASKED_SHARE, RATE = 30522, 0.15, 1e-5
BF16 = Precision(dtype=torch.bfloat16, reason="measured")
OUT_OF_MEMORY = "does not fit"
Lap = Callable[[], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A measurement: a model size, a maximum length, and the batches."""

    preset: str
    length: int
    batches: Sequence[Batch]
    device: torch.device
    compiled: bool
    attention_dropout: float

    @property
    def tokens(self) -> int:
        """Number of tokens, without padding."""
        return sum(batch.num_tokens for batch in self.batches)

    def operations(self, task: str) -> float:
        """Return the floating-point operations of all matrix products of real tokens.

        The backward pass takes twice as many as the forward pass.
        """
        layers, width = (PRESETS[self.preset][k] for k in ("num_hidden_layers", "hidden_size"))
        lengths = torch.cat([batch.targets["lengths"] for batch in self.batches]).double()
        blocks = layers * (24 * width**2 * lengths + 4 * width * lengths**2).sum().item()
        masked = sum(len(batch.targets["tokens"]) for batch in self.batches)
        head = 2 * masked * width * (VOCABULARY + width) if task == "pre-training" else 0
        return (blocks + head) * (1 if task == "inference" else 3)


def batches_of(length: int, *, size: int, count: int) -> list[Batch]:
    """Create random texts, in batches of similar length."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(length // 4, length + 1, (size * count,), generator=generator)
    batches = []
    for rows in lengths.sort().values.view(count, size)[torch.randperm(count, generator=generator)]:
        mask = torch.arange(int(rows.max())) < rows[:, None]
        ids = torch.randint(999, VOCABULARY, mask.shape, generator=generator).masked_fill(~mask, 0)
        chosen = (torch.rand(mask.shape, generator=generator) < MASKED_SHARE) & mask
        positions = chosen.flatten().nonzero().squeeze(1)
        batches.append(
            Batch(
                inputs={"input_ids": ids, "attention_mask": mask},
                targets={
                    "labels": torch.randint(2, (size,), generator=generator),
                    "lengths": rows,
                    "positions": positions,
                    "tokens": ids.flatten()[positions],
                },
                num_tokens=int(rows.sum()),
                num_positions=mask.numel(),
            )
        )
    return batches


def model_of(case: Case, task: str) -> tuple[Model, Any]:
    """Return heedful's model and the reference's model."""
    config: dict[str, Any] = {
        **PRESETS[case.preset],
        "vocab_size": VOCABULARY,
        "attention_probs_dropout_prob": case.attention_dropout,
    }
    ours: type[Model] = BertForMaskedLM
    theirs: Any = transformers.BertForMaskedLM
    if task in ("inference", "fine-tuning"):
        ours = BertForSequenceClassification
        theirs = transformers.BertForSequenceClassification
    torch.manual_seed(0)
    with case.device:
        our_model = ours.from_config(BertConfig(**config))
        their_model = theirs(transformers.BertConfig(**config, attn_implementation="sdpa"))
    return our_model.to(case.device), their_model.to(case.device)


def predict_with_heedful(case: Case, model: Model) -> Lap:
    """Return a function that classifies all texts once with heedful."""
    fast = compile_model(model.to(torch.bfloat16).eval()).model

    @torch.inference_mode()
    def lap() -> list[Tensor]:
        return [fast(**batch.to(case.device).inputs).logits for batch in case.batches]

    return lap


def predict_with_reference(case: Case, model: Any) -> Lap:
    """Return a function that classifies all texts once with the reference."""
    model = model.to(torch.bfloat16).eval()
    model = torch.compile(model, dynamic=True) if case.compiled else model

    @torch.inference_mode()
    def lap() -> list[Tensor]:
        return [
            model(**{name: tensor.to(case.device) for name, tensor in batch.inputs.items()}).logits
            for batch in case.batches
        ]

    return lap


def train_heedful(case: Case, model: Model, task: str) -> Lap:
    """Return a function that trains on all texts once, with heedful's training loop."""

    def loss(forward: Callable[..., Any], batch: Batch) -> Tensor:
        if task == "fine-tuning":
            return losses.cross_entropy(forward(**batch.inputs).logits, batch.targets["labels"])[0]
        logits = forward(**batch.inputs, positions=batch.targets["positions"]).logits
        return losses.cross_entropy(logits, batch.targets["tokens"])[0]

    target = "labels" if task == "fine-tuning" else "tokens"
    setup = TrainingSetup(
        model=model,
        optimizer=adamw(model, learning_rate=RATE),
        plan_epoch=lambda epoch: [[[number]] for number in range(len(case.batches))],  # type: ignore[list-item]
        load_batch=lambda rows, epoch: case.batches[rows[0]],
        loss=loss,
        loss_divisor=lambda batch: float(len(batch.targets[target])),
        lr_factor=lambda step: 1.0,
        device=case.device,
    )

    def lap() -> list[object]:
        steps = train(setup, Position(), total_steps=len(case.batches), precision=BF16)
        return list(steps)

    return lap


def train_reference(case: Case, model: Any, task: str) -> Lap:
    """Return a function that trains on all texts once with the reference, as its users do."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    model.train()
    fast = torch.compile(model, dynamic=True) if case.compiled else model

    def labels(batch: Batch) -> Tensor:
        if task == "fine-tuning":
            return batch.targets["labels"]
        flat = torch.full_like(batch.inputs["input_ids"].flatten(), losses.IGNORED)
        flat[batch.targets["positions"]] = batch.targets["tokens"]
        return flat.view_as(batch.inputs["input_ids"])

    def lap() -> None:
        for batch in case.batches:
            inputs = {**batch.inputs, "labels": labels(batch)}
            inputs = {name: tensor.to(case.device) for name, tensor in inputs.items()}
            with torch.autocast(case.device.type, torch.bfloat16):
                loss = fast(**inputs).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return lap


def seconds(case: Case, lap: Lap) -> float:
    """Return the seconds of a lap, until the device has finished."""
    started = time.perf_counter()
    lap()
    if case.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def row(case: Case, task: str, laps: int, peak: float) -> str:
    """Measure and return one row of the table."""
    our_model, their_model = model_of(case, task)
    if task == "inference":
        arms = {
            "heedful": predict_with_heedful(case, our_model),
            "reference": predict_with_reference(case, their_model),
        }
    else:
        arms = {
            "heedful": train_heedful(case, our_model, task),
            "reference": train_reference(case, their_model, task),
        }
    times: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(laps + 1):
        for name, lap in list(arms.items()):
            try:
                taken = seconds(case, lap)
            except torch.OutOfMemoryError:
                del arms[name]
                torch.cuda.empty_cache()
                continue
            if number:  # the first lap compiles
                times[name].append(taken)
    rates = [
        f"{case.tokens / median(each):,.0f}" if each else OUT_OF_MEMORY for each in times.values()
    ]
    ratios, share = [math.nan], math.nan
    if len(arms) == len(times):
        ratios = [theirs / ours for ours, theirs in zip(*times.values(), strict=True)]
    if times["heedful"]:
        share = case.operations(task) / median(times["heedful"]) / 1e9 / peak
    return (
        f"| {case.preset} | {case.length} | {task} | {' | '.join(rates)} | "
        f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | {share:.0%} |"
    )


def product_rate(device: torch.device, size: int) -> float:
    """Return the best rate of a bfloat16 matrix product, in GFLOP/s."""
    left, right = (torch.randn(size, size, device=device).to(torch.bfloat16) for _ in range(2))

    def product() -> None:
        for _ in range(10):
            left @ right
        if device.type == "cuda":
            torch.cuda.synchronize()

    return best(product, 20 * size**3)


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--presets", nargs="+", default=["base", "large"], choices=[*PRESETS])
    parser.add_argument("--lengths", nargs="+", type=int, default=[128, 512])
    parser.add_argument(
        "--batch-tokens", type=int, default=65536, help="tokens per batch, with padding"
    )
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--attention-dropout", type=float, default=0.1)
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--compile", action="store_true", help="use torch.compile for the reference"
    )
    options = parser.parse_args(words)
    device = choose_device(options.device)
    peak = product_rate(device, 8192 if device.type == "cuda" else 512)
    print(f"{device}: {peak:,.0f} GFLOP/s in bfloat16\n")
    print("| size | length | task | heedful, tokens/s | reference | times as fast | of the peak |")
    print("|---|---|---|---|---|---|---|")
    for preset in options.presets:
        for length in options.lengths:
            size = max(options.batch_tokens // length, 1)
            case = Case(
                preset=preset,
                length=length,
                batches=batches_of(length, size=size, count=options.batches),
                device=device,
                compiled=options.compile,
                attention_dropout=options.attention_dropout,
            )
            for task in ("inference", "fine-tuning", "pre-training"):
                print(row(case, task, options.laps, peak), flush=True)


if __name__ == "__main__":
    main()
