"""Sequence-level distillation: train the student on texts of a teacher (Kim & Rush 2016)."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from heedful.errors import UserError, count_of
from heedful.files import new_folder
from heedful.predictor import Predictor
from heedful.settings import ColumnSettings, PredictSettings
from heedful.task import AnyTask, Recipe, Say
from heedful.training.progress import counted

FOLDER = "retold"
"""Folder in a run folder for the teacher's texts, kept until the run is finished."""

FILE = "pairs.jsonl"


def generate_targets(task: AnyTask, recipe: Recipe, say: Say) -> Recipe:
    """Have the teacher generate target texts for the training data, by beam search.

    A resumed run already has the teacher's texts and reuses them.

    Args:
        task: the student's task.
        recipe: settings, with the teacher and the share of targets that it provides.
        say: called with each message for the user.

    Returns:
        The recipe, with the teacher's texts as training data.

    Raises:
        UserError: the teacher continues texts instead of mapping a source to a target.
    """
    settings, training = recipe.teaching, recipe.training
    assert settings.teacher is not None
    folder = recipe.run.out / FOLDER
    if not folder.is_dir():
        computing = PredictSettings(
            precision=training.precision,
            device=training.device,
            batch_tokens=training.answer_tokens,
        )
        teacher = Predictor.load(settings.teacher, computing)
        if teacher.task.teacher_output != "texts":
            raise UserError(
                f"--teacher {settings.teacher} continues texts; this run learns from pairs of texts"
            )
        share = 1.0 if settings.teacher_weight is None else settings.teacher_weight
        count = 0
        with new_folder(folder) as new, (new / FILE).open("w", encoding="utf-8") as stream:
            for text, target, output in _with_outputs(task, recipe, teacher):
                # Each pair has its own seed, so that its draw does not depend on other pairs.
                draw = random.Random(f"{training.seed} {count} {text}").random()
                label = output if output.strip() and draw < share else target
                stream.write(json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n")
                count += 1
        say(f"the teacher read {count_of(count, 'text')} and wrote {share:.0%} of the targets")
    data = replace(recipe.data, train=[folder / FILE])
    return replace(recipe, data=data, columns=ColumnSettings())


def _with_outputs(
    task: AnyTask, recipe: Recipe, teacher: Predictor
) -> Iterator[tuple[str, str, str]]:
    """Yield each source text, its target in the data, and the teacher's output."""

    def records() -> Iterator[Any]:
        return task.read(recipe.data.train, recipe.columns, labelled=True)

    outputs = teacher.predict(record.text for record in records())
    for record, answer in zip(records(), counted(outputs, "texts written"), strict=True):
        target = record.text_pair if record.labels is None else record.labels[0]
        yield record.text, target or "", answer.plain()
