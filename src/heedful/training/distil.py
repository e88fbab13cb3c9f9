"""``--teacher``: learn what a finished run says, beside the labels (Hinton et al. 2015).

The loss is (1 - w) x that of the labels + w x that of the teacher's answers + h x that of the last
hidden states, each a mean of its own count (Sanh et al. 2019, section 3).

Shapes: N examples of a batch, T tokens of an example, D model width.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

import torch
from torch import Tensor

from heedful import losses
from heedful.batches import Batch
from heedful.checkpoints.runs import RunRecord
from heedful.compiled.model import compile_model
from heedful.errors import UserError, listed, option_of
from heedful.host import on_host, where_true
from heedful.interop import answering_record
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.models.weights import weight_files
from heedful.readers import load_reader
from heedful.reading import fingerprint
from heedful.settings import TeacherSettings, left_out
from heedful.task import AnyTask, Forward, Recipe, Say, Start
from heedful.training.device import in_precision
from heedful.training.gradients import ModelInputs

TEMPERATURE = 2.0
WEIGHT = 0.5

_SAME = ("pairs", "multi_label", "scheme", "label_pieces", "choices", "pooling", "objective")
"""What a teacher's run must have decided as the student's does, where both decide it."""

_FROM_SCRATCH = ("arch", "preset", "vocabulary", "vocab_size", "separate_vocabularies", "pre_norm")
"""Options that say what a model from scratch is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Distillation:
    """A task that is learnt from its labels and from a teacher."""

    task: AnyTask
    teacher: Model
    """In evaluation mode, and on the device and in the format to compute with."""
    temperature: float = TEMPERATURE
    weight: float = WEIGHT
    """Of the teacher's answers; the labels have the rest."""
    hidden_weight: float = 0.0
    """Of the last hidden states, in addition."""
    position_shift: int = 0
    """How far the teacher's first position is beyond the student's."""

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sums of the labels' losses, of the lessons', and of the hidden states'."""
        student = _Watched(forward, hidden=self.hidden_weight > 0)
        truth = self.task.loss(student, batch).reshape(-1)
        with torch.no_grad():
            told = self.teacher(**self._as_the_teacher_counts(student.inputs))
        sums = [(1 - self.weight) * truth]
        for lesson in self.task.lessons(batch):
            total = lesson.loss(student.output, told, self.temperature)
            sums.append(self.weight * total.reshape(1))
        if self.hidden_weight:
            distance = _hidden_distance(student, told)
            sums.append(self.hidden_weight * distance.reshape(1))
        return torch.cat([part.to(truth.dtype) for part in sums])

    def _as_the_teacher_counts(self, inputs: ModelInputs) -> ModelInputs:
        """Return inputs with positions, where they say some, from the teacher's first one on."""
        positions = inputs.get("position_ids")
        if positions is None or not self.position_shift:
            return inputs
        return {**inputs, "position_ids": positions + self.position_shift}

    def count(self, batch: Batch) -> Tensor:
        """Return what each of them is divided by."""
        counts = torch.as_tensor(self.task.count(batch)).double().reshape(-1).tolist()
        counts += [lesson.count for lesson in self.task.lessons(batch)]
        if self.hidden_weight:
            counts.append(batch.num_tokens)
        device = next(iter(batch.inputs.values())).device
        return torch.tensor(counts, dtype=torch.float64, device=device)


class _Watched:
    """A model that keeps what it was last given and what it returned.

    Args:
        forward: the model, or what calls it.
        hidden: whether it is to return its hidden states, too.
    """

    def __init__(self, forward: Forward, *, hidden: bool) -> None:
        self._forward, self._hidden = forward, hidden
        self.inputs: ModelInputs = {}
        self.output: Any = None

    def __call__(self, **inputs: Unpack[ModelInputs]) -> Any:
        """Call the model."""
        if self._hidden:
            inputs["output_hidden_states"] = True
        self.inputs = inputs
        self.output = self._forward(**self.inputs)
        return self.output


