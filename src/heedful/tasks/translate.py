"""Translation, learnt from pairs of source and target texts.

The model is a Transformer (Vaswani et al. 2017) or a recurrent network with attention (Bahdanau et
al. 2015). It can learn any other text-to-text task too.

Shapes: B examples of a batch, E source tokens, S target tokens.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

import torch
from torch import Tensor

from heedful.batches import Batch, Draw, Example, Fitted, Store, write_store
from heedful.batches.collate import collate, token_labels
from heedful.batches.parallel import cut_source, encode_pairs, to_example, token_ids
from heedful.errors import UserError, count_of
from heedful.explanation_target import Answered, ExplanationTarget
from heedful.files import new_folder
from heedful.item_results import ItemScorer
from heedful.losses import IGNORED
from heedful.metrics.generation import bleu_tokenizer
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.reading import Record, Text
from heedful.reading.parallel import (
    PairFilter,
    letter_shares,
    read_pairs,
    read_sources,
    sides_look_swapped,
)
from heedful.settings import (
    ColumnSettings,
    ParallelSettings,
    PredictSettings,
    ScoreSettings,
    TranslateSettings,
    refuse_options,
)
from heedful.task import (
    Ability,
    Forward,
    Input,
    LengthLimit,
    Recipe,
    Say,
    Start,
    StoreOf,
    Task,
    check_max_length,
)
from heedful.tasks import translator
from heedful.tasks.answers.generated import best_texts
from heedful.tasks.answers.translations import Translation, TranslationScores, align_words
from heedful.tasks.explanation_targets.generated import translated as translation_target
from heedful.tasks.generation import SEARCH_OPTIONS, GenerationOutput
from heedful.tasks.item_scorers import texts as item_scorers
from heedful.tasks.texts import text_records
from heedful.tokens import TranslationTokenizer
from heedful.training.progress import counted

VOCABULARY = "vocabulary"
"""Folder within the run folder that holds the learnt tokenizer until the run is finished."""

_SAMPLE = 10_000
"""Number of pairs from which the letters of the two languages are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Translate(Task[Record, GenerationOutput, Translation]):
    """Translates texts."""

    name: ClassVar[str] = "translate"
    abilities: ClassVar[frozenset[Ability]] = frozenset({"write", "prefix", "align"})
    answer_options: ClassVar[frozenset[str]] = SEARCH_OPTIONS | {
        "alignments",
        "coverage_penalty",
        "whole_words",
    }
    has_target_tokens: ClassVar[bool] = True
    eval_num_beams: ClassVar[int] = 1
    # Vaswani et al. 2017, section 5.3.
    betas: ClassVar[tuple[float, float]] = (0.9, 0.98)
    epsilon: ClassVar[float] = 1e-9

    longest: int
    """Maximum number of tokens of a translation: 1.5 times the longest in the training data, or
    that of the model to continue from."""
    source_letters: dict[str, float] = field(default_factory=dict)
    """Letter frequencies of the source language; see ``reading.parallel.letter_shares``."""
    target_letters: dict[str, float] = field(default_factory=dict)
    """Letter frequencies of the target language."""
    bleu_tokenize: str = "13a"
    """sacreBLEU tokenizer, chosen by the script of the target language."""

    # Records.

    @classmethod
    def read(
        cls, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Record]:
        """Stream texts, with their translations if ``labelled``.

        Raises:
            UserError: a record is invalid; names the file and line of the first one.
        """
        return read_pairs(paths, columns) if labelled else read_sources(paths, columns)

    @classmethod
    def from_texts(cls, texts: Sequence[Text], first: int = 1) -> list[Record]:
        """Make records from texts, or from pairs of a text and the start of its translation."""
        return text_records(texts, first)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """A text, and optionally the start of its translation."""
        return Input(name="text"), Input(name="beginning of the translation", optional=True)

    @classmethod
    def from_training_data(cls, recipe: Recipe) -> Self:
        """Count the letters of both languages, and read all records once to find errors early.

        Raises:
            UserError: there is no pair, or an option has no effect.
        """
        _check_options(recipe)
        records = _counted_pairs(recipe, "read")
        sample = list(islice(records, _SAMPLE))
        if not sample:
            raise UserError("the training data has no pair of texts")
        for _ in records:  # find errors in the rest of the files before training
            pass
        return cls(
            longest=0,  # set by `stores`, after tokenization
            source_letters=letter_shares(record.text for record in sample),
            target_letters=letter_shares(record.text_pair or "" for record in sample),
            bleu_tokenize=bleu_tokenizer(record.text_pair or "" for record in sample),
        )

    def drop_unscorable(self, records: Iterator[Record], say: Say) -> Iterator[Record]:
        """Skip pairs that are empty on both sides, and finally report how many were skipped."""
        count, first = 0, ""
        for record in records:
            if record.text.strip() or (record.text_pair or "").strip():
                yield record
            else:
                count, first = count + 1, first or record.where
        if count:
            pairs = count_of(count, "pair")
            say(f"skipped {pairs}, empty on both sides (the first: {first})")

    def check(self, record: Record) -> None:
        """Refuse a pair with an empty side, which cannot be scored.

        Raises:
            UserError: naming file and line.
        """
        for text, side in ((record.text, "text"), (record.text_pair, "translation")):
            if text is None or not text.strip():
                raise UserError(
                    f"{record.where}: the {side} is empty; for evaluation, each text needs its "
                    "translation"
                )

    def warn_about(self, records: Sequence[Record]) -> str | None:
        """Return a warning if texts and translations look swapped, else None."""
        if sides_look_swapped(records, self.source_letters, self.target_letters):
            return (
                "by their letters, the texts look like the target language, and their translations "
                "like the source language: are the files, or the columns, swapped?"
            )
        return None

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that can select the best step."""
        return ("bleu", "bleu_lowercase", "chrf", "log_likelihood")

    def start(self, recipe: Recipe) -> Start:
        """Learn a tokenizer and create a model, or load both to continue from a trained model.

        A resumed run loads the tokenizer that it learnt before.
        """
        data, options, vocabulary_folder = recipe.data, recipe.options, recipe.run.out / VOCABULARY
        assert isinstance(data, ParallelSettings)
        assert isinstance(options, TranslateSettings)
        if data.model is not None:
            tokenizer = TranslationTokenizer.from_pretrained(data.model, revision=data.revision)
        elif recipe.run.resume and vocabulary_folder.is_dir():
            tokenizer = TranslationTokenizer.from_pretrained(vocabulary_folder)
        else:
            tokenizer = translator.learn_tokenizer(_counted_pairs(recipe, "counted"), options)
        torch.manual_seed(recipe.training.seed)
        model: Any
        if data.model is None:
            model = translator.new_model(options, tokenizer, dropout=data.dropout)
        else:
            model = load_model(
                data.model, head="seq2seq", dropout=data.dropout, revision=data.revision
            )
        if recipe.training.gradient_checkpointing and not model.supports_checkpointing:
            raise _checkpointing_error()
        max_length = check_max_length(data.max_length, model.max_positions)
        return Start(
            tokenizer=tokenizer, model=model, max_length=max_length, head_lr_multiplier=1.0
        )

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Encode the pairs that pass the cleaning, and report the rejected ones.

        Sets the maximum input length and the maximum output length from the training data. They do
        not fall below those of the model to continue from.

        Raises:
            UserError: no pair is left.
        """
        vocabulary_folder = recipe.run.out / VOCABULARY
        if recipe.data.model is None and not vocabulary_folder.is_dir():
            with new_folder(vocabulary_folder) as vocabulary:
                start.tokenizer.save_pretrained(vocabulary)
        cleaning = PairFilter(max_tokens=start.max_length, max_ratio=recipe.options.max_ratio)
        pairs = encode_pairs(_counted_pairs(recipe, "tokenized"), start.tokenizer)
        write_store(
            folder / "train.arrow",
            (
                example
                for record, example in pairs
                if cleaning.keeps(record, len(example.ids) - 1, len(example.labels) - 1)
            ),
        )
        if report := cleaning.report():
            say(report)
        store = Store(folder / "train.arrow")
        if not len(store):
            raise UserError("no pair is left to learn from")
        longest, max_length = translator.earlier_limits(recipe.data, start.model)
        task = replace(self, longest=max(int(store.label_lengths.max()) * 3 // 2, longest))
        start = replace(start, max_length=max(int(store.lengths.max()), max_length, 8))
        return task, start, lambda epoch: store

    @classmethod
    def remove_resume_files(cls, recipe: Recipe) -> None:
        """Delete the tokenizer that was stored for resuming."""
        shutil.rmtree(recipe.run.out / VOCABULARY, ignore_errors=True)

    def encode(
        self,
        records: Iterable[Record],
        tokenizer: TranslationTokenizer,
        fit: LengthLimit,
        *,
        labelled: bool,
    ) -> Iterator[Fitted[Example]]:
        """Encode texts, each with an end-of-sequence token; a text that is too long is split.

        The labels of an example are its reference translation if ``labelled``, else the forced
        prefix of its translation, which goes to the first part of a split text. A reference gets no
        labels, and so no log-likelihood, if it is longer than `longest` or its text is split. An
        empty text gives no example.

        Raises:
            UserError: see `check`; or a text is too long and may not be cut; or a forced prefix is.
        """
        for record, source, target in token_ids(records, tokenizer):
            if labelled:
                self.check(record)
                target = [*target, tokenizer.eos_token_id]
            else:
                translator.check_prefix(target, fit.max_new_tokens or self.longest, record.where)
            is_empty = not record.text.strip()
            parts: list[Sequence[int]] = []
            if not is_empty:
                limit = fit.max_length - 1  # one less for the end-of-sequence token
                parts = cut_source(record, source, tokenizer, limit=limit, rule=fit.long_text)
            if labelled and (len(parts) > 1 or len(target) > self.longest):
                target = []
            uses_all = is_empty or fit.long_text == "window"
            yield Fitted(
                pieces=[
                    to_example(part, target if number == 0 else (), tokenizer)
                    for number, part in enumerate(parts)
                ],
                tokens_total=len(source),
                tokens_used=len(source) if uses_all else sum(map(len, parts)),
            )

    def batch(
        self, examples: Sequence[Example], tokenizer: TranslationTokenizer, draw: Draw | None
    ) -> Batch:
        """Collate and pad examples and their translations.

        The targets are ``labels``, or without a draw ``prefixes``, the forced prefixes of the
        translations, if there are any. Both have shape (B, S) and are padded with -100.
        """
        labels = token_labels(examples)
        if draw is None:
            targets = {"prefixes": labels} if (labels != IGNORED).any() else {}
            return collate(examples, pad_id=tokenizer.pad_token_id, targets=targets)
        batch = collate(examples, pad_id=tokenizer.pad_token_id, targets={"labels": labels})
        return replace(
            batch,
            num_tokens=batch.num_tokens + int((labels != IGNORED).sum()),
            num_positions=batch.num_positions + labels.numel(),
        )

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the summed loss of the target tokens."""
        output = forward(**batch.inputs, labels=batch.targets["labels"], reduction="sum")
        total: Tensor = output.loss
        return total

    def loss_divisor(self, batch: Batch) -> float:
        """Return the number of target tokens."""
        return float((batch.targets["labels"] != IGNORED).sum())

    @property
    def teacher_output(self) -> Literal["texts"]:
        """A teacher generates the translations (Kim & Rush 2016, section 3.2)."""
        return "texts"

    # Answers.

    def check_model(self, model: Model) -> None:
        """Refuse a maximum translation length below 1."""
        if self.longest < 1:
            raise UserError(f"longest is {self.longest}; it must be at least 1")

    def run_model(
        self, model: Forward, batch: Batch, settings: PredictSettings
    ) -> list[GenerationOutput]:
        """Generate translations, and score reference translations."""
        return translator.translate_batch(
            cast(translator.Translator, model), batch, settings, longest=self.longest
        )

    def decode(
        self,
        record: Record,
        fitted: Fitted[Example],
        outputs: Sequence[GenerationOutput],
        settings: PredictSettings,
        tokenizer: TranslationTokenizer,
    ) -> Translation:
        """Decode tokens into texts; for a split text, join the best translation of each part."""
        texts = best_texts(outputs, tokenizer.target.decode)
        best = [output.hypotheses[0] for output in outputs]
        links = None
        if settings.alignments:
            source = [example.ids[:-1].tolist() for example in fitted.pieces]
            attention = [output.attention for output in outputs if output.attention is not None]
            links = align_words(
                record.text,
                source,
                texts[0].text,
                [one.tokens for one in best],
                attention,
                tokenizer,
                whole_words=settings.whole_words,
            )
        return Translation(
            n_best=texts,
            links=links,
            log_likelihood=sum(output.log_likelihood for output in outputs),
            tokens_known=sum(output.tokens_known for output in outputs),
            tokens_generated=sum(len(one.tokens) + one.ended for one in best),
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
        )

    def explanation_target(
        self,
        computed: Answered[Record, GenerationOutput, Translation],
        target: str | None,
        tokenizer: TranslationTokenizer,
    ) -> ExplanationTarget:
        """Explain a word of the translation, or the whole translation."""
        return translation_target(computed, target, tokenizer)

    def scores(self) -> TranslationScores:
        """Return a new, empty accumulator of scores."""
        return TranslationScores(self.bleu_tokenize)

    def with_score_settings(self, settings: ScoreSettings) -> Self:
        """Return a copy of the task with another tokenizer for BLEU."""
        return replace(self, bleu_tokenize=settings.bleu_tokenize or self.bleu_tokenize)

    def item_scorer(self) -> ItemScorer[Translation, Record]:
        """Return the scorer of its answers."""
        return item_scorers.generated(cased=True, translated=True, bleu_tokenize=self.bleu_tokenize)

    def model_card(self) -> str:
        """Describe the run for its model card."""
        return "Translates texts; trained on texts with their translations."


def _check_options(recipe: Recipe) -> None:
    """Refuse options without effect, and size options for a model that is already trained.

    Raises:
        UserError: naming the option.
    """
    if recipe.training.head_learning_rate is not None:
        raise UserError(
            "--head-learning-rate has no effect on a translator, which has no fresh head: leave it "
            "out"
        )
    if recipe.training.gradient_checkpointing and recipe.options.arch == "rnn":
        raise _checkpointing_error()
    if recipe.data.model is None:
        if recipe.data.prune is not None:
            raise UserError("--prune removes heads from a trained run: give --model too")
        if recipe.data.revision is not None:
            raise UserError("--revision is for a model from a hub: give --model too")
        return
    options = [field.name for field in fields(TranslateSettings) if field.name != "max_ratio"]
    refuse_options(
        recipe.options, options, "is for a model from scratch: leave out either it or --model"
    )


def _checkpointing_error() -> UserError:
    return UserError(
        "--gradient-checkpointing is for a Transformer: lower --batch-tokens to save the memory of "
        "a recurrent translator"
    )


def _counted_pairs(recipe: Recipe, verb: str) -> Iterator[Record]:
    """Stream the training data; show progress as pairs read, counted or tokenized."""
    return counted(read_pairs(recipe.data.train, recipe.columns), f"pairs {verb}")
