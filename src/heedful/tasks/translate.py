"""Translation: a text in one language for a text in another, learnt from pairs of them.

By the Transformer (Vaswani et al. 2017) or by recurrent networks with attention (Bahdanau et al.
2015). Any text for any text is learnt so.

Shapes: B examples of a batch, E tokens of the text to read, S of the text to write.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

import torch
from torch import Tensor

from heedful.aim import Aim, Computed
from heedful.batches import Batch, Draw, Example, Fitted, Store, write_store
from heedful.batches.collate import collate, token_labels
from heedful.batches.parallel import cut_source, encode_pairs, to_example, token_ids
from heedful.errors import UserError, amount
from heedful.files import new_folder
from heedful.judging import Judge
from heedful.losses import IGNORED
from heedful.metrics.generation import bleu_tokenizer
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.reading import Record, Text
from heedful.reading.parallel import (
    Cleaning,
    letter_shares,
    look_swapped,
    read_pairs,
    read_sources,
)
from heedful.settings import (
    ColumnSettings,
    ParallelSettings,
    PredictSettings,
    ScoreSettings,
    TranslateSettings,
    left_out,
)
from heedful.task import (
    Ability,
    Fit,
    Forward,
    Input,
    Recipe,
    Say,
    Start,
    StoreOf,
    Task,
    check_max_length,
)
from heedful.tasks import translator
from heedful.tasks.aims import generated as aims
from heedful.tasks.answers.generated import best_texts
from heedful.tasks.answers.translations import Translation, TranslationScores, link_words
from heedful.tasks.generation import SEARCH_OPTIONS, GenerationOutput
from heedful.tasks.judges import texts as judges
from heedful.tasks.texts import text_records
from heedful.tokens import TranslationTokenizer
from heedful.training.progress import counted

VOCABULARY = "vocabulary"
"""Folder of a run that keeps the tokenizer that it learnt, until the run is finished."""

_SAMPLE = 10_000
"""Pairs by which the two languages are told apart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Translate(Task[Record, GenerationOutput, Translation]):
    """What a run translates."""

    name: ClassVar[str] = "translate"
    abilities: ClassVar[frozenset[Ability]] = frozenset({"write", "prefix", "align"})
    answer_options: ClassVar[frozenset[str]] = SEARCH_OPTIONS | {
        "alignments",
        "coverage_penalty",
        "whole_words",
    }
    two_sided: ClassVar[bool] = True
    dev_beam: ClassVar[int] = 1
    head_rate: ClassVar[float] = 1.0
    # Vaswani et al. 2017, section 5.3.
    betas: ClassVar[tuple[float, float]] = (0.9, 0.98)
    epsilon: ClassVar[float] = 1e-9

    longest: int
    """The most tokens of a translation: those of the longest it learnt from, and half as many
    more."""
    source_letters: dict[str, float] = field(default_factory=dict)
    """Shares of the letters of the language it reads; see ``reading.parallel.letter_shares``."""
    target_letters: dict[str, float] = field(default_factory=dict)
    """The same of the language it writes."""
    bleu_tokenize: str = "13a"
    """How BLEU splits its texts into words, by the script of what it learnt to write."""

    # Records.

    @classmethod
    def read(
        cls, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Record]:
        """Stream texts, with their translations if those are wanted.

        Raises:
            UserError: naming the file and line of the first record that cannot be used.
        """
        return read_pairs(paths, columns) if labelled else read_sources(paths, columns)

    @classmethod
    def from_texts(cls, texts: Sequence[Text], first: int = 1) -> list[Record]:
        """Make records of texts, or of pairs of a text and what its translation begins with."""
        return text_records(texts, first)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """A text, perhaps with what its translation begins with."""
        return Input(name="text"), Input(name="beginning of the translation", optional=True)

    @classmethod
    def decide(cls, recipe: Recipe) -> Self:
        """See which letters the two languages have, and go through all records once.

        Raises:
            UserError: there is no pair, or an option has no effect.
        """
        _check_options(recipe)
        records = _counted_pairs(recipe, "read")
        sample = list(islice(records, _SAMPLE))
        if not sample:
            raise UserError("the training data holds no pair of texts")
        for _ in records:  # so that what is wrong in a file is said before anything is learnt
            pass
        return cls(
            longest=0,  # known once the pairs have been tokenized
            source_letters=letter_shares(record.text for record in sample),
            target_letters=letter_shares(record.text_pair or "" for record in sample),
            bleu_tokenize=bleu_tokenizer(record.text_pair or "" for record in sample),
        )

    def scorable(self, records: Iterator[Record], say: Say) -> Iterator[Record]:
        """Pass over pairs that are blank on both sides, and say in the end how many those were."""
        count, first = 0, ""
        for record in records:
            if record.text.strip() or (record.text_pair or "").strip():
                yield record
            else:
                count, first = count + 1, first or record.where
        if count:
            pairs = amount(count, "pair")
            say(f"{pairs} passed over, empty on both sides (the first: {first})")

    def check(self, record: Record) -> None:
        """Refuse a pair that nothing can be scored on.

        Raises:
            UserError: with file and line.
        """
        for text, what in ((record.text, "text"), (record.text_pair, "translation")):
            if text is None or not text.strip():
                raise UserError(
                    f"{record.where}: the {what} is empty; to score a run, "
                    "each text needs its translation"
                )

    def doubt(self, records: Sequence[Record]) -> str | None:
        """Say so if texts and translations look swapped."""
        if look_swapped(records, self.source_letters, self.target_letters):
            return (
                "by their letters, the texts look like what this run writes and their translations "
                "like what it reads: are the files, or the columns, swapped?"
            )
        return None

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Name what can pick the best step."""
        return ("bleu", "bleu_lowercase", "chrf", "log_likelihood")

    def start(self, recipe: Recipe) -> Start:
        """Learn a tokenizer and make a model, or load those to go on from.

        A run that is resumed loads the tokenizer that it learnt.
        """
        data, options, kept = recipe.data, recipe.options, recipe.run.out / VOCABULARY
        assert isinstance(data, ParallelSettings)
        assert isinstance(options, TranslateSettings)
        if data.model is not None:
            tokenizer = TranslationTokenizer.from_pretrained(data.model, revision=data.revision)
        elif recipe.run.resume and kept.is_dir():
            tokenizer = TranslationTokenizer.from_pretrained(kept)
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
        if recipe.training.gradient_checkpointing and not model.can_recompute:
            raise _no_blocks()
        max_length = check_max_length(data.max_length, model.max_positions)
        return Start(tokenizer=tokenizer, model=model, max_length=max_length)

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Encode the pairs that are worth learning from, and say what is left out.

        What a run has seen decides what it is given at once, and how much it may write.

        Raises:
            UserError: no pair is left.
        """
        kept = recipe.run.out / VOCABULARY
        if recipe.data.model is None and not kept.is_dir():
            with new_folder(kept) as vocabulary:
                start.tokenizer.save_pretrained(vocabulary)
        cleaning = Cleaning(max_tokens=start.max_length, max_ratio=recipe.options.max_ratio)
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
        task = replace(self, longest=int(store.label_lengths.max()) * 3 // 2)
        start = replace(start, max_length=max(int(store.lengths.max()), 8))
        return task, start, lambda epoch: store

    @classmethod
    def clean_up(cls, recipe: Recipe) -> None:
        """Delete the tokenizer that was kept for a resumed run."""
        shutil.rmtree(recipe.run.out / VOCABULARY, ignore_errors=True)

    def encode(
        self,
        records: Iterable[Record],
        tokenizer: TranslationTokenizer,
        fit: Fit,
        *,
        labelled: bool,
    ) -> Iterator[Fitted[Example]]:
        """Turn texts into examples that end with the ending piece, in parts where one is too long.

        The labels of an example are its known translation, or what its translation must begin
        with, which the first of several parts has. How likely a known translation is cannot be
        told where it is longer than any that the run writes, or where its text is read in parts:
        then there are no labels. An empty text has no example.

        Raises:
            UserError: see `check`; or a text is too long and may not be cut.
        """
        for record, source, target in token_ids(records, tokenizer):
            if labelled:
                self.check(record)
                target = [*target, tokenizer.eos_token_id]
            blank = not record.text.strip()
            parts: list[Sequence[int]] = []
            if not blank:
                limit = fit.max_length - 1  # the ending piece
                parts = cut_source(record, source, tokenizer, limit=limit, rule=fit.rule)
            if labelled and (len(parts) > 1 or len(target) > self.longest):
                target = []
            whole = blank or fit.rule == "window"
            yield Fitted(
                pieces=[
                    to_example(part, target if number == 0 else (), tokenizer)
                    for number, part in enumerate(parts)
                ],
                tokens_total=len(source),
                tokens_used=len(source) if whole else sum(map(len, parts)),
            )

    def batch(
        self, examples: Sequence[Example], tokenizer: TranslationTokenizer, draw: Draw | None
    ) -> Batch:
        """Pad examples, and their translations.

        The targets are ``labels``, (B, S), or without a draw ``prefixes``, (B, S), what each
        translation must begin with, if any must; -100 after them.
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
        """Return the sum of the losses of the tokens to write."""
        output = forward(**batch.inputs, labels=batch.targets["labels"], reduction="sum")
        total: Tensor = output.loss
        return total

    def count(self, batch: Batch) -> float:
        """Return how many tokens are to be written."""
        return float((batch.targets["labels"] != IGNORED).sum())

    @property
    def taught_by(self) -> Literal["texts"]:
        """A teacher writes the translations (Kim & Rush 2016, section 3.2)."""
        return "texts"

    # Answers.

    def check_model(self, model: Model) -> None:
        """Refuse a length that no translation has."""
        if self.longest < 1:
            raise UserError(f"longest is {self.longest}; it must be at least 1")

    def compute(
        self, model: Forward, batch: Batch, settings: PredictSettings
    ) -> list[GenerationOutput]:
        """Write translations, and score those that are known."""
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
        """Turn tokens into texts; those of several parts are joined, the best of each."""
        texts = best_texts(outputs, tokenizer.target.decode)
        best = [output.hypotheses[0].tokens for output in outputs]
        links = None
        if settings.alignments:
            source = [example.ids[:-1].tolist() for example in fitted.pieces]
            weights = [output.attention for output in outputs if output.attention is not None]
            links = link_words(
                record.text,
                source,
                texts[0].text,
                best,
                weights,
                tokenizer,
                whole_words=settings.whole_words,
            )
        return Translation(
            n_best=texts,
            links=links,
            log_likelihood=sum(output.log_likelihood for output in outputs),
            tokens_known=sum(output.tokens_known for output in outputs),
            tokens_generated=sum(len(tokens) + 1 for tokens in best),
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
        )

    def aim(
        self,
        computed: Computed[Record, GenerationOutput, Translation],
        target: str | None,
        tokenizer: TranslationTokenizer,
    ) -> Aim:
        """Explain a word of the translation, or all of it."""
        return aims.translated(computed, target, tokenizer)

    def scores(self) -> TranslationScores:
        """Return empty scores."""
        return TranslationScores(self.bleu_tokenize)

    def scored_by(self, settings: ScoreSettings) -> Self:
        """Return the same task, with another tokenizer for BLEU."""
        return replace(self, bleu_tokenize=settings.bleu_tokenize or self.bleu_tokenize)

    def judge(self) -> Judge[Translation, Record]:
        """Return what judges its answers."""
        return judges.generated(cased=True, translated=True, bleu_tokenize=self.bleu_tokenize)

    def card(self) -> str:
        """Say what the run does."""
        return "Translates texts; trained on texts with their translations."


def _check_options(recipe: Recipe) -> None:
    """Refuse options that would change nothing, and sizes of a model that has its own.

    Raises:
        UserError: naming the option.
    """
    if recipe.training.head_learning_rate is not None:
        raise UserError(
            "--head-learning-rate has no effect on a translator, which has no fresh head: leave it "
            "out"
        )
    if recipe.training.gradient_checkpointing and recipe.options.arch == "rnn":
        raise _no_blocks()
    if recipe.data.model is None:
        if recipe.data.prune is not None:
            raise UserError("--prune takes heads out of a trained run: give --model too")
        if recipe.data.revision is not None:
            raise UserError("--revision is of a model from a hub: give --model too")
        return
    options = [field.name for field in fields(TranslateSettings) if field.name != "max_ratio"]
    left_out(recipe.options, options, "is for a model from scratch: leave out it or --model")


def _no_blocks() -> UserError:
    return UserError(
        "--gradient-checkpointing is for a Transformer: lower --batch-tokens to save the memory of "
        "a recurrent translator"
    )


def _counted_pairs(recipe: Recipe, what: str) -> Iterator[Record]:
    """Stream the training data, and show how many pairs have been read, counted or tokenized."""
    return counted(read_pairs(recipe.data.train, recipe.columns), f"pairs {what}")
