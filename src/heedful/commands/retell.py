"""``--teacher`` of texts: the student learns what the teacher writes (Kim & Rush 2016)."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from heedful.errors import UserError, amount
from heedful.files import new_folder
from heedful.predictor import Predictor
from heedful.settings import ColumnSettings, PredictSettings
from heedful.task import AnyTask, Recipe, Say
from heedful.training.progress import counted

FOLDER = "retold"
"""Folder of a run that keeps what the teacher wrote, until the run is finished."""

FILE = "pairs.jsonl"


def retell(task: AnyTask, recipe: Recipe, say: Say) -> Recipe:
    """Have the teacher write texts for those that the training data reads, by beam search.

    Of a run that is resumed they are already there, so that it goes on with the same.

    Args:
        task: what is learnt.
        recipe: names the teacher, and the share of the texts that it writes.
        say: takes a line for the user.

    Returns:
        The recipe, with what the teacher wrote as its training data.

    Raises:
        UserError: the teacher has learnt to go on with texts, rather than to read and write.
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
        if teacher.task.taught_by != "texts":
            raise UserError(f"--teacher {settings.teacher} continues texts; this run answers them")
        share = 1.0 if settings.teacher_weight is None else settings.teacher_weight
        written = 0
        with new_folder(folder) as new, (new / FILE).open("w", encoding="utf-8") as stream:
            for text, truth, answer in _answered(task, recipe, teacher):
                # Drawn for each pair alone, so that one draw more or less changes no other.
                drawn = random.Random(f"{training.seed} {written} {text}").random()
                label = answer if answer.strip() and drawn < share else truth
                stream.write(json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n")
                written += 1
        say(f"the teacher read {amount(written, 'text')} and wrote {share:.0%} of what is learnt")
    data = replace(recipe.data, train=[folder / FILE])
    return replace(recipe, data=data, columns=ColumnSettings())


def _answered(task: AnyTask, recipe: Recipe, teacher: Predictor) -> Iterator[tuple[str, str, str]]:
    """Yield each text that is read, the text that the data has for it, and the teacher's."""

    def records() -> Iterator[Any]:
        return task.read(recipe.data.train, recipe.columns, labelled=True)

    sources = teacher.predict(record.text for record in records())
    for record, answer in zip(records(), counted(sources, "texts written"), strict=True):
        truth = record.text_pair if record.labels is None else record.labels[0]
        yield record.text, truth or "", answer.plain()
