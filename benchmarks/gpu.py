"""How fast one device answers and learns beside the reference, and what share of its peak that is.

    python -m benchmarks.gpu [--presets base large] [--lengths 128 512] [--laps 5] [--compile]
        [--attention-dropout 0.1]

BERTs with random weights, in bfloat16, read random texts whose lengths are drawn evenly from a
quarter of the longest to all of it. Both sides get the same batches of texts of similar lengths.
The reference runs its fastest attention (``sdpa``) under autocast, with torch's fused AdamW; with
``--compile`` through ``torch.compile``. The two take turns, and each lap ends when the device has
done all. The share is that of the fastest bfloat16 product measured in the same run; it counts the
products of real tokens alone. Both sides drop attention weights in training alike.
``--device cpu --presets tiny`` shows that it runs.
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

VOCABULARY, HIDDEN_SHARE, RATE = 30522, 0.15, 1e-5
BF16 = Precision(dtype=torch.bfloat16, reason="measured")
NO_ROOM = "does not fit"
Lap = Callable[[], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What is measured: a size, a length, and the texts."""

    preset: str
    length: int
    batches: Sequence[Batch]
    device: torch.device
    compiled: bool
    attention_dropout: float

    @property
    def tokens(self) -> int:
        """Without padding."""
        return sum(batch.num_tokens for batch in self.batches)

    def operations(self, what: str) -> float:
        """Return those of the matrix products of all real tokens, twice as many each backwards."""
        layers, width = (PRESETS[self.preset][k] for k in ("num_hidden_layers", "hidden_size"))
        lengths = torch.cat([batch.targets["lengths"] for batch in self.batches]).double()
        blocks = layers * (24 * width**2 * lengths + 4 * width * lengths**2).sum().item()
        hidden = sum(len(batch.targets["tokens"]) for batch in self.batches)
        head = 2 * hidden * width * (VOCABULARY + width) if what == "pre-training" else 0
        return (blocks + head) * (1 if what == "inference" else 3)


