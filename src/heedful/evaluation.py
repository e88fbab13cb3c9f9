"""Evaluate a model on labelled records: during training, and for ``heedful evaluate``."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

from heedful.predictor import Predictor
from heedful.settings import PredictSettings
from heedful.training import ranks

RECORDS_PER_STEP = 4096
"""Number of records per process and step: enough to fill batches with little padding."""

_ANSWERS_AT_ONCE = 256
"""Number of answers per process in memory: one may hold a number for each of many labels."""

_NUM_SEEDS = 4096
"""Number of records after which the records' seeds repeat."""


class OutputStore(Protocol):
    """Storage of model outputs that survives an interruption; see ``commands/``."""

    @property
    def size(self) -> int:
        """Number of records in the next step."""

    def get(self, records: Sequence[Any]) -> Iterator[Sequence[Any]] | None:
        """Return the stored outputs for this process's share of the records; None if missing."""

    def put(self, records: Sequence[Any], outputs: Sequence[Sequence[Any]]) -> None:
        """Store the outputs for this process's share of the records."""


class Evaluation:
    """Iterate over the predictions for labelled records, and compute their scores at the end.

    It holds only a few thousand records and a few hundred answers at a time. Several processes
    share the work.

    Args:
        predictor: predictor of a run of the records' task.
        records: labelled records.
        settings: prediction settings; the predictor's settings by default.
        memory: stored outputs of an evaluation that can be interrupted and resumed.
    """

    def __init__(
        self,
        predictor: Predictor,
        records: Iterable[Any],
        settings: PredictSettings | None = None,
        memory: OutputStore | None = None,
    ) -> None:
        settings = settings or predictor.settings
        # Of several samples, only the first is scored.
        self._settings = replace(settings, top=1) if settings.sample else settings
        self._predictor = predictor
        self._scores = predictor.task.scores()
        self._records, self._memory = iter(records), memory
        self._count = self._total = self._used = 0

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Yield each prediction with its record, and update the scores.

        Raises:
            UserError: a record has a label that the model does not know.
        """
        while records := self._next():
            part = iter(records)
            for answers in self._answers(records):
                answered = list(islice(part, len(answers)))
                with ranks.failing_together():
                    self._scores.update(answers, answered)
                self._total += sum(answer.tokens_total for answer in answers)
                self._used += sum(answer.tokens_used for answer in answers)
                yield from zip(answers, answered, strict=True)
            self._count += len(records)

    def _next(self) -> list[Any]:
        size = self._memory.size if self._memory else RECORDS_PER_STEP * ranks.size()
        with ranks.failing_together():
            return list(islice(self._records, size))

    def _answers(self, records: Sequence[Any]) -> Iterator[list[Any]]:
        """Yield some of the predictions for the next records; each process computes its share."""
        stored = self._memory.get(records) if self._memory else None
        outputs = list[Sequence[Any]]()
        share = self._share(records, stored)
        for _ in range(0, len(records), _ANSWERS_AT_ONCE * ranks.size()):
            answers = list[Any]()
            with ranks.failing_together():
                for answer, output in islice(share, _ANSWERS_AT_ONCE):
                    answers.append(answer)
                    if self._memory and stored is None:
                        outputs.append(output)
            yield ranks.to_all(answers)
        if self._memory and stored is None:
            self._memory.put(records, outputs)

    def _share(
        self, records: Sequence[Any], stored: Iterator[Sequence[Any]] | None
    ) -> Iterator[tuple[Any, Sequence[Any]]]:
        """Yield this process's predictions, each with the model's output."""
        predictor, settings = self._predictor, self._settings
        numbers = iter(range(self._count + ranks.rank(), self._count + len(records), ranks.size()))
        share = records[ranks.rank() :: ranks.size()]
        for chunk, encoded in predictor.encoded(share, settings, labelled=True):
            draws = [number % _NUM_SEEDS for number in islice(numbers, len(chunk))]
            computed = stored or predictor.computed(encoded, settings, draws=draws)
            outputs = islice(computed, len(chunk))
            for record, fitted, output in zip(chunk, encoded, outputs, strict=True):
                answer = predictor.task.decode(
                    record, fitted, output, settings, predictor.tokenizer
                )
                yield answer, output

    def scores(self) -> dict[str, Any]:
        """Return the task's scores over all records so far.

        Also returns ``tokens_total`` and ``tokens_used``: the number of tokens in the texts, and
        how many of them the model read.

        Raises:
            UserError: there were no records.
        """
        with ranks.failing_together():
            scores = self._scores.compute()
        return scores | {"tokens_total": self._total, "tokens_used": self._used}


def score_records(predictor: Predictor, records: Iterable[Any]) -> dict[str, Any]:
    """Score a predictor on records of its task; see `Evaluation`."""
    evaluation = Evaluation(predictor, records)
    for _ in evaluation:
        pass
    return evaluation.scores()
