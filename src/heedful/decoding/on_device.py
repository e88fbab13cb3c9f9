"""Beam search with all state on the device and the same tensor shapes at each step.

The host launches step after step and checks only every few steps which items are done, so the
device never waits for the host. On a GPU the second step is captured as a CUDA graph and replayed
from then on, so that a single launch runs a whole step. The result is that of ``beam.py``.

The state is in ``search_state.py``, the logic of a step in ``rules.py``.

Shapes: B items.
"""

import threading
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.cancellation import check_cancelled
from heedful.decoding.beam import best_hypotheses, coverage_without_source_error
from heedful.decoding.candidates import check_forbidden, check_prefixes, nan_score_error
from heedful.decoding.options import Hypothesis, Search, StaticDecoder
from heedful.decoding.rules import Rules
from heedful.decoding.search_state import BeamState

_CHECK_EVERY = 8
"""Steps between two checks of which items are done."""

_CAPTURE_LOCK = threading.Lock()
"""A process captures one CUDA graph at a time."""


def beam_search_on_device(
    steps: StaticDecoder, first: Tensor, options: Search, forced: NDArray[np.int64]
) -> list[list[Hypothesis]]:
    """Search all items in one batch; see ``beam.beam_search``.

    Finished items stay in the batch until half of all items are finished.

    Args:
        steps: returns the scores of the next tokens.
        first: the start token of each item. Shape (B,).
        options: the search options, without sampling.
        forced: see ``candidates.forced_tokens``.

    Raises:
        UserError: see ``search``.
    """
    check_prefixes(forced, steps.vocabulary)
    if options.coverage_penalty and steps.coverage is None:
        raise coverage_without_source_error()
    end_token = [options.eos_token_id] if options.min_new_tokens else []
    check_forbidden([*options.never, *end_token], steps.vocabulary)
    state = BeamState.start(steps, first, options, forced)
    rules = Rules.of(options, first.device)
    width, limit = options.num_beams, options.max_new_tokens
    texts: list[list[Hypothesis]] = [[] for _ in range(len(first))]
    items = np.arange(len(first))
    capacity, base, launch = 0, 0, None
    for length in range(1, limit + 1):
        if length > capacity:
            if capacity:
                steps.keep_nodes(state.compact())
            # All nodes cost time and memory, even masked ones, so the cache grows in chunks. But a
            # graph capture takes as long as many steps, so each chunk doubles the cache.
            filled, added = (
                state.node_mask.shape[2],
                min(max(capacity, 8 * _CHECK_EVERY), limit - capacity),
            )
            base, capacity = filled - capacity * width, capacity + added
            state.grow(filled + added * width)
            steps.grow(filled + added * width)
            launch = None
        if launch is None:
            launch = _Launch(partial(rules.advance, steps, state, base), first.device)
        launch()
        if length % _CHECK_EVERY and length < limit:
            continue
        check_cancelled()
        if state.has_nan.item():
            raise nan_score_error()
        done = state.done.cpu().numpy() | (length == limit)
        if 2 * done.sum() >= len(items):
            finished, margins = state.finished.texts(), state.margins.tolist()
            for row in np.flatnonzero(done):
                texts[items[row]] = best_hypotheses(finished[row], margins[row], options)
            if done.all():
                break
            items, rows = items[~done], torch.from_numpy(np.flatnonzero(~done)).to(first.device)
            state.keep(rows)
            steps.keep(rows)
            launch = None
    return texts


def supports_graphs(device: torch.device) -> bool:
    """Return whether the device can capture a step as a graph."""
    return device.type == "cuda"


class _Launch:
    """Runs the same step repeatedly: on a GPU as a CUDA graph, after the first call.

    Args:
        step: reads and writes the same tensors at each call, and never reads a value on the host.
        device: device of these tensors.
    """

    def __init__(self, step: Callable[[], None], device: torch.device) -> None:
        self.step, self.records = step, supports_graphs(device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Run the step."""
        if self.graph is not None:
            self.graph.replay()
            return
        self.step()
        if self.records:
            try:
                self.graph = self._recorded()
            except RuntimeError as error:
                self.records = False
                message = (
                    f"searching without CUDA graphs, more slowly: {str(error).splitlines()[0]}"
                )
                warnings.warn(message, stacklevel=2)

    def _recorded(self) -> "torch.cuda.CUDAGraph":
        """Capture the step as a graph, without running it."""
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the device meanwhile, but not capture.
        with _CAPTURE_LOCK, torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self.step()
        return graph
