"""``heedful train``: files in, a run folder out."""

import shutil
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from heedful.checkpoints.opening import after_restart
from heedful.checkpoints.runs import RunRecord
from heedful.commands.retell import FOLDER, retell
from heedful.evaluation import score_records
from heedful.predictor import Predictor
from heedful.settings import PredictSettings
from heedful.task import Recipe, Say, Start
from heedful.tasks import task_named
from heedful.tasks.objectives.usual import with_objective
from heedful.training import ranks, run
from heedful.training.fit import Outcome


def train(name: str, recipe: Recipe, *, say: Say = lambda line: None) -> Outcome | None:
    """Train a model for a task and leave a run folder.

    Args:
        name: of the task, a key of ``heedful.settings.TASKS``.
        recipe: all settings.
        say: takes each line meant for the user.

    Returns:
        How it ended; None where the run is to go on but is finished.

    Raises:
        UserError: wrong input of any kind, before anything is written where that can be told.
    """
    kind = task_named(name)
    training = recipe.training
    computing = PredictSettings(
        precision=training.precision,
        device=training.device,
        long_text=run.dev_rule(recipe),
        batch_tokens=training.answer_tokens,
        beam=kind.dev_beam,
    )

    def score(start: Start, record: RunRecord, records: Iterable[Any]) -> dict[str, Any]:
        """Score a model as it is, as a run of it would be scored."""
        return score_records(Predictor(start.model, start.tokenizer, record, computing), records)

    with ranks.together():
        if not ranks.is_first():
            say = _nothing
        recipe = with_objective(recipe)
        recipe = replace(recipe, run=after_restart(recipe.run, first=ranks.is_first()))
        outcome = run.train(kind, recipe, score=score, retell=retell, say=say)
        if ranks.is_first():
            shutil.rmtree(recipe.run.out / FOLDER, ignore_errors=True)
    return outcome


def _nothing(line: str) -> None:
    """Say nothing: the first process says it."""
