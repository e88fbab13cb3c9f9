"""Pseudo-log-likelihood: how likely a text is to a model of masked words.

The sum of the log probabilities of a text's tokens, each given all others (Salazar et al. 2020,
"Masked Language Model Scoring", equation 1): a text of n tokens is computed n times, another token
masked each time.

Shapes: B masked copies of a batch, T their length.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch

from heedful.batches import Batch, Example, collate, plan_pass
from heedful.batches.windows import window_starts
from heedful.errors import UserError
from heedful.settings import PredictSettings
from heedful.task import Forward
from heedful.tasks.pretrain import Pretrain
from heedful.tokens import Tokenizer

_TOGETHER = 64
"""Texts whose copies are sorted by length together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Likelihood:
    """How likely a text is."""

    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    """Of each token, given all others."""

    @property
    def total(self) -> float:
        """The pseudo-log-likelihood, in nats."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """The pseudo-perplexity: of a token, on average."""
        return math.exp(-self.total / len(self.tokens))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Copy:
    """A text with one token masked."""

    example: Example
    position: int
    """Where the mask is."""
    truth: int
    """The token behind it."""


@torch.inference_mode()
def likelihoods(
    texts: Iterable[str],
    forward: Forward,
    task: Pretrain,
    tokenizer: Tokenizer,
    *,
    max_length: int,
    settings: PredictSettings,
    device: torch.device,
) -> Iterator[Likelihood]:
    """Compute how likely each text is, in order, holding some at a time.

    A token of a text that is too long is masked in a window of it, the one that has the most text
    around the token.

    Args:
        texts: the texts.
        forward: the model.
        task: what it learnt.
        tokenizer: its tokenizer.
        max_length: the most tokens it is given at once.
        settings: how many of them are computed at once.
        device: where.

    Raises:
        UserError: a text has no token.
    """
    numbered = enumerate(texts, start=1)
    while chunk := list(islice(numbered, _TOGETHER)):
        texts_ids = tokenizer.encode_batch([text for _, text in chunk])
        for (number, _), ids in zip(chunk, texts_ids, strict=True):
            if not ids:
                raise UserError(f"text {number}: empty; there is nothing to score")
        copies = [copy for ids in texts_ids for copy in _copies(ids, tokenizer, max_length)]
        log_probabilities = np.empty(len(copies))
        for rows in plan_pass(
            [len(copy.example.ids) for copy in copies],
            batch_tokens=settings.batch_tokens,
            max_items=settings.batch_size,
        ):
            batch = _batch([copies[row] for row in rows], tokenizer).to(device)
            losses = task.compute(forward, batch, settings)[:, 0]
            log_probabilities[rows] = -losses.cpu().double().numpy()
        each = iter(log_probabilities.tolist())
        for ids in texts_ids:
            yield Likelihood(
                tokens=tuple(tokenizer.vocabulary.token(token_id) for token_id in ids),
                log_probabilities=tuple(islice(each, len(ids))),
            )


def _copies(ids: Sequence[int], tokenizer: Tokenizer, max_length: int) -> Iterator[_Copy]:
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
        yield _Copy(example=Example(ids=hidden), position=position, truth=truth)


def _batch(copies: Sequence[_Copy], tokenizer: Tokenizer) -> Batch:
    batch = collate([copy.example for copy in copies], pad_id=tokenizer.pad_token_id)
    width = batch.inputs["input_ids"].shape[1]
    positions = torch.tensor([row * width + copy.position for row, copy in enumerate(copies)])
    return replace(
        batch,
        inputs=batch.inputs | {"positions": positions},
        targets={"tokens": torch.tensor([copy.truth for copy in copies])},
    )
