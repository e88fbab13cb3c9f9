"""Text embeddings that are close if the texts have similar meanings (Reimers and Gurevych 2019).

For matching pairs, each text's partner is classified among the partners of the batch (Henderson et
al. 2017). For scored pairs, the cosine similarity is regressed on the score.

Shapes: B examples, P pairs of a batch, T longest example, D embedding size.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, tee
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful import losses
from heedful.batches import Batch, Draw, Example, Fitted, features
from heedful.batches.collate import collate, regression_targets
from heedful.batches.windows import locating_errors
from heedful.device_transfer import copy_to_device, get_host_copy
from heedful.distillation import DistillationLoss
from heedful.errors import UserError
from heedful.explanation_target import Answered, ExplanationTarget
from heedful.interop import sentence_transformers
from heedful.interop.sentence_transformers import Pooling, SentenceLayout, pool
from heedful.item_results import ItemScorer
from heedful.reading import Record, Text
from heedful.settings import ColumnSettings, EmbedSettings, PredictSettings, Unnamed, refuse_options
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
)
from heedful.tasks.answers.vectors import Embedding, join_windows
from heedful.tasks.explanation_targets.vectors import vectors as vector_target
from heedful.tasks.item_scorers import numbers as item_scorers
from heedful.tasks.texts import (
    combine_texts,
    encode_training_records,
    read_table,
    start_encoder,
    target,
    text_records,
)
from heedful.tokens import Tokenizer
from heedful.training import ranks

_NO_TOKEN = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Embed(Task[Record, Tensor, Embedding]):
    """Embeds texts."""

    name: ClassVar[str] = "embed"
    abilities: ClassVar[frozenset[Ability]] = frozenset({"embed"})
    answer_options: ClassVar[frozenset[str]] = frozenset({"raw", "token_vectors", "top"})
    underived_fields: ClassVar[frozenset[str]] = frozenset({"scored"})

    pooling: Pooling
    """How to pool token vectors: their mean, or the first token."""
    normalise: bool = True
    """Whether embeddings are normalised to unit length."""
    scored: bool = False
    """Whether the training pairs have scores; else they are matching pairs."""
    lowest: float = 0.0
    """Lowest training score, mapped to a cosine of 0."""
    highest: float = 1.0
    """Highest training score, mapped to a cosine of 1."""
    scale: float = 20.0
    """Factor of the cosines before the softmax over a batch."""

    @property
    def in_batch_loss(self) -> bool:
        """Whether the other pairs of a batch are the negatives of a pair."""
        return not self.scored

    # Records.

    @classmethod
    def read(
        cls, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Record]:
        """Stream texts or pairs. Labelled pairs have a score if ``--label`` names its column.

        Raises:
            UserError: a record is invalid; names the file and line of the first one.
        """
        if columns.label_separator is not None:
            raise UserError("embed takes one score per pair: leave out --label-separator")
        if labelled and columns.text_pair is None:
            raise UserError(
                "embed is trained on pairs: name the column of the second text (--text-pair)"
            )
        scored = not isinstance(columns.label, Unnamed)
        records = read_table(paths, columns, labelled=labelled and scored)
        return map(_with_both_texts, records) if labelled and not scored else records

    @classmethod
    def from_texts(cls, texts: Sequence[Text], first: int = 1) -> list[Record]:
        """Make records from texts or pairs."""
        return text_records(texts, first)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """A text, and optionally a text to compare it with."""
        return Input(name="text"), Input(name="other text", optional=True)

    @classmethod
    def from_training_data(cls, recipe: Recipe) -> Self:
        """Find out whether the training pairs have scores, and the range of the scores.

        Raises:
            UserError: all scores are equal; or a batch size of 1 leaves a pair without negatives;
                or a scale is given for pairs with scores, or micro-batches for pairs without.
        """
        options = recipe.options
        assert isinstance(options, EmbedSettings)
        task = cls(pooling=options.pooling, scale=options.scale)
        records = cls.read(recipe.data.train, recipe.columns, labelled=True)
        scores = [target(record) for record in records if record.labels is not None]
        if not scores:
            if recipe.training.batch_size < 2:
                raise UserError(
                    "--batch-size 1: the other pairs of a batch are the negatives; give 2 or more"
                )
            if not recipe.run.resume:  # a run of an older version may have it
                why = "has no effect on pairs without scores: a batch of them is never split"
                why = f"{why}; give a smaller --batch-size"
                refuse_options(recipe.training, ("batch_tokens",), why)
            return task
        if options.scale != EmbedSettings().scale:
            raise UserError("--scale is for pairs without scores; the training data has scores")
        if min(scores) == max(scores):
            raise UserError(f"every score of the training data is {scores[0]:g}: nothing to learn")
        return replace(task, scored=True, lowest=min(scores), highest=max(scores))

    def check(self, record: Record) -> None:
        """Refuse a score that is not a number."""
        if record.labels is not None:
            target(record)

    def check_files(self, recipe: Recipe, say: Say) -> None:
        """Refuse data that a model cannot be trained or scored on, before training.

        Raises:
            UserError: naming the file and line; or all second texts are the same.
        """
        Task.check_files(self, recipe, say)
        if not self.scored and _may_be_scored(recipe):
            say(
                "the column 'label' is ignored; to train on its numbers as scores, give --label "
                "label"
            )
        if self.scored:
            return
        for option, data in (("--train", recipe.data.train), ("--dev", recipe.data.dev)):
            if data is None:
                continue
            records = self.read(data, recipe.columns, labelled=True)
            first = next(records).text_pair
            if all(record.text_pair == first for record in records):
                raise UserError(
                    f"every pair of {option} has the same second text: there is nothing to find"
                )

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that can select the best step."""
        if self.scored:
            return ("spearman", "pearson")
        return ("recall_at_1", "recall_at_5", "recall_at_10")

    def start(self, recipe: Recipe) -> Start:
        """Load an encoder. Its pooler is frozen; it is kept for other users of the folder.

        Raises:
            UserError: long texts are to be read in windows; or the pooling expects the class token
                first, but the model has it last.
        """
        if recipe.data.long_text == "window":
            raise UserError(
                "--long-text window: texts are compared as a whole; give head or head-tail"
            )
        start = start_encoder(recipe, head="body")
        if self.pooling == "cls" and start.tokenizer.layout.closing_type is not None:
            raise UserError(
                "--pooling cls takes the first token, but this model's class token is its last; "
                "give --pooling mean"
            )
        pooler = getattr(start.model, "pooler", None)
        if isinstance(pooler, nn.Module):
            pooler.requires_grad_(False)
        return start

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Encode the training records; a long text is cut to its head by default."""
        return self, start, encode_training_records(self, recipe, start, folder, say, rule="head")

    def encode(
        self, records: Iterable[Record], tokenizer: Tokenizer, fit: LengthLimit, *, labelled: bool
    ) -> Iterator[Fitted[Example]]:
        """Encode each text as one part of its record, or as several windows.

        For scored pairs, the label of an example is the target cosine of its pair.

        Raises:
            UserError: a text is too long and may not be cut; names file and line.
        """
        records, copies = tee(records)
        texts = (text for record in copies for text in _texts(record))
        fitted = features(texts, tokenizer, max_length=fit.max_length, rule=fit.long_text)
        for record in records:
            with locating_errors(record):
                encoded_texts = list(islice(fitted, len(_texts(record))))
            cosine: tuple[float, ...] = ()
            if labelled and self.scored and record.labels is not None:
                cosine = ((target(record) - self.lowest) / (self.highest - self.lowest),)
            yield combine_texts(encoded_texts, cosine)

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer, draw: Draw | None) -> Batch:
        """Collate and pad examples. Targets of scored pairs: ``cosines``, (B,)."""
        targets = {}
        if draw is not None and all(example.labels for example in examples):
            targets["cosines"] = regression_targets(examples)
        return collate(
            examples,
            pad_id=tokenizer.pad_token_id,
            closing_type=tokenizer.layout.closing_type,
            targets=targets,
        )

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the summed loss of the pairs."""
        vectors = F.normalize(self.vectors(forward, batch), dim=-1)
        first, second = vectors[::2], vectors[1::2]  # each (P, D)
        if self.scored:
            return losses.mse((first * second).sum(-1), batch.targets["cosines"][::2])[0]
        ids = get_host_copy(batch.inputs["input_ids"])
        if batch.replicas == 1 and ranks.size() > 1:
            # In-batch negatives come from all ranks.
            first, second = ranks.gathered(first), ranks.gathered(second)
            mask = _mask(batch)
            mask = None if mask is None else get_host_copy(mask)
            ids = ranks.gathered(_tokens_first(ids, mask), _NO_TOKEN)
        shared = _shared(ids)  # (P, P)
        shared = copy_to_device(shared, first.device)
        loss = losses.in_batch_contrastive(first, second, shared=shared, scale=self.scale)[0]
        # Each rank computed the loss of the pairs of all ranks.
        return loss if batch.replicas > 1 else loss / ranks.size()

    def loss_divisor(self, batch: Batch) -> float:
        """Return the number of pairs."""
        return batch.num_examples / 2

    @property
    def teacher_output(self) -> Literal["values"]:
        """A teacher provides embeddings."""
        return "values"

    def distillation_losses(self, batch: Batch) -> tuple[DistillationLoss, ...]:
        """Return the distillation loss of the embeddings."""
        return (
            DistillationLoss(
                kind="vectors",
                divisor=float(batch.num_examples),
                extract=lambda output: pool(
                    output.last_hidden_state.float(), _mask(batch), self.pooling
                ),
            ),
        )

    def write_extra_files(self, start: Start, folder: Path) -> None:
        """Write the files that make the run folder readable by sentence-transformers."""
        layout = SentenceLayout(
            pooling=self.pooling, normalise=self.normalise, max_length=start.max_length
        )
        width = start.model.get_input_embeddings().embedding_dim
        sentence_transformers.write_layout(layout, width, folder)

    # Answers.

    def vectors(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the unnormalised embedding of each example in fp32. Shape (B, D)."""
        hidden_states = forward(**batch.inputs).last_hidden_state.float()
        return pool(hidden_states, _mask(batch), self.pooling)

    def run_model(
        self, model: Forward, batch: Batch, settings: PredictSettings
    ) -> Sequence[Tensor] | Tensor:
        """Return the embedding of each example, (B, D), or its token vectors, (T, D) each."""
        if not settings.token_vectors:
            return self.vectors(model, batch)
        hidden_states = model(**batch.inputs).last_hidden_state.float().cpu()  # (B, T, D)
        mask = _mask(batch)
        if mask is None:
            return list(hidden_states)
        return [row[mask_row] for row, mask_row in zip(hidden_states, mask.cpu(), strict=True)]

    def decode(
        self,
        record: Record,
        fitted: Fitted[Example],
        outputs: Sequence[Tensor],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Embedding:
        """Average the embeddings of each text's windows."""
        windows: list[list[Tensor]] = [[] for _ in _texts(record)]
        for example, output in zip(fitted.pieces, outputs, strict=True):
            windows[example.part].append(output)
        token_vectors = None
        if settings.token_vectors:
            token_vectors = tuple(
                join_windows(rows, text, tokenizer)
                for rows, text in zip(windows, _texts(record), strict=True)
            )
            windows = [[pool(row[None], None, self.pooling)[0] for row in rows] for rows in windows]
        vectors = [torch.stack(outputs).mean(0) for outputs in windows]
        if self.normalise and not settings.raw:
            vectors = [F.normalize(vector, dim=0) for vector in vectors]
        return Embedding(
            vector=vectors[0],
            vector_pair=vectors[1] if len(vectors) > 1 else None,
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
            windows=len(outputs),
            token_vectors=token_vectors,
        )

    def explanation_target(
        self,
        computed: Answered[Record, Tensor, Embedding],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> ExplanationTarget:
        """Explain the cosine of a pair, or the norm of a single text's embedding."""
        return vector_target(computed, target, tokenizer, self.vectors)

    def scores(self) -> "EmbedScores":
        """Return a new, empty accumulator of scores."""
        return EmbedScores()

    def item_scorer(self) -> ItemScorer[Embedding, Record]:
        """Return the scorer of its answers."""
        return item_scorers.pairs((self.lowest, self.highest) if self.scored else None)

    def model_card(self) -> str:
        """Describe the run for its model card."""
        learnt = "similarity scores" if self.scored else "matching pairs"
        return f"Embeds texts as vectors ({self.pooling} pooling); trained on {learnt}."


def _mask(batch: Batch) -> Tensor | None:
    return batch.inputs.get("attention_mask")


def _may_be_scored(recipe: Recipe) -> bool:
    """Return whether the first pair has a number in the default label column."""
    try:
        target(next(read_table(recipe.data.train, recipe.columns, labelled=True)))
    except UserError:
        return False
    return True


def _with_both_texts(record: Record) -> Record:
    for text in (record.text, record.text_pair or ""):
        if not text.strip():
            raise UserError(f"{record.where}: an empty text in a pair")
    return record


def _texts(record: Record) -> tuple[str, ...]:
    return (record.text,) if record.text_pair is None else (record.text, record.text_pair)


def _tokens_first(ids: Tensor, mask: Tensor | None) -> Tensor:
    """Return token ids with all padding moved to the right. Shape (B, T)."""
    if mask is None:
        return ids
    order = mask.long().argsort(dim=1, descending=True, stable=True)
    return ids.masked_fill(~mask.bool(), _NO_TOKEN).gather(1, order)


def _shared(ids: Tensor) -> Tensor:
    """Return which pairs have a text in common, on either side.

    Args:
        ids: token ids of all pairs, the two texts of a pair in succession. Shape (2 * P, T).

    Returns:
        Shape (P, P), symmetric.
    """
    text_ids: Tensor
    _, text_ids = torch.unique(ids, dim=0, return_inverse=True)  # (2 * P,)
    first, second = text_ids[::2], text_ids[1::2]
    across = first[:, None].eq(second)
    return first[:, None].eq(first) | second[:, None].eq(second) | across | across.T


class EmbedScores:
    """Accumulates scores: correlations for scored pairs, retrieval of the partner for others."""

    def __init__(self) -> None:
        from heedful.metrics import RegressionScores, RetrievalScores  # slow to import

        self._correlations = RegressionScores()
        self._neighbours = RetrievalScores()
        self._scored = False

    def update(self, answers: Sequence[Embedding], records: Sequence[Record]) -> None:
        """Add pairs, either all scored or all unscored."""
        self._scored = records[0].labels is not None
        if self._scored:
            similarities = torch.tensor([answer.similarity for answer in answers])
            truth = torch.tensor([target(record) for record in records], dtype=torch.float64)
            self._correlations.update(similarities, truth)
            return
        second = [answer.vector_pair for answer in answers if answer.vector_pair is not None]
        self._neighbours.update(
            torch.stack([F.normalize(answer.vector, dim=0) for answer in answers]),
            F.normalize(torch.stack(second), dim=-1),
            [record.text_pair or "" for record in records],
        )

    def compute(self) -> dict[str, Any]:
        """Return the scores."""
        if not self._scored:
            return self._neighbours.compute()
        scores = self._correlations.compute()
        del scores["mse"]  # a cosine and a score have different scales
        return scores
