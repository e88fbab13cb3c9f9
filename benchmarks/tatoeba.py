"""Translate Chinese into English on Tatoeba: a Transformer, an RNN, and JoeyNMT's Transformer.

    python -m benchmarks.tatoeba [NAME ...] [--out runs/tatoeba] [--minutes 20 | --steps N]

The pairs are split at random by their English sentences, so that no English sentence of the test
data occurs in the training data with another translation. All models train on the same pairs. A
short run measures the time per step, and so how many steps fit into the minutes. All models
translate the same sentences with beam size 5, and sacreBLEU scores them. JoeyNMT reads the pieces
of heedful's vocabulary; `make bench-peers` creates its environment. The script prints a line of
JSON for each model.
"""

import argparse
import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import heedful
from benchmarks.data import FOLDER
from benchmarks.joeynmt import read_pieces, run_joeynmt, write_pieces
from benchmarks.step_time import PROBE_STEPS, seconds_per_step
from heedful.reading.parallel import read_pairs
from heedful.settings import ColumnSettings

SEED, DEV, TEST = 0, 500, 1500
BEAM = 5
RECIPES: dict[str, dict[str, Any]] = {
    "transformer": {"arch": "transformer", "pre_norm": True, "batch_size": 64},
    "rnn": {"arch": "rnn", "batch_size": 64},
}
COMMON: dict[str, Any] = {"learning_rate": 2e-3, "schedule": "linear", "dropout": 0.2}


def split(folder: Path) -> None:
    """Write the three parts, one file per language."""
    text = gzip.decompress((FOLDER / "zh/tatoeba/cmn-eng.txt.gz").read_bytes()).decode("utf-8")
    pairs = [line.split("\t")[:2] for line in text.splitlines()]
    english = sorted({pair[0] for pair in pairs})
    random.Random(SEED).shuffle(english)
    test, dev = set(english[:TEST]), set(english[TEST : TEST + DEV])
    parts: dict[str, list[list[str]]] = {"train": [], "dev": [], "test": []}
    for pair in pairs:
        parts["test" if pair[0] in test else "dev" if pair[0] in dev else "train"].append(pair)
    for part, chosen in parts.items():
        for language, side in (("en", 0), ("zh", 1)):
            lines = "".join(f"{pair[side]}\n" for pair in chosen)
            (folder / f"{part}.{language}").write_text(lines, encoding="utf-8")


def files(folder: Path, part: str) -> list[Path]:
    """Return the two files of a part."""
    return [folder / f"{part}.zh", folder / f"{part}.en"]


def train(name: str, folder: Path, out: Path, steps: int) -> float:
    """Train one of heedful's models, and return the seconds per step."""
    heedful.train(
        "translate",
        train=files(folder, "train"),
        out=out,
        steps=steps,
        overwrite=True,
        say=lambda line: None,
        **COMMON,
        **RECIPES[name],
    )
    return seconds_per_step(out)


def train_joeynmt(folder: Path, out: Path, steps: int) -> float:
    """Train JoeyNMT, translate the test data, and return the seconds per step."""
    out.mkdir(parents=True, exist_ok=True)
    parts = ("train", "dev", "test")
    pairs = {part: list(read_pairs(files(folder, part), ColumnSettings())) for part in parts}
    tokenizer = write_pieces(pairs, ("zh", "en"), out)
    job = {
        "languages": ("zh", "en"),
        "model": {"width": 256, "heads": 4, "blocks": 3, "dropout": 0.2, "layer_norm": "pre"},
        "rate": COMMON["learning_rate"],
        "warmup": max(steps // 10, 1),
        "steps": steps,
        "every": 10**9,
        "beam": BEAM,
    }
    facts = run_joeynmt(out, job)
    texts = read_pieces(out / "answers.pieces", tokenizer)
    (out / "answers.en").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return float(facts["seconds_of_a_step"])


def scores(answers: Sequence[str], references: Sequence[str]) -> dict[str, object]:
    """Return BLEU and chrF with their signatures, like heedful's evaluation."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    result: dict[str, object] = {}
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        result[name] = round(metric.corpus_score(list(answers), [list(references)]).score, 2)
        result[f"{name}_signature"] = str(metric.get_signature())
    return result


def measure(
    name: str, folder: Path, out: Path, steps: int | None, minutes: float
) -> dict[str, object]:
    """Train and score one of the models."""
    train_model = train_joeynmt if name == "joeynmt" else (lambda *args: train(name, *args))
    if steps is None:
        steps = round(60 * minutes / train_model(folder, out / f"{name}-probe", PROBE_STEPS))
    seconds = train_model(folder, out / name, steps)
    references = (folder / "test.en").read_text(encoding="utf-8").splitlines()
    if name == "joeynmt":
        answers = (out / name / "answers.en").read_text(encoding="utf-8").splitlines()
    else:
        sources = (folder / "test.zh").read_text(encoding="utf-8").splitlines()
        answers = [a.text for a in heedful.load(out / name)(sources, beam=BEAM)]
    return {
        "name": name,
        "steps": steps,
        "seconds_of_a_step": round(seconds, 4),
        **scores(answers, references),
    }


def main() -> None:
    """Train and score the models given on the command line, by default all."""
    names = (*RECIPES, "joeynmt")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(names)}; default: all"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/tatoeba"))
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--steps", type=int, help="training steps, instead of --minutes")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(names)):
        parser.error(f"unknown model {unknown[0]!r}; choose from {', '.join(names)}")
    folder = options.out / "pairs"
    folder.mkdir(parents=True, exist_ok=True)
    split(folder)
    for name in options.names or names:
        print(
            json.dumps(measure(name, folder, options.out, options.steps, options.minutes)),
            flush=True,
        )


if __name__ == "__main__":
    main()
