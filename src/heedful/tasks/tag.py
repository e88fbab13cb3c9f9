"""Tagging: the entities of a text, such as persons and places, where they stand.

The model gives each word a tag; the likeliest sequence of tags that the scheme allows says where
entities are.
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
from heedful.aim import Aim, Computed
from heedful.batches import Batch, Draw, Example, Fitted
from heedful.batches.collate import collate, token_labels
from heedful.batches.features import row_offsets
from heedful.batches.windows import WINDOW_SHARE, fit_text, naming
from heedful.batches.words import (
    Spans,
    WordRule,
    before_particle,
    entities_in_words,
    first_inside,
    first_pieces,
    in_one_word,
    piece_words,
    spaced_words,
    word_breaks,
    word_probabilities,
)
from heedful.errors import UserError, did_you_mean, listed
from heedful.host import on_host, where_true
from heedful.judging import Judge
from heedful.lesson import Lesson
from heedful.models.model import Model
from heedful.reading import Text, read_records
from heedful.reading.compressed import ending_of
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
from heedful.task import Fit, Forward, Recipe, Say, Scores, Start, StoreOf, Task
from heedful.tasks.aims import entities as aims
from heedful.tasks.answers.entities import Tagging, tagged_pieces, tagging
from heedful.tasks.counting import Counting
from heedful.tasks.judges import entities as judges
from heedful.tasks.texts import check_outputs, learnt_labels, start_encoder, store_records
from heedful.tokens import Tokenizer

_FORMATS = {
    **dict.fromkeys(
        (".conll", ".conllu", ".bio", ".iob", ".iob2", ".iobes", ".bioes", ".bmes", ".bmeso"),
        "conll",
    ),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **{".csv": "csv", ".parquet": "parquet"},
}
"""What an ending says. Without one of these a file with entities is CoNLL columns, and one without
is what every task takes it for: lines of text, or a table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tag(Task[TaggedText, Tensor, Tagging]):
    """What a tagger tells apart."""

    name: ClassVar[str] = "tag"
    answer_options: ClassVar[frozenset[str]] = frozenset({"aggregation", "piece_tags"})

    labels: tuple[str, ...]
    """Tags in the order of the model's outputs."""
    scheme: Scheme
    """What the tags mean, and so which may follow which."""
    label_pieces: Literal["first", "all"]
    """The pieces of a word that learn its tag."""
    words: WordRule = "tokenizer"
    """What a word is; of runs that do not say, what the tokenizer splits a text into."""

    @property
    def types(self) -> tuple[str, ...]:
        """The types of entities, in the order of the labels."""
        return tuple(dict.fromkeys(parse_tag(label).type for label in self.labels if label != "O"))

    # Records.

    @classmethod
    def read(
        cls, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[TaggedText]:
        """Stream texts: with entities from CoNLL columns, JSON or Parquet, without from any format.

        Raises:
            UserError: naming the file and line of the first text that cannot be used.
        """
        if columns.text_pair is not None or columns.label_separator is not None:
            raise UserError(
                "tag reads one text an item, and its entities: leave out --text-pair "
                "and --label-separator"
            )
        if not paths:
            raise UserError("no data file given")
        # So that a file that is missing is told before the first is read.
        streams = [_open(path, columns, labelled) for path in paths]
        return (record for stream in streams for record in stream)

    @classmethod
    def from_texts(cls, texts: Sequence[Text], first: int = 1) -> list[TaggedText]:
        """Make records of texts.

        Raises:
            UserError: they are pairs.
        """
        if not all(isinstance(text, str) for text in texts):
            raise UserError("tag reads single texts, not pairs")
        return [
            TaggedText(text=str(text), words=None, entities=None, source="text", line=number)
            for number, text in enumerate(texts, start=first)
        ]

    @classmethod
    def decide(cls, recipe: Recipe) -> Self:
        """Take the types of entities, and what a word is, from the training data.

        Raises:
            UserError: there is no entity at all.
        """
        options = recipe.options
        assert isinstance(options, TagSettings)
        types: set[str] = set()
        words: WordRule = "spaces"
        for record in cls.read(recipe.data.train, recipe.columns, labelled=True):
            entities = record.entities or ()
            types |= {entity.label for entity in entities}
            edges = {edge for entity in entities for edge in (entity.start, entity.end)}
            if words == "spaces" and not edges.issubset(word_breaks(record.text)):
                words = "tokenizer"  # for entities that are part of such a word: Paris-based
            if any(in_one_word(record.text, a.end, b.start) for a, b in pairwise(entities)) or any(
                before_particle(record.text, edge) for edge in edges
            ):
                words = "pieces"  # for two that touch in one, 5kg, and for 서울 in 서울에서
        if not types:
            raise UserError("the training data has no entities: every word is tagged O")
        return cls(
            labels=tuple(labels_of(sorted(types), options.scheme)),
            scheme=options.scheme,
            label_pieces=options.label_pieces,
            words=words,
        )

    def check(self, record: TaggedText) -> None:
        """Refuse a type of entity that the model does not have.

        Raises:
            UserError: naming the nearest type it has, with file and line.
        """
        for entity in record.entities or ():
            if entity.label not in self.types:
                raise UserError(
                    f"{record.source}, line {record.line_of(entity)}: {entity.label!r} is not one "
                    f"of the model's types of entities{did_you_mean(entity.label, self.types)}: "
                    f"{listed(self.types)}"
                )

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Name what can pick the best step."""
        return ("f1", "precision", "recall")

    def start(self, recipe: Recipe) -> Start:
        """Load an encoder, with a fresh classifier unless it has one for the same labels."""
        return start_encoder(
            recipe,
            head="token",
            id2label=dict(enumerate(self.labels)),
            fresh_head=learnt_labels(recipe.data) != self.labels,
        )

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Encode the training records, a long text in windows: it has entities to its end."""
        return self, start, store_records(self, recipe, start, folder, say, rule="window")

    def encode(
        self, records: Iterable[TaggedText], tokenizer: Tokenizer, fit: Fit, *, labelled: bool
    ) -> Iterator[Fitted[Example]]:
        """Turn each record into one example, or several where a long text is read in windows.

        The offsets are those of the word of each token.

        Raises:
            UserError: see `check`; or a text is too long and may not be cut, with file and line.
        """
        layout = tokenizer.layout
        room = fit.max_length - layout.size(pair=False)
        for record in records:
            ids, split = piece_words(record.text, tokenizer, self.words)
            spans = self._joined(record.text, split)  # (N, 2)
            targets = self._targets(record, split, spans) if labelled else None  # (N,)
            with naming(record):
                parts = fit_text(
                    range(len(ids)), limit=room, rule=fit.rule, stride=room // WINDOW_SHARE
                )
            pieces, offsets = [], []
            for part in parts.pieces:
                chosen = np.array(part, dtype=np.int64)
                row = np.array(layout.ids([ids[piece] for piece in part]), dtype=np.int32)
                labels: tuple[float, ...] = ()
                if targets is not None:
                    labels = tuple(layout.values(targets[chosen].tolist(), special=losses.IGNORED))
                pieces.append(Example(ids=row, split=layout.alone_split(len(row)), labels=labels))
                offsets.append(row_offsets(spans[chosen], layout))
            yield Fitted(
                pieces=pieces,
                tokens_total=parts.tokens_total,
                tokens_used=parts.tokens_used,
                offsets=offsets,
                kept=parts.kept,
            )

    def _joined(self, text: str, split: Spans) -> Spans:
        """Turn the words that the tokenizer splits off into those of the run. Shapes: (N, 2)."""
        return spaced_words(text, split) if self.words == "spaces" else split

    def _targets(self, record: TaggedText, split: Spans, spans: Spans) -> NDArray[np.int64]:
        """Return the number of each piece's tag, or -100.

        A word is in an entity if its first part is.

        Args:
            record: the text and its entities.
            split: where the word stands that the tokenizer split off, for each piece. Shape (N, 2).
            spans: where the word of the run stands, for each piece. Shape (N, 2).

        Shape:
            (N,)
        """
        self.check(record)
        parts, first = first_pieces(split), first_pieces(spans)  # (P,), (W,)
        before = [0, *np.isin(parts, first).cumsum().tolist()]  # how many words begin before a part
        entities = [
            Entity(before[start], before[end], label)
            for start, end, label in entities_in_words(record, split[parts])
            if before[start] < before[end]
        ]
        named = as_labels(tags_of(entities, len(first), self.scheme), self.labels)
        tags = [self.labels.index(label) for label in named]
        if self.label_pieces == "all":
            return np.repeat(tags, np.diff(first, append=len(spans)))
        targets = np.full(len(spans), losses.IGNORED, dtype=np.int64)
        targets[first] = tags
        return targets

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer, draw: Draw | None) -> Batch:
        """Pad examples; the targets are ``labels``, (B, T): a tag each, -100 where none counts."""
        targets = {} if draw is None else {"labels": token_labels(examples)}
        return collate(
            examples,
            pad_id=tokenizer.pad_token_id,
            closing_type=tokenizer.layout.closing_type,
            targets=targets,
        )

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sum of the losses of tagged pieces."""
        return losses.cross_entropy(forward(**batch.inputs).logits, batch.targets["labels"])[0]

    def count(self, batch: Batch) -> float:
        """Return how many pieces have a tag to learn."""
        return float((batch.targets["labels"] != losses.IGNORED).sum())

    @property
    def taught_by(self) -> Literal["scores"]:
        """A teacher gives scores."""
        return "scores"

    def lessons(self, batch: Batch) -> tuple[Lesson, ...]:
        """Return the scores of the tags, of pieces that have a tag to learn."""
        labels = batch.targets["labels"]  # (B, T)
        tagged = where_true(on_host(labels) != losses.IGNORED, labels.device)
        return (
            Lesson(
                kind="classes",
                count=float(len(tagged)),
                read=lambda output: output.logits.flatten(0, 1).index_select(0, tagged),
            ),
        )

    # Answers.

    def check_model(self, model: Model) -> None:
        """Refuse labels that are no tags, and a model of another number of them."""
        check_outputs(self.labels, model)
        for label in self.labels:
            parse_tag(label)

    def compute(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
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
        """Tag the words with the likeliest sequence that may be, and gather entities."""
        probabilities = word_probabilities(
            fitted.offsets, [output.numpy() for output in outputs], settings.aggregation
        )
        words = list(probabilities)
        if fitted.tokens_used < fitted.tokens_total:  # a sequence ends where words were left out
            spans = self._joined(record.text, piece_words(record.text, tokenizer, self.words)[1])
            words = [(start, end) for start, end in spans[first_pieces(spans)].tolist()]
        if record.words is not None:  # each has the tag of its first part
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

    def aim(
        self,
        computed: Computed[TaggedText, Tensor, Tagging],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> Aim:
        """Explain the tag of a word: ``WORD`` or ``WORD=TAG``, or that of the first entity."""
        return aims.tag(computed, target, tokenizer, self.labels, self.scheme)

    def scores(self) -> Scores[Tagging, TaggedText]:
        """Return empty scores."""
        return Counting(metrics.EntityScores(), _count)

    def judge(self) -> Judge[Tagging, TaggedText]:
        """Return what judges its answers."""
        return judges.entities(self.types)

    def card(self) -> str:
        """Say what the run finds."""
        types = len(self.types)
        return f"Finds entities of {types} type{'s'[: types != 1]}: {listed(self.types)}."


def _open(path: Path, columns: ColumnSettings, labelled: bool) -> Iterator[TaggedText]:
    default = ColumnSettings()
    text, label = columns.text, columns.label
    ending = ending_of(path)
    kind = columns.format or _FORMATS.get(ending) or ("conll" if labelled else None)
    of_objects = kind == "jsonl" or (kind, ending) == ("parquet", ".parquet")
    if not columns.header and (kind == "conll" or (labelled and of_objects)):
        raise UserError(f"{path}: --no-header is for CSV and TSV; this is read as {kind}")
    if kind == "conll":
        word, tag = (
            text if text != default.text else None,
            label if label != default.label else None,
        )
        return read_conll(path, word=word, tag=tag, labelled=labelled, encoding=columns.encoding)
    if labelled and of_objects:
        entities = None if label == default.label else label
        return read_spans(path, text=text, entities=entities, encoding=columns.encoding)
    if labelled:
        raise UserError(
            f"{path}: entities are read from CoNLL columns, JSON or Parquet, not {kind}"
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
