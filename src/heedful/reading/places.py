"""Answers that are not where their file says: what can be learnt, and a count of the others."""

from collections.abc import Iterable, Iterator

from heedful.errors import UserError
from heedful.reading.squad import Question

_MISPLACED = 0.1
"""Share of answers that may be misplaced in data to learn from: more shows wrong offsets."""


def placed_answers(record: Question) -> list[tuple[int, str]]:
    """Return the answers that are where the file says."""
    return [
        (answer.start, answer.text) for answer in record.answers or () if answer.start is not None
    ]


class Places:
    """Counts answers, and those that are not where their file says."""

    def __init__(self) -> None:
        self.misplaced = 0
        self._answers = self._questions = 0
        self._first = ""

    def counted(self, records: Iterable[Question]) -> Iterator[Question]:
        """Yield records, and count their answers."""
        for record in records:
            self._answers += len(record.answers or ())
            if record.misplaced:
                self._first = self._first or f"{record.where}: {record.misplaced[0]}"
                self.misplaced += len(record.misplaced)
                self._questions += not placed_answers(record)
            yield record

    def check(self) -> None:
        """Refuse files of which many answers are misplaced.

        Raises:
            UserError: with the first of them.
        """
        if self.misplaced > _MISPLACED * self._answers:
            raise UserError(
                f"{self._first} ({self.misplaced:,} of {self._answers:,} answers are misplaced; "
                "starts count characters)"
            )

    def report(self, fate: str) -> str:
        """Say how many are misplaced, what becomes of them, and where the first is."""
        alone = f"; questions without another: {self._questions:,}" if self._questions else ""
        return (
            f"{self.misplaced:,} of {self._answers:,} answers are not where the file says, and are "
            f"{fate}{alone}; the first: {self._first}"
        )
