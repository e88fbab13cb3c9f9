"""Vectors of texts, near each other where the texts mean the same (Reimers and Gurevych 2019).

Pairs of texts that belong together are learnt by telling each text's partner from the partners of
the others in its batch (Henderson et al. 2017); pairs with a score, by a cosine like the score.

Shapes: B examples, P pairs of a batch, T longest example, D width of a vector.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, tee
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful import losses
from heedful.batches import Batch, Draw, Example, Fitted, collate, features
from heedful.errors import UserError
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.reading import Record
from heedful.settings import ColumnSettings, DataSettings, EmbedSettings, PredictSettings
from heedful.tasks import sentence_folder
from heedful.tasks.regress import target
from heedful.tasks.sentence_folder import Layout, Pooling
from heedful.tasks.task import Fit, Forward, Task, encoder_options
from heedful.tasks.texts import from_texts, numbered
from heedful.tasks.texts import read as read_table
from heedful.tokens import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What a vector is, and what it was learnt from."""

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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Embedding:
    """The answer for one text, or a pair."""

    vector: Tensor
    """Of the text, or the first text of a pair. Shape (D,), fp32."""
    vector_pair: Tensor | None
    """Of the second text of a pair."""
    tokens_total: int
    """Tokens of the text, or of both."""
    tokens_used: int
    """Tokens the model was given."""
    windows: int
    """Windows the text was read in, or both were; their vectors are averaged."""

    @property
    def similarity(self) -> float | None:
        """The cosine between the two vectors of a pair, from -1 to 1."""
        if self.vector_pair is None:
            return None
        return float(F.cosine_similarity(self.vector, self.vector_pair, dim=0))


# Records.


def read(paths: Sequence[Path], columns: ColumnSettings, labelled: bool) -> Iterator[Record]:
    """Stream texts, or pairs; with the truth, pairs with a score where ``--label`` names it.

    Raises:
        UserError: naming the file and line of the first record that cannot be used.
    """
    if columns.label_separator is not None:
        raise UserError("embed reads one score a pair: leave out --label-separator")
    if labelled and columns.text_pair is None:
        raise UserError("embed learns from pairs: name the second text's column by --text-pair")
    scored = columns.label != ColumnSettings().label
    records = read_table(paths, columns, labelled and scored)
    return map(_with_both_texts, records) if labelled and not scored else records


def _with_both_texts(record: Record) -> Record:
    for text in (record.text, record.text_pair or ""):
        if not text.strip():
            raise UserError(f"{record.source}, line {record.line}: an empty text in a pair")
    return record


def goal_of(records: Iterable[Record], columns: ColumnSettings, settings: EmbedSettings) -> Goal:
    """See what kind of pairs there are, and between what their scores lie.

    Raises:
        UserError: every score is the same, so there is nothing to learn.
    """
    goal = Goal(pooling=settings.pooling, scale=settings.scale)
    values = [target(record) for record in records if record.labels is not None]
    if not values:
        return goal
    if min(values) == max(values):
        raise UserError(f"every score of the training data is {values[0]:g}: nothing to learn")
    return replace(goal, scored=True, lowest=min(values), highest=max(values))


def check(record: Record, goal: Goal) -> None:
    """Refuse a score that is no number."""
    if record.labels is not None:
        target(record)


def metrics(goal: Goal) -> tuple[str, ...]:
    """Name what can pick the best step."""
    return (
        ("spearman", "pearson") if goal.scored else ("recall_at_1", "recall_at_5", "recall_at_10")
    )


# Training.


def encode(
    records: Iterable[Record], goal: Goal, tokenizer: Tokenizer, fit: Fit, labelled: bool
) -> Iterator[Fitted[Example]]:
    """Turn each text into one example, the two of a pair one after the other, or into windows.

    The labels of an example are which text of its record it is of, and where that is to be learnt
    the cosine of the pair.
    """
    records, copies = tee(records)
    texts = (text for record in copies for text in _texts(record))
    fitted = features(texts, tokenizer, max_length=fit.max_length, rule=fit.rule)
    for record in records:
        own = list(islice(fitted, len(_texts(record))))
        cosine: tuple[float, ...] = ()
        if labelled and goal.scored and record.labels is not None:
            cosine = ((target(record) - goal.lowest) / (goal.highest - goal.lowest),)
        yield numbered(own, cosine)


def _texts(record: Record) -> tuple[str, ...]:
    return (record.text,) if record.text_pair is None else (record.text, record.text_pair)


def build(goal: Goal, data: DataSettings) -> Model:
    """Load an encoder. Its pooler is kept for whoever reads the folder, but not trained.

    Raises:
        UserError: long texts are to be learnt in windows.
    """
    if data.long_text == "window":
        raise UserError("--long-text window: texts are compared as wholes; give head or head-tail")
    model: Model = load_model(data.model, head="body", **encoder_options(data))
    if (pooler := getattr(model, "pooler", None)) is not None:
        pooler.requires_grad_(False)
    return model


def write_beside(goal: Goal, model: Model, max_length: int, folder: Path) -> None:
    """Make the run's folder one that sentence-transformers reads."""
    layout = Layout(pooling=goal.pooling, normalise=goal.normalise, max_length=max_length)
    sentence_folder.write_layout(layout, model.config.hidden_size, folder)


