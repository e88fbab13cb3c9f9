"""Compute predictions for a stream of records in shards; processes share the work on each."""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from heedful.batches import Example, Fitted
from heedful.predictor import Predictor
from heedful.reading.prefetch import arriving, prefetch_one
from heedful.task import Answer
from heedful.training import ranks

SHARD = 4096
"""Number of items per shard and process: enough to fill batches with little padding."""


class Row(NamedTuple):
    """Output for one item."""

    line: str
    cut: bool
    """Whether the item was truncated for the model."""


class Answered(NamedTuple):
    """Predictions of a shard."""

    rows: list[Row] | None
    """Rows in the order of the records on rank 0; None on other ranks."""
    digest: str
    """Digest of the shard's records, if requested."""


def shards(
    predictor: Predictor,
    records: Iterable[Any],
    line: Callable[[Any], str],
    *,
    size: int,
    ahead: bool,
    digests: bool = False,
) -> Iterator[Answered]:
    """Compute predictions, one shard at a time.

    Each process reads all records and computes its share of each shard. The contents of a shard
    depend only on its records and the number of processes.

    Args:
        predictor: the predictor.
        records: the records, the same on all processes.
        line: function that formats a prediction.
        size: number of items per shard.
        ahead: whether a thread reads and encodes the next records during the computation. If
            not, a shard holds the records that have arrived, so that none waits for the next. This
            is for a source that may block for a long time, such as standard input.
        digests: whether to compute a `digest` of the records of each shard.

    Raises:
        UserError: an error on any process; raised on all processes.
    """
    settings = predictor.settings

    def work() -> Iterator[tuple[list[Any], list[Fitted[Example]]] | str]:
        """Yield the encoded chunks of this process's shares, and a digest after each shard."""
        for shard in _cut(records, size) if ahead else arriving(records, size):
            sha256 = hashlib.sha256()
            read = _hashed(shard, sha256) if digests else shard
            share = islice(read, ranks.rank(), None, ranks.size())
            yield from predictor.encoded(share, settings)
            yield sha256.hexdigest()

    chunks = prefetch_one(work()) if ahead else work()
    while True:
        rows: list[Row] = []
        shard_digest: str | None = None
        with ranks.failing_together():
            for chunk in chunks:
                if isinstance(chunk, str):
                    shard_digest = chunk
                    break
                answers = predictor.decode(*chunk, settings)
                rows += (_row(answer, line) for answer in answers)
        if shard_digest is None:
            return
        yield Answered(ranks.to_first(rows), shard_digest)


def _cut(records: Iterable[Any], size: int) -> Iterator[Iterable[Any]]:
    source = iter(records)
    while (first := next(source, None)) is not None:
        yield chain([first], islice(source, size - 1))


def digest(records: Iterable[Any]) -> str:
    """Return a hash of the texts, file and line of each record."""
    sha256 = hashlib.sha256()
    deque(_hashed(records, sha256), maxlen=0)
    return sha256.hexdigest()


def _hashed(records: Iterable[Any], sha256: "hashlib._Hash") -> Iterator[Any]:
    for record in records:
        sha256.update(repr(record).encode(errors="surrogatepass"))
        yield record


def _row(answer: Answer, line: Callable[[Any], str]) -> Row:
    return Row(line(answer), answer.tokens_used < answer.tokens_total)
