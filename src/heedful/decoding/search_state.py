"""The state of an on-device search, in tensors of fixed shape.

Shapes: B items in the search, W beam width, T maximum number of tokens, M cache nodes per item, E
source length, R ranked candidates per item, F capacity for finished texts per item.
"""

import math
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.decoding.options import Hypothesis, Search, StaticDecoder


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ranked:
    """Candidates: continuations of each item's hypotheses, best first. Each of shape (B, R)."""

    parents: Tensor
    """Index of the item's hypothesis that a candidate continues."""
    token_ids: Tensor
    """The next token."""
    totals: Tensor
    """The sums that rank the candidates; -inf for no candidate."""
    log_probabilities: Tensor


@dataclass(kw_only=True, slots=True, eq=False)
class BeamState:
    """The search state of all items. A step updates it in place."""

    num_tokens: Tensor
    """Number of tokens of each hypothesis. Shape (), int64."""
    has_nan: Tensor
    """Whether any score was NaN. Shape (), bool."""
    last_tokens: Tensor
    """The newest tokens. Shape (B, W), int64."""
    tokens: Tensor
    """All tokens so far. Shape (B, W, T), int64."""
    node_mask: Tensor
    """Mask of the nodes of each hypothesis. Shape (B, W, M), bool."""
    active: Tensor
    """Mask of the active hypotheses. Shape (B, W), bool."""
    totals: Tensor
    """The sums of penalised log-probabilities, which rank the hypotheses. Shape (B, W), float64."""
    log_probabilities: Tensor
    """Shape (B, W), float64."""
    coverage: Tensor
    """Shape (B, W, E); E is 0 without a coverage penalty."""
    margins: Tensor
    """Shape (B,), float64."""
    done: Tensor
    """Shape (B,), bool."""
    forced: Tensor
    """See ``candidates.forced_tokens``. Shape (B, longest prefix + 1), int64."""
    finished: "Finished"

    @classmethod
    def start(
        cls, steps: StaticDecoder, first: Tensor, options: Search, forced: NDArray[np.int64]
    ) -> "BeamState":
        """Return the state before the first step: one empty hypothesis per item."""
        items, width, most = len(first), options.num_beams, options.max_new_tokens
        like = first.new_zeros((), dtype=torch.float64)
        coverage = first.new_zeros((items, 0)) if steps.coverage is None else steps.coverage
        return cls(
            num_tokens=first.new_zeros(()),
            has_nan=first.new_zeros((), dtype=torch.bool),
            last_tokens=first[:, None].repeat(1, width),
            tokens=first.new_zeros(items, width, most),
            node_mask=steps.prompt_mask[:, None].repeat(1, width, 1),
            active=(torch.arange(width, device=first.device) == 0).repeat(items, 1),
            totals=like.new_zeros(items, width),
            log_probabilities=like.new_zeros(items, width),
            coverage=coverage[:, None].repeat(1, width, 1),
            margins=like.new_full((items,), math.inf),
            done=first.new_zeros(items, dtype=torch.bool),
            forced=torch.from_numpy(forced).to(first.device),
            finished=Finished.start(items, width, most, like),
        )

    def grow(self, nodes: int) -> None:
        """Grow the node mask to this number of nodes: M."""
        items, width, before = self.node_mask.shape
        new_nodes = self.node_mask.new_zeros(items, width, nodes - before)
        self.node_mask = torch.cat([self.node_mask, new_nodes], 2)

    def compact(self) -> Tensor:
        """Drop the nodes that no hypothesis uses any more. The host waits for their number.

        Returns:
            The nodes to keep, in their order, padded to the largest number of any item. Shape
            (B, M).
        """
        used = self.node_mask.any(1)  # (B, M before)
        max_used = int(used.sum(1).max())
        nodes = (~used).long().sort(dim=1, stable=True).indices[:, :max_used]
        self.node_mask = self.node_mask.gather(
            2, nodes[:, None].expand(-1, self.node_mask.shape[1], -1)
        )
        return nodes

    def keep(self, items: Tensor) -> None:
        """Keep these items; see ``StaticDecoder.keep``."""
        for field in fields(self):
            tensor = getattr(self, field.name)
            if isinstance(tensor, Tensor) and tensor.ndim:
                setattr(self, field.name, tensor[items])
        self.finished.keep(items)


@dataclass(kw_only=True, slots=True, eq=False)
class Finished:
    """The finished texts of each item, in the order in which they ended.

    The last column is scratch space: a step writes unused entries there.
    """

    count: Tensor
    """Number of finished texts. Shape (B,), int64."""
    tokens: Tensor
    """Shape (B, F + 1, T), int64."""
    lengths: Tensor
    """Number of valid tokens of each text. Shape (B, F + 1), int64."""
    ended: Tensor
    """Shape (B, F + 1), bool."""
    log_probabilities: Tensor
    """Shape (B, F + 1), float64."""
    scores: Tensor
    """Shape (B, F + 1), float64."""

    @classmethod
    def start(cls, items: int, width: int, most: int, like: Tensor) -> "Finished":
        """Return empty storage. A step adds at most W texts, and none once an item has W."""
        room = 2 * width
        return cls(
            count=like.new_zeros(items, dtype=torch.int64),
            tokens=like.new_zeros((items, room, most), dtype=torch.int64),
            lengths=like.new_zeros((items, room), dtype=torch.int64),
            ended=like.new_zeros((items, room), dtype=torch.bool),
            log_probabilities=like.new_zeros(items, room),
            scores=like.new_full((items, room), -math.inf),
        )

    def add(
        self,
        which: Tensor,
        *,
        tokens: Tensor,
        lengths: Tensor,
        ended: Tensor,
        log_probabilities: Tensor,
        scores: Tensor,
    ) -> None:
        """Add the selected texts.

        Args:
            which: mask of the texts to add; at most W per item. Shape (B, N).
            tokens: shape (B, N, T).
            lengths: shape (B, N).
            ended: shape (B, N).
            log_probabilities: shape (B, N).
            scores: shape (B, N).
        """
        scratch = self.scores.shape[1] - 1
        column = torch.where(which, self.count[:, None] + which.cumsum(1) - 1, scratch)
        self.tokens.scatter_(1, column[..., None].expand(tokens.shape), tokens)
        self.lengths.scatter_(1, column, lengths)
        self.ended.scatter_(1, column, ended)
        self.log_probabilities.scatter_(1, column, log_probabilities)
        self.scores.scatter_(1, column, scores)
        self.count += which.sum(1)

    def keep(self, items: Tensor) -> None:
        """Keep these items; see ``StaticDecoder.keep``."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[items])

    def texts(self) -> list[list[Hypothesis]]:
        """Return the texts of each item. The host waits for them."""
        counts, tokens, lengths, ended, log_probabilities, scores = (
            getattr(self, field.name).cpu().numpy() for field in fields(self)
        )
        return [
            [
                Hypothesis(
                    tokens=tuple(tokens[item, text, : lengths[item, text]].tolist()),
                    ended=bool(ended[item, text]),
                    log_probability=float(log_probabilities[item, text]),
                    score=float(scores[item, text]),
                )
                for text in range(count)
            ]
            for item, count in enumerate(counts)
        ]
