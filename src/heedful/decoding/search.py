"""Token by token from a start to an end, with any function that scores what comes next.

A hypothesis that ends leaves the batch, and so does an item that is settled. What is found for an
item depends on its own scores alone, never on the items beside it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from heedful.decoding.beam import beam_search
from heedful.decoding.candidates import forced_words
from heedful.decoding.options import Covering, Hypothesis, Search, Selectable, State, Step
from heedful.decoding.sampling import sample

__all__ = ["Covering", "Hypothesis", "Search", "Selectable", "State", "Step", "search"]


@torch.inference_mode()
def search(
    step: Step[State],
    state: State,
    first: Tensor,
    options: Search,
    numbers: Sequence[int] | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Find continuations of each item.

    Args:
        step: scores the next tokens.
        state: what is kept of each item before its first token.
        first: the token that each item starts with. Shape (B,).
        options: how to look.
        numbers: of each item among all of the user's, for the draws; 0 to B - 1 if None.
        prefixes: for each item the tokens that it must begin with after the first. They are part
            of what is found, of its length and of its probability, and no rule forbids them.

    Returns:
        For each item ``num_return_sequences`` hypotheses: of a beam, best first, and fewer where
        the vocabulary has no more; or samples in the order in which they were drawn.

    Raises:
        UserError: the prefixes do not fit, or the model has no coverage to penalise.
    """
    forced = forced_words(prefixes, len(first), options)
    if options.do_sample:
        drawn = range(len(first)) if numbers is None else numbers
        return sample(step, state, first, options, forced, drawn)
    return beam_search(step, state, first, options, forced)
