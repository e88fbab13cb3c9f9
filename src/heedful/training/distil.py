"""``--teacher``: distill a finished run, in addition to the labels (Hinton et al. 2015).

The loss is (1 - w) x label loss + w x distillation loss + h x hidden-state loss, each a mean over
its own count (Sanh et al. 2019, section 3).

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
from heedful.device_transfer import get_host_copy, nonzero_indices
from heedful.errors import UserError, join_names, option_of
from heedful.interop import predictable_record
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.models.weights import weight_files
from heedful.readers import load_reader
from heedful.reading import fingerprint
from heedful.settings import TeacherSettings, refuse_options
from heedful.task import AnyTask, Forward, Recipe, Say, Start
from heedful.training.device import in_precision
from heedful.training.gradients import ModelInputs

TEMPERATURE = 2.0
WEIGHT = 0.5

_MATCHING_FIELDS = (
    "pairs",
    "multi_label",
    "scheme",
    "label_pieces",
    "choices",
    "pooling",
    "objective",
)
"""Task fields that must be equal for the teacher and the student if both have them."""

_FROM_SCRATCH = (
    *("arch", "preset", "vocabulary", "vocab_size", "separate_vocabularies"),
    *("label_smoothing", "pre_norm"),
)
"""Options that define a model trained from scratch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Distillation:
    """A task whose training targets are its labels and a teacher's outputs."""

    task: AnyTask
    teacher: Model
    """The teacher, in evaluation mode, on the training device and in the dtype of the products."""
    temperature: float = TEMPERATURE
    weight: float = WEIGHT
    """Weight w of the distillation loss; the label loss has weight 1 - w."""
    hidden_weight: float = 0.0
    """Weight h of the hidden-state loss."""
    position_shift: int = 0
    """Offset of the teacher's first position id from the student's."""

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the summed label losses, distillation losses and hidden-state loss."""
        student = _Recording(forward, hidden=self.hidden_weight > 0)
        label_losses = self.task.loss(student, batch).reshape(-1)
        with torch.no_grad():
            teacher_output = self.teacher(**self._with_teacher_positions(student.inputs))
        sums = [(1 - self.weight) * label_losses]
        for lesson in self.task.distillation_losses(batch):
            total = lesson.loss(student.output, teacher_output, self.temperature)
            sums.append(self.weight * total.reshape(1))
        if self.hidden_weight:
            distance = _hidden_distance(student, teacher_output)
            sums.append(self.hidden_weight * distance.reshape(1))
        return torch.cat([each.to(label_losses.dtype) for each in sums])

    def _with_teacher_positions(self, inputs: ModelInputs) -> ModelInputs:
        """Return the inputs with any position ids shifted to the teacher's first position."""
        positions = inputs.get("position_ids")
        if positions is None or not self.position_shift:
            return inputs
        return {**inputs, "position_ids": positions + self.position_shift}

    def loss_divisor(self, batch: Batch) -> Tensor:
        """Return the divisor of each summed loss."""
        counts = torch.as_tensor(self.task.loss_divisor(batch)).double().reshape(-1).tolist()
        counts += [lesson.divisor for lesson in self.task.distillation_losses(batch)]
        if self.hidden_weight:
            counts.append(batch.num_tokens)
        device = next(iter(batch.inputs.values())).device
        return torch.tensor(counts, dtype=torch.float64, device=device)


