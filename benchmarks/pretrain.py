"""Pre-training a small BERT from scratch on books: heedful, and a loop over the reference library.

Both learn masked words and next sentences with a model of the published size ``mini`` and BERT's
30,522 words, from the same pairs of sentences in batches of 32, with AdamW, a linear schedule and
clipping. The reference hides tokens with its own collator and computes in bf16 by autocast, as its
example scripts do. The losses of the last lap say whether both learn alike.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.data import FOLDER
from benchmarks.race import Lap, race, run_laps, total

if TYPE_CHECKING:
    from heedful.batches import Example

LAPS, STEPS, BATCH, RATE, MAX_LENGTH = 5, 100, 32, 5e-4, 128
BOOKS = ("jane_eyre", "great_expectations", "dracula", "moby_dick")


def _pairs() -> "list[Example]":
    """Cut the pairs that both arms learn from, in random order."""
    import numpy as np

    from heedful.commands.corpus import open_corpus
    from heedful.settings import ColumnSettings, PretrainSettings
    from heedful.tasks import pretrain
    from heedful.tokens import BertTokenizer

    goal = pretrain.goal_of((), ColumnSettings(), PretrainSettings(documents="gap"))
    tokenizer = BertTokenizer.from_pretrained("minilm")
    with tempfile.TemporaryDirectory() as folder:
        books = [FOLDER / f"gutenberg/{name}.txt.gz" for name in BOOKS]
        corpus = open_corpus(books, goal, tokenizer, Path(folder))
        pairs = list(
            pretrain.sequences(corpus, goal, tokenizer, max_length=MAX_LENGTH, seed=0, epoch=0)
        )
    order = np.random.default_rng(0).permutation(len(pairs))[: STEPS * BATCH]
    return [pairs[at] for at in order]


def heedful_arm() -> Iterator[Lap]:
    """Heedful's own loop, as the command line runs it, but for the clock around it."""
    import torch

    from heedful.batches import Draw, plan_epoch
    from heedful.settings import ColumnSettings, DataSettings, PretrainSettings
    from heedful.tasks import pretrain
    from heedful.tokens import BertTokenizer
    from heedful.training.device import choose_device, choose_precision, keep_big_buffers
    from heedful.training.loop import Position, Work, train
    from heedful.training.optimize import adamw
    from heedful.training.schedule import schedule

    keep_big_buffers()
    torch.manual_seed(0)
    own = PretrainSettings(preset="mini", vocabulary="minilm", positions=MAX_LENGTH)
    goal = pretrain.goal_of((), ColumnSettings(), own)
    tokenizer = BertTokenizer.from_pretrained("minilm")
    model = pretrain.build(goal, DataSettings(train=[], model="minilm"))
    pairs = _pairs()
    lengths = [len(pair.ids) for pair in pairs]
    work = Work(
        model=model,
        optimizer=adamw(model, learning_rate=RATE),
        plan=lambda epoch: plan_epoch(
            lengths, batch_size=BATCH, batch_tokens=8192, seed=0, epoch=epoch
        ),
        fetch=lambda rows, epoch: pretrain.batch_of(
            [pairs[row] for row in rows], goal, tokenizer, Draw(seed=0, epoch=epoch, rows=rows)
        ),
        loss=lambda forward, batch: pretrain.loss(forward, batch, goal),
        count=lambda batch: pretrain.count(batch, goal),
        factor=schedule("linear", total_steps=STEPS, warmup=0.1),
    )
    precision = choose_precision("auto", choose_device("cpu"))
    run = train(work, Position(), total_steps=STEPS, precision=precision)
    yield {"ready": str(precision.dtype)}
    for _ in range(LAPS):
        started = time.perf_counter()
        done = [next(run) for _ in range(STEPS // LAPS)]
        yield {
            "seconds": time.perf_counter() - started,
            "tokens": sum(step.tokens for step in done),
            "loss": sum(step.loss for step in done) / len(done),
        }


def reference_arm() -> Iterator[Lap]:
    """Loop over the reference library, its collator included."""
    import torch
    from transformers import (
        BertConfig,
        BertForPreTraining,
        BertTokenizerFast,
        DataCollatorForLanguageModeling,
        get_linear_schedule_with_warmup,
    )

    from heedful.models.presets import PRESETS
    from heedful.sources import resolve

    torch.manual_seed(0)
    tokenizer = BertTokenizerFast.from_pretrained(resolve("minilm"))
    model = BertForPreTraining(
        BertConfig(vocab_size=len(tokenizer), max_position_embeddings=MAX_LENGTH, **PRESETS["mini"])
    )
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    rows: list[dict[str, Any]] = []
    for pair in _pairs():
        ids, split = pair.ids.tolist(), pair.split
        assert split is not None
        rows.append(
            {
                "input_ids": ids,
                "token_type_ids": [0] * split + [1] * (len(ids) - split),
                "next_sentence_label": int(pair.labels[0]),
            }
        )
    undecayed = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for n, p in named if not n.endswith(undecayed)], "weight_decay": 0.01},
            {"params": [p for n, p in named if n.endswith(undecayed)], "weight_decay": 0.0},
        ],
        lr=RATE,
    )
    schedule = get_linear_schedule_with_warmup(optimizer, STEPS // 10, STEPS)
    model.train()
    yield {"ready": "bf16"}
    starts = iter(range(0, STEPS * BATCH, BATCH))
    for _ in range(LAPS):
        started, tokens, losses = time.perf_counter(), 0, 0.0
        for _ in range(STEPS // LAPS):
            start = next(starts)
            chosen = rows[start : start + BATCH]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(**collator(chosen)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses += loss.item()
            tokens += sum(len(row["input_ids"]) for row in chosen)
        yield {
            "seconds": time.perf_counter() - started,
            "tokens": tokens,
            "loss": losses / (STEPS // LAPS),
        }


ARMS = {"heedful": heedful_arm, "reference": reference_arm}


def run() -> list[dict[str, object]]:
    """Race the arms and return one row."""
    laps = race("benchmarks.pretrain", list(ARMS))
    rates = {name: total(runs, "tokens") / total(runs, "seconds") for name, runs in laps.items()}
    ours, peer = laps["heedful"][-1], laps["reference"][-1]
    return [
        {
            "name": "pre-training mini from scratch, against the transformers 4.57.6 loop in bf16",
            "ours": rates["heedful"],
            "peer": rates["reference"],
            "ratio": rates["heedful"] / rates["reference"],
            "unit": "tokens/s",
            "quality": f"loss {ours['loss']:.2f} / {peer['loss']:.2f}",
            "memory": f"{ours['peak']:,} / {peer['peak']:,}",
        }
    ]


if __name__ == "__main__":
    run_laps(ARMS)