def _hidden_distance(student: _Watched, told: Any) -> Tensor:
    """Return the sum over the tokens of 1 - the cosine of both last hidden states."""
    rows, right = student.output.hidden_states[-1], told.hidden_states[-1]  # (N, T, D)
    mask = student.inputs.get("attention_mask")
    if mask is not None:
        real = on_host(mask).bool()
        if real.numel() != rows.shape[0] * rows.shape[1]:
            real = real.any(1)  # a row a query: padding is what none attends to
        tokens = where_true(real, rows.device)
        rows, right = (states.flatten(0, 1).index_select(0, tokens) for states in (rows, right))
    return losses.cosine_distance(rows.flatten(0, -2), right.flatten(0, -2))[0]


def teacher_record(settings: TeacherSettings, task: str) -> RunRecord | None:
    """Return what the teacher's run says of itself; None where there is no teacher.

    Raises:
        UserError: it is no finished run or what is like one, or one of another task.
    """
    if settings.teacher is None:
        return None
    record = answering_record(settings.teacher)
    if record.task != task:
        raise UserError(
            f"--teacher {settings.teacher} is a run of train {record.task}; "
            f"train {task} learns from a run of its own task"
        )
    return record


def teacher_print(settings: TeacherSettings) -> dict[str, Any] | None:
    """Return the file, the bytes and the SHA-256 of the teacher's weights, if there is one.

    Of weights in several files they are the folder, the bytes of all, and a hash of their hashes.
    """
    if settings.teacher is None:
        return None
    prints = fingerprint(weight_files(settings.teacher))
    if len(prints) == 1:
        return asdict(prints[0])
    shards = "".join(f"{Path(part.file).name}\0{part.sha256}\n" for part in prints)
    return {
        "file": str(settings.teacher),
        "bytes": sum(part.bytes for part in prints),
        "sha256": hashlib.sha256(shards.encode()).hexdigest(),
    }


def distillation(
    task: AnyTask,
    settings: TeacherSettings,
    start: Start,
    device: torch.device,
    dtype: torch.dtype,
) -> Distillation:
    """Load a teacher of scores, and check that it can teach what is to be learnt.

    Args:
        task: what is learnt.
        settings: name the teacher, and the weights.
        start: the student.
        device: where it is trained.
        dtype: the format of matrix products.

    Raises:
        UserError: it has learnt other labels, reads other tokens or fewer, or is of another width
            where that matters.
    """
    record = teacher_record(settings, task.name)
    assert settings.teacher is not None
    assert record is not None
    where = f"--teacher {settings.teacher}"
    _check_goal(where, task, record)
    tokenizer = load_reader(settings.teacher)
    if tokenizer.identity() != start.tokenizer.identity():
        raise UserError(
            f"{where} has another tokenizer than --model: both must make the same of "
            "what they read; --student-layers starts from the teacher"
        )
    teacher = load_model(settings.teacher, head=record.head)
    lesson = Distillation(
        task=task,
        teacher=teacher,
        temperature=TEMPERATURE if settings.temperature is None else settings.temperature,
        weight=WEIGHT if settings.teacher_weight is None else settings.teacher_weight,
        hidden_weight=settings.hidden_weight or 0.0,
        position_shift=teacher.first_position - start.model.first_position,
    )
    _check_models(where, lesson, start)
    in_precision(teacher, device, dtype).requires_grad_(False)
    return replace(lesson, teacher=compile_model(teacher).model.eval())


def check_teacher(task: AnyTask, settings: TeacherSettings) -> None:
    """Refuse a teacher where it has nothing to give, and options of scores where it writes texts.

    Raises:
        UserError: naming the option.
    """
    if settings.teacher is None:
        return
    if task.taught_by is None:
        raise UserError(f"--teacher: train {task.name} with these options learns nothing from one")
    if task.taught_by == "texts":
        why = "is for scores; this teacher writes texts"
        left_out(settings, ("temperature", "hidden_weight"), why)
    if task.taught_by == "values" and settings.temperature is not None:
        raise UserError(
            f"--temperature is for probabilities; a teacher of train {task.name} gives none"
        )


