"""What tasks that write ask of their models: texts, and how likely a known text is.

Shapes: B examples of a batch, E tokens of the text to read, S of the text to write, N tokens that
are scored, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heedful.batches import Batch
from heedful.decoding.search import Hypothesis, Search
from heedful.errors import UserError
from heedful.host import on_host, where_true
from heedful.losses import IGNORED
from heedful.settings import PredictSettings

SEARCH_OPTIONS = frozenset(
    {
        "beam",
        "max_new_tokens",
        "min_new_tokens",
        "length_penalty",
        "no_repeat_ngram",
        "repetition_penalty",
        "sample",
        "top",
        "temperature",
        "top_k",
        "top_p",
        "seed",
    }
)
"""Fields of ``PredictSettings`` that decide what is written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationOutput:
    """What was computed for an example."""

    hypotheses: Sequence[Hypothesis]
    """The texts that were found, as tokens; none where only the known text was scored."""
    log_likelihood: float
    """Of the known text: the sum over its tokens; 0 if none is known."""
    tokens_known: int
    """Tokens of the known text."""
    attention: NDArray[np.float32] | None = None
    """How much each token of the first hypothesis attends to each that was read, if asked for.
    Shape (S, E)."""


def search_options(
    settings: PredictSettings, *, eos_token_id: int, max_new_tokens: int, never: int
) -> Search:
    """Return how a text is looked for.

    Args:
        settings: what the user asks for.
        eos_token_id: the token that ends a text.
        max_new_tokens: the most tokens.
        never: a token that is not written, unless it is the one that ends a text.

    Raises:
        UserError: the least is not below the most.
    """
    if settings.min_new_tokens >= max_new_tokens:
        raise UserError(
            f"--min-new-tokens {settings.min_new_tokens}: at most {max_new_tokens:,} tokens are "
            "written: give fewer, or a larger --max-new-tokens"
        )
    return Search(
        eos_token_id=eos_token_id,
        max_new_tokens=max_new_tokens,
        min_new_tokens=settings.min_new_tokens,
        num_beams=1 if settings.sample else settings.beam,
        num_return_sequences=settings.top if settings.sample else min(settings.top, settings.beam),
        length_penalty=settings.length_penalty,
        coverage_penalty=settings.coverage_penalty,
        repetition_penalty=settings.repetition_penalty,
        no_repeat_ngram=settings.no_repeat_ngram,
        do_sample=settings.sample,
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        seed=settings.seed,
        never=() if never == eos_token_id else (never,),
    )


def real_tokens(batch: Batch) -> list[list[int]]:
    """Return the token ids that each example reads, without padding."""
    ids, mask = on_host(batch.inputs["input_ids"]), batch.inputs.get("attention_mask")
    if mask is None:
        rows: list[list[int]] = ids.tolist()
        return rows
    mask = on_host(mask)
    return [row[:length] for row, length in zip(ids.tolist(), mask.sum(1).tolist(), strict=True)]


def draw_numbers(rows: Sequence[list[int]]) -> list[int]:
    """Return the number that decides what is drawn for each text: wherever it stands, the same."""
    return [crc32(repr(ids).encode()) for ids in rows]


def label_positions(labels: Tensor) -> Tensor:
    """Return where there are labels, in the batch laid out as one row. Shape (N,) for (B, S)."""
    return where_true(on_host(labels) != IGNORED, labels.device)


def known_scores(logits: Tensor, positions: Tensor, labels: Tensor) -> list[tuple[float, int]]:
    """Return how likely each known text is: the sum over its tokens, and how many there are.

    Args:
        logits: of the N tokens that are scored. Shape (N, V).
        positions: where they stand in the batch laid out as one row. Shape (N,).
        labels: the known texts, -100 after them. Shape (B, S).
    """
    targets = labels.flatten()[positions]  # (N,)
    scores = logits.float().log_softmax(-1).gather(1, targets[:, None]).squeeze(1)  # (N,)
    sums = scores.new_zeros(len(labels)).index_add_(0, positions // labels.shape[1], scores)
    counts = (labels != IGNORED).sum(1)
    return list(zip(sums.tolist(), counts.tolist(), strict=True))
