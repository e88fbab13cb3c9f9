"""Ids of real texts: heedful in plain Python, the compiled reference with one thread.

For each data set two rows, since our tokenizer remembers what it met: the first time that a new
tokenizer sees the texts, and every later time, as in the second epoch of training. The reference
has nothing to remember and is measured anew each time all the same, interleaved with ours.
"""

import atexit
import gzip
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.data import FOLDER, ag_news
from heedful.sources import resolve
from heedful.tokens import BertTokenizer, RobertaTokenizer

REPETITIONS = 7


def wikitext() -> list[str]:
    """Read the lines of Wikitext-2."""
    lines: list[str] = []
    for part in ("valid", "test"):
        with gzip.open(FOLDER / f"wikitext2/wiki.{part}.raw.gz", "rt", encoding="utf-8") as stream:
            lines += stream.read().split("\n")
    return lines


def data_sets() -> dict[str, list[str]]:
    """Read the texts, titles joined to what follows them, by the name of their data set."""
    records = [*ag_news("train_pool"), *ag_news("test")]
    return {
        "AG News": [record.text for record in records],
        "Wikitext-2": wikitext(),
    }


def roberta() -> Path:
    """Unpack RoBERTa's vocabulary and its tokenizer of the reference, for as long as we run."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    for name in ("vocab.json", "merges.txt", "tokenizer.json"):
        with gzip.open(FOLDER / f"tokenizers/roberta-base/{name}.gz") as packed:
            (folder / name).write_bytes(packed.read())
    return folder


def peer(folder: Path) -> Callable[[list[str]], list[list[int]]]:
    """Make the reference's fastest way to the ids of many texts, with one thread."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"
    from tokenizers import Tokenizer

    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    reference.no_truncation()
    reference.no_padding()

    def encode(texts: list[str]) -> list[list[int]]:
        return [e.ids for e in reference.encode_batch_fast(texts, add_special_tokens=False)]

    return encode


def seconds(encode: Callable[[list[str]], Any], texts: list[str]) -> float:
    """Measure one pass over the texts."""
    started = time.perf_counter()
    encode(texts)
    return time.perf_counter() - started


def run() -> Iterator[dict[str, object]]:
    """Give two rows for each tokenizer and data set: the first time and later times."""
    yield from _rows("tokenize", resolve("minilm"), BertTokenizer.from_pretrained)
    yield from _rows("tokenize bytes of", roberta(), RobertaTokenizer.from_pretrained)


def _rows(
    verb: str, folder: Path, load: Callable[[Path], BertTokenizer | RobertaTokenizer]
) -> Iterator[dict[str, object]]:
    reference = peer(folder)
    for name, texts in data_sets().items():
        ids = load(folder).encode_batch(texts)
        assert ids == reference(texts), f"{name}: the ids differ, so no time means anything"
        tokens = sum(map(len, ids))
        del ids
        first, later, theirs = [], [], []
        for _ in range(REPETITIONS):
            tokenizer = load(folder)
            first.append(seconds(tokenizer.encode_batch, texts))
            theirs.append(seconds(reference, texts))
            later.append(seconds(tokenizer.encode_batch, texts))
        for when, ours in (("first time", first), ("later times", later)):
            yield {
                "name": f"{verb} {name}, {when}",
                "ours": tokens / min(ours),
                "peer": tokens / min(theirs),
                "ratio": min(theirs) / min(ours),
                "unit": "tokens/s",
                "quality": f"all {tokens:,} ids equal",
            }


if __name__ == "__main__":
    for row in run():
        print(f"{row['name']}: {row['ratio']:.1f} times the peer ({row['quality']})")
