"""Pre-training on plain text.

The records are sequences cut from the text. The objective decides what is learnt from them; the
objectives are listed in ``objectives/``.

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

from heedful.batches import Batch, Draw, Example, Fitted, Store, write_store
from heedful.batches.corpus import Corpus, Documents
from heedful.batches.masking import MaskRule, mask_rule
from heedful.batches.segments import IN_WORD
from heedful.batches.sentences import SentenceRule
from heedful.distillation import DistillationLoss
from heedful.errors import UserError, count_of
from heedful.explanation_target import Answered, ExplanationTarget
from heedful.item_results import AnyItemScorer
from heedful.models import Head
from heedful.models.fresh import new_config
from heedful.models.model import Model
from heedful.reading import Record, Text
from heedful.reading.documents import DocumentLayout
from heedful.reading.shards import find_shards
from heedful.settings import ColumnSettings, PredictSettings, PretrainSettings, in_range
from heedful.task import (
    Ability,
    Answer,
    Forward,
    Input,
    LengthLimit,
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
from heedful.tasks.objectives import OBJECTIVES, ObjectiveName, masked_tokens
from heedful.tasks.objectives.objective import Objective
from heedful.tasks.objectives.plm import PermutedWords
from heedful.tasks.objectives.rtd import GeneratorDiscriminator, ReplacedTokens
from heedful.tasks.objectives.source import load_vocabulary, tokens_of
from heedful.tasks.shards import ShardedText, check_stream, frame_of
from heedful.tasks.texts import read_table, text_records
from heedful.tokens import Tokenizer, load_encoder_tokenizer
from heedful.training.progress import counted

MAX_LENGTH = 128
"""Default sequence length in tokens, as in 90% of the steps of the original BERT."""

CORPUS = "corpus"
"""Folder within the run folder that holds the tokenized text until the run is finished."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pretrain(Task[Example | Record, Any, Answer]):
    """Pre-trains a model on plain text with an objective."""

    name: ClassVar[str] = "pretrain"

    preset: str | None
    """Size of a model from scratch; None to continue training a model."""
    positions: int | None
    """Maximum number of positions of a model from scratch."""
    position_type: str
    """Position encoding of a model from scratch: one of ``layers.positions.POSITIONS``."""
    objective: ObjectiveName
    """One of ``OBJECTIVES``."""
    mask_share: float
    masking: str
    """Unit of masking: one of ``masking.MASKINGS``."""
    max_predictions: int | None
    documents: DocumentLayout
    sentences: SentenceRule
    generator_size: float | None = None
    """Width of a generator from scratch, as a share of the discriminator's width."""
    discriminator_weight: float = 50.0
    """Weight of the discriminator's loss."""
    phrases: tuple[str, ...] = ()
    """Phrases that are masked as a whole, like words, although they contain spaces."""
    mask: str = "[MASK]"
    """How users write a mask in a text; depends on the tokenizer."""
    first_position: int = 0
    """Position of the first token of the model's texts."""
    marked: bool = False
    """Whether phrases are marked in the text; the marks are removed on reading."""
    segment: int = MAX_LENGTH // 2  # tokens of the first segment, for objectives with two segments

    @property
    def task_objective(self) -> Objective:
        """The objective, with the settings of this run."""
        objective = OBJECTIVES[self.objective]
        if isinstance(objective, ReplacedTokens):
            source = GeneratorDiscriminator(preset=self.preset, generator_size=self.generator_size)
            return replace(objective, source=source, weight=self.discriminator_weight)
        if isinstance(objective, PermutedWords):
            return replace(objective, segment=self.segment)
        return objective

    @property
    def example(self) -> str:
        """Example arguments to ``heedful predict RUN``."""
        return self.task_objective.inference.example.replace("[MASK]", self.mask)

    @property
    def abilities(self) -> frozenset[Ability]:
        """What this run supports; see `Ability`."""
        return self.task_objective.inference.abilities

    @property
    def answer_options(self) -> frozenset[str]:
        """Fields of ``PredictSettings`` that affect its answers."""
        return self.task_objective.inference.answer_options

    # Records.

    @classmethod
    def read(
        cls, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Example | Record]:
        """Stream texts to predict on; `labelled_records` streams sequences to train on."""
        assert not labelled
        return read_table(paths, columns, labelled=False)

    @classmethod
    def from_texts(cls, texts: Sequence[Text], first: int = 1) -> list[Example | Record]:
        """Make records from texts or pairs."""
        return [*text_records(texts, first)]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of the objective."""
        return self.task_objective.inference.inputs

    @classmethod
    def from_training_data(cls, recipe: Recipe) -> Self:
        """Create the task from the settings; take phrases from a list or from marks in the text.

        Raises:
            UserError: a setting does not apply, or there are no phrases.
        """
        data, options = recipe.data, recipe.options
        assert isinstance(options, PretrainSettings)
        assert options.objective is not None  # see `defaults.with_default_objective`
        check_settings(data)
        if options.stream:
            check_stream(options, recipe.training)
        positions = options.positions
        if options.preset is not None:
            data.refuse_model()
            max_length = data.max_length or MAX_LENGTH
            in_range("max_length", max_length, 8, 10**6, what="a whole number of at least 8")
            positions = positions or max_length
        phrases: tuple[str, ...] = ()
        if masks_phrases := options.masking == "entity":
            encoding = recipe.columns.encoding
            phrases = phrases_of(data.train, options.documents, options.phrases, encoding)
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
            phrases=phrases,
            marked=masks_phrases and options.phrases is None,
        )

    def check_files(self, recipe: Recipe, say: Say) -> None:
        """Refuse files that yield no sequences.

        Raises:
            UserError: see `check_documents`.
        """
        train = find_shards(recipe.data.train)[:1] if self.streams(recipe) else recipe.data.train
        encoding, pairs = recipe.columns.encoding, self.task_objective.pairs_documents
        for paths in filter(None, (train, recipe.data.dev)):
            check_documents(paths, self.documents, pairs=pairs, encoding=encoding)

    def labelled_records(
        self, paths: Sequence[Path], columns: ColumnSettings, start: Start, folder: Path
    ) -> Callable[[], Iterator[Example | Record]]:
        """Tokenize plain text into a folder, and return a function that cuts sequences from it.

        Raises:
            UserError: there are column settings; or see `check_documents` and `open_corpus`.
        """
        encoding = columns.encoding
        if columns != ColumnSettings(encoding=encoding):
            raise UserError("plain text has no columns: leave out their options")
        pairs = self.task_objective.pairs_documents
        check_documents(paths, self.documents, pairs=pairs, encoding=encoding)
        corpus = self._corpus(paths, start.tokenizer, folder, encoding)
        return partial(self.sequences, corpus, start, seed=0, epoch=0)

    def sequences(
        self, corpus: Documents, start: Start, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut the sequences of an epoch from a corpus.

        Raises:
            UserError: the objective pairs documents, and there is only one.
        """
        return self.task_objective.sequences(corpus, frame_of(start), seed=seed, epoch=epoch)

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
        """Return the metrics that can select the best step."""
        return self.task_objective.metrics

    def start(self, recipe: Recipe) -> Start:
        """Create a model from scratch for the given vocabulary, or load a model to continue from.

        Raises:
            UserError: the model or vocabulary does not exist, does not fit, or has no mask token.
        """
        data, options = recipe.data, recipe.options
        torch.manual_seed(recipe.training.seed)
        load = load_encoder_tokenizer if options.vocabulary is None else load_vocabulary
        tokenizer = load(options.vocabulary or data.model, data.revision)
        if self.preset is None:
            model = self.task_objective.source.load(data)
        else:
            config = new_config(
                options.arch,
                self.preset,
                tokens=tokens_of(tokenizer, options.arch, options.vocabulary),
                positions=self.positions or MAX_LENGTH,
                position_type=self.position_type,
                dropout=data.dropout,
            )
            model = self.task_objective.source.make(options.arch, config)
        if self.task_objective.masks_tokens:
            mask_rule(tokenizer, max_predictions=None)  # refuses one without a mask early
        length = data.max_length or min(MAX_LENGTH, model.max_positions)
        length = check_max_length(length, model.max_positions)
        return Start(tokenizer=tokenizer, model=model, max_length=length, head_lr_multiplier=1.0)

    @classmethod
    def streams(cls, recipe: Recipe) -> bool:
        """Return whether the user asked for streaming."""
        return bool(recipe.options.stream)

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Tokenize the text; the sequences are cut again for each epoch."""
        options, tokenizer, encoding = recipe.options, start.tokenizer, recipe.columns.encoding
        cache = options.corpus or recipe.run.out / CORPUS
        corpus = self._corpus(recipe.data.train, tokenizer, cache, encoding, options.workers)
        say(corpus_card(corpus, tokenizer))
        rule = self._rule(tokenizer)
        if rule is not None and (phrases := rule.phrases) is not None:
            num_unknown = len(self.phrases) - phrases.size
            left_out = f"; {num_unknown:,} with unknown tokens left out" if num_unknown else ""
            say(f"masked as a whole: {count_of(phrases.size, 'phrase')}{left_out}")
        path, seed = folder / "sequences.arrow", recipe.training.seed

        @lru_cache(maxsize=1)
        def store_of(epoch: int) -> Store:
            examples = self.sequences(corpus, start, seed=seed, epoch=epoch)
            write_store(path, counted(examples, "sequences cut"))
            return Store(path)

        if line := self.task_objective.warning(store_of(0).labels):
            say(line)
        return self._started(start), start, store_of

    def shards(self, recipe: Recipe, start: Start, say: Say) -> tuple[Self, Start, Shards]:
        """Stream shards of text; the sequences of each chunk are cut again for each epoch."""
        options = recipe.options
        text = ShardedText(
            shards=find_shards(recipe.data.train),
            layout=self.documents,
            sentences=self.sentences,
            tokenizer=start.tokenizer,
            objective=self.task_objective,
            frame=frame_of(start),
            seed=recipe.training.seed,
            segmented=self.masking in ("word", "n-gram"),
            encoding=recipe.columns.encoding,
            cache=options.corpus,
        )
        return self._started(start), start, text.opened(options, recipe.training.batch_size, say)

    def _started(self, start: Start) -> Self:
        """Return the task with the fields that depend on the tokenizer and the model."""
        mask, first = start.tokenizer.mask_token, start.model.first_position
        return replace(self, mask=mask, first_position=first, segment=start.max_length // 2)

    @classmethod
    def remove_resume_files(cls, recipe: Recipe) -> None:
        """Delete the tokenized text from the run folder."""
        shutil.rmtree(recipe.run.out / CORPUS, ignore_errors=True)

    def encode(
        self,
        records: Iterable[Example | Record],
        tokenizer: Tokenizer,
        fit: LengthLimit,
        *,
        labelled: bool,
    ) -> Iterator[Fitted[Example]]:
        """Pass training sequences through unchanged; encode texts to predict on."""
        for record in records:
            if isinstance(record, Example):
                size = len(record.ids)
                yield Fitted(pieces=[record], tokens_total=size, tokens_used=size)
            else:
                yield self.task_objective.inference.encode(record, tokenizer, fit)

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer, draw: Draw | None) -> Batch:
        """Collate and pad examples; with a draw, add the targets of the objective."""
        if draw is None:
            return self.task_objective.inference.batch(examples, tokenizer)
        batch = self.task_objective.training_batch(examples, tokenizer, self._rule(tokenizer), draw)
        return masked_tokens.with_first_position(self.first_position, batch)

    def _rule(self, tokenizer: Tokenizer) -> MaskRule | None:
        if not self.task_objective.masks_tokens:
            return None
        return _rule(
            tokenizer,
            share=self.mask_share,
            masking=self.masking,
            phrases=self.phrases,
            max_predictions=self.max_predictions,
        )

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the summed loss of each term of the objective."""
        return self.task_objective.loss(forward, batch)

    def loss_divisor(self, batch: Batch) -> Tensor:
        """Return the divisor of each summed loss."""
        return self.task_objective.loss_divisors(batch)

    @property
    def teacher_output(self) -> Literal["scores"] | None:
        """A teacher provides token logits, if a single forward pass computes them for a batch."""
        several_passes = self.objective == "plm"
        return "scores" if self.abilities & {"fill", "write"} and not several_passes else None

    def distillation_losses(self, batch: Batch) -> tuple[DistillationLoss, ...]:
        """Return the distillation losses of token logits, and of pair logits if there are any."""
        return masked_tokens.distillation_losses(batch)

    def write_extra_files(self, start: Start, folder: Path) -> None:
        """Write the objective's additional files next to the model."""
        self.task_objective.source.write_beside(start, folder)

    # Answers and scores.

    def load(self, folder: Path, head: Head | None) -> Model:
        """Load the model of a finished run."""
        return self.task_objective.source.reload(folder)

    def run_model(
        self, model: Forward, batch: Batch, settings: PredictSettings
    ) -> Sequence[Any] | Tensor:
        """Return the scores of sequences, shape (B, ...), or the outputs for texts."""
        if batch.targets:
            return self.task_objective.score(model, batch)
        return self.task_objective.inference.run_model(model, batch, settings)

    def decode(
        self,
        record: Example | Record,
        fitted: Fitted[Example],
        outputs: Sequence[Any],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Answer:
        """Return the scores of a sequence, or the answer for a text."""
        if not isinstance(record, Example):
            inference = self.task_objective.inference
            return inference.decode(record, fitted, outputs, settings, tokenizer)
        text = tokenizer.text_of((record.ids & ~IN_WORD).tolist())
        return self.task_objective.scored(outputs[0].tolist(), text, fitted)

    def explanation_target(
        self,
        computed: Answered[Example | Record, Any, Answer],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> ExplanationTarget:
        """Explain an answer; see the objective."""
        return self.task_objective.inference.explanation_target(computed, target, tokenizer)

    def scores(self) -> Scores[Answer, Example | Record]:
        """Return a new, empty accumulator of scores."""
        return self.task_objective.scores()

    def item_scorer(self) -> AnyItemScorer:
        """Return the scorer of its answers."""
        return self.task_objective.item_scorer()

    def model_card(self) -> str:
        """Describe the run for its model card."""
        return self.task_objective.model_card(masked_tokens.MASKED[self.masking])


_rule = lru_cache(maxsize=2)(mask_rule)  # building a rule reads the whole vocabulary
