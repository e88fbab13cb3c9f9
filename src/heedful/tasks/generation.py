"""Shared code of text generation tasks: search options, and scores of reference texts.

Shapes: B examples of a batch, E source tokens, S target tokens, N scored tokens, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heedful.batches import Batch
from heedful.decoding.search import Hypothesis, Search
from heedful.device_transfer import get_host_copy, nonzero_indices
from heedful.errors import UserError
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
"""Fields of ``PredictSettings`` that affect generation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationOutput:
    """Output for one example."""

    hypotheses: Sequence[Hypothesis]
    """The generated texts as tokens; empty if only the reference text was scored."""
    log_likelihood: float
    """Sum of the log-probabilities of the reference text's tokens; 0 if there is none."""
    tokens_known: int
    """Number of tokens of the reference text."""
    attention: NDArray[np.float32] | None = None
    """Cross-attention weights from each token of the first hypothesis to each source token, if
    requested. Shape (S, E)."""


def search_options(
    settings: PredictSettings, *, eos_token_id: int, max_new_tokens: int, never: int
) -> Search:
    """Return the search options for the user's settings.

    Args:
        settings: the prediction settings.
        eos_token_id: the end-of-sequence token.
        max_new_tokens: maximum number of generated tokens.
        never: a token that is never generated, unless it is the end-of-sequence token.

    Raises:
        UserError: the minimum length is not below the maximum.
    """
    if settings.min_new_tokens >= max_new_tokens:
        raise UserError(
            f"--min-new-tokens {settings.min_new_tokens}: at most {max_new_tokens:,} tokens are "
            "generated, and one of them is the end"
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


def unpadded_token_ids(batch: Batch) -> list[list[int]]:
    """Return the input token ids of each example, without padding."""
    ids, mask = get_host_copy(batch.inputs["input_ids"]), batch.inputs.get("attention_mask")
    if mask is None:
        rows: list[list[int]] = ids.tolist()
        return rows
    mask = get_host_copy(mask)
    return [row[:length] for row, length in zip(ids.tolist(), mask.sum(1).tolist(), strict=True)]


def sampling_seeds(rows: Sequence[list[int]]) -> list[int]:
    """Return a seed for the samples of each text, which depends only on its token ids."""
    return [crc32(repr(ids).encode()) for ids in rows]


def label_positions(labels: Tensor) -> Tensor:
    """Return the flat indices of all labels that are not ignored. Shape (N,) for labels (B, S)."""
    return nonzero_indices(get_host_copy(labels) != IGNORED, labels.device)


def known_scores(logits: Tensor, positions: Tensor, labels: Tensor) -> list[tuple[float, int]]:
    """Return the log-likelihood and the number of tokens of each reference text.

    Args:
        logits: logits of the N scored tokens. Shape (N, V).
        positions: flat indices of the scored tokens in the batch. Shape (N,).
        labels: the reference texts, padded with -100. Shape (B, S).
    """
    targets = labels.flatten()[positions]  # (N,)
    scores = logits.float().log_softmax(-1).gather(1, targets[:, None]).squeeze(1)  # (N,)
    sums = scores.new_zeros(len(labels)).index_add_(0, positions // labels.shape[1], scores)
    counts = (labels != IGNORED).sum(1)
    return list(zip(sums.tolist(), counts.tolist(), strict=True))
