"""Named entity recognition: find the entities of a text, such as persons and places.

The model scores the tags of each word. The most probable tag sequence that the scheme allows gives
the entities.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heedful import losses, metrics
from heedful.batches import Batch, Draw, Example, Fitted
from heedful.batches.collate import collate, token_labels
from heedful.batches.features import row_ids, row_offsets
from heedful.batches.text_block import in_blocks
from heedful.batches.windows import WINDOW_SHARE, fit_text, locating_errors
from heedful.batches.words import (
    PieceWords,
    WordRule,
    before_particle,
    entities_in_words,
    first_inside,
    first_pieces,
    in_one_word,
    piece_words,
    refuse_shared_words,
    word_breaks,
    word_probabilities,
)
from heedful.device_transfer import get_host_copy, nonzero_indices
from heedful.distillation import DistillationLoss
from heedful.errors import UserError, did_you_mean, join_names
from heedful.explanation_target import Answered, ExplanationTarget
from heedful.item_results import ItemScorer
from heedful.models.model import Model
from heedful.reading import Text, read_records
from heedful.reading.compressed import extension_of
from heedful.reading.conll import read_conll
from heedful.reading.spans import read_spans
from heedful.reading.tagging import (
    Entity,
    Scheme,
    TaggedText,
    as_labels,
    labels_of,
    parse_tag,
    tags_of,
)
from heedful.settings import ColumnSettings, PredictSettings, TagSettings
from heedful.task import Forward, LengthLimit, Recipe, Say, Scores, Start, StoreOf, Task
from heedful.tasks.answers.entities import Tagging, tagged_pieces, tagging
from heedful.tasks.counting import Counting
from heedful.tasks.explanation_targets.entities import tag as tag_target
from heedful.tasks.item_scorers import entities as item_scorers
from heedful.tasks.texts import (
    check_outputs,
    encode_training_records,
    pretrained_labels,
    start_encoder,
)
from heedful.tokens import Tokenizer

_FORMATS = {
    **dict.fromkeys(
        (".conll", ".conllu", ".bio", ".iob", ".iob2", ".iobes", ".bioes", ".bmes", ".bmeso"),
        "conll",
    ),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **{".csv": "csv", ".parquet": "parquet"},
}
"""Format by file extension. For other extensions, a labelled file has CoNLL columns; an unlabelled
file is read as in all tasks: lines of text, or a table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tag(Task[TaggedText, Tensor, Tagging]):
    """Tags the entities of texts."""

    name: ClassVar[str] = "tag"
    answer_options: ClassVar[frozenset[str]] = frozenset({"aggregation", "piece_tags"})

    labels: tuple[str, ...]
    """Tags, in the order of the model's outputs."""
    scheme: Scheme
    """The tagging scheme, which defines the valid transitions between tags."""
    label_pieces: Literal["first", "all"]
    """Which subwords of a word are labelled with its tag."""
    words: WordRule = "tokenizer"
    """Definition of a word. For runs without this field: the words of the pre-tokenizer."""

    @property
    def types(self) -> tuple[str, ...]:
        """The entity types, in the order of the labels."""
        return tuple(dict.fromkeys(parse_tag(label).type for label in self.labels if label != "O"))

    # Records.

    @classmethod
    def read(
        cls, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[TaggedText]:
        """Stream texts: labelled ones from CoNLL, JSON or Parquet, unlabelled ones from any format.

        Raises:
            UserError: a text is invalid; names the file and line of the first one.
        """
        if columns.text_pair is not None or columns.label_separator is not None:
            raise UserError(
                "tag takes one text with its entities per item: leave out --text-pair and "
                "--label-separator"
            )
        if not paths:
            raise UserError("no data file given")
        # Open all files first, so that a missing one is reported before any is read.
        streams = [_open(path, columns, labelled) for path in paths]
        return (record for stream in streams for record in stream)

    @classmethod
    def from_texts(cls, texts: Sequence[Text], first: int = 1) -> list[TaggedText]:
        """Make records from texts.

        Raises:
            UserError: an item is a pair.
        """
        if not all(isinstance(text, str) for text in texts):
            raise UserError("tag takes single texts, not pairs")
        return [
            TaggedText(text=str(text), words=None, entities=None, source="text", line=number)
            for number, text in enumerate(texts, start=first)
        ]

    @classmethod
    def from_training_data(cls, recipe: Recipe) -> Self:
        """Derive the entity types and the definition of a word from the training data.

        Raises:
            UserError: there are no entities.
        """
        options = recipe.options
        assert isinstance(options, TagSettings)
        types: set[str] = set()
        words: WordRule = "spaces"
        for record in cls.read(recipe.data.train, recipe.columns, labelled=True):
            entities = record.entities or ()
            types |= {entity.label for entity in entities}
            edges = {edge for entity in entities for edge in (entity.start, entity.end)}
            if words == "spaces" and not edges <= word_breaks(record.text):
                words = "tokenizer"  # for an entity inside a spaced word: Paris-based
            if any(in_one_word(record.text, a.end, b.start) for a, b in pairwise(entities)) or any(
                before_particle(record.text, edge) for edge in edges
            ):
                words = "pieces"  # for adjacent entities in a word, 5kg, or 서울 in 서울에서
        if not types:
            raise UserError("the training data has no entities: every word is tagged O")
        return cls(
            labels=tuple(labels_of(sorted(types), options.scheme)),
            scheme=options.scheme,
            label_pieces=options.label_pieces,
            words=words,
        )

    def check(self, record: TaggedText) -> None:
        """Refuse an entity type that the model does not have.

        Raises:
            UserError: naming the closest type of the model, with file and line.
        """
        for entity in record.entities or ():
            if entity.label not in self.types:
                raise UserError(
                    f"{record.where_of(entity)}: {entity.label!r} is not one "
                    f"of the model's entity types{did_you_mean(entity.label, self.types)}: "
                    f"{join_names(self.types)}"
                )

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that can select the best step."""
        return ("f1", "precision", "recall")

    def start(self, recipe: Recipe) -> Start:
        """Load an encoder, with a fresh classification head unless its head has the same labels."""
        return start_encoder(
            recipe,
            head="token",
            id2label=dict(enumerate(self.labels)),
            fresh_head=pretrained_labels(recipe.data) != self.labels,
        )

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Encode the training records; a long text is read in windows, to keep all its entities.

        Raises:
            UserError: two entities share a word.
        """
        records = (
            refuse_shared_words(record, start.tokenizer, self.words)
            for record in self.read(recipe.data.train, recipe.columns, labelled=True)
        )
        store = encode_training_records(
            self, recipe, start, folder, say, rule="window", records=records
        )
        return self, start, store

    def encode(
        self,
        records: Iterable[TaggedText],
        tokenizer: Tokenizer,
        fit: LengthLimit,
        *,
        labelled: bool,
    ) -> Iterator[Fitted[Example]]:
        """Encode each record: one example, or one per window of a long text.

        The offsets of a token are those of its word.

        Raises:
            UserError: see `check`; or a text is too long and may not be cut; names file and line.
        """
        layout = tokenizer.layout
        budget = fit.max_length - layout.size(pair=False)
        for block in in_blocks(records, lambda record: len(record.text)):
            texts = [record.text for record in block]
            for record, read in zip(block, piece_words(texts, tokenizer, self.words), strict=True):
                targets = self._targets(record, read) if labelled else None  # (N,)
                with locating_errors(record):
                    parts = fit_text(
                        range(len(read.ids)),
                        limit=budget,
                        rule=fit.long_text,
                        stride=budget // WINDOW_SHARE,
                    )
                pieces, offsets = [], []
                for part in parts.pieces:
                    kept = slice(part.start, part.stop) if isinstance(part, range) else [*part]
                    row = row_ids(read.ids[kept], layout)
                    labels: tuple[float, ...] = ()
                    if targets is not None:
                        values = targets[kept].tolist()
                        labels = tuple(layout.values(values, special=losses.IGNORED))
                    pieces.append(
                        Example(ids=row, split=layout.single_type_split(len(row)), labels=labels)
                    )
                    offsets.append(row_offsets(read.words[kept], layout))
                yield Fitted(
                    pieces=pieces,
                    tokens_total=parts.tokens_total,
                    tokens_used=parts.tokens_used,
                    offsets=offsets,
                    kept=parts.kept,
                )

    def _targets(self, record: TaggedText, pieces: PieceWords) -> NDArray[np.int64]:
        """Return the tag index of each subword, or -100.

        A word belongs to an entity if its first part does.

        Args:
            record: the text and its entities.
            pieces: its N subwords, with the words of the tokenizer and of this run.

        Shape:
            (N,)
        """
        self.check(record)
        split, spans = pieces.split, pieces.words
        parts, first = first_pieces(split), first_pieces(spans)  # (P,), (W,)
        words_before = [0, *np.isin(parts, first).cumsum().tolist()]  # words starting before a part
        entities = [
            Entity(words_before[start], words_before[end], label)
            for start, end, label in entities_in_words(record, split[parts])
            if words_before[start] < words_before[end]
        ]
        labels = as_labels(tags_of(entities, len(first), self.scheme), self.labels)
        tags = [self.labels.index(label) for label in labels]
        if self.label_pieces == "all":
            return np.repeat(tags, np.diff(first, append=len(spans)))
        targets = np.full(len(spans), losses.IGNORED, dtype=np.int64)
        targets[first] = tags
        return targets

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer, draw: Draw | None) -> Batch:
        """Collate and pad examples. Targets: ``labels``, (B, T), tag indices or -100."""
        targets = {} if draw is None else {"labels": token_labels(examples)}
        return collate(
            examples,
            pad_id=tokenizer.pad_token_id,
            closing_type=tokenizer.layout.closing_type,
            targets=targets,
        )

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the summed loss of the labelled subwords."""
        return losses.cross_entropy(forward(**batch.inputs).logits, batch.targets["labels"])[0]

    def loss_divisor(self, batch: Batch) -> float:
        """Return the number of labelled subwords."""
        return float((batch.targets["labels"] != losses.IGNORED).sum())

    @property
    def teacher_output(self) -> Literal["scores"]:
        """A teacher provides logits."""
        return "scores"

    def distillation_losses(self, batch: Batch) -> tuple[DistillationLoss, ...]:
        """Return the distillation loss of the tag logits of labelled subwords."""
        labels = batch.targets["labels"]  # (B, T)
        tagged = nonzero_indices(get_host_copy(labels) != losses.IGNORED, labels.device)
        return (
            DistillationLoss(
                kind="classes",
                divisor=float(len(tagged)),
                extract=lambda output: output.logits.flatten(0, 1).index_select(0, tagged),
            ),
        )

    # Answers.

    def check_model(self, model: Model) -> None:
        """Refuse labels that are not tags, and a model with another number of outputs."""
        check_outputs(self.labels, model)
        for label in self.labels:
            parse_tag(label)

    def run_model(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
        """Return the probability of each tag for each token. Shape (B, T, L)."""
        logits: Tensor = model(**batch.inputs).logits
        return logits.float().softmax(-1)

    def decode(
        self,
        record: TaggedText,
        fitted: Fitted[Example],
        outputs: Sequence[Tensor],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Tagging:
        """Tag the words with the most probable valid sequence, and merge tags into entities."""
        probabilities = word_probabilities(
            fitted.offsets, [output.numpy() for output in outputs], settings.aggregation
        )
        words = list(probabilities)
        if fitted.tokens_used < fitted.tokens_total:  # a tag sequence must not cross omitted words
            (read,) = piece_words([record.text], tokenizer, self.words)
            words = [(start, end) for start, end in read.words[first_pieces(read.words)].tolist()]
        if record.words is not None:  # the tag of a given word is the tag of its first part
            firsts = first_inside(record.words, words)
            words = list(firsts)
            probabilities = {
                word: probabilities[first]
                for word, first in firsts.items()
                if first in probabilities
            }
        answer = tagging(
            record,
            words,
            probabilities,
            labels=self.labels,
            scheme=self.scheme,
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
            windows=len(outputs),
        )
        if not settings.piece_tags:
            return answer
        rows = [
            output[: len(example.ids)]
            for example, output in zip(fitted.pieces, outputs, strict=True)
        ]
        pieces = tagged_pieces(record.text, rows, self.labels, settings.long_text, tokenizer)
        return replace(answer, pieces=pieces)

    def explanation_target(
        self,
        computed: Answered[TaggedText, Tensor, Tagging],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> ExplanationTarget:
        """Explain the tag of a word, as ``WORD`` or ``WORD=TAG``; default: of the first entity."""
        return tag_target(computed, target, tokenizer, self.labels, self.scheme)

    def scores(self) -> Scores[Tagging, TaggedText]:
        """Return a new, empty accumulator of scores."""
        return Counting(metrics.EntityScores(), _count)

    def item_scorer(self) -> ItemScorer[Tagging, TaggedText]:
        """Return the scorer of its answers."""
        return item_scorers.entities(self.types)

    def model_card(self) -> str:
        """Describe the run for its model card."""
        types = len(self.types)
        return f"Finds entities of {types} type{'s'[: types != 1]}: {join_names(self.types)}."


def _open(path: Path, columns: ColumnSettings, labelled: bool) -> Iterator[TaggedText]:
    default = ColumnSettings()
    text, label = columns.text, columns.label
    extension = extension_of(path)
    file_format = columns.format or _FORMATS.get(extension) or ("conll" if labelled else None)
    is_objects = file_format == "jsonl" or (file_format, extension) == ("parquet", ".parquet")
    if not columns.header and (file_format == "conll" or (labelled and is_objects)):
        raise UserError(f"{path}: --no-header is for CSV and TSV; this is read as {file_format}")
    if file_format == "conll":
        word, tag = (
            text if text != default.text else None,
            label if label != default.label else None,
        )
        return read_conll(path, word=word, tag=tag, labelled=labelled, encoding=columns.encoding)
    if labelled and is_objects:
        entities = None if label == default.label else label
        return read_spans(path, text=text, entities=entities, encoding=columns.encoding)
    if labelled:
        raise UserError(
            f"{path}: entities are read from CoNLL columns, JSON or Parquet, not {file_format}"
        )
    records = read_records([path], replace(columns, label=None), allow_empty=True)
    return (
        TaggedText(
            text=item.text,
            words=None,
            entities=None,
            source=item.source,
            line=item.line,
            unit=item.unit,
        )
        for item in records
    )


def _count(
    scores: "metrics.EntityScores", answers: Sequence[Tagging], records: Sequence[TaggedText]
) -> None:
    for answer, record in zip(answers, records, strict=True):
        entities = [(entity.start, entity.end, entity.label) for entity in answer.entities]
        scores.update(record.entities or (), entities)
