"""What each objective of pre-training teaches in twenty minutes of two cores.

    python -m benchmarks.objectives [OBJECTIVE ...] [--minutes 20] [--out runs/objectives]

Models of size `mini` learn eleven novels from scratch, each with its own objective; the twelfth,
Dracula, is held out. Prints a row for each: its scores on the held-out book beside what the same
answer each time would score, and the entity F1 on the test part of CoNLL-2003 after 2,000 of its
sentences, from random weights and from what was learnt. Runs that are there are taken, so what was
stopped goes on when it is called again.
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
from benchmarks.pace import PROBE, pace
from benchmarks.starts import random_start
from heedful.checkpoints.runs import RECORD, read_record
from heedful.commands.vocabulary import learn
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
    """What is learnt, by which model, from which tokens."""

    learns: str
    arch: str
    vocabulary: VocabularySettings
    options: dict[str, Any] = field(default_factory=dict)
    scores: tuple[tuple[str, str | None], ...]
    """Scores of the held-out book, and under which name the evaluation says what the same answer
    each time would score; None where it has to be counted."""


WORDS = VocabularySettings(size=8000, cased=True)
"""With capitals, as the other kinds of vocabulary have them, and names do."""
BYTES = VocabularySettings(kind="bpe", size=8000)


def pieces(arch: Literal["albert", "deberta-v2", "xlnet"]) -> VocabularySettings:
    """Say how a family's pieces are learnt."""
    return VocabularySettings(kind="unigram", arch=arch, size=8000)


MASKED = ("masked_accuracy", None)
REPLACED = (("rtd_f1", None), ("rtd_accuracy", "always_original"))
SLOWER = {"learning_rate": 5e-4, "discriminator_weight": 10.0}
"""At 1e-3, which suits the others, the states of all tokens become one in a discriminator, and it
learns no more."""
OBJECTIVES = {
    "mlm+nsp": Objective(
        learns="mlm+nsp",
        arch="bert",
        vocabulary=WORDS,
        options=RELATIVE,
        scores=(MASKED, ("nsp_accuracy", None)),
    ),
    "mlm": Objective(
        learns="mlm",
        arch="bert",
        vocabulary=WORDS,
        options=RELATIVE,
        scores=(MASKED,),
    ),
    "sop": Objective(
        learns="sop",
        arch="albert",
        vocabulary=pieces("albert"),
        options={**RELATIVE, "masking": "n-gram"},
        scores=(MASKED, ("sop_accuracy", None)),
    ),
    "rtd": Objective(
        learns="rtd",
        arch="electra",
        vocabulary=WORDS,
        options=RELATIVE | SLOWER,
        scores=REPLACED,
    ),
    "rtd-deberta": Objective(
        learns="rtd",
        arch="deberta-v2",
        vocabulary=pieces("deberta-v2"),
        options=SLOWER,
        scores=REPLACED,
    ),
    "plm": Objective(
        learns="plm",
        arch="xlnet",
        vocabulary=pieces("xlnet"),
        scores=(MASKED,),
    ),
    "clm": Objective(
        learns="clm",
        arch="gpt2",
        vocabulary=BYTES,
        scores=(("next_accuracy", "always_commonest"),),
    ),
}


def books() -> list[Path]:
    """Return the novels to learn from."""
    return [path for path in sorted((FOLDER / "gutenberg").glob("*.gz")) if path != HELD_OUT]


def recipe(objective: Objective, out: Path) -> dict[str, Any]:
    """Return how a model learns, with a vocabulary that is learnt where it is missing."""
    settings = objective.vocabulary
    family = f"-{settings.arch}" if settings.kind == "unigram" else ""
    words = out / f"words-{settings.kind}{family}"
    if not words.exists():
        learn(books(), settings, words)
    return {
        **PRETRAINING,
        **objective.options,
        "objective": objective.learns,
        "arch": objective.arch,
        "vocabulary": str(words),
        "train": books(),
    }


