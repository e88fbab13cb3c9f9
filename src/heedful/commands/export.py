"""``heedful export``: a run folder in, a folder in another program's layout out."""

from pathlib import Path

from heedful.checkpoints import marian, runs
from heedful.errors import UserError
from heedful.files import new_folder
from heedful.models import Transformer
from heedful.models.loading import load_model
from heedful.models.pretrained import CONFIG
from heedful.models.weights import WEIGHTS
from heedful.predictor import read_goal
from heedful.tasks import translate
from heedful.tokens import TranslationTokenizer
from heedful.tokens.translation import FILES

_WRITTEN = {CONFIG, WEIGHTS, marian.GENERATION, *FILES}


def export(run: Path, out: Path, *, overwrite: bool = False) -> None:
    """Write a run of translation as a folder of the reference's Marian models.

    Args:
        run: a finished run.
        out: the folder.
        overwrite: whether to replace what was exported there.

    Raises:
        UserError: the run cannot be such a model, or the folder exists, and ``overwrite`` is false
            or it holds anything else.
    """
    if out.exists() and not overwrite:  # now, not after all has been read
        raise UserError(f"{out} exists; choose another folder or give --overwrite")
    if out.is_file() or (out.is_dir() and {path.name for path in out.iterdir()} - _WRITTEN):
        raise UserError(f"--to {out} holds other files than a model; choose another folder")
    record = runs.read_record(run)
    if record.task != translate.TASK.name:
        raise UserError(f"{run}: learnt to {record.task}; Marian's models translate")
    if not runs.is_finished(run):
        raise UserError(f"{run}: training has not finished; go on with --resume")
    model = load_model(run)
    if not isinstance(model, Transformer):
        raise UserError(f"{run}: a recurrent network; Marian's models here are Transformers")
    tokenizer = TranslationTokenizer.from_pretrained(run)
    goal = read_goal(translate.Goal, record.goal)
    with new_folder(out, overwrite=overwrite) as folder:
        marian.write_marian(model, tokenizer, folder, longest=goal.longest)
