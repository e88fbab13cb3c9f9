"""Generate texts token by token, with any function that scores the next token.

A hypothesis leaves the batch when it ends, and an item when its result is final. The result of an
item depends on its own scores alone, not on the other items of the batch.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from heedful.decoding.beam import beam_search
from heedful.decoding.candidates import forced_tokens
from heedful.decoding.on_device import beam_search_on_device
from heedful.decoding.options import (
    Covering,
    FixedSteps,
    Hypothesis,
    NextScores,
    Search,
    Selectable,
    State,
)
from heedful.decoding.sampling import sample
from heedful.host import waits

__all__ = [
    "Covering",
    "Hypothesis",
    "NextScores",
    "Search",
    "Selectable",
    "State",
    "search",
    "search_on_device",
    "stays_on_device",
]


@torch.inference_mode()
def search(
    step: NextScores[State],
    state: State,
    first: Tensor,
    options: Search,
    numbers: Sequence[int] | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Generate texts for each item.

    Args:
        step: scores the next tokens.
        state: the model's state for each item before its first token.
        first: the token that each item starts with. Shape (B,).
        options: how to search.
        numbers: the number of each item in the user's data, for the draws; 0 to B - 1 if None.
        prefixes: the tokens that each item must begin with after the first. They are part of the
            text, its length and its probability, and no option forbids them.

    Returns:
        For each item ``num_return_sequences`` hypotheses: of a beam, best first, and fewer if the
        vocabulary has no more; or samples in the order in which they were drawn.

    Raises:
        UserError: the prefixes do not fit, or the coverage penalty needs a model with a source.
    """
    forced = forced_tokens(prefixes, len(first), options)
    if options.do_sample:
        numbers = range(len(first)) if numbers is None else numbers
        return sample(step, state, first, options, forced, numbers)
    return beam_search(step, state, first, options, forced)


def stays_on_device(device: torch.device, options: Search) -> bool:
    """Tell whether a search should stay on a device, where the host would wait for each token.

    Draws are the host's, so that a seed means the same everywhere.
    """
    return waits(device) and not options.do_sample


@torch.inference_mode()
def search_on_device(
    steps: FixedSteps,
    first: Tensor,
    options: Search,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Generate texts as ``search`` does, but let all that is kept stay on the device.

    Args:
        steps: score the next tokens, and keep the model's state for each item.
        first: see ``search``.
        options: the same; without draws.
        prefixes: see ``search``.

    Raises:
        UserError: see ``search``.
    """
    return beam_search_on_device(
        steps, first, options, forced_tokens(prefixes, len(first), options)
    )
