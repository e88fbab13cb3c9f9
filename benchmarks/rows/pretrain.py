"""Pre-train a small BERT from scratch on books: masked words and next-sentence prediction.

Both libraries train a model of the published size ``mini`` with BERT's vocabulary of 30,522 words,
in batches of 32 sequences, with AdamW, a linear schedule and gradient clipping. The reference masks
tokens with its own collator. Its sentence pairs are cut in advance; its time does not include this.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.arm_process import Trial
from benchmarks.row import Arm, Plan, Row, Scores
from benchmarks.rows.encode import operations

if TYPE_CHECKING:
    from heedful.settings import PrecisionName

STEPS, BATCH, RATE, MAX_LENGTH = 100, 32, 5e-4, 128
BOOKS, HELD_OUT = ("jane_eyre", "great_expectations", "dracula"), "middlemarch"
SCORED = 16 * BATCH


def heedful(precision: "PrecisionName", trial: Trial) -> str:
    """Pre-train with heedful, as users do."""
    from benchmarks.data import FOLDER
    from benchmarks.training_laps import steps_as_laps
    from heedful import train

    facts = trial.read("facts.json")
    out = trial.folder / f"run-{precision}"
    with steps_as_laps(trial, facts["steps"]) as steps:
        train(
            "pretrain",
            train=[FOLDER / f"gutenberg/{name}.txt.gz" for name in BOOKS],
            out=out,
            preset="mini",
            vocabulary=facts["folder"],
            max_length=MAX_LENGTH,
            batch_size=BATCH,
            learning_rate=RATE,
            schedule="linear",
            steps=steps,
            precision=precision,
            checkpoint_every=10**6,
        )
    return str(out)


def transformers(trial: Trial, *, bf16: bool) -> str:
    """Pre-train with a loop for the reference and its collator."""
    import torch
    from transformers import (
        BertConfig,
        BertForPreTraining,
        BertTokenizerFast,
        DataCollatorForLanguageModeling,
    )

    from benchmarks.peers.training import train

    facts = trial.read("facts.json")
    rows: list[dict[str, Any]] = trial.read("pairs.json")
    torch.manual_seed(0)
    tokenizer = BertTokenizerFast.from_pretrained(facts["folder"])
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    model = BertForPreTraining(BertConfig(**facts["config"]))
    batches = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]

    def batch_of(chosen: list[dict[str, Any]]) -> tuple[dict[str, torch.Tensor], int]:
        return collator(chosen), sum(len(row["input_ids"]) for row in chosen)

    size = facts["steps"]
    laps = [batches[lap * size : (lap + 1) * size] for lap in range(trial.number_of_laps)]
    steps = size * trial.number_of_laps
    train(trial, model, laps, batch_of, rate=RATE, steps=steps, bf16=bf16)
    out = trial.folder / ("bf16" if bf16 else "fp32")
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return str(out)


def _pairs(names: tuple[str, ...], number: int, folder: Path) -> list[Any]:
    """Return sentence pairs from books, in random order."""
    import numpy as np

    from benchmarks.data import FOLDER
    from heedful.models import BertConfig, BertForPreTraining
    from heedful.task import Start
    from heedful.tasks.corpus import open_corpus
    from heedful.tokens import BertTokenizer

    tokenizer = BertTokenizer.from_pretrained("minilm")
    task = _task()
    books = [FOLDER / f"gutenberg/{name}.txt.gz" for name in names]
    folder.mkdir()
    corpus = open_corpus(books, task.documents, task.sentences, tokenizer, folder)
    tiny = BertForPreTraining(BertConfig(**{**_sizes(), "num_hidden_layers": 1}))
    start = Start(tokenizer=tokenizer, model=tiny, max_length=MAX_LENGTH)
    pairs = list(task.sequences(corpus, start, seed=0, epoch=0))
    order = np.random.default_rng(0).permutation(len(pairs))[:number]
    return [pairs[at] for at in order]


def _sizes() -> dict[str, Any]:
    from heedful.models.bert.presets import PRESETS

    return {"vocab_size": 30522, "max_position_embeddings": MAX_LENGTH, **PRESETS["mini"]}


def _task() -> Any:
    from heedful.tasks.pretrain import Pretrain

    return Pretrain(
        preset="mini",
        positions=MAX_LENGTH,
        position_type="absolute",
        objective="mlm+nsp",
        mask_share=0.15,
        masking="token",
        max_predictions=None,
        documents="gap",
        sentences="punctuation",
    )


def prepare(folder: Path, laps: int, share: float) -> Plan:
    """Write the reference's sentence pairs, and count the operations per token."""
    from heedful.sources import resolve

    steps = max(1, round(STEPS * share / laps))
    pairs = _pairs(BOOKS, steps * laps * BATCH, folder / "corpus")
    rows = [
        {
            "input_ids": pair.ids.tolist(),
            "token_type_ids": [0] * pair.split + [1] * (len(pair.ids) - pair.split),
            "next_sentence_label": int(pair.labels[0]),
        }
        for pair in pairs
    ]
    (folder / "pairs.json").write_text(json.dumps(rows))
    sizes = _sizes()
    facts = {"folder": str(resolve("minilm")), "steps": steps, "config": sizes}
    (folder / "facts.json").write_text(json.dumps(facts))
    width, inner = sizes["hidden_size"], 4 * sizes["hidden_size"]
    head = 0.15 * 2 * width * (width + sizes["vocab_size"])
    encoder = operations(
        {**sizes, "intermediate_size": inner}, [len(row["input_ids"]) for row in rows]
    )
    return Plan(operations=3 * (encoder + head))


