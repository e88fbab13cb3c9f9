"""Records with their truth in, scores out: while training, and for ``heedful evaluate``."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from heedful.predictor import Predictor
from heedful.settings import PredictSettings
from heedful.training import ranks

TOGETHER = 4096
"""Records that a process answers at once: enough to fill batches without padding."""

_DRAWS = 4096
"""Records after which what is drawn for each begins anew."""


class Memory(Protocol):
    """Outlasts a stop; see ``heedful.commands.kept``."""

    @property
    def size(self) -> int:
        """How many records come next."""

    def known(self, records: Sequence[Any]) -> Iterator[Sequence[Any]] | None:
        """Return what was computed of this process's share of them, if it was."""

    def add(self, records: Sequence[Any], outputs: Sequence[Sequence[Any]]) -> None:
        """Keep what was computed of this process's share of them."""


class Evaluation:
    """Answers to records that hold the truth, one after the other, and in the end their scores.

    It holds only some thousands at a time. Several processes share the answering.

    Args:
        predictor: of a run of the records' task.
        records: hold the truth.
        settings: how to compute; by default as the predictor was told.
        memory: of an evaluation that may be stopped.
    """

    def __init__(
        self,
        predictor: Predictor,
        records: Iterable[Any],
        settings: PredictSettings | None = None,
        memory: Memory | None = None,
    ) -> None:
        self._predictor, self._settings = predictor, settings or predictor.settings
        self._scores = predictor.task.scores()
        self._records, self._memory = iter(records), memory
        self._count = self._total = self._used = 0

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Yield each answer with its record, and count it.

        Raises:
            UserError: a record has a truth that the model does not know.
        """
        while records := self._next():
            answers = self._answers(records)
            self._count += len(records)
            with ranks.failing_together():
                self._scores.update(answers, records)
            self._total += sum(answer.tokens_total for answer in answers)
            self._used += sum(answer.tokens_used for answer in answers)
            yield from zip(answers, records, strict=True)

    def _next(self) -> list[Any]:
        size = self._memory.size if self._memory else TOGETHER * ranks.size()
        with ranks.failing_together():
            return list(islice(self._records, size))

    def _answers(self, records: Sequence[Any]) -> list[Any]:
        """Return the answers to the next records; each process computes its share."""
        known = self._memory.known(records) if self._memory else None
        answers, outputs = list[Any](), list[Sequence[Any]]()
        with ranks.failing_together():
            for answer, output in self._share(records, known):
                answers.append(answer)
                if self._memory and known is None:
                    outputs.append(output)
        if self._memory and known is None:
            self._memory.add(records, outputs)
        return ranks.to_all(answers)

    def _share(
        self, records: Sequence[Any], known: Iterator[Sequence[Any]] | None
    ) -> Iterator[tuple[Any, Sequence[Any]]]:
        """Yield this process's answers, and what the model computed for each."""
        predictor, settings = self._predictor, self._settings
        numbers = iter(range(self._count + ranks.rank(), self._count + len(records), ranks.size()))
        share = records[ranks.rank() :: ranks.size()]
        for some, encoded in predictor.encoded(share, settings, labelled=True):
            draws = [number % _DRAWS for number in islice(numbers, len(some))]
            computed = known or predictor.computed(encoded, settings, draws=draws)
            outputs = islice(computed, len(some))
            for record, fitted, output in zip(some, encoded, outputs, strict=True):
                answer = predictor.task.decode(
                    record, fitted, output, settings, predictor.tokenizer
                )
                yield answer, output

    def scores(self) -> dict[str, Any]:
        """Return the task's scores of all that was counted.

        Beside them are ``tokens_total`` and ``tokens_used``: of how many tokens of the texts how
        many were read.

        Raises:
            UserError: there was no record.
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
