"""Generate text token by token with any function that scores the next token.

A finished hypothesis leaves the batch, and so does an item whose result is final. The result of an
item depends only on its own scores, not on the other items of the batch.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.decoding.beam import beam_search
from heedful.decoding.candidates import forced_tokens
from heedful.decoding.on_device import beam_search_on_device
from heedful.decoding.options import (
    HasCoverage,
    Hypothesis,
    ScoreFunction,
    Search,
    Selectable,
    State,
    StaticDecoder,
)
from heedful.decoding.sampling import checked_seeds, sample
from heedful.device_transfer import blocks_host

__all__ = [
    "HasCoverage",
    "Hypothesis",
    "ScoreFunction",
    "Search",
    "Selectable",
    "State",
    "search",
    "search_on_device",
    "stays_on_device",
]


@torch.inference_mode()
def search(
    step: ScoreFunction[State],
    state: State,
    first: Tensor,
    options: Search,
    item_seeds: Sequence[int] | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
    prompts: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Generate one or more texts for each item.

    Args:
        step: returns the scores of the next tokens.
        state: the model state of each item before its first token.
        first: the start token of each item. Shape (B,).
        options: the search options.
        item_seeds: for each item, an integer that seeds its samples, with the seed of the options;
            0 to B - 1 if None.
        prefixes: the forced tokens of each item after its start token. They count in the text, its
            length and its probability, and no option forbids them.
        prompts: the tokens of each item up to its start token, which ``count_prompt`` needs.

    Returns:
        ``num_return_sequences`` hypotheses for each item. Beam search returns them best first, and
        fewer if the vocabulary is too small. Sampling returns them in the order of drawing.

    Raises:
        UserError: the prefixes or seeds are invalid, or there is a coverage penalty but the model
            has no source.
    """
    forced = forced_tokens(prefixes, len(first), options)
    counted = _padded_left(prompts) if options.count_prompt and prompts else None
    if options.do_sample:
        seeds = checked_seeds(item_seeds, len(first))
        return sample(step, state, first, options, forced, seeds, counted)
    return beam_search(step, state, first, options, forced, counted)


def _padded_left(prompts: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Return shape (B, longest prompt), padded with -1."""
    rows = np.full((len(prompts), max(map(len, prompts))), -1)
    for row, prompt in zip(rows, prompts, strict=True):
        row[len(row) - len(prompt) :] = prompt
    return rows


def stays_on_device(device: torch.device, options: Search) -> bool:
    """Return whether to search on the device, because the host would have to wait for each token.

    Sampling always runs on the host, so that a seed gives the same texts on every device. So does a
    search that counts the prompt, penalises logits or goes on after ``num_beams`` hypotheses, which
    is rare.
    """
    rare = options.count_prompt or not options.early_stopping
    rare = rare or (options.penalise_logits and options.repetition_penalty != 1)
    return blocks_host(device) and not (options.do_sample or rare)


@torch.inference_mode()
def search_on_device(
    steps: StaticDecoder,
    first: Tensor,
    options: Search,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Generate texts as ``search`` does, but keep all state on the device.

    Args:
        steps: returns the scores of the next tokens and keeps the model state of each item.
        first: see ``search``.
        options: see ``search``; sampling is not supported.
        prefixes: see ``search``.

    Raises:
        UserError: see ``search``.
    """
    return beam_search_on_device(
        steps, first, options, forced_tokens(prefixes, len(first), options)
    )
