"""Records with their truth in, scores out: while training, and for ``heedful evaluate``."""

from collections.abc import Iterable
from itertools import islice, tee
from typing import Any

from heedful.predictor import Predictor
from heedful.settings import PredictSettings
from heedful.training import ranks

_TOGETHER = 1024


def score_records(
    predictor: Predictor, records: Iterable[Any], settings: PredictSettings | None = None
) -> dict[str, Any]:
    """Score a predictor on records of its task, holding only some thousands at a time.

    Args:
        predictor: of a run of the task.
        records: hold the truth.
        settings: how to compute; by default as the predictor was told.

    Returns:
        The task's scores, and ``tokens_total`` and ``tokens_used``: of how many tokens of the texts
        how many were read.

    Raises:
        UserError: there is no record, or one has a truth the model does not know.
    """
    scores = predictor.task.scores()
    truths, copies = tee(ranks.stream(records))
    answers = predictor.answers(copies, settings, labelled=True)
    total = used = 0
    while chunk := list(islice(answers, _TOGETHER)):
        scores.update(chunk, list(islice(truths, len(chunk))))
        total += sum(answer.tokens_total for answer in chunk)
        used += sum(answer.tokens_used for answer in chunk)
    return scores.compute() | {"tokens_total": total, "tokens_used": used}
