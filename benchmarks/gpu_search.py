"""Compare heedful's speed of translation on one device with the reference's.

    python -m benchmarks.gpu_search [--size base] [--beam 5] [--batch 64] [--laps 5]
        [--precision bf16] [--device auto]

A Transformer trained on Multi30k (see ``benchmarks.runs``) translates the German sentences of
test_2016_flickr into English, from text to text. The reference is ``generate`` on the same model,
exported to Marian's format, with its fastest attention. Both use the same batch size and beam size,
and batch texts of similar length together. The two take turns, and each lap ends when all texts are
translated. The rates count the tokens of the human translations; the last column is the share of
equal texts. For a quick test: ``--device cpu --size small``.
"""

import argparse
import gzip
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from sacrebleu.metrics.bleu import BLEU

from benchmarks.data import FOLDER
from benchmarks.peers import translations as peers
from benchmarks.rows.classify import agreement
from benchmarks.runs import trained_run
from heedful import load
from heedful.checkpoints.runs import read_record
from heedful.interop import export
from heedful.tokens import TranslationTokenizer
from heedful.training.device import choose_device


def sentences_of(language: str, count: int) -> list[str]:
    """Return the first sentences of the test set in a language."""
    path = FOLDER / f"multi30k/test_2016_flickr.{language}.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return stream.read().splitlines()[:count]


def arms(run: Path, folder: Path, options: argparse.Namespace) -> dict[str, peers.Translate]:
    """Return for each library a function that translates texts."""
    device, precision = str(choose_device(options.device)), options.precision
    predictor = load(
        run, precision=precision, device=device, batch_size=options.batch, beam=options.beam
    )
    export(run, folder, "marian")
    reference = peers.generate(
        str(folder),
        beam=options.beam,
        longest=read_record(run).goal["longest"],
        batch=options.batch,
        sort=True,
        precision=precision,
        device=device,
    )
    return {
        "heedful": lambda texts: [answer.text for answer in predictor.predict(texts)],
        "reference": reference,
    }


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", default="base", choices=["small", "base"])
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64, help="batch size, in texts")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--precision", default="bf16", choices=["bf16", "fp32"])
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(words)
    run = trained_run(f"translate-{options.size}")
    source, truth = (sentences_of(language, options.sentences) for language in ("de", "en"))
    target = TranslationTokenizer.from_pretrained(run).target
    tokens = sum(len(ids) + 1 for ids in target.encode_batch(truth))
    times: dict[str, list[float]] = {"heedful": [], "reference": []}
    texts: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as work:
        sides = arms(run, Path(work) / "marian", options)
        for number in range(options.laps + 1):
            for name, translate in sides.items():
                started = time.perf_counter()
                texts[name] = translate(source)
                if number:  # the first lap warms up
                    times[name].append(time.perf_counter() - started)
    ratios = [
        theirs / ours for ours, theirs in zip(times["heedful"], times["reference"], strict=True)
    ]
    rates = " | ".join(f"{tokens / median(seconds):,.0f}" for seconds in times.values())
    scores = " | ".join(
        f"{BLEU().corpus_score(each, [truth]).score:.2f}" for each in texts.values()
    )
    print(
        "| size | beam | batch size | heedful, tokens/s | reference | times as fast | "
        "BLEU | reference | equal texts |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    print(
        f"| {options.size} | {options.beam} | {options.batch} | {rates} | {median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f}) | {scores} | {agreement(*texts.values()):.0%} |"
    )


if __name__ == "__main__":
    main()
