"""Text input: single texts and pairs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from heedful.batches import Batch, Draw, Example, Fitted
from heedful.batches.collate import collate
from heedful.explanation_target import Side, side_of
from heedful.reading import Record, Text
from heedful.settings import ColumnSettings
from heedful.task import Input, LengthLimit, Recipe, Start
from heedful.tasks.modalities import LabelsOf
from heedful.tasks.texts import (
    encode_texts,
    pretrained_labels,
    read_table,
    start_encoder,
    text_example,
    text_inputs,
    text_records,
)
from heedful.tokens import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Texts:
    """Text input for an encoder; see ``Modality``."""

    pairs: bool | None
    """Whether an item is a pair of texts; None for either."""

    noun = "text"

    @property
    def example(self) -> str:
        """Example command-line arguments."""
        return text_example(pairs=self.pairs)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """A text, or two."""
        return text_inputs(pairs=self.pairs)

    def read(
        self, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Record]:
        """Stream the rows of tables."""
        return read_table(paths, columns, labelled=labelled)

    def records(self, items: Sequence[Text], first: int) -> list[Record]:
        """Make records from texts or pairs."""
        return text_records(items, first)

    def start(self, recipe: Recipe, labels: tuple[str, ...], problem_type: str) -> Start:
        """Load an encoder, with a fresh classification head unless its head has the same labels."""
        return start_encoder(
            recipe,
            head="sequence",
            id2label=dict(enumerate(labels)),
            problem_type=problem_type,
            # The head must be for the same labels in the same order.
            fresh_head=pretrained_labels(recipe.data) != labels,
        )

    def encode(
        self,
        records: Iterable[Record],
        reader: Tokenizer,
        fit: LengthLimit,
        labels: LabelsOf | None,
    ) -> Iterator[Fitted[Example]]:
        """Encode each record: one example, or one per window of a long text."""
        return encode_texts(records, reader, fit, pairs=self.pairs, labels=labels)

    def sides(
        self, record: Record, fitted: Fitted[Example], window: int, reader: Tokenizer
    ) -> Side:
        """Return the tokens of a window."""
        texts = [record.text] if record.text_pair is None else [record.text, record.text_pair]
        name = "text" if len(texts) == 1 else "texts"
        return side_of(name, texts, fitted.kept[window], reader)

    def token_masker(self, reader: Tokenizer, side: Side) -> None:
        """Return None: tokens of a text can be removed."""

    def batch(
        self,
        examples: Sequence[Example],
        reader: Tokenizer,
        targets: dict[str, Tensor],
        draw: Draw | None,
    ) -> Batch:
        """Collate examples and pad them to the longest."""
        return collate(
            examples,
            pad_id=reader.pad_token_id,
            closing_type=reader.layout.closing_type,
            targets=targets,
        )
