"""Beam search where all that is kept stays on a device, and a step has the same shapes each time.

The host asks for one step after another and looks only now and then who is done, so that the
device never waits for it. A GPU records the second step as a CUDA graph and plays it from then on:
the host launches a step at once, whatever it is made of. The result is that of ``beam.py``.

What is kept is in ``board.py``, what a step does in ``rules.py``.

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

from heedful.decoding.beam import best_texts, no_source
from heedful.decoding.board import Board
from heedful.decoding.candidates import check_forbidden, check_prefixes, damaged
from heedful.decoding.options import FixedSteps, Hypothesis, Search
from heedful.decoding.rules import Rules

_LOOK = 8
"""Steps between two looks at who is done."""

_RECORDING = threading.Lock()
"""A process records one graph at a time."""


def beam_search_on_device(
    steps: FixedSteps, first: Tensor, options: Search, forced: NDArray[np.int64]
) -> list[list[Hypothesis]]:
    """Search all items side by side; see ``beam.beam_search``.

    Items that are done are computed on, until half of all are.

    Args:
        steps: score the next tokens.
        first: the token that each item starts with. Shape (B,).
        options: how to search; without draws.
        forced: see ``candidates.forced_tokens``.

    Raises:
        UserError: see ``search``.
    """
    check_prefixes(forced, steps.vocabulary)
    if options.coverage_penalty and steps.coverage is None:
        raise no_source()
    early = [options.eos_token_id] if options.min_new_tokens else []
    check_forbidden([*options.never, *early], steps.vocabulary)
    board = Board.start(steps, first, options, forced)
    rules = Rules.of(options, first.device)
    width, most = options.num_beams, options.max_new_tokens
    texts: list[list[Hypothesis]] = [[] for _ in range(len(first))]
    items = np.arange(len(first))
    room, base, launch = 0, 0, None
    for length in range(1, most + 1):
        if length > room:
            if room:
                steps.keep_nodes(board.close_up())
            # What is attended to, seen or not, takes time and memory: room is made bit by bit. But
            # to record takes as long as many steps, so each bit is as much as there is.
            filled, more = board.seen.shape[2], min(max(room, 8 * _LOOK), most - room)
            base, room = filled - room * width, room + more
            board.make_room(filled + more * width)
            steps.make_room(filled + more * width)
            launch = None
        if launch is None:
            launch = _Launch(partial(rules.advance, steps, board, base), first.device)
        launch()
        if length % _LOOK and length < most:
            continue
        if board.damaged.item():
            raise damaged()
        done = board.done.cpu().numpy() | (length == most)
        if 2 * done.sum() >= len(items):
            finished, margins = board.finished.texts(), board.margins.tolist()
            for row in np.flatnonzero(done):
                texts[items[row]] = best_texts(finished[row], margins[row], options)
            if done.all():
                break
            items, rows = items[~done], torch.from_numpy(np.flatnonzero(~done)).to(first.device)
            board.keep(rows)
            steps.keep(rows)
            launch = None
    return texts


def records(device: torch.device) -> bool:
    """Tell whether a device can record a step."""
    return device.type == "cuda"


class _Launch:
    """Takes the same step again and again: on a GPU all of it at once, but for the first.

    Args:
        step: reads and writes the same tensors each time, and never asks for a number.
        device: where they are.
    """

    def __init__(self, step: Callable[[], None], device: torch.device) -> None:
        self.step, self.records = step, records(device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Take the step."""
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
        """Record the step; what is recorded is not computed."""
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the device meanwhile, but not record.
        with _RECORDING, torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self.step()
        return graph
