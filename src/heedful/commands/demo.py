"""``heedful demo``: fine-tune a pre-trained BERT to classify support tickets."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heedful.checkpoints.runs import RECORD, read_record
from heedful.commands.evaluate import evaluate
from heedful.commands.train import train
from heedful.errors import UserError, shell_word
from heedful.explanations.explaining import explain_record
from heedful.explanations.pictures import save_picture
from heedful.files import sha256
from heedful.metrics import confusion_table, scores_table
from heedful.predictor import Predictor
from heedful.settings import (
    ClassifySettings,
    ColumnSettings,
    DataSettings,
    ExplainSettings,
    PredictSettings,
    RunSettings,
    TrainSettings,
)
from heedful.sources import resolve
from heedful.task import Recipe

NEW_TICKETS = [
    "Hi, I was charged twice for October, could you send one payment back?",
    "the app just shows a white screen since this morning's update",
    "Parcel says delivered but there is nothing at my door",
    "do you have the blue one in size 42 and what would shipping to Norway be",
    "I can't sign in any more, the code never reaches my phone",
    "These headphones broke after a week. How do I send them back?",
]
TICKETS = Path(__file__).parents[1] / "tickets"
"""Folder of the data that heedful ships; ``examples/support_tickets`` describes it."""
TRAINING = TrainSettings(epochs=6, batch_size=16)


def run_demo(
    out: Path, data: Path, *, say: Callable[[str], None], show: Callable[[Any], None]
) -> dict[str, Any]:
    """Train and evaluate a model, classify a few new tickets and draw an explanation.

    Args:
        out: run folder to create; may be that of an earlier demo, which is replaced.
        data: folder with ``train.csv`` and ``test.csv``, with the columns ``text`` and ``label``.
        say: called with a message for each step.
        show: called with each table of scores.

    Returns:
        The scores on ``test.csv``.

    Raises:
        UserError: a file is missing, the model to start from is not installed, or ``out`` is in
            use.
    """
    for name in ("train.csv", "test.csv"):
        if not (data / name).is_file():
            raise UserError(f"--data {data}: no {name} in it")
    overwrite = (out / RECORD).is_file()
    if overwrite and not _is_demo(out, data):
        raise UserError(f"--out {out} holds a run that is not an earlier demo; give another folder")
    columns, settings = ColumnSettings(), DataSettings(train=[data / "train.csv"])
    resolve(settings.model)
    say(f"1. Training on {data / 'train.csv'}, starting from the pre-trained MiniLM")
    started = time.monotonic()
    recipe = Recipe(
        data=settings,
        options=ClassifySettings(),
        columns=columns,
        training=TRAINING,
        run=RunSettings(out=out, overwrite=overwrite),
    )
    train("classify", recipe, say=say)
    say(f"   trained in {time.monotonic() - started:.0f} s; the run folder is {out}")

    say(f"2. Scores on {data / 'test.csv'}, which it has not seen")
    predictor = Predictor.load(out)
    scores = evaluate(out, [data / "test.csv"], columns, predictor)
    show(scores_table(scores))
    show(confusion_table(scores))

    say("3. New tickets")
    for ticket, answer in zip(NEW_TICKETS, predictor.predict(NEW_TICKETS), strict=True):
        say(f"   {answer.label:<10} {answer.score:.2f}  {ticket}")

    picture = out / "attention.png"
    try:
        fp32 = Predictor.load(out, PredictSettings(precision="fp32"))
        (ticket,) = fp32.task.from_texts(NEW_TICKETS[:1])
        save_picture(explain_record(fp32, ticket, ExplainSettings()), picture)
        say(f"4. Explanation of the first answer: {picture}")
    except UserError as error:
        say(f"4. No explanation of the first answer: {error}")
    run = shell_word(str(out))
    say(f'Next: heedful predict {run} "your own text", or train on your own CSV (--help tells how)')
    return scores


def _is_demo(run: Path, data: Path) -> bool:
    """Return whether a run classifies and was trained on the data of the demo."""
    record = read_record(run)
    digests = [item["sha256"] for item in record.data]
    return record.task == "classify" and digests == [sha256(data / "train.csv")]
