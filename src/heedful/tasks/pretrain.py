"""Pre-training: masked words, and whether one sentence follows another.

Devlin et al. 2019, section 3.1. It learns from running text, from which sequences are
cut; those are its records. What a finished run answers is in ``answers/blanks.py``.

Shapes: B sequences of a batch, T their length, N hidden tokens, V vocabulary.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful import losses
from heedful.aim import Aim, Computed
from heedful.batches import Batch, Draw, Example, Fitted, Store, write_store
from heedful.batches.collate import class_labels, collate
from heedful.batches.corpus import Corpus
from heedful.batches.masking import IGNORED, MaskRule, hide_tokens, mask_rule
from heedful.batches.packing import keep_apart
from heedful.batches.sentence_pairs import RANDOM, Frame, full_sequences, sentence_pairs
from heedful.batches.sentences import SentenceRule
from heedful.errors import UserError
from heedful.judging import AnyJudge
from heedful.models import BertConfig, BertForMaskedLM, BertForPreTraining
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.models.outputs import LanguageModelOutput, PreTrainingOutput
from heedful.models.presets import PRESETS
from heedful.reading import Record, Text
from heedful.reading.documents import DocumentLayout
from heedful.settings import ColumnSettings, PredictSettings, PretrainSettings, in_range
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
from heedful.tasks.aims import blanks as aims
from heedful.tasks.answers import blanks
from heedful.tasks.answers.blanks import Filled
from heedful.tasks.answers.sequences import Scored, SequenceScores
from heedful.tasks.corpus import check_documents, open_corpus, unknown_share
from heedful.tasks.judges import texts as judges
from heedful.tasks.texts import read_table, text_records
from heedful.tokens import Tokenizer, load_encoder_tokenizer
from heedful.training.progress import counted

MAX_LENGTH = 128
"""Tokens of a sequence unless told otherwise, as in nine tenths of the original's steps."""

CORPUS = "corpus"
"""Folder of a run that keeps the tokenized text until the run is finished."""