def score(folder: Path, outputs: Mapping[str, str]) -> Scores:
    """Return the loss on pairs of a held-out book, in fp32: per masked word plus per pair."""
    pairs = _pairs((HELD_OUT,), SCORED, folder / "held-out")
    return {name: {"held-out loss": _loss(Path(model), pairs)} for name, model in outputs.items()}


def _loss(folder: Path, pairs: list[Any]) -> float:
    import numpy as np
    import torch
    from torch.nn.functional import cross_entropy

    from heedful.batches import Draw
    from heedful.models import BertForPreTraining
    from heedful.tokens import BertTokenizer

    model = BertForPreTraining.from_pretrained(folder).eval()
    tokenizer = BertTokenizer.from_pretrained("minilm")
    word_loss = pair_loss = masked = 0.0
    for rows in np.split(np.arange(SCORED), SCORED // BATCH):
        draw = Draw(seed=0, epoch=0, rows=rows)
        batch = _task().batch([pairs[row] for row in rows], tokenizer, draw)
        masked_tokens, inputs = batch.targets["tokens"], {**batch.inputs}
        positions = inputs.pop("positions")
        with torch.inference_mode():
            output = model(**inputs)
        logits = output.prediction_logits.flatten(0, 1)[positions]  # (N, V)
        word_loss += cross_entropy(logits, masked_tokens, reduction="sum").item()
        pair_logits = output.seq_relationship_logits  # (B, 2)
        pair_loss += cross_entropy(pair_logits, batch.targets["pairs"], reduction="sum").item()
        masked += len(masked_tokens)
    return word_loss / masked + pair_loss / SCORED


ROWS = {
    "pretrain": Row(
        title="pre-training a mini BERT from scratch on books, with batch size 32",
        arms={
            "heedful bf16": Arm(run=partial(heedful, "bf16"), format="bf16", peer=False),
            "heedful fp32": Arm(run=partial(heedful, "fp32"), format="fp32", peer=False),
            "transformers": Arm(run=partial(transformers, bf16=False), format="fp32"),
            "transformers bf16": Arm(run=partial(transformers, bf16=True), format="bf16"),
        },
        prepare=prepare,
        score=score,
        unit="tokens/s",
    )
}
