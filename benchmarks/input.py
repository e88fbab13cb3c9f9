"""``python -m benchmarks.input``: what reading by stream costs, and the memory that it takes.

    python -m benchmarks.input [--times 1 10 100] [--workers 1] [--objective mlm+nsp]

It writes shards of novels, shuffled paragraph by paragraph, and reads one epoch of them as a run
does, without a model: the reader's lines and documents, the tokenizer, the cutting of sequences,
the filling and shuffling of the buffer, and collation with its masks. Each is timed apart, and
tokens are those of text. The memory is the most that the process holds of its own, mapped files
left out. With several workers the first three run in those, and are not told apart.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from unittest import mock

from benchmarks.data import FOLDER
from benchmarks.race import ROOT

T = TypeVar("T")

SHARDS = 4
BUFFER, BATCH, LENGTH = 2048, 32, 128
STAGES = ("reader", "tokenizer", "sequences", "buffer", "collation")


# What is read.


def write_shards(folder: Path, megabytes: int) -> None:
    """Write novels, paragraphs shuffled again for each time that they are needed."""
    from heedful.reading.documents import read_documents

    novels = sorted(FOLDER.glob("gutenberg/*.txt.gz"))
    paragraphs = [document.text for document in read_documents(novels, "blank-line")]
    draw, left = random.Random(0), 0
    for shard in range(SHARDS):
        left += megabytes * 2**20 // SHARDS
        with (folder / f"{shard}.txt").open("w", encoding="utf-8") as file:
            while left > 0:
                draw.shuffle(paragraphs)
                for first in range(0, len(paragraphs), 20):
                    text = "\n".join(paragraphs[first : first + 20]) + "\n\n"
                    left -= len(text.encode())
                    file.write(text)
                    if left <= 0:
                        break


# One epoch, in a process of its own.


@dataclass
class Clock:
    """Seconds of each stage."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))

    def timed(self, stage: str, items: Iterator[T]) -> Iterator[T]:
        """Pass items on, and time the making of each."""
        while True:
            started = time.perf_counter()
            item = next(items, None)
            self.seconds[stage] += time.perf_counter() - started
            if item is None:
                return
            yield item


def read_epoch(folder: Path, objective: Any, workers: int) -> dict[str, Any]:
    """Read an epoch of shards as a run does; return its tokens and the seconds of each stage."""
    from heedful.batches.buckets import MAX_PADDING
    from heedful.batches.sentence_pairs import Frame
    from heedful.models.loading import bidirectional_option  # noqa: F401 (what training has in memory, too)
    from heedful.settings import PretrainSettings, TrainSettings
    from heedful.task import Shards
    from heedful.tasks.objectives import OBJECTIVES
    from heedful.tasks.pretrain import Pretrain
    from heedful.tasks.shards import ShardedText
    from heedful.tokens import BertTokenizer
    from heedful.training.stream import Stream

    tokenizer = BertTokenizer.from_pretrained(folder / "words")
    text = ShardedText(
        shards=tuple(sorted(folder.glob("*.txt"))),
        layout="blank-line",
        sentences="punctuation",
        tokenizer=tokenizer,
        objective=OBJECTIVES[objective],
        frame=Frame(layout=tokenizer.layout, max_length=LENGTH),
        seed=0,
    )
    settings = PretrainSettings()
    task = Pretrain(
        preset=None,
        positions=None,
        position_type="absolute",
        objective=objective,
        mask_share=0.15,
        masking=settings.masking,
        max_predictions=None,
        documents=text.layout,
        sentences=text.sentences,
    )
    clock = Clock()
    if workers == 1:
        by_stage(text, clock)
    shards = Shards(
        count=SHARDS,
        side_by_side=SHARDS,
        buffer=BUFFER,
        chunks=text.chunks,
        processes=workers,
    )
    training = TrainSettings(steps=1, batch_size=BATCH, batch_tokens=BATCH * LENGTH)
    stream = Stream(task, tokenizer, shards, training, by_length=False, max_padding=MAX_PADDING)
    tokens = filling = 0
    started = time.perf_counter()
    while filling == 0 or stream.epoch_of(filling - 1) == 0:
        begun, inside = time.perf_counter(), sum(clock.seconds.values())
        plan = stream.plan(filling)
        # The filling but for what the lanes read meanwhile.
        inside = sum(clock.seconds.values()) - inside
        clock.seconds["buffer"] += time.perf_counter() - begun - inside
        if stream.epoch_of(filling) == 0:
            for step in plan:
                begun = time.perf_counter()
                batches = [stream.fetch(items, filling) for items in step]
                clock.seconds["collation"] += time.perf_counter() - begun
                tokens += sum(batch.num_tokens for batch in batches)
        filling += 1
    whole = time.perf_counter() - started
    return {"tokens": tokens, "seconds": whole, "stages": clock.seconds}


