"""Pre-training a small BERT from scratch on books: heedful, and a loop over the reference library.

Both learn masked words and next sentences with a model of the published size ``mini`` and BERT's
30,522 words, from the same pairs of sentences in batches of 32, with AdamW, a linear schedule and
clipping, and start from the same weights. The reference hides tokens with its own collator and
computes in bf16 by autocast, as its example scripts do. Whether both learn alike is told after the
last lap, by the same hidden tokens and pairs of another book: the losses of the laps are of other
pairs in each arm, since heedful puts pairs of like length together.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.data import FOLDER
from benchmarks.race import Lap, race, run_laps, total

if TYPE_CHECKING:
    from torch import nn

    from heedful.batches import Example
    from heedful.models import BertForPreTraining
    from heedful.tasks.pretrain import Pretrain

LAPS, STEPS, BATCH, RATE, MAX_LENGTH = 5, 100, 32, 5e-4, 128
BOOKS, HELD_OUT = ("jane_eyre", "great_expectations", "dracula", "moby_dick"), ("middlemarch",)
SCORED = 16 * BATCH


def _task() -> "Pretrain":
    from heedful.tasks.pretrain import Pretrain

    return Pretrain(
        preset="mini",
        positions=MAX_LENGTH,
        position_type="absolute",
        objective="mlm+nsp",
        mask_share=0.15,
        whole_word=False,
        max_predictions=None,
        documents="gap",
        sentences="punctuation",
    )


def _pairs(names: tuple[str, ...], number: int) -> "list[Example]":
    """Cut pairs from books, in random order; both arms learn from, and are scored on, the same."""
    import numpy as np

    from heedful.task import Start
    from heedful.tasks.corpus import open_corpus
    from heedful.tokens import BertTokenizer

    tokenizer = BertTokenizer.from_pretrained("minilm")
    with tempfile.TemporaryDirectory() as folder:
        books = [FOLDER / f"gutenberg/{name}.txt.gz" for name in names]
        corpus = open_corpus(books, _task().documents, _task().sentences, tokenizer, Path(folder))
        start = Start(tokenizer=tokenizer, model=_new_model(), max_length=MAX_LENGTH)
        pairs = list(_task().sequences(corpus, start, seed=0, epoch=0))
    order = np.random.default_rng(0).permutation(len(pairs))[:number]
    return [pairs[at] for at in order]


def _new_model() -> "BertForPreTraining":
    """Make the model that both arms start from."""
    import torch

    from heedful.models import BertConfig, BertForPreTraining
    from heedful.models.presets import PRESETS
    from heedful.tokens import BertTokenizer

    torch.manual_seed(0)
    words = len(BertTokenizer.from_pretrained("minilm"))
    sizes = PRESETS["mini"]
    return BertForPreTraining(
        BertConfig(vocab_size=words, max_position_embeddings=MAX_LENGTH, **sizes)
    )


def _held_out_loss(model: "nn.Module") -> float:
    """Score a trained model of either arm, in fp32: the loss of a word and that of a pair."""
    import numpy as np
    import torch
    from torch.nn.functional import cross_entropy

    from heedful.batches import Draw
    from heedful.tokens import BertTokenizer

    pairs = _pairs(HELD_OUT, SCORED)
    tokenizer = BertTokenizer.from_pretrained("minilm")
    words = follows = hidden = 0.0
    model.eval()
    for rows in np.split(np.arange(SCORED), SCORED // BATCH):
        draw = Draw(seed=0, epoch=0, rows=rows)
        batch = _task().batch([pairs[row] for row in rows], tokenizer, draw)
        hidden_tokens = batch.targets["tokens"]
        with torch.inference_mode():
            inputs = {**batch.inputs}
            positions = inputs.pop("positions")
            output = model(**inputs)
            logits = output.prediction_logits.flatten(0, 1)[positions]  # (N, V)
            words += cross_entropy(logits, hidden_tokens, reduction="sum").item()
            told = output.seq_relationship_logits  # (B, 2)
            follows += cross_entropy(told, batch.targets["next_sentence"], reduction="sum").item()
        hidden += len(hidden_tokens)
    return words / hidden + follows / SCORED


def heedful_arm() -> Iterator[Lap]:
    """Heedful's own loop, as the command line runs it, but for the clock around it."""
    from heedful.batches import Draw, plan_epoch
    from heedful.tokens import BertTokenizer
    from heedful.training.allocator import keep_big_buffers
    from heedful.training.device import choose_device, choose_precision
    from heedful.training.loop import Position, Work, train
    from heedful.training.optimize import adamw
    from heedful.training.schedule import schedule

    keep_big_buffers()
    task, model = _task(), _new_model()
    tokenizer = BertTokenizer.from_pretrained("minilm")
    pairs = _pairs(BOOKS, STEPS * BATCH)
    lengths = [len(pair.ids) for pair in pairs]
    work = Work(
        model=model,
        optimizer=adamw(model, learning_rate=RATE),
        plan=lambda epoch: plan_epoch(
            lengths, batch_size=BATCH, batch_tokens=8192, seed=0, epoch=epoch
        ),
        fetch=lambda rows, epoch: task.batch(
            [pairs[row] for row in rows], tokenizer, Draw(seed=0, epoch=epoch, rows=rows)
        ),
        loss=task.loss,
        count=task.count,
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
        }
    yield {"loss": _held_out_loss(model)}


def reference_arm() -> Iterator[Lap]:
    """Loop over the reference library, its collator included."""
    import torch
    from transformers import (
        BertForPreTraining,
        BertTokenizerFast,
        DataCollatorForLanguageModeling,
        get_linear_schedule_with_warmup,
    )

    from heedful.sources import resolve

    tokenizer = BertTokenizerFast.from_pretrained(resolve("minilm"))
    with tempfile.TemporaryDirectory() as folder:
        _new_model().save_pretrained(folder)
        model = BertForPreTraining.from_pretrained(folder)
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    rows: list[dict[str, Any]] = []
    for pair in _pairs(BOOKS, STEPS * BATCH):
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
        started, tokens = time.perf_counter(), 0
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
            loss.item()  # as it is logged
            tokens += sum(len(row["input_ids"]) for row in chosen)
        yield {
            "seconds": time.perf_counter() - started,
            "tokens": tokens,
        }
    yield {"loss": _held_out_loss(model)}


ARMS = {"heedful": heedful_arm, "reference": reference_arm}


def run() -> list[dict[str, object]]:
    """Race the arms and return one row."""
    laps = race("benchmarks.pretrain", list(ARMS))
    rates = {name: total(runs, "tokens") / total(runs, "seconds") for name, runs in laps.items()}
    losses = [laps[name][-1]["loss"] for name in ARMS]
    peaks = [laps[name][-2]["peak"] for name in ARMS]  # of training, not of scoring
    return [
        {
            "name": "pre-training mini from scratch, against the transformers 4.57.6 loop in bf16",
            "ours": rates["heedful"],
            "peer": rates["reference"],
            "ratio": rates["heedful"] / rates["reference"],
            "unit": "tokens/s",
            "quality": f"held-out loss {losses[0]:.3f} / {losses[1]:.3f}",
            "memory": f"{peaks[0]:,} / {peaks[1]:,}",
        }
    ]


if __name__ == "__main__":
    run_laps(ARMS)
