"""Pre-training: what can be learnt from running text alone.

It learns from sequences that are cut from the text; those are its records. What is learnt from them
is an objective, of which there is a table in ``objectives/``.

Shapes: B sequences of a batch.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from heedful.aim import Aim, Computed
from heedful.batches import Batch, Draw, Example, Fitted, Store, write_store
from heedful.batches.corpus import Corpus, Documents
from heedful.batches.masking import MaskRule, mask_rule
from heedful.batches.segments import IN_WORD
from heedful.batches.sentences import SentenceRule
from heedful.errors import UserError
from heedful.judging import AnyJudge
from heedful.lesson import Lesson
from heedful.models import Head
from heedful.models.fresh import fresh_config
from heedful.models.model import Model
from heedful.reading import Record, Text
from heedful.reading.documents import DocumentLayout
from heedful.reading.shards import find_shards
from heedful.settings import ColumnSettings, PredictSettings, PretrainSettings, in_range
from heedful.task import (
    Ability,
    Answer,
    Fit,
    Forward,
    Input,
    Recipe,
    Say,
    Scores,
    Shards,
    Start,
    StoreOf,
    Task,
    check_max_length,
)
from heedful.tasks.corpus import (
    check_documents,
    check_settings,
    corpus_card,
    open_corpus,
    phrases_of,
)
from heedful.tasks.objectives import OBJECTIVES, ObjectiveName, hidden
from heedful.tasks.objectives.objective import Objective
from heedful.tasks.objectives.plm import PermutedWords
from heedful.tasks.objectives.rtd import ReplacedTokens, TwoModels
from heedful.tasks.objectives.source import tokens_of
from heedful.tasks.shards import ShardedText, check_stream, frame_of
from heedful.tasks.texts import read_table, text_records
from heedful.tokens import Tokenizer, load_encoder_tokenizer
from heedful.training.progress import counted

MAX_LENGTH = 128
"""Tokens of a sequence unless told otherwise, as in nine tenths of the original's steps."""

