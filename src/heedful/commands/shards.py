"""Answers to a stream of records, shard by shard; several processes share the work on each."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
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


def shards(
    predictor: Predictor,
    records: Iterable[Any],
    line: Callable[[Any], str],
    *,
    size: int,
    ahead: bool,
) -> Iterator[list[Row] | None]:
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

    Yields:
        The rows of each shard in the order of its records; None on all processes but the first.

    Raises:
        UserError: on all processes, what one of them met.
    """
    settings = predictor.settings

    def work() -> Iterator[tuple[list[Any], list[Fitted[Example]]] | None]:
        """Yield what is to be computed of this process's shares, and None where a shard ends."""
        source = iter(records)
        while (share := _share(source, size)) is not None:
            yield from predictor.encoded(share, settings)
            yield None

    coming = one_ahead(work()) if ahead else work()
    ended = False
    while not ended:
        rows: list[Row] = []
        with ranks.failing_together():
            ended = True
            for chunk in coming:
                if chunk is None:
                    ended = False
                    break
                answers = predictor.decode(*chunk, settings)
                rows += (_row(answer, line) for answer in answers)
        if not ended:
            yield ranks.to_first(rows)


def _share(source: Iterator[Any], size: int) -> list[Any] | None:
    """Take the next shard, and return this process's share of it; None if there is no more."""
    number, share = -1, []
    for number, record in enumerate(islice(source, size)):
        if number % ranks.size() == ranks.rank():
            share.append(record)
    return None if number < 0 else share


def _row(answer: Answer, line: Callable[[Any], str]) -> Row:
    return Row(line(answer), answer.tokens_used < answer.tokens_total)
