"""A run folder as a function from text to answers.

The command line, evaluation during and after training, and Python all go through here, so that
they cannot differ.
"""

import copy
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from itertools import islice, tee
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.batches import Draw, Example, Fitted, plan_pass
from heedful.batches.buckets import PASS_PADDING
from heedful.checkpoints import runs
from heedful.checkpoints.marian import read_longest
from heedful.checkpoints.runs import RunRecord
from heedful.errors import UserError
from heedful.models import BertConfig, TransformerConfig
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.reading import Text
from heedful.settings import PredictSettings
from heedful.sources import PACKAGES, resolve
from heedful.tasks import Fit, Task, embed, task_named, translate
from heedful.tasks.sentence_folder import is_sentence_folder, read_layout
from heedful.tokens.translation import is_translation_folder
from heedful.training.device import choose_device, choose_precision

# Examples sorted by length together: enough to fill batches without padding, few enough that memory
# does not grow with the file.
_SORTED_TOGETHER = 4096
_DEFAULT = PredictSettings()


class Predictor:
    """Answers with a model.

    Args:
        model: the model; it is not changed, and a copy is made where the precision asks for one.
        tokenizer: its tokenizer.
        record: what the run folder says of it.
        settings: how to compute.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Any,
        record: RunRecord,
        settings: PredictSettings = _DEFAULT,
    ) -> None:
        self.task = task_named(record.task)
        check_options(self.task, settings)
        self.goal = read_goal(self.task.goal, record.goal)
        self.device = choose_device(settings.device)
        self.precision = choose_precision(settings.precision, self.device)
        self.tokenizer = tokenizer
        self.record = record
        self.settings = settings
        self.max_length = check_max_length(
            settings.max_length or record.max_length, model.max_positions
        )
        self.model = inference_copy(model, self.precision.dtype, self.device)

    @classmethod
    def load(cls, run: str | os.PathLike[str], settings: PredictSettings = _DEFAULT) -> "Predictor":
        """Load a finished run.

        A folder of sentence-transformers is like one of embed, and a Marian folder of the
        reference like one of translate.

        Raises:
            UserError: the folder is none of these, is unfinished, or one of its files is damaged.
        """
        folder = resolve(run) if os.fspath(run) in PACKAGES else Path(run)
        own = (folder / runs.RECORD).is_file()
        if not own and is_sentence_folder(folder):
            record = _record_of_vectors(folder)
        elif not own and is_translation_folder(folder):
            record = _record_of_translation(folder)
        else:
            record = runs.read_record(folder)
            if not runs.is_finished(folder):
                raise UserError(f"{folder}: training has not finished; go on with --resume")
        task = task_named(record.task)
        model = load_model(folder, head=task.head)
        return cls(model, task.load_tokenizer(folder), record, settings)

    def __call__(self, texts: Text | Sequence[Text]) -> Any:
        """Answer for one text (or a pair as a tuple), or for a list of them.

        Returns:
            The answer of the run's task, or a list of them.
        """
        if isinstance(texts, str | tuple):
            return next(self.predict([texts]))
        return list(self.predict(texts))

    def predict(self, texts: Iterable[Text]) -> Iterator[Any]:
        """Answer for each text, or pair, in its order, holding only some thousands at a time."""
        source = iter(texts)
        while chunk := list(islice(source, _SORTED_TOGETHER)):
            yield from self.answers(self.task.from_texts(chunk))

    def answers(self, records: Iterable[Any], *, labelled: bool = False) -> Iterator[Any]:
        """Answer for each record of the task, in its order, holding only some thousands at a time.

        Args:
            records: as the task's ``read`` gives them.
            labelled: whether to encode their truth too, for scoring.
        """
        records, copies = tee(records)
        fit = Fit(max_length=self.max_length, rule=self.settings.long_text)
        encoded = self.task.encode(copies, self.goal, self.tokenizer, fit, labelled)
        while chunk := _gather(encoded):
            outputs = self._compute(chunk, labelled)
            for record, fitted in zip(islice(records, len(chunk)), chunk, strict=True):
                own = [next(outputs) for _ in fitted.pieces]
                yield self.task.decode(
                    record, fitted, own, self.goal, self.settings, self.tokenizer
                )

    @torch.inference_mode()
    def _compute(self, items: Sequence[Fitted[Example]], labelled: bool) -> Iterator[Any]:
        """Return what the task computes for each example of the items, in order, on the CPU."""
        examples = [example for item in items for example in item.pieces]
        found: list[Any] = [None] * len(examples)
        for places in plan_pass(
            [len(example.ids) for example in examples],
            batch_tokens=self.settings.batch_tokens,
            max_items=_most_items(self.settings),
            # Writing takes a step for each token of a batch's longest text, whatever else is in it:
            # one batch more costs far more than what padding there is to read.
            most_padding=math.inf if _writes(self.task) else PASS_PADDING,
        ):
            chosen = [examples[place] for place in places]
            draw = Draw(seed=0, epoch=0, rows=np.asarray(places)) if labelled else None
            batch = self.task.batch_of(chosen, self.goal, self.tokenizer, draw).to(self.device)
            rows = self.task.compute(self.model, batch, self.goal, self.settings)
            rows = rows.cpu() if isinstance(rows, Tensor) else rows
            for place, row in zip(places, rows, strict=True):
                found[place] = row
        return iter(found)


def _most_items(settings: PredictSettings) -> int:
    """Return how many texts are computed at once: fewer where many are written for each."""
    written = settings.top if settings.sample else settings.beam
    return max(1, settings.batch_size // max(1, written // _DEFAULT.beam))


def _record_of_vectors(folder: Path) -> RunRecord:
    """Say what a folder of sentence-transformers is, as a run would."""
    layout = read_layout(folder)
    positions = BertConfig.read(folder / "config.json").max_position_embeddings
    goal = embed.Goal(pooling=layout.pooling, normalise=layout.normalise)
    return _record(embed.TASK, goal, min(layout.max_length or positions, positions))


def _record_of_translation(folder: Path) -> RunRecord:
    """Say what a Marian folder is, as a run would."""
    positions = TransformerConfig.read(folder / "config.json").max_position_embeddings
    longest = min(read_longest(folder) or positions, positions)
    return _record(translate.TASK, translate.Goal(longest=longest), positions)


def _record(task: Task, goal: Any, max_length: int) -> RunRecord:
    return RunRecord(
        task=task.name,
        goal=asdict(goal),
        max_length=max_length,
        settings={},
        data=[],
        versions={},
    )


def _gather(encoded: Iterator[Fitted[Example]]) -> list[Fitted[Example]]:
    """Take the next items, until they have examples enough."""
    items, examples = [], 0
    while examples < _SORTED_TOGETHER and (item := next(encoded, None)) is not None:
        items.append(item)
        examples += max(len(item.pieces), 1)  # an empty text may have none
    return items


def read_goal(kind: type[Any], values: dict[str, Any]) -> Any:
    """Build a task's goal from what ``heedful.json`` holds.

    Raises:
        UserError: a key is missing or unknown, or its value of another type.
    """
    wrong = UserError(f"heedful.json: its goal does not fit the task: {values}")
    try:
        goal = kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in values.items()})
    except TypeError:
        raise wrong from None
    for item in fields(kind):
        if item.type in (bool, int, str) and type(getattr(goal, item.name)) is not item.type:
            raise wrong
    return goal


_EVERY_TASK = frozenset(
    {"precision", "device", "long_text", "max_length", "batch_size", "batch_tokens", "top"}
)


def check_options(task: Task, settings: PredictSettings) -> None:
    """Refuse an option that would change nothing.

    Raises:
        UserError: it is one of other tasks, or decides draws where none are drawn.
    """
    for field in fields(PredictSettings):
        option = "--" + field.name.replace("_", "-")
        if getattr(settings, field.name) == field.default or field.name in _EVERY_TASK:
            continue
        if field.name not in task.answer_options:
            raise UserError(f"{option} decides nothing where a run learnt to {task.name}")
        if field.name in ("temperature", "top_k", "top_p", "seed") and not settings.sample:
            raise UserError(f"{option} decides how words are drawn: give --sample too")
        if field.name in ("beam", "length_penalty", "coverage_penalty") and settings.sample:
            raise UserError(f"{option} searches and --sample draws: give one of them")
    if _writes(task) and not settings.sample:
        top, beam = settings.top, settings.beam
        if top != _DEFAULT.top and top > beam:
            raise UserError(f"--top {top}: a search keeps --beam {beam} texts; give a wider beam")


def _writes(task: Task) -> bool:
    return "beam" in task.answer_options


def check_max_length(max_length: int, positions: int) -> int:
    """Check a length against the positions a model has.

    Raises:
        UserError: it is above them, or too short for a text at all.
    """
    if not 8 <= max_length <= positions:
        raise UserError(
            f"--max-length {max_length}: this model has {positions} positions; "
            f"give a length from 8 to {positions}"
        )
    return max_length


def inference_copy(model: nn.Module, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """Return the model in evaluation mode in a number format; a copy if that changes anything."""
    parameter = next(model.parameters())
    if parameter.dtype is not dtype or parameter.device != device:
        model = copy.deepcopy(model).to(device=device, dtype=dtype)
    return model.eval()


def load(run: str | os.PathLike[str], settings: PredictSettings = _DEFAULT) -> Predictor:
    """Load a finished run as a function from text to answer: ``load("runs/tickets")("a text")``."""
    return Predictor.load(run, settings)
