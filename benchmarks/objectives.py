"""Compare the pre-training objectives: train each for twenty minutes on two cores.

    python -m benchmarks.objectives [OBJECTIVE ...] [--minutes 20] [--out runs/objectives]

The script trains `mini` models from scratch on eleven novels, one for each objective; the twelfth
novel, Dracula, is held out. It prints a row for each objective: the scores on the held-out book,
compared with a constant prediction; and the entity F1 on the test set of CoNLL-2003 after
fine-tuning on 2,000 sentences, from random weights and from the pre-trained model. Existing runs
are reused, so an interrupted benchmark continues where it stopped.
"""

import argparse
import gzip
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import Any, Literal

import numpy as np

import heedful
from benchmarks.curve import baselines
from benchmarks.data import FOLDER
from benchmarks.random_weights import write_random_model
from benchmarks.step_time import PROBE_STEPS, seconds_per_step
from heedful.checkpoints.runs import RECORD, read_record
from heedful.commands.vocabulary import learn as train_vocabulary
from heedful.settings import VocabularySettings

HELD_OUT = FOLDER / "gutenberg/dracula.txt.gz"
SENTENCES = 2000
PRETRAINING: dict[str, Any] = {
    "documents": "gap",
    "preset": "mini",
    "max_length": 128,
    "batch_size": 16,
    "dropout": 0.0,
    "learning_rate": 1e-3,
}
FINE_TUNING: dict[str, Any] = {
    "epochs": 3,
    "batch_size": 32,
    "dropout": 0.1,
    "learning_rate": 3e-4,
    "head_learning_rate": 1e-3,
}
RELATIVE = {"position_type": "relative_key"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Objective:
    """An objective, with the model and the vocabulary to train with it."""

    name: str
    arch: str
    vocabulary: VocabularySettings
    options: dict[str, Any] = field(default_factory=dict)
    scores: tuple[tuple[str, str | None], ...]
    """Scores on the held-out book, each with the name under which the evaluation reports the score
    of a constant prediction; None if `baselines` has to compute it."""


WORDS = VocabularySettings(size=8000, cased=True)
"""Cased, like the other kinds of vocabulary, and because names are capitalized."""
BYTES = VocabularySettings(kind="bpe", size=8000)


def unigram_vocabulary(arch: Literal["albert", "deberta-v2", "xlnet"]) -> VocabularySettings:
    """Return the settings to train a family's unigram vocabulary."""
    return VocabularySettings(kind="unigram", arch=arch, size=8000)


MASKED = ("masked_accuracy", None)
REPLACED = (("rtd_f1", None), ("rtd_accuracy", "always_original"))
SLOWER = {"learning_rate": 5e-4, "discriminator_weight": 10.0}
"""At 1e-3, which suits the other objectives, all tokens of a discriminator get the same hidden
state, and it stops learning."""
OBJECTIVES = {
    "mlm+nsp": Objective(
        name="mlm+nsp",
        arch="bert",
        vocabulary=WORDS,
        options=RELATIVE,
        scores=(MASKED, ("nsp_accuracy", None)),
    ),
    "mlm": Objective(
        name="mlm",
        arch="bert",
        vocabulary=WORDS,
        options=RELATIVE,
        scores=(MASKED,),
    ),
    "sop": Objective(
        name="sop",
        arch="albert",
        vocabulary=unigram_vocabulary("albert"),
        options={**RELATIVE, "masking": "n-gram"},
        scores=(MASKED, ("sop_accuracy", None)),
    ),
    "rtd": Objective(
        name="rtd",
        arch="electra",
        vocabulary=WORDS,
        options=RELATIVE | SLOWER,
        scores=REPLACED,
    ),
    "rtd-deberta": Objective(
        name="rtd",
        arch="deberta-v2",
        vocabulary=unigram_vocabulary("deberta-v2"),
        options=SLOWER,
        scores=REPLACED,
    ),
    "plm": Objective(
        name="plm",
        arch="xlnet",
        vocabulary=unigram_vocabulary("xlnet"),
        scores=(MASKED,),
    ),
    "clm": Objective(
        name="clm",
        arch="gpt2",
        vocabulary=BYTES,
        scores=(("next_accuracy", "always_commonest"),),
    ),
}


def books() -> list[Path]:
    """Return the novels to train on."""
    return [path for path in sorted((FOLDER / "gutenberg").glob("*.gz")) if path != HELD_OUT]


def recipe(objective: Objective, out: Path) -> dict[str, Any]:
    """Return the training options of an objective; train its vocabulary first if it is missing."""
    settings = objective.vocabulary
    family = f"-{settings.arch}" if settings.kind == "unigram" else ""
    words = out / f"words-{settings.kind}{family}"
    if not words.exists():
        train_vocabulary(books(), settings, words)
    return {
        **PRETRAINING,
        **objective.options,
        "objective": objective.name,
        "arch": objective.arch,
        "vocabulary": str(words),
        "train": books(),
    }


def steps_for(minutes: float, name: str, out: Path) -> int:
    """Return the number of steps that fit into the time, from a short run on this machine."""
    probe = out / f"{name}-probe"
    if not (probe / "model.safetensors").exists():
        options = recipe(OBJECTIVES[name], out)
        heedful.train("pretrain", out=probe, steps=PROBE_STEPS, overwrite=True, **options)
    return round(60 * minutes / seconds_per_step(probe))


def pretrain(name: str, out: Path, steps: int | None, minutes: float) -> tuple[Path, int]:
    """Return a pre-trained run and its number of steps; an existing run is reused."""
    run = out / name
    if not (run / "model.safetensors").exists():
        steps = steps or steps_for(minutes, name, out)
        started = (run / RECORD).is_file()
        heedful.train(
            "pretrain", out=run, steps=steps, resume=started, **recipe(OBJECTIVES[name], out)
        )
    return run, int(read_record(run).settings["steps"])


def held_out(objective: Objective, run: Path) -> Iterator[str]:
    """Yield the scores on the held-out book, each with the score of a constant prediction."""
    scores = heedful.evaluate(run, HELD_OUT, say=lambda line: None)
    counted = {} if objective.name in ("rtd", "clm") else baselines(run, HELD_OUT)
    for key, other in objective.scores:
        # A model that always predicts "original" finds no replaced token: its F1 is 0.
        constant = scores[other] if other else counted.get(key, 0.0)
        yield f"`{key}` {scores[key]:.3f} ({constant:.3f})"


def sample_sentences(seed: int, file: Path) -> Path:
    """Write a random sample of sentences from the training set of CoNLL-2003."""
    text = gzip.decompress((FOLDER / "conll2003/train.bio.txt.gz").read_bytes()).decode("utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("-DOCSTART-"))
    sentences = ["\n".join(group) for filled, group in groupby(lines, key=bool) if filled]
    chosen = np.random.default_rng(seed).choice(len(sentences), SENTENCES, replace=False)
    file.write_text("\n\n".join(sentences[place] for place in sorted(chosen)) + "\n", "utf-8")
    return file


def fine_tune_and_score(model: Path, out: Path, seed: int) -> float:
    """Fine-tune a model on entities, unless the run exists; return the F1 on the test set."""
    if not (out / "model.safetensors").exists():
        heedful.train(
            "tag",
            train=sample_sentences(seed, out.parent / f"sentences-{seed}.bio.txt"),
            model=str(model),
            out=out,
            seed=seed,
            overwrite=True,
            say=lambda line: None,
            **FINE_TUNING,
        )
    test = FOLDER / "conll2003/test.bio.txt.gz"
    return float(heedful.evaluate(out, test, say=lambda line: None)["f1"])


def cell(values: Sequence[float]) -> str:
    """Return the mean of some scores with their minimum and maximum."""
    return f"{mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "objectives", nargs="*", metavar="OBJECTIVE", help="objectives to compare; default: all"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/objectives"))
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--steps", type=int, help="pre-training steps, instead of --minutes")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if unknown := sorted(set(options.objectives) - set(OBJECTIVES)):
        parser.error(f"unknown objective {unknown[0]!r}; choose from {', '.join(OBJECTIVES)}")
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    print(
        "| objective | family | steps | held-out book (constant prediction) | "
        "CoNLL-2003 from random weights | from the pre-trained model |\n|---|---|---|---|---|---|"
    )
    for name in options.objectives or OBJECTIVES:
        objective = OBJECTIVES[name]
        run, steps = pretrain(name, out, options.steps, options.minutes)
        scores: dict[str, list[float]] = {"random": [], "learnt": []}
        for seed in range(options.seeds):
            folder = out / f"{objective.arch}-random-{seed}"
            fresh = write_random_model(run, folder, seed, "body")
            for start, model in (("random", fresh), ("learnt", run)):
                tags = out / f"tag-{objective.arch if start == 'random' else name}-{start}-{seed}"
                scores[start].append(fine_tune_and_score(model, tags, seed))
                print(f"{tags.name}: {scores[start][-1]:.4f}", file=sys.stderr, flush=True)
        cells = [", ".join(held_out(objective, run)), *map(cell, scores.values())]
        print(f"| {name} | {objective.arch} | {steps:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
