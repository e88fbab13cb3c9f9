"""Pre-training: masked words, and whether one sentence follows another.

Devlin et al. 2019, section 3.1. It learns from running text, from which ``heedful.commands`` cuts
sequences; those are its records. What a finished run answers is in ``blanks.py``.

Shapes: B sequences of a batch, T their length, N hidden tokens, V vocabulary.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful import losses
from heedful.batches import Batch, Draw, Example, Fitted, collate
from heedful.batches.corpus import Corpus
from heedful.batches.masking import IGNORED, MaskRule, hide_tokens, mask_rule
from heedful.batches.packing import keep_apart
from heedful.batches.sentence_pairs import Frame, full_sequences, sentence_pairs
from heedful.batches.sentences import SentenceRule
from heedful.models import BertConfig, BertForMaskedLM, BertForPreTraining, Head
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.models.outputs import LanguageModelOutput, PreTrainingOutput
from heedful.models.presets import PRESETS
from heedful.reading import Record
from heedful.reading.documents import Layout
from heedful.settings import ColumnSettings, DataSettings, PredictSettings, PretrainSettings
from heedful.tasks import blanks
from heedful.tasks.blanks import Filled, plain, row
from heedful.tasks.task import Fit, Forward, Task, encoder_options
from heedful.tasks.texts import from_texts, read
from heedful.tokens import Tokenizer, load_encoder_tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What a run learns, and from what."""

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
    documents: Layout
    sentences: SentenceRule

    @property
    def pairs(self) -> bool:
        """Whether it learns from pairs of sentences."""
        return self.objective == "mlm+nsp"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """How well the hidden tokens of a sequence, and whether its second part follows, were told."""

    loss: float
    """Sum of the losses of its hidden tokens, in nats."""
    right: int
    hidden: int
    next_right: bool | None
    tokens_total: int
    tokens_used: int


# Training.


def goal_of(records: Iterable[Record], columns: ColumnSettings, settings: PretrainSettings) -> Goal:
    """Take the goal from the settings: there is nothing to be seen in the data."""
    return Goal(
        preset=settings.preset,
        positions=settings.positions,
        position_type=settings.position_type,
        objective=settings.objective,
        mask_share=settings.mask_share,
        whole_word=settings.whole_word,
        max_predictions=settings.max_predictions,
        documents=settings.documents,
        sentences=settings.sentences,
    )


def check(record: Example, goal: Goal) -> None:
    """Accept every sequence: the truth is the text itself."""


def metrics(goal: Goal) -> tuple[str, ...]:
    """Name what can pick the best step."""
    return ("masked_accuracy", "nsp_accuracy") if goal.pairs else ("masked_accuracy",)


def sequences(
    corpus: Corpus, goal: Goal, tokenizer: Tokenizer, *, max_length: int, seed: int, epoch: int
) -> Iterator[Example]:
    """Cut the sequences of an epoch from a corpus.

    Raises:
        UserError: there is only one document to make pairs of.
    """
    frame = Frame(layout=tokenizer.layout, max_length=max_length)
    cut = sentence_pairs if goal.pairs else full_sequences
    return cut(corpus, frame, seed=seed, epoch=epoch)


def build(goal: Goal, data: DataSettings) -> Model:
    """Make a model from scratch, for the vocabulary in ``data.model``, or load one that goes on."""
    if goal.preset is None:
        head: Head = "pretraining" if goal.pairs else "masked_lm"
        model: Model = load_model(data.model, head=head, **encoder_options(data))
        return model
    tokenizer = load_encoder_tokenizer(data.model, data.revision)
    dropout = 0.1 if data.dropout is None else data.dropout
    config = BertConfig(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        max_position_embeddings=goal.positions or 512,
        position_embedding_type=goal.position_type,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        **PRESETS[goal.preset],
    )
    return BertForPreTraining(config) if goal.pairs else BertForMaskedLM(config)


def encode(
    records: Iterable[Example] | Iterable[Record],
    goal: Goal,
    tokenizer: Tokenizer,
    fit: Fit,
    labelled: bool,
) -> Iterator[Fitted[Example]]:
    """Pass sequences on as they are; encode texts that are asked about."""
    for record in records:
        if isinstance(record, Example):
            size = len(record.ids)
            yield Fitted(pieces=[record], tokens_total=size, tokens_used=size)
        else:
            yield blanks.encode(record, tokenizer, fit, pairs=goal.pairs)


def batch_of(
    examples: Sequence[Example], goal: Goal, tokenizer: Tokenizer, draw: Draw | None
) -> Batch:
    """Pad examples; with a draw hide some of their tokens, without one find their masks."""
    if draw is None:
        batch = collate(examples, pad_id=tokenizer.pad_token_id)
        assert tokenizer.mask_token_id is not None  # or nothing could have been learnt
        masks = batch.input_ids.flatten().eq(tokenizer.mask_token_id)
        return replace(batch, positions=masks.nonzero().squeeze(1))
    rule = _rule(tokenizer, goal.mask_share, goal.whole_word, goal.max_predictions)
    hidden = [
        hide_tokens(example.ids, rule, seed=draw.seed, epoch=draw.epoch, index=int(index))
        for example, index in zip(examples, draw.rows, strict=True)
    ]
    seen = [
        replace(example, ids=ids.astype(np.int32))
        for example, (ids, _) in zip(examples, hidden, strict=True)
    ]
    batch = collate(seen, pad_id=tokenizer.pad_token_id)
    truth = np.full(batch.input_ids.shape, IGNORED)  # (B, T)
    for line, (_, labels) in zip(truth, hidden, strict=True):
        line[: len(labels)] = labels
    positions = np.flatnonzero(truth != IGNORED)  # (N,)
    batch = replace(
        batch,
        labels=torch.from_numpy(truth.reshape(-1)[positions]),
        positions=torch.from_numpy(positions),
    )
    if goal.pairs:
        follows = [int(example.labels[0]) for example in examples]
        return replace(batch, next_sentence=torch.tensor(follows))
    apart = keep_apart(batch.input_ids, batch.attention_mask, tokenizer.cls_token_id)
    if apart is None:
        return batch
    return replace(batch, attention_mask=apart[0], position_ids=apart[1])


