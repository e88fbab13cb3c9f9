"""What a GPT-2 learns of novels in twenty minutes, beside n-grams of the same text.

    python -m benchmarks.next_words [--minutes 20 | --steps 100] [--out runs/objectives]

A `mini` GPT-2 from scratch learns next words of eleven novels, as `python -m benchmarks.objectives
clm` has it; one that is there is taken. The twelfth, Dracula, is held out. Both are
told the same tokens of byte pairs, learnt from the eleven, and score each token of the held-out
book given those before it in its chapter: the GPT-2 in windows, n-grams by the tokens they have.
Perplexities are of a token, and of a word, which is what stands between spaces: the same words for
both. Each goes on with the begin of a sentence of the book.
"""

import argparse
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

import heedful
from benchmarks.ngrams import KneserNey
from benchmarks.objectives import HELD_OUT, books, pretrain
from heedful.batches.sentences import split_sentences
from heedful.commands.score import score_texts
from heedful.reading.documents import read_documents

PROMPT = "The Count, evidently noticing it,"
"""Of chapter 2 of the held-out book, where `drew back` follows."""


def chapters(path: Path) -> Iterator[str]:
    """Yield the chapters of a book as running text, as pre-training reads them."""
    for document in read_documents([path], "gap"):
        yield "".join(split_sentences(document.text)).strip()


def perplexities(total: float, tokens: int, words: int) -> str:
    """Return the cells of a row for a sum of log-probabilities."""
    return f"{math.exp(-total / tokens):,.1f} | {math.exp(-total / words):,.0f}"


def main() -> None:
    """Print the table and what each goes on with."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--steps", type=int, help="rather than minutes")
    parser.add_argument("--out", type=Path, default=Path("runs/objectives"))
    options = parser.parse_args()
    run, _ = pretrain("clm", options.out, options.steps, options.minutes)

    predictor = heedful.load(run)
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
    placed = [(text, f"text {number}") for number, text in enumerate(texts, start=1)]
    total = sum(scored.total for scored in score_texts(predictor, placed))
    print(f"| GPT-2 mini | {perplexities(total, tokens, count)} |")

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