def batch_of(
    examples: Sequence[Example], goal: Goal, tokenizer: Tokenizer, draw: Draw | None
) -> Batch:
    """Pad examples; the labels are, for each, the cosine of its pair, if that is to be learnt."""
    batch = collate(examples, pad_id=tokenizer.pad_token_id)
    if draw is None or any(len(example.labels) < 2 for example in examples):
        return batch
    return replace(batch, labels=torch.tensor([example.labels[1] for example in examples]))  # (B,)


def _vectors(forward: Forward, batch: Batch, goal: Goal) -> Tensor:
    """Return a vector of each example, in fp32. Shape (B, D)."""
    hidden: Tensor = forward(batch.input_ids, batch.attention_mask).last_hidden_state.float()
    if goal.pooling == "cls":
        return hidden[:, 0]
    if batch.attention_mask is None:
        return hidden.mean(1)
    real = batch.attention_mask[..., None].float()  # (B, T, 1)
    return (hidden * real).sum(1) / real.sum(1)


def loss(forward: Forward, batch: Batch, goal: Goal) -> tuple[Tensor, Tensor]:
    """Return the sum of the pairs' losses and how many pairs there are."""
    vectors = F.normalize(_vectors(forward, batch, goal), dim=-1)
    first, second = vectors[::2], vectors[1::2]  # each (P, D)
    if goal.scored:
        assert batch.labels is not None
        return losses.mse((first * second).sum(-1), batch.labels[::2])
    ids = batch.input_ids
    shared = _equal_rows(ids[::2]) | _equal_rows(ids[1::2])  # (P, P)
    return losses.partners(first, second, shared=shared, scale=goal.scale)


def _equal_rows(ids: Tensor) -> Tensor:
    """Tell which texts are the same. Shape (P, P) for (P, T)."""
    kinds: Tensor
    _, kinds = torch.unique(ids, dim=0, return_inverse=True)  # (P,)
    return kinds[:, None].eq(kinds)


def count(batch: Batch, goal: Goal) -> float:
    """Return the number of pairs."""
    return len(batch.input_ids) / 2


# Answers.


def compute(forward: Forward, batch: Batch, goal: Goal, settings: PredictSettings) -> Tensor:
    """Return each example's vector, its length as it came. Shape (B, D)."""
    return _vectors(forward, batch, goal)


def decode(
    record: Record,
    fitted: Fitted[Example],
    outputs: Sequence[Tensor],
    goal: Goal,
    settings: PredictSettings,
    tokenizer: Tokenizer,
) -> Embedding:
    """Average each text's windows."""
    found = []
    for number in range(len(_texts(record))):
        windows = [
            output
            for output, piece in zip(outputs, fitted.pieces, strict=True)
            if piece.labels[0] == number
        ]
        mean = torch.stack(windows).mean(0)
        found.append(F.normalize(mean, dim=0) if goal.normalise else mean)
    return Embedding(
        vector=found[0],
        vector_pair=found[1] if len(found) > 1 else None,
        tokens_total=fitted.tokens_total,
        tokens_used=fitted.tokens_used,
        windows=len(outputs),
    )


def row(answer: Embedding, everything: bool) -> dict[str, Any]:
    """Return the vector, or of a pair how alike its texts are, and its vectors if wanted."""
    vectors = {"vector": _numbers(answer.vector)}
    if answer.vector_pair is None:
        return vectors
    vectors["vector_pair"] = _numbers(answer.vector_pair)
    similarity = {"similarity": round(answer.similarity or 0.0, 6)}
    return similarity | vectors if everything else similarity


def _numbers(vector: Tensor) -> list[float]:
    return [round(value, 7) for value in vector.tolist()]


def plain(answer: Embedding) -> str:
    """Return the vector's numbers between spaces, or of a pair how alike its texts are."""
    if answer.similarity is not None:
        return f"{answer.similarity:.6f}"
    return " ".join(f"{value:.7f}" for value in answer.vector.tolist())


class Scores:
    """Scores of pairs: against their scores if they have some, else of finding the partner."""

    def __init__(self, goal: Goal) -> None:
        from heedful.metrics import NeighbourScores, RegressionScores  # slow to import

        self._correlations = RegressionScores()
        self._neighbours = NeighbourScores()
        self._scored = False

    def update(self, answers: Sequence[Embedding], records: Sequence[Record]) -> None:
        """Count pairs, all of one kind."""
        self._scored = records[0].labels is not None
        if self._scored:
            found = torch.tensor([answer.similarity for answer in answers])
            self._correlations.update(found, torch.tensor([target(record) for record in records]))
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


def card(goal: Goal) -> str:
    """Say what the run's vectors are."""
    learnt = (
        "scores of how alike texts are" if goal.scored else "pairs of texts that belong together"
    )
    return f"Gives a text a vector ({goal.pooling} of its tokens); it learnt from {learnt}."


TASK = Task(
    name="embed",
    head="body",
    goal=Goal,
    read=read,
    from_texts=from_texts,
    goal_of=goal_of,
    check=check,
    metrics=metrics,
    encode=encode,
    build=build,
    write_beside=write_beside,
    batch_of=batch_of,
    loss=loss,
    count=count,
    compute=compute,
    decode=decode,
    row=row,
    plain=plain,
    scores=Scores,
    card=card,
    per_item=lambda goal: 2,
    whole_batch=True,
)
