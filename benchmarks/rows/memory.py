"""Measure how much training on 8 sequences of 512 tokens adds to the peak memory, and its speed.

A model of MiniLM's size is trained in fp32 without dropout.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.arm_process import Trial
from benchmarks.row import Arm, Plan, Row, Scores

if TYPE_CHECKING:
    from torch import nn

BATCH, LENGTH, STEPS = 8, 512, 3
WITHOUT_DROPOUT: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def heedful(trial: Trial, *, checkpointing: bool) -> float:
    """Train heedful's model."""
    from dataclasses import replace

    from heedful import BertConfig, BertForSequenceClassification
    from heedful.settings import TrainSettings
    from heedful.training.device import prepare_device

    prepare_device(TrainSettings(gradient_checkpointing=checkpointing, device="cpu"))
    config = BertConfig.read(Path(trial.read("facts.json")["folder"]) / "config.json")
    model = BertForSequenceClassification(replace(config, **WITHOUT_DROPOUT))
    model.gradient_checkpointing = checkpointing
    return _steps(trial, model)


def transformers(trial: Trial, *, checkpointing: bool) -> float:
    """Train the reference's model."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig.from_pretrained(trial.read("facts.json")["folder"], **WITHOUT_DROPOUT)
    model = BertForSequenceClassification(config)
    if checkpointing:
        model.gradient_checkpointing_enable()
    return _steps(trial, model)


def _steps(trial: Trial, model: "nn.Module") -> float:
    import time

    import torch

    torch.set_num_threads(trial.threads)
    torch.manual_seed(0)
    ids = torch.randint(1000, 30000, (BATCH, LENGTH))
    labels = torch.randint(2, (BATCH,))
    model.train()
    rates, steps = [], trial.read("facts.json")["steps"]
    for _ in trial.laps(range(trial.number_of_laps)):
        started = time.perf_counter()
        for _ in range(steps):
            model.zero_grad()
            model(ids, labels=labels).loss.backward()
        rates.append(steps * BATCH * LENGTH / (time.perf_counter() - started))
    return max(rates)


def prepare(folder: Path, laps: int, share: float) -> Plan:
    """Write the path of the model's configuration."""
    from heedful.sources import resolve

    facts = {"folder": str(resolve("minilm")), "steps": max(1, round(STEPS * share))}
    (folder / "facts.json").write_text(json.dumps(facts))
    return Plan()


def score(folder: Path, outputs: Mapping[str, Any]) -> Scores:
    """Return the speed of each arm, shown next to its memory."""
    return {name: {"tokens/s": rate} for name, rate in outputs.items()}


ROWS = {
    name: Row(
        title=f"memory of training on sequences of {LENGTH} tokens, {text}",
        arms={
            "heedful fp32": Arm(
                run=partial(heedful, checkpointing=checkpointing), format="fp32", peer=False
            ),
            "transformers": Arm(
                run=partial(transformers, checkpointing=checkpointing), format="fp32"
            ),
        },
        prepare=prepare,
        score=score,
        unit="MiB",
        measure="memory",
    )
    for name, text, checkpointing in (
        ("memory", "without gradient checkpointing", False),
        ("memory-checkpointed", "with gradient checkpointing", True),
    )
}
