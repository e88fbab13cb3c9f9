"""The log-likelihood of a text under a model: the sum of its tokens' log-probabilities.

For masked language models it is a pseudo-log-likelihood: each token given all others (Salazar et
al. 2020, "Masked Language Model Scoring", equation 1). A text of n tokens takes n forward passes,
with another token masked in each. For a decoder each token is given the tokens before it, and one
pass suffices.

Shapes: B rows of a batch, T row length, N scored tokens, V vocabulary.
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

_CHUNK_SIZE = 64
"""Number of texts whose rows are sorted by length together."""

Placed = tuple[str, str]
"""A text, and its location for error messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Likelihood:
    """The log-likelihood of a text."""

    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    """Log-probability of each token, given all others or those before it."""

    @property
    def total(self) -> float:
        """The log-likelihood or pseudo-log-likelihood, in nats."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """The perplexity or pseudo-perplexity per token."""
        return math.exp(-self.total / len(self.tokens))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """A model input that scores some tokens of a text."""

    example: Example
    position: int
    """The position that predicts the first scored token."""
    truth: Sequence[int]
    """The scored tokens, predicted at successive positions."""


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
    """Yield the likelihood of each text in order, with a limited number in memory.

    A token of a text that is too long is scored in a single window: the one with the most context
    around the token, or for a decoder before it.

    Args:
        texts: the texts with their locations.
        forward: the model.
        task: the task of the run, which can fill masks or continue texts.
        tokenizer: the model's tokenizer.
        max_length: maximum number of tokens of a row.
        batch_tokens: maximum number of tokens of a batch.
        batch_size: maximum number of rows of a batch.
        device: the device of the model.

    Raises:
        UserError: a text has no token, naming its location; or the model computes NaN.
    """
    fills = "fill" in task.abilities
    rows_of = _masked if fills else _continued
    closing_type = tokenizer.layout.closing_type if fills else None
    texts = iter(texts)
    while chunk := list(islice(texts, _CHUNK_SIZE)):
        texts_ids = tokenizer.encode_batch([text for text, _ in chunk])
        for (_, where), ids in zip(chunk, texts_ids, strict=True):
            if not ids:
                raise UserError(f"{where}: the text has no tokens, so there is nothing to score")
        rows = [row for ids in texts_ids for row in rows_of(ids, tokenizer, max_length)]
        scored: list[Sequence[float]] = [()] * len(rows)
        for indices in plan_pass(
            [len(row.example.ids) for row in rows],
            batch_tokens=batch_tokens,
            max_items=batch_size,
        ):
            chunk_rows = [rows[index] for index in indices]
            batch = _batch(chunk_rows, tokenizer.pad_token_id, closing_type).to(device)
            log_probabilities = _log_probabilities(forward(**batch.inputs), batch)
            if log_probabilities.isnan().any():
                raise UserError("a log-probability is not a number; the model is damaged")
            values = iter(log_probabilities.tolist())
            for index, row in zip(indices, chunk_rows, strict=True):
                scored[index] = list(islice(values, len(row.truth)))
        all_values = (value for row in scored for value in row)
        for ids in texts_ids:
            yield Likelihood(
                tokens=tuple(tokenizer.vocabulary.token(token_id) for token_id in ids),
                log_probabilities=tuple(islice(all_values, len(ids))),
            )


def _log_probabilities(output: Any, batch: Batch) -> Tensor:
    """Return the log-probabilities of the N scored tokens. Shape (N,)."""
    has_pair_head = hasattr(output, "prediction_logits")
    logits: Tensor = output.prediction_logits if has_pair_head else output.logits  # (N, V)
    tokens = batch.targets["tokens"]
    return logits.float().log_softmax(-1).gather(1, tokens[:, None]).squeeze(1).double().cpu()


def _masked(ids: Sequence[int], tokenizer: Tokenizer, max_length: int) -> Iterator[_Row]:
    """Yield a copy of the text for each of its tokens, with this token masked."""
    assert tokenizer.mask_token_id is not None  # training needed it
    layout = tokenizer.layout
    limit = max_length - layout.size(pair=False)
    starts = window_starts(len(ids), limit, limit // 2)
    last = min(limit, len(ids)) - 1
    for index, truth in enumerate(ids):
        start = min(starts, key=lambda start: abs(2 * (index - start) - last))  # most central
        masked_ids = np.array(layout.ids(ids[start : start + limit]), dtype=np.int32)
        position = len(layout.begin) + index - start
        masked_ids[position] = tokenizer.mask_token_id
        yield _Row(example=Example(ids=masked_ids), position=position, truth=[truth])


def _continued(ids: Sequence[int], tokenizer: Tokenizer, max_length: int) -> Iterator[_Row]:
    """Yield the windows of a text; each scores the tokens that no earlier window has."""
    begin = [tokenizer.cls_token_id]
    limit = max_length - len(begin)
    num_scored = 0
    for start in window_starts(len(ids), limit, limit // 2):
        window = ids[start : start + limit]
        # The last token is only predicted, never read.
        example = Example(ids=np.array([*begin, *window[:-1]], dtype=np.int32))
        yield _Row(example=example, position=num_scored - start, truth=window[num_scored - start :])
        num_scored = start + len(window)


def _batch(rows: Sequence[_Row], pad_id: int, closing_type: int | None) -> Batch:
    examples = [row.example for row in rows]
    batch = collate(examples, pad_id=pad_id, closing_type=closing_type)
    width = batch.inputs["input_ids"].shape[1]
    positions = torch.tensor(
        [
            number * width + row.position + offset
            for number, row in enumerate(rows)
            for offset in range(len(row.truth))
        ]
    )
    return replace(
        batch,
        inputs=batch.inputs | {"positions": positions},
        targets={"tokens": torch.tensor([token for row in rows for token in row.truth])},
    )
