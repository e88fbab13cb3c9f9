"""Records with their truth in, scores out: while training, and for ``heedful evaluate``."""

from collections.abc import Iterable, Iterator
from itertools import count, islice, tee
from typing import Any

from heedful.predictor import Predictor
from heedful.settings import PredictSettings
from heedful.training import ranks

_TOGETHER = 1024


class Evaluation:
    """Answers to records that hold the truth, one after the other, and in the end their scores.

    It holds only some thousands at a time. Several processes share the answering.

    Args:
        predictor: of a run of the records' task.
        records: hold the truth.
        settings: how to compute; by default as the predictor was told.
    """

    def __init__(
        self, predictor: Predictor, records: Iterable[Any], settings: PredictSettings | None = None
    ) -> None:
        self._scores = predictor.task.scores()
        self._truths, copies = tee(records)
        self._answers = ranks.joined(
            lambda share: predictor.answers(
                share, settings, labelled=True, numbers=count(ranks.rank(), ranks.size())
            ),
            copies,
        )
        self._total = self._used = 0

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Yield each answer with its record, and count it.

        Raises:
            UserError: a record has a truth that the model does not know.
        """
        while answers := list(islice(self._answers, _TOGETHER)):
            records = list(islice(self._truths, len(answers)))
            with ranks.failing_together():
                self._scores.update(answers, records)
            self._total += sum(answer.tokens_total for answer in answers)
            self._used += sum(answer.tokens_used for answer in answers)
            yield from zip(answers, records, strict=True)

    def scores(self) -> dict[str, Any]:
        """Return the task's scores of all that was counted.

        Beside them are ``tokens_total`` and ``tokens_used``: of how many tokens of the texts how
        many were read.

        Raises:
            UserError: there was no record.
        """
        return self._scores.compute() | {
            "tokens_total": self._total,
            "tokens_used": self._used,
        }


def score_records(
    predictor: Predictor, records: Iterable[Any], settings: PredictSettings | None = None
) -> dict[str, Any]:
    """Score a predictor on records of its task; see `Evaluation`."""
    evaluation = Evaluation(predictor, records, settings)
    for _ in evaluation:
        pass
    return evaluation.scores()
