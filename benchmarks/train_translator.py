"""Training a small translator from scratch: heedful and JoeyNMT 2.3, each with its own loop.

Both learn from Multi30k, German to English, an equal number of pairs drawn from all of it: pieces
of one joint vocabulary, 128 pairs a step, with a model of the preset ``small`` (3 and 3 blocks of
width 256, post-norm, one table of words) and JoeyNMT's dropout, which is of attention weights and
inside the feed-forward parts, too. Distributions of first weights, Adam, learning rates, clipping
and label smoothing are the same. What differs is what each makes of it: heedful puts pairs of like
length together, JoeyNMT takes them as they come. What is counted are the tokens to write, with the
one that ends each text. How much each has learnt is told by the loss of such a token in pairs that
neither has seen; batches of like length teach less in each of these steps, the first of a run, and
take less time.

JoeyNMT computes in bf16 on GPUs alone; in the second pair of arms it is told to do so here, too. It
needs an environment of its own, without the old releases that it asks for but can do without:

    python -m venv joeynmt
    joeynmt/bin/python -m pip install --requirement benchmarks/requirements-joeynmt.lock
    joeynmt/bin/python -m pip install --no-deps joeynmt==2.3.0 subword-nmt==0.3.8
    HEEDFUL_JOEYNMT=joeynmt/bin/python python -m benchmarks train_translator

There is nothing of heedful there: what this module imports, it imports where it is needed.
"""

import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.race import Lap, hand_in, race, run_laps, total

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.data import DataLoader

    from heedful import Transformer
    from heedful.reading import Record
    from heedful.settings import Precision as PrecisionName
    from heedful.tokens import TranslationTokenizer

LAPS, STEPS, BATCH, WARMUP, RATE, HELD_OUT = 5, 80, 128, 40, 1e-3, 512
WIDTH, HEADS, BLOCKS, DROPOUT, SMOOTHING = 256, 4, 3, 0.1, 0.1
PEER, PAIRS = "HEEDFUL_JOEYNMT", "HEEDFUL_BENCHMARK_PAIRS"


def write_pairs(folder: Path) -> None:
    """Learn the vocabulary, and write the pairs for both: as examples, and as lines of pieces."""
    from benchmarks.data import FOLDER
    from heedful.batches import write_store
    from heedful.batches.parallel import encode_pairs
    from heedful.reading.parallel import read_pairs
    from heedful.settings import ColumnSettings, TranslateSettings
    from heedful.tasks.translator import learn_tokenizer

    def read(part: str) -> "list[Record]":
        files = [FOLDER / f"multi30k/{part}.{language}.gz" for language in ("de", "en")]
        return list(read_pairs(files, ColumnSettings()))

    training = read("train")
    tokenizer = learn_tokenizer(training, TranslateSettings())
    tokenizer.save_pretrained(folder)
    (folder / "pieces.txt").write_text("\n".join(tokenizer.source.tokens), encoding="utf-8")
    for part, pairs in (("train", training), ("val", read("val")[:HELD_OUT])):
        examples = [example for _, example in encode_pairs(pairs, tokenizer)]
        write_store(folder / f"{part}.arrow", examples)
        sides = {
            "de": [one.ids.tolist() for one in examples],
            "en": [[int(token) for token in one.labels] for one in examples],
        }
        for language, rows in sides.items():
            lines = [" ".join(tokenizer.source.pieces(row[:-1])) for row in rows]
            (folder / f"{part}.{language}").write_text("\n".join(lines), encoding="utf-8")


