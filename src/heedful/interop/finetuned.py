"""Read task models fine-tuned in transformers; the model's head determines the task.

Such a folder has less information than a run. Missing settings follow the reference's pipelines:
one text or a pair, entities from the most likely tag of each word, and always an answer to a
question.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from heedful.checkpoints.runs import RunRecord, outside_record
from heedful.errors import UserError, join_names
from heedful.models import BertEncoderDecoder, Head
from heedful.models.loading import family_of, head_of, load_model, read_config
from heedful.models.model import Model
from heedful.models.pretrained import CONFIG
from heedful.readers import load_reader
from heedful.reading.tagging import parse_tag
from heedful.settings import AnswerSettings, PretrainSettings

Goal = tuple[str, dict[str, Any]]
"""The name of a task, and the fields of its class."""


def read_record(folder: Path) -> RunRecord | None:
    """Return the run record of a fine-tuned model folder; None for any other folder.

    Raises:
        UserError: a file is damaged, or the labels fit no task.
    """
    if not (folder / CONFIG).is_file() or (head := head_of(folder)) not in _GOALS:
        return None
    model_type, family = family_of(folder)
    if head == "seq2seq" and model_type != "encoder-decoder":
        return None  # a translation model without the tokenizers that `marian` requires
    model: Model = load_model(folder, memory_map=True, require_all_weights=True)
    if family.reads == "images":
        task, goal = _classify(folder, model, None)
        if task != "classify":
            raise UserError(
                f"{folder}: predicts a number for an image; heedful only classifies images"
            )
        goal |= {"pictures": True, "pairs": False}
        return outside_record(task, goal, model.max_positions)
    reader = load_reader(folder)
    task, goal = _GOALS[head](folder, model, reader)
    longest = model.default_length
    return outside_record(task, goal, min(reader.model_max_length or longest, longest))


def _classify(folder: Path, model: Model, reader: Any) -> Goal:
    config = read_config(folder)
    labels = list(config.id2label.values())
    kind = config.problem_type
    several = kind == "multi_label_classification"
    if kind == "regression" or (len(labels) == 1 and not several):
        if len(labels) > 1:
            raise UserError(
                f"{folder}: gives {len(labels)} numbers for a text; regress predicts one"
            )
        return "regress", {"pairs": None}
    return "classify", {"labels": labels, "multi_label": several, "pairs": None}


def _tag(folder: Path, model: Model, reader: Any) -> Goal:
    labels = list(read_config(folder).id2label.values())
    try:
        prefixes = {parse_tag(label).prefix for label in labels}
    except UserError:
        raise UserError(
            f"{folder}: its labels are {join_names(labels)}; tag finds entities, whose labels are "
            "O, and others such as B-PER"
        ) from None
    if "O" not in labels:
        raise UserError(f"{folder}: none of its labels is O, a word outside all entities")
    scheme = "IOBES" if prefixes >= {"B", "E", "S"} else "any"
    return "tag", {"labels": labels, "scheme": scheme, "label_pieces": "first"}


def _answer(folder: Path, model: Model, reader: Any) -> Goal:
    defaults = AnswerSettings()
    goal = {
        "no_answer": None,
        "threshold": defaults.no_answer_threshold,
        "stride": defaults.stride,
        "max_answer_tokens": defaults.max_answer_tokens,
    }
    return "answer", goal


def _choose(folder: Path, model: Model, reader: Any) -> Goal:
    return "choose", {"choices": None}


def _fill(folder: Path, model: Model, reader: Any) -> Goal:
    return _pretrained("mlm", model, reader)


def _fill_and_pair(folder: Path, model: Model, reader: Any) -> Goal:
    in_order = family_of(folder)[0] == "albert"
    return _pretrained("sop" if in_order else "mlm+nsp", model, reader)


def _pretrained(objective: str, model: Model, reader: Any) -> Goal:
    defaults = PretrainSettings()
    goal = {
        "preset": None,
        "positions": None,
        "position_type": defaults.position_type,
        "objective": objective,
        "mask_share": 0.15,
        "masking": defaults.masking,
        "max_predictions": defaults.max_predictions,
        "documents": defaults.documents,
        "sentences": defaults.sentences,
        "mask": reader.mask_token,
        "first_position": model.first_position,
    }
    return "pretrain", goal


def _write(folder: Path, model: Model, reader: Any) -> Goal:
    if isinstance(model, BertEncoderDecoder):
        model.check_vocabulary(folder)
    return "generate", {"pairs": isinstance(model, BertEncoderDecoder)}


_GOALS: dict[Head, Callable[[Path, Model, Any], Goal]] = {
    "sequence": _classify,
    "token": _tag,
    "span": _answer,
    "choice": _choose,
    "masked_lm": _fill,
    "pretraining": _fill_and_pair,
    "causal_lm": _write,
    "seq2seq": _write,
}
"""The task for each model head."""
