"""What a task's items are: texts, or pictures. A task that takes either asks its medium."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from heedful.aim import Cover, Side
from heedful.batches import Batch, Draw, Example, Fitted
from heedful.settings import ColumnSettings
from heedful.task import Fit, Input, Recipe, Start

LabelsOf = Callable[[Any], tuple[float, ...]]
"""A record to the labels of its examples."""


class Medium(Protocol):
    """What reads items, and turns them into what a model reads.

    Where a method has a ``reader`` it is what a run folder says of this: a tokenizer, or an
    ``ViTImageProcessor``.
    """

    @property
    def inputs(self) -> tuple[Input, ...]:
        """See ``Task.inputs``."""

    @property
    def example(self) -> str:
        """See ``Task.example``."""

    @property
    def plural(self) -> str:
        """What items are called."""

    def read(
        self, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Any]:
        """Stream records; see ``Task.read``."""

    def records(self, items: Sequence[Any], first: int) -> list[Any]:
        """Make records without truth; see ``Task.from_texts``."""

    def start(self, recipe: Recipe, labels: tuple[str, ...], problem_type: str) -> Start:
        """Load or make the reader, and a model that decides between labels."""

    def encode(
        self, records: Iterable[Any], reader: Any, fit: Fit, labels: LabelsOf | None
    ) -> Iterator[Fitted[Example]]:
        """Turn records into examples; see ``Task.encode``."""

    def sides(self, record: Any, fitted: Fitted[Example], window: int, reader: Any) -> Side:
        """Return the tokens of an example of a record, for explanations."""

    def cover(self, reader: Any, side: Side) -> Cover | None:
        """Return what makes tokens show nothing; None where they can be left out."""

    def batch(
        self,
        examples: Sequence[Example],
        reader: Any,
        targets: dict[str, Tensor],
        draw: Draw | None,
    ) -> Batch:
        """Put examples together; see ``Task.batch``."""