def by_stage(text: Any, clock: Clock) -> None:
    """Time the stages of a sharded text, wherever it is read."""
    from heedful.batches.corpus import tokenize_texts
    from heedful.batches.packed import pack
    from heedful.tasks import shards
    from heedful.tasks.shards import ShardedText

    texts = ShardedText.texts

    def read(self: ShardedText, shard: Path) -> Iterator[list[str]]:
        return clock.timed("reader", texts(self, shard))

    def tokenized(*arguments: Any) -> Any:
        begun = time.perf_counter()
        documents = tokenize_texts(*arguments)
        clock.seconds["tokenizer"] += time.perf_counter() - begun
        return documents

    class Cut:
        """An objective whose cutting is timed."""

        pairs_documents = text.objective.pairs_documents

        def sequences(self, *arguments: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            examples = list(text_objective.sequences(*arguments, **options))
            clock.seconds["sequences"] += time.perf_counter() - begun
            return examples

    def packed(examples: Any) -> Any:
        begun = time.perf_counter()
        result = pack(examples)
        clock.seconds["sequences"] += time.perf_counter() - begun
        return result

    text_objective = text.objective
    object.__setattr__(text, "objective", Cut())
    ShardedText.texts = read  # type: ignore[method-assign]
    mock.patch.multiple(shards, tokenize_texts=tokenized, pack=packed).start()


# The table.


def measured(folder: Path, objective: str, workers: int) -> tuple[dict[str, Any], float]:
    """Read an epoch in a process of its own; return what it says, and the MiB that it held."""
    words = ["-m", "benchmarks.input", "--read", str(folder)]
    program = subprocess.Popen(
        [sys.executable, *words, "--objective", objective, "--workers", str(workers)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    status, peak = Path(f"/proc/{program.pid}/status"), 0
    while program.poll() is None:
        for line in status.read_text().splitlines():
            if line.startswith("RssAnon:"):
                peak = max(peak, int(line.split()[1]))
        time.sleep(0.01)
    assert program.stdout is not None
    if program.returncode:
        raise SystemExit("reading failed")
    return json.loads(program.stdout.read()), peak / 1024


def row(size: str, result: dict[str, Any], peak: float) -> str:
    """Return a line of the table: thousands of tokens a second, and MiB."""
    tokens = result["tokens"]
    rates = [tokens / seconds / 1000 if seconds else 0.0 for seconds in result["stages"].values()]
    cells = [f"{rate:,.0f}" if rate else "" for rate in rates]
    whole = f"{tokens / result['seconds'] / 1000:,.0f}"
    return "| " + " | ".join([size, f"{tokens:,}", *cells, whole, f"{peak:,.0f}"]) + " |"


def main() -> None:
    """Print a table with a line for each size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=1)
    parser.add_argument("--times", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--objective", default="mlm+nsp")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(read_epoch(options.read, options.objective, options.workers)))
        return
    print(f"| MiB | tokens | {' | '.join(STAGES)} | all, thousand tokens/s | most MiB |")
    print("|---" * (len(STAGES) + 4) + "|")
    for times in options.times:
        with TemporaryDirectory() as name:
            folder = Path(name)
            write_words(folder / "words")
            write_shards(folder, options.megabytes * times)
            result, peak = measured(folder, options.objective, options.workers)
        print(row(f"{options.megabytes * times:,}", result, peak), flush=True)


def write_words(folder: Path) -> None:
    """Write the vocabulary of the published models for English, with capitals."""
    import gzip

    folder.mkdir()
    packed = FOLDER / "tokenizers/english-cased/vocab.txt.gz"
    (folder / "vocab.txt").write_bytes(gzip.decompress(packed.read_bytes()))


if __name__ == "__main__":
    main()
