"""Answers shard by shard."""

import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heedful import predictor as module
from heedful.commands.shards import Row, shards
from heedful.errors import UserError
from heedful.predictor import Predictor
from heedful.reading import Record
from heedful.settings import PredictSettings
from heedful.tasks.texts import text_records

GOLDEN = Path(__file__).parents[1] / "golden/0.1.0/classify"
TEXTS = ["bread", "a train to the sea", "soup", "rain", "the station", "cheese and bread", "wind"]


def answered(records: Iterable[Record], *, size: int, ahead: bool) -> Iterator[list[Row]]:
    predict = Predictor.load(GOLDEN, PredictSettings(precision="fp32"))

    def line(answer: Any) -> str:
        return f"{answer.label} {answer.score:.4f}"

    for shard in shards(predict, records, line, size=size, ahead=ahead):
        assert shard.rows is not None
        yield shard.rows


@pytest.fixture(autouse=True)
def few_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SORTED_TOGETHER", 2)
    monkeypatch.setattr(sys.modules["heedful.batches.features"], "_CHUNK_TEXTS", 2)


@pytest.mark.parametrize("ahead", [False, True])
def test_shards_hold_the_answers_of_one_call(ahead: bool) -> None:
    (whole,) = answered(text_records(TEXTS), size=100, ahead=ahead)
    parts = list(answered(text_records(TEXTS), size=3, ahead=ahead))
    assert [len(rows) for rows in parts] == [3, 3, 1]
    assert [row for rows in parts for row in rows] == whole
    assert list(answered([], size=3, ahead=ahead)) == []


def test_records_that_may_be_long_in_coming_are_not_waited_for() -> None:
    more = threading.Event()

    def slow() -> Iterator[Record]:
        yield from text_records(TEXTS[:2])
        assert more.wait(timeout=60)
        yield from text_records(TEXTS[2:])

    coming = answered(slow(), size=3, ahead=False)
    assert len(next(coming)) == 2
    more.set()
    assert [len(rows) for rows in coming] == [3, 2]


def test_an_error_of_a_later_record_comes_after_the_answers_before_it() -> None:
    def broken() -> Iterator[Record]:
        yield from text_records(TEXTS[:2])
        raise UserError("mine.csv, line 4: expected text")

    coming = answered(broken(), size=2, ahead=True)
    assert len(next(coming)) == 2
    with pytest.raises(UserError, match="line 4"):
        next(coming)
