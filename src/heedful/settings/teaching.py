"""Distillation settings that all tasks share."""

from dataclasses import dataclass, fields
from pathlib import Path

from heedful.settings.ranges import in_range, refuse_options


@dataclass(frozen=True, kw_only=True, slots=True)
class TeacherSettings:
    """A teacher, whose answers are learnt besides the labels, and their weight."""

    teacher: Path | None = None
    """Finished run of the same task whose answers the student also learns."""
    student_layers: int | None = None
    """Start from this many of the teacher's layers, evenly spread from first to last, instead of
    from --model."""
    temperature: float | None = None
    """Divisor of the logits of teacher and student before they are compared; default: 2."""
    teacher_weight: float | None = None
    """Weight of the teacher's answers in the loss; the labels have the rest. For generated texts,
    the share of texts that the teacher generates. Default: 0.5; for generated texts 1."""
    hidden_weight: float | None = None
    """Weight of an added loss: the cosine distance of the last hidden states; default: 0."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and options without a teacher.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("student_layers", self.student_layers, 1, 1000, what="from 1 to 1,000")
        in_range("temperature", self.temperature, 0.01, 1000, what="from 0.01 to 1,000")
        in_range("teacher_weight", self.teacher_weight, 0, 1, what="from 0 to 1")
        in_range("hidden_weight", self.hidden_weight, 0, 1e6, what="0 or above")
        if self.teacher is None:
            options = [field.name for field in fields(self)]
            refuse_options(self, options, "is for learning from a run: give --teacher too")