CORPUS = "corpus"
"""Folder of a run that keeps the tokenized text until the run is finished."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pretrain(Task[Example | Record, Any, Answer]):
    """What a run learns, and from what."""

    name: ClassVar[str] = "pretrain"
    head_rate: ClassVar[float] = 1.0

    preset: str | None
    """Sizes of a model from scratch; None for one that goes on."""
    positions: int | None
    """Its positions."""
    position_type: str
    """How it knows them: one of ``layers.positions.POSITIONS``."""
    objective: ObjectiveName
    """One of ``OBJECTIVES``."""
    mask_share: float
    masking: str
    """What is masked together: one of ``masking.MASKINGS``."""
    max_predictions: int | None
    documents: DocumentLayout
    sentences: SentenceRule
    generator_size: float | None = None
    """The share of the discriminator's width that a generator from scratch has."""
    discriminator_weight: float = 50.0
    """What the discriminator's loss is multiplied by."""
    phrases: tuple[str, ...] = ()
    """What is masked as a word is, although it has spaces."""
    mask: str = "[MASK]"
    """What users write for a hidden token, which differs between tokenizers."""
    first_position: int = 0
    """Where the model's texts begin."""
    marked: bool = False
    """Whether these are marked in the text, which is read without the marks."""
    segment: int = MAX_LENGTH // 2  # of sequences that are read as two, tokens of the first

    @property
    def learnt(self) -> Objective:
        """What is learnt."""
        objective = OBJECTIVES[self.objective]
        if isinstance(objective, ReplacedTokens):
            source = TwoModels(preset=self.preset, generator_size=self.generator_size)
            return replace(objective, source=source, weight=self.discriminator_weight)
        if isinstance(objective, PermutedWords):
            return replace(objective, segment=self.segment)
        return objective

    @property
    def example(self) -> str:
        """What a user may ask a run."""
        return self.learnt.asked.example.replace("[MASK]", self.mask)

    @property
    def abilities(self) -> frozenset[Ability]:
        """What only some runs can do."""
        return self.learnt.asked.abilities

    @property
    def answer_options(self) -> frozenset[str]:
        """Fields of ``PredictSettings`` that decide its answers."""
        return self.learnt.asked.answer_options

    # Records.

    @classmethod
    def read(
        cls, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Example | Record]:
        """Stream texts to answer for; what is learnt from are sequences: `labelled_records`."""
        assert not labelled
        return read_table(paths, columns, labelled=False)

    @classmethod
    def from_texts(cls, texts: Sequence[Text], first: int = 1) -> list[Example | Record]:
        """Make records of texts or pairs."""
        return [*text_records(texts, first)]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What the objective says."""
        return self.learnt.asked.inputs

    @classmethod
    def decide(cls, recipe: Recipe) -> Self:
        """Take all from the settings, and phrases from a list or from marks in the text.

        Raises:
            UserError: a setting means nothing here, or there are no phrases.
        """
        data, options = recipe.data, recipe.options
        assert isinstance(options, PretrainSettings)
        assert options.objective is not None  # see `usual.with_objective`
        check_settings(data)
        if options.stream:
            check_stream(options, recipe.training)
        positions = options.positions
        if options.preset is not None:
            data.refuse_model()
            max_length = data.max_length or MAX_LENGTH
            in_range("max_length", max_length, 8, 10**6, what="a whole number of at least 8")
            positions = positions or max_length
        entity = options.masking == "entity"
        return cls(
            preset=options.preset,
            positions=positions,
            position_type=options.position_type,
            objective=options.objective,
            mask_share=options.mask_share or OBJECTIVES[options.objective].mask_share,
            masking=options.masking,
            max_predictions=options.max_predictions,
            documents=options.documents,
            sentences=options.sentences,
            generator_size=options.generator_size,
            discriminator_weight=options.discriminator_weight,
            phrases=phrases_of(
                data.train, options.documents, options.phrases, recipe.columns.encoding
            )
            if entity
            else (),
            marked=entity and options.phrases is None,
        )

    def check_files(self, recipe: Recipe, say: Say) -> None:
        """Refuse files of which no sequences can be made.

        Raises:
            UserError: see `check_documents`.
        """
        train = find_shards(recipe.data.train)[:1] if self.streams(recipe) else recipe.data.train
        encoding, pairs = recipe.columns.encoding, self.learnt.mixes_documents
        for paths in filter(None, (train, recipe.data.dev)):
            check_documents(paths, self.documents, pairs=pairs, encoding=encoding)

    def labelled_records(
        self, paths: Sequence[Path], columns: ColumnSettings, start: Start, folder: Path
    ) -> Callable[[], Iterator[Example | Record]]:
        """Tokenize running text into a folder, and return what cuts sequences from it.

        Raises:
            UserError: columns are named, or see `check_documents` and `open_corpus`.
        """
        encoding = columns.encoding
        if columns != ColumnSettings(encoding=encoding):
            raise UserError("plain text has no columns: leave out their options")
        pairs = self.learnt.mixes_documents
        check_documents(paths, self.documents, pairs=pairs, encoding=encoding)
        corpus = self._corpus(paths, start.tokenizer, folder, encoding)
        return partial(self.sequences, corpus, start, seed=0, epoch=0)

    def sequences(
        self, corpus: Documents, start: Start, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut the sequences of an epoch from a corpus.

        Raises:
            UserError: there is only one document to make pairs of.
        """
        return self.learnt.sequences(corpus, frame_of(start), seed=seed, epoch=epoch)

    def _corpus(
        self,
        paths: Sequence[Path],
        tokenizer: Tokenizer,
        folder: Path,
        encoding: str,
        workers: int | None = None,
    ) -> Corpus:
        return open_corpus(
            paths,
            self.documents,
            self.sentences,
            tokenizer,
            folder,
            marked=self.marked,
            segmented=self.masking in ("word", "n-gram"),
            encoding=encoding,
            workers=workers,
        )

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Name what can pick the best step."""
        return self.learnt.metrics

    def start(self, recipe: Recipe) -> Start:
        """Make a model from scratch, for the vocabulary that is named, or load one to go on with.

        Raises:
            UserError: there is no such model or vocabulary, it does not fit, or it has no mask.
        """
        data, options = recipe.data, recipe.options
        torch.manual_seed(recipe.training.seed)
        tokenizer = load_encoder_tokenizer(options.vocabulary or data.model, data.revision)
        if self.preset is None:
            model = self.learnt.source.load(data)
        else:
            config = fresh_config(
                options.arch,
                self.preset,
                tokens=tokens_of(tokenizer, options.arch, options.vocabulary),
                positions=self.positions or MAX_LENGTH,
                position_type=self.position_type,
                dropout=data.dropout,
            )
            model = self.learnt.source.make(options.arch, config)
        if self.learnt.hides:
            mask_rule(tokenizer, most=None)  # so that one without a mask is refused at once
        length = data.max_length or min(MAX_LENGTH, model.max_positions)
        length = check_max_length(length, model.max_positions)
        return Start(tokenizer=tokenizer, model=model, max_length=length)

    @classmethod
    def streams(cls, recipe: Recipe) -> bool:
        """Say what the user says."""
        return bool(recipe.options.stream)

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Tokenize the text, and cut its sequences anew for each epoch."""
        options, tokenizer = recipe.options, start.tokenizer
        kept = options.corpus or recipe.run.out / CORPUS
        corpus = self._corpus(
            recipe.data.train, tokenizer, kept, recipe.columns.encoding, options.workers
        )
        say(corpus_card(corpus, tokenizer))
        rule = self._rule(tokenizer)
        if rule is not None and (phrases := rule.phrases) is not None:
            unknown_too = len(self.phrases) - phrases.size
            left_out = f"; {unknown_too:,} with unknown tokens are left out" if unknown_too else ""
            say(f"{phrases.size:,} phrases are masked whole{left_out}")
        path, seed = folder / "sequences.arrow", recipe.training.seed

        @lru_cache(maxsize=1)
        def store_of(epoch: int) -> Store:
            examples = self.sequences(corpus, start, seed=seed, epoch=epoch)
            write_store(path, counted(examples, "sequences cut"))
            return Store(path)

        if line := self.learnt.doubt(store_of(0).labels):
            say(line)
        return self._started(start), start, store_of

    def shards(self, recipe: Recipe, start: Start, say: Say) -> tuple[Self, Start, Shards]:
        """Read shards of text, and cut sequences of each chunk anew for each epoch."""
        options = recipe.options
        text = ShardedText(
            shards=find_shards(recipe.data.train),
            layout=self.documents,
            sentences=self.sentences,
            tokenizer=start.tokenizer,
            objective=self.learnt,
            frame=frame_of(start),
            seed=recipe.training.seed,
            segmented=self.masking in ("word", "n-gram"),
            encoding=recipe.columns.encoding,
            cache=options.corpus,
        )
        return self._started(start), start, text.opened(options, recipe.training.batch_size, say)

    def _started(self, start: Start) -> Self:
        """Return what is known once there are a vocabulary and a model."""
        mask, first = start.tokenizer.mask_token, start.model.first_position
        return replace(self, mask=mask, first_position=first, segment=start.max_length // 2)

    @classmethod
    def clean_up(cls, recipe: Recipe) -> None:
        """Delete the tokenized text that was kept in the run folder."""
        shutil.rmtree(recipe.run.out / CORPUS, ignore_errors=True)

    def encode(
        self,
        records: Iterable[Example | Record],
        tokenizer: Tokenizer,
        fit: Fit,
        *,
        labelled: bool,
    ) -> Iterator[Fitted[Example]]:
        """Pass sequences on as they are; encode texts that are asked about."""
        for record in records:
            if isinstance(record, Example):
                size = len(record.ids)
                yield Fitted(pieces=[record], tokens_total=size, tokens_used=size)
            else:
                yield self.learnt.asked.encode(record, tokenizer, fit)

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer, draw: Draw | None) -> Batch:
        """Pad examples; with a draw say what is to be told of them."""
        if draw is None:
            return self.learnt.asked.ask(examples, tokenizer)
        batch = self.learnt.learn(examples, tokenizer, self._rule(tokenizer), draw)
        return hidden.from_position(self.first_position, batch)

    def _rule(self, tokenizer: Tokenizer) -> MaskRule | None:
        what = (self.mask_share, self.masking, self.phrases, self.max_predictions)
        return _rule(tokenizer, *what) if self.learnt.hides else None

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sum of each loss of the objective."""
        return self.learnt.loss(forward, batch)

    def count(self, batch: Batch) -> Tensor:
        """Return what each of them is divided by."""
        return self.learnt.count(batch)

    @property
    def taught_by(self) -> Literal["scores"] | None:
        """A teacher gives scores of words, where one call of the model tells all of a batch."""
        in_passes = self.objective == "plm"
        return "scores" if self.abilities & {"fill", "write"} and not in_passes else None

    def lessons(self, batch: Batch) -> tuple[Lesson, ...]:
        """Return the scores of words, and of pairs where those are learnt."""
        return hidden.lessons(batch)

    def write_beside(self, start: Start, folder: Path) -> None:
        """Write what the objective wants beside the model."""
        self.learnt.source.write_beside(start, folder)

    # Answers and scores.

    def load(self, folder: Path, head: Head | None) -> Model:
        """Load the model of a finished run."""
        return self.learnt.source.reload(folder)

    def compute(
        self, model: Forward, batch: Batch, settings: PredictSettings
    ) -> Sequence[Any] | Tensor:
        """Score sequences, shape (B, ...), or answer."""
        if batch.targets:
            return self.learnt.score(model, batch)
        return self.learnt.asked.answer(model, batch, settings)

    def decode(
        self,
        record: Example | Record,
        fitted: Fitted[Example],
        outputs: Sequence[Any],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Answer:
        """Take a sequence's scores, or answer for a text."""
        if not isinstance(record, Example):
            return self.learnt.asked.decode(record, fitted, outputs, settings, tokenizer)
        text = tokenizer.text_of((record.ids & ~IN_WORD).tolist())
        return self.learnt.scored(outputs[0].tolist(), text, fitted)

    def aim(
        self,
        computed: Computed[Example | Record, Any, Answer],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> Aim:
        """Explain an answer; see the objective."""
        return self.learnt.asked.aim(computed, target, tokenizer)

    def scores(self) -> Scores[Answer, Example | Record]:
        """Return empty scores."""
        return self.learnt.scores()

    def judge(self) -> AnyJudge:
        """Return what judges its answers."""
        return self.learnt.judge()

    def card(self) -> str:
        """Say what the run learns."""
        return self.learnt.card(hidden.MASKED[self.masking]).replace("[MASK]", self.mask)


@lru_cache(maxsize=2)  # it reads the whole vocabulary
def _rule(
    tokenizer: Tokenizer, share: float, masking: str, phrases: tuple[str, ...], most: int | None
) -> MaskRule:
    return mask_rule(tokenizer, share=share, masking=masking, phrases=phrases, most=most)
