"""Vectors of texts, near each other where the texts mean the same (Reimers and Gurevych 2019).

Pairs of texts that belong together are learnt by telling each text's partner from the partners of
the others in its batch (Henderson et al. 2017); pairs with a score, by a cosine like the score.

Shapes: B examples, P pairs of a batch, T longest example, D width of a vector.
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
from heedful.aim import Aim, Computed
from heedful.batches import Batch, Draw, Example, Fitted, features
from heedful.batches.collate import collate, numbers
from heedful.batches.windows import naming
from heedful.errors import UserError
from heedful.host import on_host, send
from heedful.interop import sentence_transformers
from heedful.interop.sentence_transformers import Pooling, SentenceLayout, pool
from heedful.judging import Judge
from heedful.lesson import Lesson
from heedful.reading import Record, Text
from heedful.settings import ColumnSettings, EmbedSettings, PredictSettings, Unnamed
from heedful.task import Ability, Fit, Forward, Input, Recipe, Say, Start, StoreOf, Task
from heedful.tasks.aims import vectors as aims
from heedful.tasks.answers.vectors import Embedding, join_windows
from heedful.tasks.judges import numbers as judges
from heedful.tasks.texts import (
    as_parts,
    read_table,
    start_encoder,
    store_records,
    target,
    text_records,
)
from heedful.tokens import Tokenizer
from heedful.training import ranks

_NO_TOKEN = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Embed(Task[Record, Tensor, Embedding]):
    """What a vector is, and what it was learnt from."""

    name: ClassVar[str] = "embed"
    abilities: ClassVar[frozenset[Ability]] = frozenset({"embed"})
    answer_options: ClassVar[frozenset[str]] = frozenset({"raw", "token_vectors", "top"})
    unsaid: ClassVar[frozenset[str]] = frozenset({"scored"})
    whole_batch: ClassVar[bool] = True

    pooling: Pooling
    """Whether a text's vector is the mean of its tokens' or that of the first."""
    normalise: bool = True
    """Whether it is given length 1."""
    scored: bool = False
    """Whether it was learnt from pairs with scores, rather than pairs that belong together."""
    lowest: float = 0.0
    """The lowest of these scores, learnt as a cosine of 0."""
    highest: float = 1.0
    """The highest, learnt as a cosine of 1."""
    scale: float = 20.0
    """What cosines are multiplied by before the softmax over a batch."""

    # Records.

    @classmethod
    def read(
        cls, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Record]:
        """Stream texts, or pairs; with the truth, pairs with a score where ``--label`` names one.

        Raises:
            UserError: naming the file and line of the first record that cannot be used.
        """
        if columns.label_separator is not None:
            raise UserError("embed reads one score a pair: leave out --label-separator")
        if labelled and columns.text_pair is None:
            raise UserError("embed learns from pairs: name the second text's column (--text-pair)")
        scored = not isinstance(columns.label, Unnamed)
        records = read_table(paths, columns, labelled=labelled and scored)
        return map(_with_both_texts, records) if labelled and not scored else records

    @classmethod
    def from_texts(cls, texts: Sequence[Text], first: int = 1) -> list[Record]:
        """Make records of texts or pairs."""
        return text_records(texts, first)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """A text, perhaps with one to compare it with."""
        return Input(name="text"), Input(name="other text", optional=True)

    @classmethod
    def decide(cls, recipe: Recipe) -> Self:
        """See what kind of pairs there are, and between what their scores lie.

        Raises:
            UserError: every score is the same, so there is nothing to learn; a pair has no others
                in its batch; or there is a scale of cosines, and scores that need none.
        """
        options = recipe.options
        assert isinstance(options, EmbedSettings)
        task = cls(pooling=options.pooling, scale=options.scale)
        records = cls.read(recipe.data.train, recipe.columns, labelled=True)
        scores = [target(record) for record in records if record.labels is not None]
        if not scores:
            if recipe.training.batch_size < 2:
                raise UserError(
                    "--batch-size 1: a pair is told from the others of its batch; give 2 or more"
                )
            return task
        if options.scale != EmbedSettings().scale:
            raise UserError("--scale is for pairs without scores; the training data has scores")
        if min(scores) == max(scores):
            raise UserError(f"every score of the training data is {scores[0]:g}: nothing to learn")
        return replace(task, scored=True, lowest=min(scores), highest=max(scores))

    def check(self, record: Record) -> None:
        """Refuse a score that is no number."""
        if record.labels is not None:
            target(record)

    def check_files(self, recipe: Recipe, say: Say) -> None:
        """Refuse data that a model could not learn from or be scored on, before training.

        Raises:
            UserError: naming the file and line; or its second texts are all the same.
        """
        Task.check_files(self, recipe, say)
        if not self.scored and _may_be_scored(recipe):
            say("the column 'label' is not read; --label label learns its numbers as scores")
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
        """Name what can pick the best step."""
        if self.scored:
            return ("spearman", "pearson")
        return ("recall_at_1", "recall_at_5", "recall_at_10")

    def start(self, recipe: Recipe) -> Start:
        """Load an encoder. Its pooler is kept for whoever reads the folder, but not trained.

        Raises:
            UserError: long texts are to be learnt in windows, or the class token, which is the
                model's last, is to stand for a text.
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
        """Encode the training records, of a long text its head unless told otherwise."""
        return self, start, store_records(self, recipe, start, folder, say, rule="head")

    def encode(
        self, records: Iterable[Record], tokenizer: Tokenizer, fit: Fit, *, labelled: bool
    ) -> Iterator[Fitted[Example]]:
        """Turn each text into one part of its record, or into windows.

        The label of an example, where that is to be learnt, is the cosine of its pair.

        Raises:
            UserError: a text is too long and may not be cut, with file and line.
        """
        records, copies = tee(records)
        texts = (text for record in copies for text in _texts(record))
        fitted = features(texts, tokenizer, max_length=fit.max_length, rule=fit.rule)
        for record in records:
            with naming(record):
                parts = list(islice(fitted, len(_texts(record))))
            cosine: tuple[float, ...] = ()
            if labelled and self.scored and record.labels is not None:
                cosine = ((target(record) - self.lowest) / (self.highest - self.lowest),)
            yield as_parts(parts, cosine)

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer, draw: Draw | None) -> Batch:
        """Pad examples; the targets are ``cosines``, (B,): of each one's pair, if it is learnt."""
        targets = {}
        if draw is not None and all(example.labels for example in examples):
            targets["cosines"] = numbers(examples)
        return collate(
            examples,
            pad_id=tokenizer.pad_token_id,
            closing_type=tokenizer.layout.closing_type,
            targets=targets,
        )

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sum of the pairs' losses."""
        vectors = F.normalize(self.vectors(forward, batch), dim=-1)
        first, second = vectors[::2], vectors[1::2]  # each (P, D)
        if self.scored:
            return losses.mse((first * second).sum(-1), batch.targets["cosines"][::2])[0]
        ids = on_host(batch.inputs["input_ids"])
        if batch.copies == 1 and ranks.size() > 1:
            # The pairs of all processes are each other's wrong answers.
            first, second = ranks.gathered(first), ranks.gathered(second)
            mask = _mask(batch)
            mask = None if mask is None else on_host(mask)
            ids = ranks.gathered(_tokens_first(ids, mask), _NO_TOKEN)
        shared = _shared(ids)  # (P, P)
        shared = send(shared, first.device)
        loss = losses.partners(first, second, shared=shared, scale=self.scale)[0]
        # Each process computed the loss of all pairs.
        return loss if batch.copies > 1 else loss / ranks.size()

    def count(self, batch: Batch) -> float:
        """Return the number of pairs."""
        return batch.num_examples / 2

    @property
    def taught_by(self) -> Literal["values"]:
        """A teacher gives vectors."""
        return "values"

    def lessons(self, batch: Batch) -> tuple[Lesson, ...]:
        """Return the vectors of the texts."""
        return (
            Lesson(
                kind="vectors",
                count=float(batch.num_examples),
                read=lambda output: pool(
                    output.last_hidden_state.float(), _mask(batch), self.pooling
                ),
            ),
        )

    def write_beside(self, start: Start, folder: Path) -> None:
        """Make the run's folder one that sentence-transformers reads."""
        layout = SentenceLayout(
            pooling=self.pooling, normalise=self.normalise, max_length=start.max_length
        )
        width = start.model.get_input_embeddings().embedding_dim
        sentence_transformers.write_layout(layout, width, folder)

    # Answers.

    def vectors(self, forward: Forward, batch: Batch) -> Tensor:
        """Return a vector of each example, its length as it comes, in fp32. Shape (B, D)."""
        hidden_states = forward(**batch.inputs).last_hidden_state.float()
        return pool(hidden_states, _mask(batch), self.pooling)

    def compute(
        self, model: Forward, batch: Batch, settings: PredictSettings
    ) -> Sequence[Tensor] | Tensor:
        """Return each example's vector, shape (B, D), or those of its tokens, (T, D) each."""
        if not settings.token_vectors:
            return self.vectors(model, batch)
        hidden_states = model(**batch.inputs).last_hidden_state.float().cpu()  # (B, T, D)
        mask = _mask(batch)
        if mask is None:
            return list(hidden_states)
        return [row[real] for row, real in zip(hidden_states, mask.cpu(), strict=True)]

    def decode(
        self,
        record: Record,
        fitted: Fitted[Example],
        outputs: Sequence[Tensor],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Embedding:
        """Average each text's windows."""
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

    def aim(
        self,
        computed: Computed[Record, Tensor, Embedding],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> Aim:
        """Explain the cosine of a pair, or of a text the length of its vector."""
        return aims.vectors(computed, target, tokenizer, self.vectors)

    def scores(self) -> "EmbedScores":
        """Return empty scores."""
        return EmbedScores()

    def judge(self) -> Judge[Embedding, Record]:
        """Return what judges its answers."""
        return judges.pairs((self.lowest, self.highest) if self.scored else None)

    def card(self) -> str:
        """Say what the run's vectors are."""
        learnt = "scores of how alike texts are" if self.scored else "pairs that belong together"
        return f"Gives a text a vector ({self.pooling} of its tokens); it learnt from {learnt}."


def _mask(batch: Batch) -> Tensor | None:
    return batch.inputs.get("attention_mask")


def _may_be_scored(recipe: Recipe) -> bool:
    """Tell whether the first pair has a number where a label would be that nobody has named."""
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
    """Return ids with padding behind each text, wherever it was. Shape (B, T)."""
    if mask is None:
        return ids
    order = mask.long().argsort(dim=1, descending=True, stable=True)
    return ids.masked_fill(~mask.bool(), _NO_TOKEN).gather(1, order)


def _shared(ids: Tensor) -> Tensor:
    """Tell which pairs share a text, on whichever sides it stands.

    Args:
        ids: the texts of all pairs, one pair after another. Shape (2 * P, T).

    Returns:
        Shape (P, P), symmetric.
    """
    kinds: Tensor
    _, kinds = torch.unique(ids, dim=0, return_inverse=True)  # (2 * P,)
    first, second = kinds[::2], kinds[1::2]
    across = first[:, None].eq(second)
    return first[:, None].eq(first) | second[:, None].eq(second) | across | across.T


class EmbedScores:
    """Scores of pairs: against their scores if they have some, else of finding the partner."""

    def __init__(self) -> None:
        from heedful.metrics import NeighbourScores, RegressionScores  # slow to import

        self._correlations = RegressionScores()
        self._neighbours = NeighbourScores()
        self._scored = False

    def update(self, answers: Sequence[Embedding], records: Sequence[Record]) -> None:
        """Count pairs, all of one kind."""
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
        del scores["mse"]  # a cosine and a score are not on one scale
        return scores
