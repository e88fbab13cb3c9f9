"""Handle answers that are not at their stated offsets: skip and count them."""

from collections.abc import Iterable, Iterator

from heedful.errors import UserError
from heedful.reading.squad import Question

_MAX_MISPLACED_SHARE = 0.1
"""Maximum share of misplaced answers in training data. A larger share indicates wrong offsets."""


def aligned_answers(record: Question) -> list[tuple[int, str]]:
    """Return the answers that are at their stated offsets."""
    return [
        (answer.start, answer.text) for answer in record.answers or () if answer.start is not None
    ]


class MisplacedAnswers:
    """Counts answers, and answers that are not at their stated offsets."""

    def __init__(self) -> None:
        self.misplaced = 0
        self._answers = self._questions = 0
        self._first = ""

    def count(self, records: Iterable[Question]) -> Iterator[Question]:
        """Yield records, and count their answers."""
        for record in records:
            self._answers += len(record.answers or ())
            if record.misplaced:
                self._first = self._first or f"{record.where}: {record.misplaced[0]}"
                self.misplaced += len(record.misplaced)
                self._questions += not aligned_answers(record)
            yield record

    def check(self) -> None:
        """Refuse files with many misplaced answers.

        Raises:
            UserError: too many answers are misplaced. The message has the first of them.
        """
        if self.misplaced > _MAX_MISPLACED_SHARE * self._answers:
            raise UserError(
                f"{self._first} ({self.misplaced:,} of {self._answers:,} answers are misplaced; "
                "starts count characters)"
            )

    def report(self, fate: str) -> str:
        """Return a message with the number of misplaced answers, their fate and the first one."""
        unanswered = (
            f"; questions without any other answer: {self._questions:,}" if self._questions else ""
        )
        return (
            f"{self.misplaced:,} of {self._answers:,} answers are not at their stated offsets, and "
            f"are {fate}{unanswered}; the first: {self._first}"
        )