def _check_goal(where: str, task: AnyTask, record: RunRecord) -> None:
    for name in _SAME:
        mine, other = getattr(task, name, None), record.goal.get(name)
        if mine is None or other is None or mine == other:
            continue
        if other == "any":  # a tagger of another program
            raise UserError(
                f"{where} does not say what its tags mean; learn from its answers instead: those "
                "of heedful predict --plain are training data"
            )
        raise UserError(f"{where} learnt with {name} {other}; this run has {mine}")


def _check_models(where: str, lesson: Distillation, start: Start) -> None:
    teacher, student = lesson.teacher, start.model
    labels, known = (list(getattr(x.config, "id2label", {}).values()) for x in (student, teacher))
    # Of other tasks they are names of nothing, left from what a model was before.
    if hasattr(lesson.task, "labels") and labels != known:
        reordered = lesson.task.name == "classify" and sorted(labels) == sorted(known)
        way_out = f"; give --labels {','.join(known)}" if reordered else ""
        raise UserError(
            f"{where} has the labels {listed(known)}; the data has {listed(labels)}{way_out}"
        )
    if teacher.max_positions < start.max_length:
        raise UserError(
            f"{where} reads {teacher.max_positions} tokens at once; "
            f"give --max-length {teacher.max_positions}"
        )
    wide, narrow = (getattr(model.config, "hidden_size", 0) for model in (teacher, student))
    if wide != narrow and (lesson.hidden_weight or lesson.task.name == "embed"):
        compared = "hidden states" if lesson.hidden_weight else "vectors"
        raise UserError(
            f"{where} is {wide} wide and the student {narrow}: {compared} of two widths cannot be "
            "compared"
        )


def spread(total: int, kept: int) -> list[int]:
    """Choose blocks from the first to the last, as evenly as can be.

    Of 12 blocks 6 are 0, 2, 4, 7, 9 and 11, as in Sanh et al. 2019; of 6 blocks 3 are 0, 2 and 5.

    Args:
        total: how many there are.
        kept: how many to choose; of one, the first.
    """
    if kept == 1:
        return [0]
    return [(2 * number * (total - 1) + kept - 2) // (2 * (kept - 1)) for number in range(kept)]


def check_depth(kept: int, total: int) -> None:
    """Refuse a student that is no smaller than its teacher.

    Args:
        kept: how many layers it is to have.
        total: how many the teacher has that can be left out; see ``Model.num_blocks``.

    Raises:
        UserError: there are not so many to leave out.
    """
    if total == 0:
        raise UserError("--student-layers: the teacher has no layers that could be left out")
    if not 1 <= kept < total:
        allowed = f"1 to {total - 1}" if total > 1 else "none"
        raise UserError(f"--student-layers {kept}: the teacher has {total}; give {allowed}")


@contextmanager
def student_of(recipe: Recipe, say: Say) -> Iterator[Recipe]:
    """Yield the recipe of a run that starts from some layers of its teacher, if it does.

    They are in a folder of their own meanwhile, which stands for ``--model``.

    Raises:
        UserError: the teacher has not so many layers to spare, or another model is named, too.
    """
    settings = recipe.teaching
    if settings.student_layers is None:
        yield recipe
        return
    assert settings.teacher is not None
    if recipe.data.model not in (None, type(recipe.data).__dataclass_fields__["model"].default):
        raise UserError(
            f"--student-layers starts from --teacher, --model {recipe.data.model} from another: "
            "give one of them"
        )
    for item in fields(recipe.options):
        if item.name in _FROM_SCRATCH and getattr(recipe.options, item.name) != item.default:
            option = option_of(item.name)
            raise UserError(
                f"--student-layers starts from --teacher, {option} from scratch: give one of them"
            )
    model = load_model(settings.teacher, head=answering_record(settings.teacher).head)
    body = model.body
    total = body.num_blocks
    check_depth(settings.student_layers, total)
    blocks = spread(total, settings.student_layers)
    body.keep_blocks(blocks)
    names = listed([str(number + 1) for number in blocks])
    say(f"the student starts from layers {names} of the teacher's {total}")
    with TemporaryDirectory(prefix="heedful.") as folder:
        model.save_pretrained(Path(folder) / "student")
        load_reader(settings.teacher).save_pretrained(Path(folder) / "student")
        yield replace(recipe, data=replace(recipe.data, model=str(Path(folder) / "student")))