def steps_in(minutes: float, name: str, out: Path) -> int:
    """Return how many steps there is time for, by taking some on this machine."""
    probe = out / f"{name}-probe"
    if not (probe / "model.safetensors").exists():
        wanted = recipe(OBJECTIVES[name], out)
        heedful.train("pretrain", out=probe, steps=PROBE, overwrite=True, **wanted)
    return round(60 * minutes / pace(probe))


def pretrain(name: str, out: Path, steps: int | None, minutes: float) -> tuple[Path, int]:
    """Return a pre-trained model, and how many steps that took; one that is there is taken."""
    run = out / name
    if not (run / "model.safetensors").exists():
        steps = steps or steps_in(minutes, name, out)
        begun = (run / RECORD).is_file()
        heedful.train(
            "pretrain", out=run, steps=steps, resume=begun, **recipe(OBJECTIVES[name], out)
        )
    return run, int(read_record(run).settings["steps"])


def held_out(objective: Objective, run: Path) -> Iterator[str]:
    """Yield the scores on the held-out book, each with that of the same answer each time."""
    scores = heedful.evaluate(run, HELD_OUT, say=lambda line: None)
    counted = {} if objective.learns in ("rtd", "clm") else baselines(run, HELD_OUT)
    for key, other in objective.scores:
        # Who never sees a replaced token finds none of them.
        fixed = scores[other] if other else counted.get(key, 0.0)
        yield f"`{key}` {scores[key]:.3f} ({fixed:.3f})"


def some_sentences(seed: int, file: Path) -> Path:
    """Write some sentences of CoNLL-2003's training part."""
    text = gzip.decompress((FOLDER / "conll2003/train.bio.txt.gz").read_bytes()).decode("utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("-DOCSTART-"))
    every = ["\n".join(group) for filled, group in groupby(lines, key=bool) if filled]
    chosen = np.random.default_rng(seed).choice(len(every), SENTENCES, replace=False)
    file.write_text("\n\n".join(every[place] for place in sorted(chosen)) + "\n", "utf-8")
    return file


def tagged(model: Path, out: Path, seed: int) -> float:
    """Learn entities from a model, unless it is done, and return the F1 on the test part."""
    if not (out / "model.safetensors").exists():
        heedful.train(
            "tag",
            train=some_sentences(seed, out.parent / f"sentences-{seed}.bio.txt"),
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
    """Return the mean of some scores, with the least and the greatest."""
    return f"{mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("objectives", nargs="*", metavar="OBJECTIVE", help="by default all")
    parser.add_argument("--out", type=Path, default=Path("runs/objectives"))
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--steps", type=int, help="of each pre-training, rather than minutes")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if unknown := sorted(set(options.objectives) - set(OBJECTIVES)):
        parser.error(f"no objective {unknown[0]!r}; there are: {', '.join(OBJECTIVES)}")
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    print(
        "| objective | family | steps | held-out book (the same answer each time) | "
        "CoNLL-2003 from random weights | from what was learnt |\n|---|---|---|---|---|---|"
    )
    for name in options.objectives or OBJECTIVES:
        objective = OBJECTIVES[name]
        run, steps = pretrain(name, out, options.steps, options.minutes)
        scores: dict[str, list[float]] = {"random": [], "learnt": []}
        for seed in range(options.seeds):
            folder = out / f"{objective.arch}-random-{seed}"
            fresh = random_start(run, folder, seed, "body")
            for start, model in (("random", fresh), ("learnt", run)):
                tags = out / f"tag-{objective.arch if start == 'random' else name}-{start}-{seed}"
                scores[start].append(tagged(model, tags, seed))
                print(f"{tags.name}: {scores[start][-1]:.4f}", file=sys.stderr, flush=True)
        cells = [", ".join(held_out(objective, run)), *map(cell, scores.values())]
        print(f"| {name} | {objective.arch} | {steps:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
