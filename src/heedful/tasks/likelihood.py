"""How likely a text is to a model: the sum of the log-probabilities of its tokens.

To a model of masked words that is a pseudo-log-likelihood, each token given all others (Salazar et
al. 2020, "Masked Language Model Scoring", equation 1): a text of n tokens is computed n times,
another token masked each time. To a decoder each token is given those before it, and the text is
computed once.

Shapes: B rows of a batch, T their length, N tokens that are scored, V vocabulary.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.batches import Batch, Example, collate, plan_pass
from heedful.batches.windows import window_starts
from heedful.errors import UserError
from heedful.task import AnyTask, Forward
from heedful.tokens import Tokenizer

_TOGETHER = 64
"""Texts whose rows are sorted by length together."""

Placed = tuple[str, str]
"""A text, and where it stands, for messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Likelihood:
    """How likely a text is."""

    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    """Of each token, given all others, or those before it."""

    @property
    def total(self) -> float:
        """The log-likelihood or pseudo-log-likelihood, in nats."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """The perplexity or pseudo-perplexity: of a token, on average."""
        return math.exp(-self.total / len(self.tokens))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """What the model reads to score some tokens of a text."""

    example: Example
    position: int
    """Where the first of them is told."""
    truth: Sequence[int]
    """These tokens, told one after the other."""


@torch.inference_mode()
def likelihoods(
    texts: Iterable[Placed],
    forward: Forward,
    task: AnyTask,
    tokenizer: Tokenizer,
    *,
    max_length: int,
    batch_tokens: int,
    batch_size: int,
    device: torch.device,
) -> Iterator[Likelihood]:
    """Compute how likely each text is, in order, holding some at a time.

    A token of a text that is too long is told in a window of it: the one that has the most text
    around the token, or for a decoder before it.

    Args:
        texts: the texts.
        forward: the model.
        task: what it learnt: to fill in masks, or to go on with texts.
        tokenizer: its tokenizer.
        max_length: the most tokens it is given at once.
        batch_tokens: the most tokens that are computed at once.
        batch_size: the most rows that are.
        device: where.

    Raises:
        UserError: a text has no token, with where it stands; or the model is damaged.
    """
    rows_of = _masked if "fill" in task.abilities else _continued
    texts = iter(texts)
    while chunk := list(islice(texts, _TOGETHER)):
        texts_ids = tokenizer.encode_batch([text for text, _ in chunk])
        for (_, where), ids in zip(chunk, texts_ids, strict=True):
            if not ids:
                raise UserError(f"{where}: the text has no token, so there is nothing to score")
        rows = [row for ids in texts_ids for row in rows_of(ids, tokenizer, max_length)]
        scored: list[Sequence[float]] = [()] * len(rows)
        for numbers in plan_pass(
            [len(row.example.ids) for row in rows],
            batch_tokens=batch_tokens,
            max_items=batch_size,
        ):
            some = [rows[number] for number in numbers]
            batch = _batch(some, tokenizer).to(device)
            told = _log_probabilities(forward(**batch.inputs), batch)
            if told.isnan().any():
                raise UserError("a log-probability is not a number; the model is damaged")
            each = iter(told.tolist())
            for number, row in zip(numbers, some, strict=True):
                scored[number] = list(islice(each, len(row.truth)))
        every = (number for row in scored for number in row)
        for ids in texts_ids:
            yield Likelihood(
                tokens=tuple(tokenizer.vocabulary.token(token_id) for token_id in ids),
                log_probabilities=tuple(islice(every, len(ids))),
            )


def _log_probabilities(output: Any, batch: Batch) -> Tensor:
    """Return those of the N tokens that are scored. Shape (N,)."""
    pairs_too = hasattr(output, "prediction_logits")
    logits: Tensor = output.prediction_logits if pairs_too else output.logits  # (N, V)
    tokens = batch.targets["tokens"]
    return logits.float().log_softmax(-1).gather(1, tokens[:, None]).squeeze(1).double().cpu()


def _masked(ids: Sequence[int], tokenizer: Tokenizer, max_length: int) -> Iterator[_Row]:
    """Yield a copy of a text for each of its tokens."""
    assert tokenizer.mask_token_id is not None  # or nothing could have been learnt
    layout = tokenizer.layout
    room = max_length - layout.size(pair=False)
    starts = window_starts(len(ids), room, room // 2)
    last = min(room, len(ids)) - 1
    for at, truth in enumerate(ids):
        start = min(starts, key=lambda start: abs(2 * (at - start) - last))  # nearest its middle
        hidden = np.array(layout.ids(ids[start : start + room]), dtype=np.int32)
        position = len(layout.begin) + at - start
        hidden[position] = tokenizer.mask_token_id
        yield _Row(example=Example(ids=hidden), position=position, truth=[truth])


def _continued(ids: Sequence[int], tokenizer: Tokenizer, max_length: int) -> Iterator[_Row]:
    """Yield the windows of a text, each with the tokens that none before it has."""
    begin = [tokenizer.cls_token_id]
    room = max_length - len(begin)
    told = 0
    for start in window_starts(len(ids), room, room // 2):
        window = ids[start : start + room]
        # The last token is read by no other.
        example = Example(ids=np.array([*begin, *window[:-1]], dtype=np.int32))
        yield _Row(example=example, position=told - start, truth=window[told - start :])
        told = start + len(window)


def _batch(rows: Sequence[_Row], tokenizer: Tokenizer) -> Batch:
    batch = collate(
        [row.example for row in rows],
        pad_id=tokenizer.pad_token_id,
        closing_type=tokenizer.layout.closing_type,
    )
    width = batch.inputs["input_ids"].shape[1]
    positions = torch.tensor(
        [
            number * width + row.position + at
            for number, row in enumerate(rows)
            for at in range(len(row.truth))
        ]
    )
    return replace(
        batch,
        inputs=batch.inputs | {"positions": positions},
        targets={"tokens": torch.tensor([token for row in rows for token in row.truth])},
    )