@lru_cache(maxsize=2)  # it reads the whole vocabulary
def _rule(tokenizer: Tokenizer, share: float, whole_word: bool, most: int | None) -> MaskRule:
    return mask_rule(tokenizer, share=share, whole_word=whole_word, most=most)


def _scores_of(forward: Forward, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """Return the logits of hidden tokens, (N, V), and of what follows, (B, 2) if that is learnt."""
    output: PreTrainingOutput | LanguageModelOutput = forward(
        batch.input_ids,
        batch.attention_mask,
        batch.token_type_ids,
        position_ids=batch.position_ids,
        positions=batch.positions,
    )
    if isinstance(output, PreTrainingOutput):
        return output.prediction_logits, output.seq_relationship_logits
    return output.logits, None


def loss(forward: Forward, batch: Batch, goal: Goal) -> tuple[Tensor, Tensor]:
    """Return the sum of the losses of hidden tokens, and of what follows, and their counts.

    Shape:
        (2,) and (2,), or (1,) and (1,) for masked words alone.
    """
    assert batch.labels is not None
    words, follows = _scores_of(forward, batch)
    parts = [losses.cross_entropy(words, batch.labels)]
    if follows is not None:
        assert batch.next_sentence is not None
        parts.append(losses.cross_entropy(follows, batch.next_sentence))
    return torch.stack([total for total, _ in parts]), torch.stack([size for _, size in parts])


def count(batch: Batch, goal: Goal) -> Tensor:
    """Return how many tokens are hidden, and how many pairs there are. Shape (2,) or (1,)."""
    assert batch.labels is not None
    sizes = [len(batch.labels), batch.items] if goal.pairs else [len(batch.labels)]
    return torch.tensor(sizes, device=batch.labels.device)


# Answers and scores.


def compute(forward: Forward, batch: Batch, goal: Goal, settings: PredictSettings) -> Tensor:
    """Score sequences, or give candidates for masks: shape (B, 4), or that of `blanks.candidates`.

    The four numbers are the sum of the losses, the tokens predicted, the tokens hidden, and whether
    it was told what follows.
    """
    words, follows = _scores_of(forward, batch)
    assert batch.positions is not None
    if batch.labels is None:
        shape = batch.input_ids.shape
        return blanks.candidates(words, follows, batch.positions, shape, settings.top)
    owner = batch.positions // batch.input_ids.shape[1]  # (N,)
    each = -words.float().log_softmax(-1).gather(1, batch.labels[:, None]).squeeze(1)  # (N,)
    right = (words.argmax(-1) == batch.labels).float()
    told = torch.stack([each, right, torch.ones_like(each)], dim=1)  # (N, 3)
    rows = told.new_zeros(batch.items, 4).index_add_(0, owner, F.pad(told, (0, 1)))
    if follows is not None and batch.next_sentence is not None:
        rows[:, 3] = (follows.argmax(-1) == batch.next_sentence).float()
    return rows


def decode(
    record: Example | Record,
    fitted: Fitted[Example],
    outputs: Sequence[Tensor],
    goal: Goal,
    settings: PredictSettings,
    tokenizer: Tokenizer,
) -> Scored | Filled:
    """Take a sequence's scores, or choose what stands behind the masks of a text."""
    if not isinstance(record, Example):
        return blanks.decode(record, fitted, outputs, settings.top, tokenizer)
    total, right, hidden, next_right = outputs[0].tolist()
    return Scored(
        loss=total,
        right=int(right),
        hidden=int(hidden),
        next_right=bool(next_right) if goal.pairs else None,
        tokens_total=fitted.tokens_total,
        tokens_used=fitted.tokens_used,
    )


class Scores:
    """Scores of sequences; see ``heedful.metrics.LanguageScores``."""

    def __init__(self, goal: Goal) -> None:
        from heedful.metrics import LanguageScores  # its library is slow to import

        self._pairs = goal.pairs
        self._scores = LanguageScores()

    def update(self, answers: Sequence[Scored], records: Sequence[Example]) -> None:
        """Count sequences."""
        self._scores.update(
            torch.tensor([answer.loss for answer in answers]),
            torch.tensor([answer.right for answer in answers]),
            torch.tensor([answer.hidden for answer in answers]),
            torch.tensor([answer.next_right for answer in answers]) if self._pairs else None,
        )

    def compute(self) -> dict[str, Any]:
        """Return the scores."""
        return self._scores.compute()


def card(goal: Goal) -> str:
    """Say what the run learns."""
    masked = "whole words" if goal.whole_word else "tokens"
    follows = ", and tells whether one sentence follows another" if goal.pairs else ""
    return f"Says which words stand behind [MASK]{follows}; learnt with masked {masked}."


TASK = Task(
    name="pretrain",
    head=None,
    goal=Goal,
    read=read,
    from_texts=from_texts,
    goal_of=goal_of,
    check=check,
    metrics=metrics,
    encode=encode,
    build=build,
    batch_of=batch_of,
    loss=loss,
    count=count,
    compute=compute,
    decode=decode,
    row=row,
    plain=plain,
    scores=Scores,
    card=card,
    learns_from_corpus=True,
    example='"The cat sat on the [MASK]."',
)