MANY_UNKNOWN, MANY_RANDOM = 0.02, 0.6
"""Shares of unknown tokens, and of random pairs, from which on the user is told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pretrain(Task[Example | Record, Tensor, Scored | Filled]):
    """What a run learns, and from what."""

    name: ClassVar[str] = "pretrain"
    answer_options: ClassVar[frozenset[str]] = frozenset({"targets"})
    abilities: ClassVar[frozenset[Ability]] = frozenset({"fill"})
    example: ClassVar[str] = '"The cat sat on the [MASK]."'
    head_rate: ClassVar[float] = 1.0

    preset: str | None
    """Sizes of a model from scratch; None for one that goes on."""
    positions: int | None
    """Its positions."""
    position_type: str
    """How it knows them: one of ``layers.positions.POSITIONS``."""
    objective: Literal["mlm+nsp", "mlm"]
    mask_share: float
    whole_word: bool
    max_predictions: int | None
    documents: DocumentLayout
    sentences: SentenceRule

    @property
    def pairs(self) -> bool:
        """Whether it learns from pairs of sentences."""
        return self.objective == "mlm+nsp"

    # Records.

    @classmethod
    def read(
        cls, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Example | Record]:
        """Stream texts to answer for; what is learnt from are sequences: `labelled_records`."""
        assert not labelled
        return read_table(paths, columns, labelled=False)

    @classmethod
    def from_texts(cls, texts: Sequence[Text]) -> list[Example | Record]:
        """Make records of texts or pairs."""
        return [*text_records(texts)]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """A text with masks; or two, if it learnt to tell whether the second follows."""
        follows = (Input(name="following text", optional=True),) if self.pairs else ()
        return Input(name="text"), *follows

    @classmethod
    def decide(cls, recipe: Recipe) -> Self:
        """Take all from the settings: there is nothing to be seen in the data.

        Raises:
            UserError: a setting means nothing here.
        """
        data, options = recipe.data, recipe.options
        assert isinstance(options, PretrainSettings)
        if data.prune is not None:
            raise UserError(
                "--prune takes heads out of a run of the same task; prune when fine-tuning"
            )
        if data.fresh_pooler:
            raise UserError("--fresh-pooler is for fine-tuning what was pre-trained; leave it out")
        if data.long_text is not None:
            raise UserError("--long-text: sequences are cut from a text without loss; leave it out")
        positions = options.positions
        if options.preset is not None:
            if data.model != "minilm":
                raise UserError(
                    f"--preset starts from scratch and --model {data.model} goes on: give one of "
                    "them"
                )
            max_length = data.max_length or MAX_LENGTH
            in_range("max_length", max_length, 8, 10**6, what="a whole number of at least 8")
            positions = positions or max_length
        return cls(
            preset=options.preset,
            positions=positions,
            position_type=options.position_type,
            objective=options.objective,
            mask_share=options.mask_share,
            whole_word=options.whole_word,
            max_predictions=options.max_predictions,
            documents=options.documents,
            sentences=options.sentences,
        )

    def check_files(self, recipe: Recipe, say: Say) -> None:
        """Refuse files of which no sequences can be made.

        Raises:
            UserError: see `check_documents`.
        """
        for paths in (recipe.data.train, recipe.data.dev or []):
            if paths:
                check_documents(paths, self.documents, pairs=self.pairs)

    def labelled_records(
        self, paths: Sequence[Path], columns: ColumnSettings, start: Start, folder: Path
    ) -> Callable[[], Iterator[Example | Record]]:
        """Tokenize running text into a folder, and return what cuts sequences from it.

        Raises:
            UserError: columns are named, or see `check_documents` and `open_corpus`.
        """
        if columns != ColumnSettings():
            raise UserError("plain text has no columns: leave out their options")
        check_documents(paths, self.documents, pairs=self.pairs)
        corpus = self._corpus(paths, start.tokenizer, folder)
        return partial(self.sequences, corpus, start, seed=0, epoch=0)

    def sequences(
        self, corpus: Corpus, start: Start, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut the sequences of an epoch from a corpus.

        Raises:
            UserError: there is only one document to make pairs of.
        """
        frame = Frame(layout=start.tokenizer.layout, max_length=start.max_length)
        cut = sentence_pairs if self.pairs else full_sequences
        return cut(corpus, frame, seed=seed, epoch=epoch)

    def _corpus(
        self,
        paths: Sequence[Path],
        tokenizer: Tokenizer,
        folder: Path,
        workers: int | None = None,
    ) -> Corpus:
        return open_corpus(
            paths, self.documents, self.sentences, tokenizer, folder, workers=workers
        )

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Name what can pick the best step."""
        return ("masked_accuracy", "nsp_accuracy") if self.pairs else ("masked_accuracy",)

    def start(self, recipe: Recipe) -> Start:
        """Make a model from scratch, for the vocabulary that is named, or load one to go on with.

        Raises:
            UserError: there is no such model or vocabulary, or it has no mask.
        """
        data = recipe.data
        torch.manual_seed(recipe.training.seed)
        tokenizer = load_encoder_tokenizer(recipe.options.vocabulary or data.model, data.revision)
        mask_rule(tokenizer, most=None)  # so that one without a mask is refused at once
        if self.preset is None:
            model: Model = load_model(
                data.model,
                head="pretraining" if self.pairs else "masked_lm",
                dropout=data.dropout,
                is_decoder=False,
                revision=data.revision,
            )
        else:
            model = self._fresh_model(tokenizer, 0.1 if data.dropout is None else data.dropout)
        positions = model.max_positions
        length = data.max_length or min(MAX_LENGTH, positions)
        return Start(
            tokenizer=tokenizer, model=model, max_length=check_max_length(length, positions)
        )

    def _fresh_model(self, tokenizer: Tokenizer, dropout: float) -> Model:
        assert self.preset is not None
        config = BertConfig(
            vocab_size=len(tokenizer),
            pad_token_id=tokenizer.pad_token_id,
            max_position_embeddings=self.positions or 512,
            position_embedding_type=self.position_type,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            **PRESETS[self.preset],
        )
        return BertForPreTraining(config) if self.pairs else BertForMaskedLM(config)

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Tokenize the text, and cut its sequences anew for each epoch."""
        options, tokenizer = recipe.options, start.tokenizer
        kept = options.corpus or recipe.run.out / CORPUS
        corpus = self._corpus(recipe.data.train, tokenizer, kept, options.workers)
        unknown = unknown_share(corpus, tokenizer)
        rare = (
            f", {unknown:.0%} of them unknown to the vocabulary" if unknown > MANY_UNKNOWN else ""
        )
        say(f"{len(corpus):,} documents of {corpus.tokens:,} tokens{rare}")
        path, seed = folder / "sequences.arrow", recipe.training.seed

        @lru_cache(maxsize=1)
        def store_of(epoch: int) -> Store:
            examples = self.sequences(corpus, start, seed=seed, epoch=epoch)
            write_store(path, counted(examples, "sequences cut"))
            return Store(path)

        if line := self._many_random(store_of(0)):
            say(line)
        return self, start, store_of

    def _many_random(self, store: Store) -> str | None:
        """Say so if too many of the pairs have a second part that does not follow the first."""
        share = float(np.mean(store.labels == RANDOM)) if self.pairs else 0.0
        if share <= MANY_RANDOM:
            return None
        return (
            f"{share:.0%} of the pairs have a random second part, since many documents have "
            "nothing to follow their first sentence; --documents says what ends a document (gap "
            "or file suits books)"
        )

    def clean_up(self, recipe: Recipe) -> None:
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
                yield blanks.encode(record, tokenizer, fit, pairs=self.pairs)

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer, draw: Draw | None) -> Batch:
        """Pad examples; with a draw hide some of their tokens, without one find their masks.

        The N hidden tokens stand at ``positions`` of the inputs, in the batch laid out as one row.
        The targets are ``tokens``, (N,), and of pairs ``next_sentence``, (B,): 0 where the second
        text follows.
        """
        if draw is None:
            batch = collate(examples, pad_id=tokenizer.pad_token_id)
            assert tokenizer.mask_token_id is not None  # or nothing could have been learnt
            masks = batch.inputs["input_ids"].flatten().eq(tokenizer.mask_token_id)
            return _with_inputs(batch, {"positions": masks.nonzero().squeeze(1)})
        rule = _rule(tokenizer, self.mask_share, self.whole_word, self.max_predictions)
        hidden = [
            hide_tokens(example.ids, rule, seed=draw.seed, epoch=draw.epoch, index=int(index))
            for example, index in zip(examples, draw.rows, strict=True)
        ]
        seen = [
            replace(example, ids=ids.astype(np.int32))
            for example, (ids, _) in zip(examples, hidden, strict=True)
        ]
        batch = collate(seen, pad_id=tokenizer.pad_token_id)
        truth = np.full(batch.inputs["input_ids"].shape, IGNORED)  # (B, T)
        for line, (_, labels) in zip(truth, hidden, strict=True):
            line[: len(labels)] = labels
        positions = np.flatnonzero(truth != IGNORED)  # (N,)
        targets = {"tokens": torch.from_numpy(truth.reshape(-1)[positions])}
        inputs = {"positions": torch.from_numpy(positions)}
        if self.pairs:
            targets["next_sentence"] = class_labels(examples)
        else:
            inputs |= keep_apart(
                batch.inputs["input_ids"],
                batch.inputs.get("attention_mask"),
                tokenizer.cls_token_id,
            )
        return replace(_with_inputs(batch, inputs), targets=targets)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sum of the losses of hidden tokens, and that of what follows. (2,) or (1,)."""
        logits, follows = _logits(forward, batch)
        sums = [losses.cross_entropy(logits, batch.targets["tokens"])[0]]
        if follows is not None:
            sums.append(losses.cross_entropy(follows, batch.targets["next_sentence"])[0])
        return torch.stack(sums)

    def count(self, batch: Batch) -> Tensor:
        """Return how many tokens are hidden, and how many pairs there are. Shape (2,) or (1,)."""
        device = batch.targets["tokens"].device
        return torch.tensor([len(target) for target in batch.targets.values()], device=device)

    # Answers and scores.

    def compute(self, model: Forward, batch: Batch, settings: PredictSettings) -> Tensor:
        """Score sequences, or give tokens for masks: shape (B, 4), or that of `blanks.candidates`.

        The four numbers are the sum of the losses, the tokens told right, the tokens hidden, and
        whether it was told what follows.
        """
        logits, follows = _logits(model, batch)
        positions, (size, length) = batch.inputs["positions"], batch.inputs["input_ids"].shape
        if not batch.targets:
            shape = batch.inputs["input_ids"].shape
            top = logits.shape[1] if settings.targets else settings.top
            return blanks.candidates(logits, follows, positions, shape, top)
        tokens = batch.targets["tokens"]
        owner = positions // length  # (N,)
        each = -logits.float().log_softmax(-1).gather(1, tokens[:, None]).squeeze(1)  # (N,)
        right = (logits.argmax(-1) == tokens).float()
        told = torch.stack([each, right, torch.ones_like(each)], dim=1)  # (N, 3)
        rows = told.new_zeros(size, 4).index_add_(0, owner, F.pad(told, (0, 1)))
        if follows is not None and "next_sentence" in batch.targets:
            rows[:, 3] = (follows.argmax(-1) == batch.targets["next_sentence"]).float()
        return rows

    def decode(
        self,
        record: Example | Record,
        fitted: Fitted[Example],
        outputs: Sequence[Tensor],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Scored | Filled:
        """Take a sequence's scores, or choose what stands behind the masks of a text."""
        if not isinstance(record, Example):
            return blanks.decode(record, fitted, outputs, settings, tokenizer)
        total, right, hidden, next_right = outputs[0].tolist()
        return Scored(
            text=tokenizer.text_of(record.ids.tolist()),
            loss=total,
            right=int(right),
            hidden=int(hidden),
            next_right=bool(next_right) if self.pairs else None,
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
        )

    def aim(
        self,
        computed: Computed[Example | Record, Tensor, Scored | Filled],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> Aim:
        """Explain a word for a mask (``WORD``, or ``2=WORD`` for the second), or what follows."""
        return aims.blank(computed, target, tokenizer)

    def scores(self) -> SequenceScores:
        """Return empty scores."""
        return SequenceScores(pairs=self.pairs)

    def judge(self) -> AnyJudge:
        """Return what judges its answers."""
        return judges.sequences(pairs=self.pairs)

    def card(self) -> str:
        """Say what the run learns."""
        masked = "whole words" if self.whole_word else "tokens"
        follows = ", and tells whether one sentence follows another" if self.pairs else ""
        return f"Says which words stand behind [MASK]{follows}; learnt with masked {masked}."


def _with_inputs(batch: Batch, inputs: dict[str, Tensor]) -> Batch:
    """Return a batch whose model is given more."""
    return replace(batch, inputs=batch.inputs | inputs)


@lru_cache(maxsize=2)  # it reads the whole vocabulary
def _rule(tokenizer: Tokenizer, share: float, whole_word: bool, most: int | None) -> MaskRule:
    return mask_rule(tokenizer, share=share, whole_word=whole_word, most=most)


def _logits(forward: Forward, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """Return the logits of hidden tokens, (N, V), and of what follows, (B, 2) if that is learnt."""
    output: PreTrainingOutput | LanguageModelOutput = forward(**batch.inputs)
    if isinstance(output, PreTrainingOutput):
        return output.prediction_logits, output.seq_relationship_logits
    return output.logits, None
