"""What a GPT-2 learns of novels in some minutes, beside n-grams of the same text.

    python -m benchmarks.next_words [--minutes 2 | --steps 100] [--preset mini] [--out runs/novels]

A GPT-2 from scratch learns next words of eleven novels; the twelfth, Dracula, is held out. Both are
told the same tokens of byte pairs, learnt from the eleven, and score each token of the held-out
book given those before it in its chapter: the GPT-2 in windows, n-grams by the tokens they have.
Perplexities are of a token, and of a word, which is what stands between spaces: the same words for
both. Each goes on with the begin of a sentence of the book.
"""

import argparse
import json
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import heedful
from benchmarks.data import FOLDER
from benchmarks.ngrams import KneserNey
from heedful.batches.sentences import running_sentences
from heedful.commands.score import score_texts
from heedful.commands.vocabulary import learn
from heedful.reading.documents import read_documents
from heedful.settings import VocabularySettings

HELD_OUT = FOLDER / "gutenberg/dracula.txt.gz"
BATCH, LENGTH = 32, 128
RECIPE = {
    "objective": "clm",
    "arch": "gpt2",
    "documents": "gap",
    "dropout": 0.0,
    "learning_rate": 2e-3,
    "batch_size": BATCH,
    "max_length": LENGTH,
}
PROMPT = "The Count, evidently noticing it,"
"""Of chapter 2 of the held-out book, where `drew back` follows."""


def books() -> list[Path]:
    """Return the novels to learn from."""
    return [path for path in sorted((FOLDER / "gutenberg").glob("*.gz")) if path != HELD_OUT]


def chapters(path: Path) -> Iterator[str]:
    """Yield the chapters of a book as running text, as pre-training reads them."""
    for document in read_documents([path], "gap"):
        yield "".join(running_sentences(document.text)).strip()


def train(steps: int | None, minutes: float, preset: str, words: Path, out: Path) -> None:
    """Train for some steps, or as many as the first ones say that there is time for."""
    common = {**RECIPE, "preset": preset, "vocabulary": str(words), "overwrite": True}
    steps = steps or steps_in(minutes, common)
    heedful.train("pretrain", train=books(), out=out, steps=steps, **common)


def steps_in(minutes: float, common: dict[str, Any]) -> int:
    """Return how many steps there is time for, by taking some."""
    with TemporaryDirectory() as name:
        probe = Path(name) / "probe"
        heedful.train("pretrain", train=books(), out=probe, steps=12, **common)
        rows = map(json.loads, (probe / "metrics.jsonl").read_text().splitlines())
        rate = median(row["tokens_per_second"] for row in rows if "tokens_per_second" in row)
    return max(round(60 * minutes * rate / (BATCH * LENGTH)), 1)


def perplexities(total: float, tokens: int, words: int) -> str:
    """Return the cells of a row for a sum of log-probabilities."""
    return f"{math.exp(-total / tokens):,.1f} | {math.exp(-total / words):,.0f}"


def main() -> None:
    """Print the table and what each goes on with."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--steps", type=int, help="rather than minutes")
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--out", type=Path, default=Path("runs/novels"))
    options = parser.parse_args()
    words = options.out.parent / f"{options.out.name}-words"
    learn(books(), VocabularySettings(kind="bpe", size=8000), words, overwrite=True)
    train(options.steps, options.minutes, options.preset, words, options.out)

    predictor = heedful.load(options.out)
    tokenizer = predictor.tokenizer
    texts = [*chapters(HELD_OUT)]
    held_out = tokenizer.encode_batch(texts)
    tokens, count = sum(map(len, held_out)), sum(len(text.split()) for text in texts)
    learnt = tokenizer.encode_batch([*chain.from_iterable(map(chapters, books()))])
    print(f"{sum(map(len, learnt)):,} tokens learnt from; {tokens:,} held out, {count:,} words")
    print("| model | perplexity of a token | of a word |\n|---|---|---|")
    for order in (1, 2, 3, 4):
        model = KneserNey(learnt, order=order, vocab_size=len(tokenizer))
        total = sum(float(np.log(model.probabilities(ids)).sum()) for ids in held_out)
        print(f"| {order}-grams | {perplexities(total, tokens, count)} |", flush=True)
    total = sum(scored.total for scored in score_texts(predictor, texts))
    print(f"| GPT-2 {options.preset} | {perplexities(total, tokens, count)} |")

    (ids,) = tokenizer.encode_batch([PROMPT])
    draw = np.random.default_rng(0)
    for _ in range(24):
        ids.append(int(draw.choice(len(tokenizer), p=model.next(ids))))
    print(f"4-grams, drawn: {tokenizer.text_of(ids)}")
    answer = predictor(PROMPT, sample=True, top_p=0.95, max_new_tokens=24)
    print(f"GPT-2, drawn: {PROMPT}{answer.text}")
    answer = predictor(PROMPT, beam=4, max_new_tokens=24)
    print(f"GPT-2, likeliest: {PROMPT}{answer.text}")


if __name__ == "__main__":
    main()
