"""Train a small translator from scratch with heedful and with JoeyNMT 2.3.

Both train on Multi30k, German to English, with 128 pairs per step and the preset ``small`` (3 + 3
blocks of width 256, post-norm, shared vocabulary). Adam, learning rates, gradient clipping and
label smoothing are the same. JoeyNMT reads the pieces of heedful's vocabulary. It also applies
dropout to attention weights, which heedful does only on request. The training loops differ, above
all in their batches: JoeyNMT does not group pairs by length. The rate counts the tokens of both
sides, without padding. The quality is the loss per token on held-out pairs.

By default JoeyNMT uses bf16 only on GPUs; here it also does so on the CPU.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.arm_process import Trial
from benchmarks.row import Arm, Plan, Row, Scores

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from heedful.settings import PrecisionName

STEPS, BATCH, WARMUP, RATE, HELD_OUT = 80, 128, 40, 1e-3, 512
WIDTH, HEADS, BLOCKS, DROPOUT, SMOOTHING = 256, 4, 3, 0.1, 0.1


def heedful(precision: "PrecisionName", trial: Trial) -> dict[str, float]:
    """Train with heedful, as users do."""
    import numpy as np
    import torch

    from benchmarks.data import FOLDER
    from benchmarks.training_laps import steps_as_laps
    from heedful import load, train
    from heedful.batches import Draw
    from heedful.batches.parallel import encode_pairs
    from heedful.reading.parallel import read_pairs
    from heedful.settings import ColumnSettings

    out = trial.folder / f"run-{precision}"
    with steps_as_laps(trial, trial.read("facts.json")["steps"]) as steps:
        train(
            "translate",
            train=[FOLDER / f"multi30k/train.{side}.gz" for side in ("de", "en")],
            out=out,
            preset="small",
            batch_size=BATCH,
            learning_rate=RATE,
            schedule="inverse-sqrt",
            warmup=WARMUP,
            dropout=DROPOUT,
            label_smoothing=SMOOTHING,
            weight_decay=0.0,
            steps=steps,
            precision=precision,
            checkpoint_every=10**6,
        )
    run = load(out, precision="fp32")
    pairs = list(
        read_pairs([FOLDER / f"multi30k/val.{s}.gz" for s in ("de", "en")], ColumnSettings())
    )
    examples = [example for _, example in encode_pairs(pairs[:HELD_OUT], run.tokenizer)]
    loss, count = 0.0, 0
    for rows in np.split(np.arange(HELD_OUT), HELD_OUT // BATCH):
        draw = Draw(seed=0, epoch=0, rows=rows)
        batch = run.task.batch([examples[row] for row in rows], run.tokenizer, draw)
        with torch.inference_mode():
            loss += float(run.task.loss(run.model, batch))
        count += int(run.task.loss_divisor(batch))
    return {"held-out loss": loss / count}


def joeynmt(trial: Trial, *, bf16: bool) -> dict[str, float]:
    """Train with JoeyNMT's own loop; only its batch iterator is replaced, to time the laps."""
    import torch
    from joeynmt.config import parse_global_args, set_validation_args
    from joeynmt.prediction import prepare as prepare_joeynmt
    from joeynmt.training import TrainManager

    logging.disable(logging.WARNING)
    torch.set_num_threads(trial.threads)
    torch.manual_seed(0)
    folder = trial.folder / ("joeynmt-bf16" if bf16 else "joeynmt-fp32")
    folder.mkdir()
    args = parse_global_args({**_joeynmt_settings(trial.folder), "model_dir": str(folder)})
    model, train_data, held_out, _ = prepare_joeynmt(args, rank=0, mode="train")
    make_batches = train_data.make_iter
    train_data.make_iter = lambda **options: _TimedBatches(make_batches(**options), trial)
    manager = TrainManager(
        rank=0,
        model=model,
        model_dir=args.model_dir,
        device=args.device,
        autocast={"device_type": "cpu", "dtype": torch.bfloat16, "enabled": bf16},
        seed=args.seed,
        train_args=args.train,
        dev_args=set_validation_args(args.test),
    )
    manager.train_and_validate(train_data, held_out)
    model.eval()
    model.loss_function = ("crossentropy", 0.0)
    loss, count = 0.0, 0
    with torch.inference_mode():
        for batch in held_out.make_iter(batch_size=BATCH):
            loss += model(return_type="loss", **vars(batch))[0].item()
            count += batch.ntokens
    return {"held-out loss": loss / count}


class _TimedBatches:
    """JoeyNMT's batch iterator, which also times the laps."""

    def __init__(self, batches: "DataLoader[Any]", trial: Trial) -> None:
        self._batches, self._trial = batches, trial
        self.batch_sampler = batches.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        batches, steps = iter(self._batches), self._trial.read("facts.json")["steps"]
        for _ in self._trial.laps(range(self._trial.number_of_laps)):
            for batch in islice(batches, steps):
                self._trial.count(int(batch.ntokens) + int(batch.src_length.sum()))
                yield batch


def _joeynmt_settings(folder: Path) -> dict[str, Any]:
    """Return JoeyNMT's configuration."""
    from benchmarks.peers.joey import settings

    sizes = {"width": WIDTH, "heads": HEADS, "blocks": BLOCKS, "dropout": DROPOUT}
    training = {
        # The schedule of the paper with heedful's peak rate, and a rate of 0 in the first step.
        "scheduling": "noam",
        "learning_rate": 0.0,
        "learning_rate_factor": RATE * (WIDTH * WARMUP) ** 0.5,
        "learning_rate_warmup": WARMUP,
        "label_smoothing": SMOOTHING,
        "batch_size": BATCH,
        "epochs": 1,
    }
    return settings(folder, ("de", "en"), {**sizes, "layer_norm": "post"}, training)


def prepare(folder: Path, laps: int, share: float) -> Plan:
    """Train the vocabulary, and write the pairs as lines of pieces."""
    from benchmarks.data import FOLDER
    from benchmarks.joeynmt import write_pieces
    from heedful.reading.parallel import read_pairs
    from heedful.settings import ColumnSettings

    def read(part: str) -> list[Any]:
        files = [FOLDER / f"multi30k/{part}.{language}.gz" for language in ("de", "en")]
        return list(read_pairs(files, ColumnSettings()))

    steps = max(1, round(STEPS * share / laps))
    (folder / "facts.json").write_text(json.dumps({"steps": steps}))
    parts = {"train": read("train"), "dev": read("val")[:HELD_OUT]}
    tokenizer = write_pieces(parts, ("de", "en"), folder)
    words = len(tokenizer.source.tokens)
    # Weights per token, averaged over source and target: an encoder block has 12 D^2, a decoder
    # block 16 D^2.
    weights = BLOCKS * (12 + 16) * WIDTH**2 / 2 + WIDTH * words / 2
    return Plan(operations=3 * 2.0 * weights)


def score(folder: Path, outputs: Mapping[str, dict[str, float]]) -> Scores:
    """Return the held-out loss that each arm computed."""
    return dict(outputs)


ROWS = {
    "learn-to-translate": Row(
        title="training a small Transformer on Multi30k, 128 pairs per step",
        arms={
            "heedful bf16": Arm(run=partial(heedful, "bf16"), format="bf16", peer=False),
            "heedful fp32": Arm(run=partial(heedful, "fp32"), format="fp32", peer=False),
            "JoeyNMT fp32": Arm(run=partial(joeynmt, bf16=False), format="fp32"),
            "JoeyNMT bf16": Arm(run=partial(joeynmt, bf16=True), format="bf16"),
        },
        prepare=prepare,
        score=score,
        unit="tokens/s",
    )
}
