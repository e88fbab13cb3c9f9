"""Answers to a stream of records, shard by shard; several processes share the work on each."""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from heedful.batches import Example, Fitted
from heedful.predictor import Predictor
from heedful.reading.ahead import one_ahead
from heedful.task import Answer
from heedful.training import ranks

SHARD = 4096
"""Items of a shard for each process: enough to fill batches without padding."""


class Row(NamedTuple):
    """What is written for one item."""

    line: str
    cut: bool
    """Whether the model was given only a part of it."""


class Answered(NamedTuple):
    """A shard that is answered."""

    rows: list[Row] | None
    """In the order of its records; None on all processes but the first."""
    digest: str
    """Of its records, if that was asked for."""


def shards(
    predictor: Predictor,
    records: Iterable[Any],
    line: Callable[[Any], str],
    *,
    size: int,
    ahead: bool,
    digests: bool = False,
) -> Iterator[Answered]:
    """Answer for records, a shard at a time.

    Each process reads all records and answers its share of each shard. What a shard holds follows
    from its records and the number of processes alone.

    Args:
        predictor: answers.
        records: the same on all processes.
        line: writes an answer.
        size: items of a shard.
        ahead: whether the next records are read and encoded in a thread while answers are
            computed. Not where one may be long in coming, as on standard input.
        digests: whether to give a `digest` of the records of each shard.

    Raises:
        UserError: on all processes, what one of them met.
    """
    settings = predictor.settings

    def work() -> Iterator[tuple[list[Any], list[Fitted[Example]]] | str]:
        """Yield what is to be computed of this process's shares, and a digest after each shard."""
        source = iter(records)
        while (first := next(source, None)) is not None:
            shard, total = chain([first], islice(source, size - 1)), hashlib.sha256()
            read = _hashed(shard, total) if digests else shard
            share = islice(read, ranks.rank(), None, ranks.size())
            yield from predictor.encoded(share, settings)
            yield total.hexdigest()

    coming = one_ahead(work()) if ahead else work()
    while True:
        rows: list[Row] = []
        end: str | None = None
        with ranks.failing_together():
            for chunk in coming:
                if isinstance(chunk, str):
                    end = chunk
                    break
                answers = predictor.decode(*chunk, settings)
                rows += (_row(answer, line) for answer in answers)
        if end is None:
            return
        yield Answered(ranks.to_first(rows), end)


def digest(records: Iterable[Any]) -> str:
    """Return a hash of records: of the texts, the file and the line of each."""
    total = hashlib.sha256()
    deque(_hashed(records, total), maxlen=0)
    return total.hexdigest()


def _hashed(records: Iterable[Any], total: "hashlib._Hash") -> Iterator[Any]:
    for record in records:
        total.update(repr(record).encode(errors="surrogatepass"))
        yield record


def _row(answer: Answer, line: Callable[[Any], str]) -> Row:
    return Row(line(answer), answer.tokens_used < answer.tokens_total)