def heedful_arm(precision: "PrecisionName") -> Iterator[Lap]:
    """Heedful's own loop, as the command line runs it, but for the clock around it."""
    import numpy as np
    import torch

    from heedful.batches import Batch, Draw, Positions, Store, plan_epoch
    from heedful.tasks.translate import Translate
    from heedful.tokens import TranslationTokenizer
    from heedful.training.allocator import keep_big_buffers
    from heedful.training.device import choose_device, choose_precision
    from heedful.training.loop import Position, Work, train
    from heedful.training.optimize import adamw
    from heedful.training.schedule import schedule

    keep_big_buffers()
    folder, task = Path(os.environ[PAIRS]), Translate(longest=0)
    tokenizer = TranslationTokenizer.from_pretrained(folder)
    model = _new_model(tokenizer)
    training, held_out = Store(folder / "train.arrow"), Store(folder / "val.arrow")
    sizes = np.stack([training.lengths, training.label_lengths], axis=1)  # (N, 2)

    def fetch(store: Store, rows: Positions, epoch: int = 0) -> Batch:
        draw = Draw(seed=0, epoch=epoch, rows=rows)
        return task.batch([store[int(row)] for row in rows], tokenizer, draw)

    work = Work(
        model=model,
        optimizer=adamw(
            model, learning_rate=RATE, weight_decay=0, betas=task.betas, epsilon=task.epsilon
        ),
        plan=lambda epoch: plan_epoch(
            sizes, batch_size=BATCH, batch_tokens=8192, seed=0, epoch=epoch
        ),
        fetch=partial(fetch, training),
        loss=task.loss,
        count=task.count,
        factor=schedule("inverse-sqrt", total_steps=STEPS, warmup=WARMUP),
    )
    chosen = choose_precision(precision, choose_device("cpu"))
    run = train(work, Position(), total_steps=STEPS, precision=chosen)
    plan = iter(work.plan(0))
    yield {"ready": True}
    for _ in range(LAPS):
        started = time.perf_counter()
        done = list(islice(run, STEPS // LAPS))
        seconds = time.perf_counter() - started
        rows = np.concatenate([rows for step in islice(plan, len(done)) for rows in step])
        yield {
            "seconds": seconds,
            "targets": int(training.label_lengths[rows].sum()),
            "tokens": sum(step.tokens for step in done),
            "places": sum(step.padded_tokens for step in done),
        }
    model.eval()
    loss = count = 0.0
    with torch.inference_mode():
        for rows in np.split(np.arange(HELD_OUT), HELD_OUT // BATCH):
            batch = fetch(held_out, rows)
            loss, count = loss + task.loss(model, batch).item(), count + task.count(batch)
    yield {"loss": loss / count, "weights": _size(model)}


def _new_model(tokenizer: "TranslationTokenizer") -> "Transformer":
    """Make heedful's model, with all of JoeyNMT's dropout."""
    import torch

    from heedful import Transformer, TransformerConfig
    from heedful.settings import TranslateSettings
    from heedful.tasks import translator

    settings = TranslateSettings(preset="small", label_smoothing=SMOOTHING)
    config = translator.new_model(settings, tokenizer, dropout=DROPOUT).config
    assert isinstance(config, TransformerConfig)
    torch.manual_seed(0)
    return Transformer(replace(config, attention_dropout=DROPOUT, activation_dropout=DROPOUT))


def joeynmt_arm(*, bf16: bool) -> Iterator[Lap]:
    """JoeyNMT's own loop, but for the clock in what gives it its batches."""
    import torch
    from joeynmt.config import parse_global_args, set_validation_args
    from joeynmt.prediction import prepare
    from joeynmt.training import TrainManager

    logging.disable(logging.WARNING)
    folder = Path(os.environ[PAIRS])
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as model_folder:
        args = parse_global_args({**_joeynmt_settings(folder), "model_dir": model_folder})
        model, learnt, held_out, _ = prepare(args, rank=0, mode="train")
        make_batches = learnt.make_iter
        learnt.make_iter = lambda **options: _Clocked(make_batches(**options))
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
        manager.train_and_validate(learnt, held_out)
    model.eval()
    model.loss_function = ("crossentropy", 0.0)
    loss = count = 0.0
    with torch.inference_mode():
        for batch in held_out.make_iter(batch_size=BATCH):
            loss += model(return_type="loss", **vars(batch))[0].item()
            count += batch.ntokens
    yield {"loss": loss / count, "weights": _size(model)}


class _Clocked:
    """Batches of JoeyNMT, with the laps that it takes to learn from them."""

    def __init__(self, batches: "DataLoader[Any]") -> None:
        self._batches = batches
        self.batch_sampler = batches.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self._batches)
        hand_in({"ready": True})
        for _ in range(LAPS):
            targets = tokens = places = 0
            started = time.perf_counter()
            for batch in islice(batches, STEPS // LAPS):
                targets += batch.ntokens
                tokens += batch.ntokens + int(batch.src_length.sum())
                places += batch.src.numel() + batch.trg.numel()
                yield batch
            seconds = time.perf_counter() - started
            hand_in({"seconds": seconds, "targets": targets, "tokens": tokens, "places": places})


def _joeynmt_settings(folder: Path) -> dict[str, Any]:
    """Return what its configuration file would say."""
    side = {"level": "word", "voc_file": str(folder / "pieces.txt")}
    stack = {
        "type": "transformer",
        "num_layers": BLOCKS,
        "num_heads": HEADS,
        "embeddings": {"embedding_dim": WIDTH, "scale": True},
        "hidden_size": WIDTH,
        "ff_size": 4 * WIDTH,
        "dropout": DROPOUT,
        "layer_norm": "post",
    }
    return {
        "name": "race",
        "use_cuda": False,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "val"),
            "src": {"lang": "de", **side},
            "trg": {"lang": "en", **side},
        },
        "testing": {},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            # The rates of the paper, but with heedful's as the highest, and none in the first step.
            "scheduling": "noam",
            "learning_rate": 0.0,
            "learning_rate_factor": RATE * (WIDTH * WARMUP) ** 0.5,
            "learning_rate_warmup": WARMUP,
            "clip_grad_norm": 1.0,
            "label_smoothing": SMOOTHING,
            "normalization": "tokens",
            "batch_size": BATCH,
            "epochs": 1,
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "normal",
            "embed_init_weight": WIDTH**-0.5,
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": stack,
            "decoder": stack,
        },
    }