class _Recording:
    """A model that records its last inputs and output.

    Args:
        forward: the model, or a function that calls it.
        hidden: whether to return hidden states too.
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


def _hidden_distance(student: _Recording, teacher_output: Any) -> Tensor:
    """Return the cosine distance of the last hidden states, summed over the tokens."""
    # Each of shape (N, T, D).
    states, targets = student.output.hidden_states[-1], teacher_output.hidden_states[-1]
    mask = student.inputs.get("attention_mask")
    if mask is not None:
        is_token = get_host_copy(mask).bool()
        if is_token.numel() != states.shape[0] * states.shape[1]:
            # One row per query: padding is a key that no query attends to.
            is_token = is_token.any(1)
        tokens = nonzero_indices(is_token, states.device)
        states, targets = (each.flatten(0, 1).index_select(0, tokens) for each in (states, targets))
    return losses.cosine_distance(states.flatten(0, -2), targets.flatten(0, -2))[0]


def teacher_record(settings: TeacherSettings, task: str) -> RunRecord | None:
    """Return the record of the teacher's run; None without a teacher.

    Raises:
        UserError: the teacher is not a finished run or equivalent folder, or has another task.
    """
    if settings.teacher is None:
        return None
    record = predictable_record(settings.teacher)
    if record.task != task:
        raise UserError(
            f"--teacher {settings.teacher} is a run of train {record.task}; "
            f"train {task} learns from a run of its own task"
        )
    return record


def teacher_print(settings: TeacherSettings) -> dict[str, Any] | None:
    """Return the file, size in bytes and SHA-256 of the teacher's weights; None without a teacher.

    For sharded weights, these are the folder, the total size, and a hash of the hashes.
    """
    if settings.teacher is None:
        return None
    fingerprints = fingerprint(weight_files(settings.teacher))
    if len(fingerprints) == 1:
        return asdict(fingerprints[0])
    shards = "".join(f"{Path(part.file).name}\0{part.sha256}\n" for part in fingerprints)
    return {
        "file": str(settings.teacher),
        "bytes": sum(part.bytes for part in fingerprints),
        "sha256": hashlib.sha256(shards.encode()).hexdigest(),
    }


def distillation(
    task: AnyTask,
    settings: TeacherSettings,
    start: Start,
    device: torch.device,
    dtype: torch.dtype,
) -> Distillation:
    """Load a teacher whose scores are the targets, and check that it fits the student.

    Args:
        task: the student's task.
        settings: the teacher and the loss weights.
        start: the student.
        device: the training device.
        dtype: dtype of the matrix products.

    Raises:
        UserError: the teacher has other labels, another tokenizer or a smaller maximum length, or
            another width where widths must match.
    """
    record = teacher_record(settings, task.name)
    assert settings.teacher is not None
    assert record is not None
    where = f"--teacher {settings.teacher}"
    _check_goal(where, task, record)
    tokenizer = load_reader(settings.teacher)
    if tokenizer.identity() != start.tokenizer.identity():
        raise UserError(
            f"{where} has another tokenizer than --model, but both must produce the same tokens; "
            "--student-layers starts from the teacher"
        )
    teacher = load_model(settings.teacher, head=record.head)
    objective = Distillation(
        task=task,
        teacher=teacher,
        temperature=TEMPERATURE if settings.temperature is None else settings.temperature,
        weight=WEIGHT if settings.teacher_weight is None else settings.teacher_weight,
        hidden_weight=settings.hidden_weight or 0.0,
        position_shift=teacher.first_position - start.model.first_position,
    )
    _check_models(where, objective, start)
    in_precision(teacher, device, dtype).requires_grad_(False)
    return replace(objective, teacher=compile_model(teacher).model.eval())


def check_teacher(task: AnyTask, settings: TeacherSettings) -> None:
    """Reject a teacher for a task without distillation, and options that do not fit its kind.

    Raises:
        UserError: an option is invalid; the error names it.
    """
    if settings.teacher is None:
        return
    if task.teacher_output is None:
        raise UserError(
            f"--teacher: train {task.name} cannot learn from a teacher with these options"
        )
    if task.teacher_output == "texts":
        why = "is for teachers that give scores; this teacher generates texts"
        refuse_options(settings, ("temperature", "hidden_weight"), why)
    if task.teacher_output == "values" and settings.temperature is not None:
        raise UserError(
            f"--temperature is for probabilities; a teacher of train {task.name} gives none"
        )


def _check_goal(where: str, task: AnyTask, record: RunRecord) -> None:
    for name in _MATCHING_FIELDS:
        student_value, teacher_value = getattr(task, name, None), record.goal.get(name)
        if student_value is None or teacher_value is None or student_value == teacher_value:
            continue
        if teacher_value == "any":  # a tagger trained by another program
            raise UserError(
                f"{where} does not say what its tags mean; train on its answers instead, as "
                "heedful predict --plain writes them"
            )
        raise UserError(
            f"{where} was trained with {name} {teacher_value}; this run has {student_value}"
        )


def _check_models(where: str, lesson: Distillation, start: Start) -> None:
    teacher, student = lesson.teacher, start.model
    labels, teacher_labels = (
        list(getattr(x.config, "id2label", {}).values()) for x in (student, teacher)
    )
    # In other tasks, label names in the configuration are meaningless leftovers of an earlier task.
    if hasattr(lesson.task, "labels") and labels != teacher_labels:
        reordered = lesson.task.name == "classify" and sorted(labels) == sorted(teacher_labels)
        way_out = f"; give --labels {','.join(teacher_labels)}" if reordered else ""
        raise UserError(
            f"{where} has the labels {join_names(teacher_labels)}; "
            f"the data has {join_names(labels)}{way_out}"
        )
    if teacher.max_positions < start.max_length:
        raise UserError(
            f"{where} reads {teacher.max_positions} tokens at once; "
            f"give --max-length {teacher.max_positions}"
        )
    teacher_width, width = (getattr(model.config, "hidden_size", 0) for model in (teacher, student))
    if teacher_width != width and (lesson.hidden_weight or lesson.task.name == "embed"):
        compared = "hidden states" if lesson.hidden_weight else "vectors"
        raise UserError(
            f"{where} has width {teacher_width}, the student {width}: {compared} of different "
            "widths cannot be compared"
        )


def spread(total: int, kept: int) -> list[int]:
    """Choose evenly spaced blocks, from the first to the last.

    6 of 12 blocks are 0, 2, 4, 7, 9 and 11, as in Sanh et al. 2019; 3 of 6 blocks are 0, 2 and 5.

    Args:
        total: number of blocks.
        kept: number of blocks to keep; a single one is the first.
    """
    if kept == 1:
        return [0]
    return [(2 * number * (total - 1) + kept - 2) // (2 * (kept - 1)) for number in range(kept)]


def check_depth(kept: int, total: int) -> None:
    """Reject a student that is not smaller than its teacher.

    Args:
        kept: number of layers of the student.
        total: number of removable layers of the teacher; see ``Model.num_blocks``.

    Raises:
        UserError: the number of layers is out of range.
    """
    if total == 0:
        raise UserError("--student-layers: the teacher has no layers that could be left out")
    if not 1 <= kept < total:
        allowed = f"1 to {total - 1}" if total > 1 else "none"
        raise UserError(f"--student-layers {kept}: the teacher has {total}; give {allowed}")


@contextmanager
def student_of(recipe: Recipe, say: Say) -> Iterator[Recipe]:
    """Yield the recipe; with ``--student-layers``, the model starts from layers of its teacher.

    Inside the context the student is in a temporary folder, which replaces ``--model``.

    Raises:
        UserError: the teacher has too few layers, or the recipe also names a model.
    """
    settings = recipe.teaching
    if settings.student_layers is None:
        yield recipe
        return
    assert settings.teacher is not None
    if recipe.data.model not in (None, type(recipe.data).__dataclass_fields__["model"].default):
        raise UserError(
            f"--student-layers starts from --teacher, --model {recipe.data.model} from another "
            "model: give one of them"
        )
    for item in fields(recipe.options):
        if item.name in _FROM_SCRATCH and getattr(recipe.options, item.name) != item.default:
            option = option_of(item.name)
            raise UserError(
                f"--student-layers starts from --teacher, {option} from scratch: give one of them"
            )
    model = load_model(settings.teacher, head=predictable_record(settings.teacher).head)
    body = model.body
    total = body.num_blocks
    check_depth(settings.student_layers, total)
    blocks = spread(total, settings.student_layers)
    body.keep_blocks(blocks)
    names = join_names([str(number + 1) for number in blocks])
    say(f"the student starts from layers {names} of the teacher's {total}")
    with TemporaryDirectory(prefix="heedful.") as folder:
        model.save_pretrained(Path(folder) / "student")
        load_reader(settings.teacher).save_pretrained(Path(folder) / "student")
        yield replace(recipe, data=replace(recipe.data, model=str(Path(folder) / "student")))
