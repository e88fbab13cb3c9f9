"""Compare a GPT-2, pre-trained for twenty minutes on novels, with n-gram models of the same text.

    python -m benchmarks.next_words [--minutes 20 | --steps 100] [--out runs/objectives]

The script trains a `mini` GPT-2 from scratch on eleven novels, like `python -m
benchmarks.objectives clm`; an existing run is reused. The twelfth novel, Dracula, is held out. Both
kinds of model use the same byte-level BPE vocabulary, trained on the eleven novels. They score each
token of the held-out book, given the tokens before it in the same chapter: the GPT-2 in windows,
the n-gram models with their last tokens. The table has the perplexity per token and per word; words
are separated by whitespace. Finally, each model continues the beginning of a sentence of the book.
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
"""From chapter 2 of the held-out book, where it continues with `drew back`."""


def chapters(path: Path) -> Iterator[str]:
    """Yield the chapters of a book as running text, as pre-training reads them."""
    for document in read_documents([path], "gap"):
        yield "".join(split_sentences(document.text)).strip()


def perplexities(total: float, tokens: int, words: int) -> str:
    """Return the perplexities per token and per word as table cells.

    Args:
        total: Sum of the log-probabilities of all tokens.
        tokens: Number of tokens.
        words: Number of words.
    """
    return f"{math.exp(-total / tokens):,.1f} | {math.exp(-total / words):,.0f}"


def main() -> None:
    """Print the table and the continuations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--steps", type=int, help="training steps, instead of --minutes")
    parser.add_argument("--out", type=Path, default=Path("runs/objectives"))
    options = parser.parse_args()
    run, _ = pretrain("clm", options.out, options.steps, options.minutes)

    predictor = heedful.load(run)
    tokenizer = predictor.tokenizer
    texts = [*chapters(HELD_OUT)]
    held_out = tokenizer.encode_batch(texts)
    tokens, count = sum(map(len, held_out)), sum(len(text.split()) for text in texts)
    train_ids = tokenizer.encode_batch([*chain.from_iterable(map(chapters, books()))])
    print(
        f"{sum(map(len, train_ids)):,} training tokens; "
        f"held out: {tokens:,} tokens, {count:,} words"
    )
    print("| model | perplexity per token | per word |\n|---|---|---|")
    for order in (1, 2, 3, 4):
        model = KneserNey(train_ids, order=order, vocab_size=len(tokenizer))
        total = sum(float(np.log(model.probabilities(ids)).sum()) for ids in held_out)
        print(f"| {order}-grams | {perplexities(total, tokens, count)} |", flush=True)
    named_texts = [(text, f"text {number}") for number, text in enumerate(texts, start=1)]
    total = sum(scored.total for scored in score_texts(predictor, named_texts))
    print(f"| GPT-2 mini | {perplexities(total, tokens, count)} |")

    (ids,) = tokenizer.encode_batch([PROMPT])
    generator = np.random.default_rng(0)
    for _ in range(24):
        ids.append(int(generator.choice(len(tokenizer), p=model.next(ids))))
    print(f"4-grams, sampled: {tokenizer.text_of(ids)}")
    answer = predictor(PROMPT, sample=True, top_p=0.95, max_new_tokens=24)
    print(f"GPT-2, sampled: {PROMPT}{answer.text}")
    answer = predictor(PROMPT, beam=4, max_new_tokens=24)
    print(f"GPT-2, beam search: {PROMPT}{answer.text}")


if __name__ == "__main__":
    main()