def _size(model: "nn.Module") -> int:
    return sum(weight.numel() for weight in model.parameters())


ARMS = {
    "heedful fp32": partial(heedful_arm, "fp32"),
    "JoeyNMT fp32": partial(joeynmt_arm, bf16=False),
    "heedful bf16": partial(heedful_arm, "bf16"),
    "JoeyNMT bf16": partial(joeynmt_arm, bf16=True),
}


def run() -> list[dict[str, object]]:
    """Race the arms and return a row for each number format, if JoeyNMT is there."""
    from heedful.training.device import bf16_products, choose_device

    if PEER not in os.environ:
        print(
            f"train_translator is skipped: {PEER} must name the python of an environment with "
            f"JoeyNMT; {Path(__file__).name} says how to make one",
            file=sys.stderr,
        )
        return []
    formats = ["fp32", "bf16"] if bf16_products(choose_device("cpu"))[0] else ["fp32"]
    names = [f"{who} {what}" for what in formats for who in ("heedful", "JoeyNMT")]
    with tempfile.TemporaryDirectory() as folder:
        write_pairs(Path(folder))
        os.environ[PAIRS] = folder
        peers = {name: os.environ[PEER] for name in names if name.startswith("JoeyNMT")}
        laps = race("benchmarks.train_translator", names, peers)
    return [_row(what, laps[f"heedful {what}"], laps[f"JoeyNMT {what}"]) for what in formats]


def _row(what: str, mine: list[Lap], theirs: list[Lap]) -> dict[str, object]:
    both = (mine, theirs)
    rates = [total(laps, "targets") / total(laps, "seconds") for laps in both]
    padding = [1 - total(laps, "tokens") / total(laps, "places") for laps in both]
    losses = [laps[-1]["loss"] for laps in both]
    sizes = " / ".join(f"{laps[-1]['weights'] / 1e6:.2f}M" for laps in both)
    return {
        "name": f"training a Transformer of {sizes} weights to translate, batches of {BATCH} "
        f"pairs, against JoeyNMT 2.3, {what}",
        "ours": rates[0],
        "peer": rates[1],
        "ratio": rates[0] / rates[1],
        "unit": "target tokens/s",
        "quality": f"held-out loss {losses[0]:.3f} / {losses[1]:.3f}, "
        f"padding {padding[0]:.0%} / {padding[1]:.0%}",
        "memory": f"{mine[-2]['peak']:,} / {theirs[-2]['peak']:,}",
    }


if __name__ == "__main__":
    run_laps(ARMS)
