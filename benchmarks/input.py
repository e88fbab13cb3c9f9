"""Measure the speed and memory of the input pipeline that streams pre-training data.

    python -m benchmarks.input [--times 1 10 100] [--workers 1] [--objective mlm+nsp]

The script writes shards of novels with shuffled paragraphs, and reads one epoch like a training
run, without a model. It times each stage separately: reading lines and documents, tokenizing,
cutting sequences, filling and shuffling the buffer, and collation with masking. The rates count
tokens without padding. The memory is the peak of the process, without memory-mapped files. With
several workers, the first three stages run there and are not timed separately.
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
from benchmarks.runner import ROOT

T = TypeVar("T")

SHARDS = 4
BUFFER, BATCH, LENGTH = 2048, 32, 128
STAGES = ("reader", "tokenizer", "sequences", "buffer", "collation")


# The data.


def write_shards(folder: Path, megabytes: int) -> None:
    """Write shards of novels; the novels repeat as needed, each time with shuffled paragraphs."""
    from heedful.reading.documents import read_documents

    novels = sorted(FOLDER.glob("gutenberg/*.txt.gz"))
    paragraphs = [document.text for document in read_documents(novels, "blank-line")]
    generator, left = random.Random(0), 0
    for shard in range(SHARDS):
        left += megabytes * 2**20 // SHARDS
        with (folder / f"{shard}.txt").open("w", encoding="utf-8") as file:
            while left > 0:
                generator.shuffle(paragraphs)
                for first in range(0, len(paragraphs), 20):
                    text = "\n".join(paragraphs[first : first + 20]) + "\n\n"
                    left -= len(text.encode())
                    file.write(text)
                    if left <= 0:
                        break


# One epoch, in a separate process.


@dataclass
class Clock:
    """Seconds of each stage."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))

    def timed(self, stage: str, items: Iterator[T]) -> Iterator[T]:
        """Yield the items, and time how long each takes to produce."""
        while True:
            started = time.perf_counter()
            item = next(items, None)
            self.seconds[stage] += time.perf_counter() - started
            if item is None:
                return
            yield item


def read_epoch(folder: Path, objective: Any, workers: int) -> dict[str, Any]:
    """Read an epoch of shards like a training run; return its tokens and each stage's seconds."""
    from heedful.batches.buckets import MAX_PADDING
    from heedful.batches.sentence_pairs import Frame
    from heedful.models.loading import bidirectional_option  # noqa: F401 (a training run has it in memory, too)
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
        time_stages(text, clock)
    shards = Shards(
        count=SHARDS,
        side_by_side=SHARDS,
        buffer=BUFFER,
        chunks=text.chunks,
        processes=workers,
    )
    training = TrainSettings(steps=1, batch_size=BATCH, batch_tokens=BATCH * LENGTH)
    stream = Stream(task, tokenizer, shards, training, by_length=False, max_padding=MAX_PADDING)
    tokens = fill = 0
    started = time.perf_counter()
    while fill == 0 or stream.epoch_of(fill - 1) == 0:
        stage_started, nested = time.perf_counter(), sum(clock.seconds.values())
        plan = stream.plan(fill)
        # Time to fill the buffer, without the stages that run inside it.
        nested = sum(clock.seconds.values()) - nested
        clock.seconds["buffer"] += time.perf_counter() - stage_started - nested
        if stream.epoch_of(fill) == 0:
            for step in plan:
                stage_started = time.perf_counter()
                batches = [stream.fetch(items, fill) for items in step]
                clock.seconds["collation"] += time.perf_counter() - stage_started
                tokens += sum(batch.num_tokens for batch in batches)
        fill += 1
    total = time.perf_counter() - started
    return {"tokens": tokens, "seconds": total, "stages": clock.seconds}


def time_stages(text: Any, clock: Clock) -> None:
    """Patch a sharded text, so that the clock times its stages."""
    from heedful.batches.corpus import tokenize_texts
    from heedful.batches.packed import pack
    from heedful.tasks import shards
    from heedful.tasks.shards import ShardedText

    texts = ShardedText.texts

    def read(self: ShardedText, shard: Path) -> Iterator[list[str]]:
        return clock.timed("reader", texts(self, shard))

    def timed_tokenize(*arguments: Any) -> Any:
        stage_started = time.perf_counter()
        documents = tokenize_texts(*arguments)
        clock.seconds["tokenizer"] += time.perf_counter() - stage_started
        return documents

    class TimedObjective:
        """An objective that times how long it takes to cut sequences."""

        pairs_documents = text.objective.pairs_documents

        def sequences(self, *arguments: Any, **options: Any) -> Any:
            stage_started = time.perf_counter()
            examples = list(text_objective.sequences(*arguments, **options))
            clock.seconds["sequences"] += time.perf_counter() - stage_started
            return examples

    def timed_pack(examples: Any) -> Any:
        stage_started = time.perf_counter()
        result = pack(examples)
        clock.seconds["sequences"] += time.perf_counter() - stage_started
        return result

    text_objective = text.objective
    object.__setattr__(text, "objective", TimedObjective())
    ShardedText.texts = read  # type: ignore[method-assign]
    mock.patch.multiple(shards, tokenize_texts=timed_tokenize, pack=timed_pack).start()


# The table.


def read_in_process(folder: Path, objective: str, workers: int) -> tuple[dict[str, Any], float]:
    """Read an epoch in a separate process; return its result and its peak memory in MiB."""
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
    """Return a row of the table: thousands of tokens per second, and MiB."""
    tokens = result["tokens"]
    rates = [tokens / seconds / 1000 if seconds else 0.0 for seconds in result["stages"].values()]
    cells = [f"{rate:,.0f}" if rate else "" for rate in rates]
    total = f"{tokens / result['seconds'] / 1000:,.0f}"
    return "| " + " | ".join([size, f"{tokens:,}", *cells, total, f"{peak:,.0f}"]) + " |"


def main() -> None:
    """Print a table with a row for each size."""
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
    print(f"| MiB | tokens | {' | '.join(STAGES)} | all, thousand tokens/s | peak MiB |")
    print("|---" * (len(STAGES) + 4) + "|")
    for times in options.times:
        with TemporaryDirectory() as name:
            folder = Path(name)
            write_words(folder / "words")
            write_shards(folder, options.megabytes * times)
            result, peak = read_in_process(folder, options.objective, options.workers)
        print(row(f"{options.megabytes * times:,}", result, peak), flush=True)


def write_words(folder: Path) -> None:
    """Write the vocabulary of the published cased models for English."""
    import gzip

    folder.mkdir()
    timed_pack = FOLDER / "tokenizers/english-cased/vocab.txt.gz"
    (folder / "vocab.txt").write_bytes(gzip.decompress(timed_pack.read_bytes()))


if __name__ == "__main__":
    main()
