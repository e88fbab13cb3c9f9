"""``heedful train``: train a model on files, and write a run folder."""

import shutil
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from heedful.checkpoints.opening import after_restart
from heedful.checkpoints.runs import RunRecord
from heedful.commands.teacher_targets import FOLDER, generate_targets
from heedful.evaluation import score_records
from heedful.predictor import Predictor
from heedful.settings import PredictSettings
from heedful.task import Recipe, Say, Start
from heedful.tasks import task_named
from heedful.tasks.objectives.defaults import with_default_objective
from heedful.training import ranks, run
from heedful.training.fit import Outcome


def train(name: str, recipe: Recipe, *, say: Say = lambda line: None) -> Outcome | None:
    """Train a model for a task and write a run folder.

    Args:
        name: name of the task, a key of ``heedful.settings.TASKS``.
        recipe: all settings.
        say: called with each message for the user.

    Returns:
        The outcome of the training; None if the run is to be resumed but is finished.

    Raises:
        UserError: any wrong input; raised before anything is written where possible.
    """
    kind = task_named(name)
    training = recipe.training
    computing = PredictSettings(
        precision=training.precision,
        device=training.device,
        long_text=run.dev_rule(recipe),
        batch_tokens=training.answer_tokens,
        beam=kind.eval_num_beams,
    )

    def score(start: Start, record: RunRecord, records: Iterable[Any]) -> dict[str, Any]:
        """Score the current model like a finished run."""
        return score_records(Predictor(start.model, start.tokenizer, record, computing), records)

    with ranks.together():
        if not ranks.is_first():
            say = _discard
        recipe = with_default_objective(recipe)
        recipe = replace(recipe, run=after_restart(recipe.run, first=ranks.is_first()))
        outcome = run.train(kind, recipe, score=score, targets_of=generate_targets, say=say)
        if ranks.is_first():
            shutil.rmtree(recipe.run.out / FOLDER, ignore_errors=True)
    return outcome


def _discard(line: str) -> None:
    """Discard the message, since rank 0 shows it."""
