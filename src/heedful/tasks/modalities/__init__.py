"""Input modalities: texts or images. Tasks that support both delegate to a `Modality`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from heedful.batches import Batch, Draw, Example, Fitted
from heedful.explanation_target import Side, TokenMasker
from heedful.settings import ColumnSettings
from heedful.task import Input, LengthLimit, Recipe, Start

LabelsOf = Callable[[Any], tuple[float, ...]]
"""Returns the labels of a record, for all its examples."""


class Modality(Protocol):
    """Reads records of one modality, and encodes them for a model.

    A ``reader`` is the preprocessor of the run folder: a tokenizer, or a ``ViTImageProcessor``.
    """

    @property
    def inputs(self) -> tuple[Input, ...]:
        """See ``Task.inputs``."""

    @property
    def example(self) -> str:
        """See ``Task.example``."""

    @property
    def noun(self) -> str:
        """The noun for an item in messages."""

    def read(
        self, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Any]:
        """Stream records; see ``Task.read``."""

    def records(self, items: Sequence[Any], first: int) -> list[Any]:
        """Make unlabelled records; see ``Task.from_texts``."""

    def start(self, recipe: Recipe, labels: tuple[str, ...], problem_type: str) -> Start:
        """Load or create the reader and a model that classifies into labels."""

    def encode(
        self, records: Iterable[Any], reader: Any, fit: LengthLimit, labels: LabelsOf | None
    ) -> Iterator[Fitted[Example]]:
        """Encode records; see ``Task.encode``."""

    def sides(self, record: Any, fitted: Fitted[Example], window: int, reader: Any) -> Side:
        """Return the tokens of an example of a record, for explanations."""

    def token_masker(self, reader: Any, side: Side) -> TokenMasker | None:
        """Return a function that hides tokens; None if tokens can simply be removed."""

    def batch(
        self,
        examples: Sequence[Example],
        reader: Any,
        targets: dict[str, Tensor],
        draw: Draw | None,
    ) -> Batch:
        """Collate examples; see ``Task.batch``."""