def batches_of(length: int, *, size: int, count: int) -> list[Batch]:
    """Draw texts, and make batches of those of similar lengths."""
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(length // 4, length + 1, (size * count,), generator=draw)
    batches = []
    for rows in lengths.sort().values.view(count, size)[torch.randperm(count, generator=draw)]:
        mask = torch.arange(int(rows.max())) < rows[:, None]
        ids = torch.randint(999, VOCABULARY, mask.shape, generator=draw).masked_fill(~mask, 0)
        chosen = (torch.rand(mask.shape, generator=draw) < HIDDEN_SHARE) & mask
        positions = chosen.flatten().nonzero().squeeze(1)
        batches.append(
            Batch(
                inputs={"input_ids": ids, "attention_mask": mask},
                targets={
                    "labels": torch.randint(2, (size,), generator=draw),
                    "lengths": rows,
                    "positions": positions,
                    "tokens": ids.flatten()[positions],
                },
                num_tokens=int(rows.sum()),
                num_positions=mask.numel(),
            )
        )
    return batches


def model_of(case: Case, what: str) -> tuple[Model, Any]:
    """Return heedful's model and the reference's."""
    config: dict[str, Any] = {
        **PRESETS[case.preset],
        "vocab_size": VOCABULARY,
        "attention_probs_dropout_prob": case.attention_dropout,
    }
    ours: type[Model] = BertForMaskedLM
    theirs: Any = transformers.BertForMaskedLM
    if what in ("inference", "fine-tuning"):
        ours = BertForSequenceClassification
        theirs = transformers.BertForSequenceClassification
    torch.manual_seed(0)
    with case.device:
        mine = ours.from_config(BertConfig(**config))
        its = theirs(transformers.BertConfig(**config, attn_implementation="sdpa"))
    return mine.to(case.device), its.to(case.device)


def heedful_answers(case: Case, model: Model) -> Lap:
    """Return a function that answers all texts once."""
    fast = compile_model(model.to(torch.bfloat16).eval()).model

    @torch.inference_mode()
    def lap() -> list[Tensor]:
        return [fast(**batch.to(case.device).inputs).logits for batch in case.batches]

    return lap


def reference_answers(case: Case, model: Any) -> Lap:
    """Return a function that answers all texts once with the reference."""
    model = model.to(torch.bfloat16).eval()
    model = torch.compile(model, dynamic=True) if case.compiled else model

    @torch.inference_mode()
    def lap() -> list[Tensor]:
        return [
            model(**{name: tensor.to(case.device) for name, tensor in batch.inputs.items()}).logits
            for batch in case.batches
        ]

    return lap


def heedful_learns(case: Case, model: Model, what: str) -> Lap:
    """Return a function that learns from all texts once, by the loop of every task."""

    def loss(forward: Callable[..., Any], batch: Batch) -> Tensor:
        if what == "fine-tuning":
            return losses.cross_entropy(forward(**batch.inputs).logits, batch.targets["labels"])[0]
        logits = forward(**batch.inputs, positions=batch.targets["positions"]).logits
        return losses.cross_entropy(logits, batch.targets["tokens"])[0]

    counted = "labels" if what == "fine-tuning" else "tokens"
    work = TrainingSetup(
        model=model,
        optimizer=adamw(model, learning_rate=RATE),
        plan_epoch=lambda epoch: [[[number]] for number in range(len(case.batches))],  # type: ignore[list-item]
        load_batch=lambda rows, epoch: case.batches[rows[0]],
        loss=loss,
        loss_divisor=lambda batch: float(len(batch.targets[counted])),
        lr_factor=lambda step: 1.0,
        device=case.device,
    )

    def lap() -> list[object]:
        steps = train(work, Position(), total_steps=len(case.batches), precision=BF16)
        return list(steps)

    return lap


def reference_learns(case: Case, model: Any, what: str) -> Lap:
    """Return a function that learns from all texts once with the reference, as its users do."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    model.train()
    fast = torch.compile(model, dynamic=True) if case.compiled else model

    def labels(batch: Batch) -> Tensor:
        if what == "fine-tuning":
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
    """Measure a lap, to the end of what the device was asked for."""
    started = time.perf_counter()
    lap()
    if case.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def row(case: Case, what: str, laps: int, peak: float) -> str:
    """Measure one line of the table."""
    mine, its = model_of(case, what)
    if what == "inference":
        arms = {"heedful": heedful_answers(case, mine), "reference": reference_answers(case, its)}
    else:
        arms = {
            "heedful": heedful_learns(case, mine, what),
            "reference": reference_learns(case, its, what),
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
            if number:  # the first compiles
                times[name].append(taken)
    rates = [f"{case.tokens / median(each):,.0f}" if each else NO_ROOM for each in times.values()]
    ratios, share = [math.nan], math.nan
    if len(arms) == len(times):
        ratios = [its / mine for mine, its in zip(*times.values(), strict=True)]
    if times["heedful"]:
        share = case.operations(what) / median(times["heedful"]) / 1e9 / peak
    return (
        f"| {case.preset} | {case.length} | {what} | {' | '.join(rates)} | "
        f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | {share:.0%} |"
    )


def product_rate(device: torch.device, size: int) -> float:
    """Return the best rate of a bfloat16 product, in billions of operations a second."""
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
    parser.add_argument("--batch-tokens", type=int, default=65536, help="with padding")
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--attention-dropout", type=float, default=0.1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--compile", action="store_true", help="compile the reference")
    options = parser.parse_args(words)
    device = choose_device(options.device)
    peak = product_rate(device, 8192 if device.type == "cuda" else 512)
    print(f"{device}: {peak:,.0f} billion operations a second in bfloat16\n")
    print("| size | longest | what | heedful, tokens/s | reference | times as fast | of the peak |")
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
            for what in ("inference", "fine-tuning", "pre-training"):
                print(row(case, what, options.laps, peak), flush=True)


if __name__ == "__main__":
    main()
