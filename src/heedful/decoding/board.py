"""What a search that stays on a device keeps of all items, in tensors whose shapes stay the same.

Shapes: B items that are searched, W beam, T most tokens of a text, M nodes of an item, E source
length, R ranked candidates of an item, F texts of an item that there is room for.
"""

import math
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.decoding.options import FixedSteps, Hypothesis, Search


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ranked:
    """Continuations of each item's hypotheses, best first. Each of shape (B, R)."""

    parents: Tensor
    """Which hypothesis of the item each continues."""
    token_ids: Tensor
    """The next token."""
    totals: Tensor
    """What they are ranked by; -inf for none."""
    log_probabilities: Tensor


@dataclass(kw_only=True, slots=True, eq=False)
class Board:
    """What is kept of all items. A step writes its results where it read them."""

    number: Tensor
    """How many tokens hypotheses have. Shape (), int64."""
    damaged: Tensor
    """Whether a score was not a number. Shape (), bool."""
    newest: Tensor
    """The newest tokens. Shape (B, W), int64."""
    tokens: Tensor
    """All tokens so far. Shape (B, W, T), int64."""
    seen: Tensor
    """Shape (B, W, M), bool."""
    alive: Tensor
    """Which hypotheses there are. Shape (B, W), bool."""
    totals: Tensor
    """The sums of penalised log-probabilities, by which they are ranked. Shape (B, W), float64."""
    log_probabilities: Tensor
    """Shape (B, W), float64."""
    coverage: Tensor
    """Shape (B, W, E); E is 0 where it does not count."""
    margins: Tensor
    """Shape (B,), float64."""
    done: Tensor
    """Shape (B,), bool."""
    forced: Tensor
    """See ``candidates.forced_tokens``. Shape (B, longest prefix + 1), int64."""
    finished: "Finished"

    @classmethod
    def start(
        cls, steps: FixedSteps, first: Tensor, options: Search, forced: NDArray[np.int64]
    ) -> "Board":
        """Return what is kept before the first step: a hypothesis of each item."""
        items, width, most = len(first), options.num_beams, options.max_new_tokens
        like = first.new_zeros((), dtype=torch.float64)
        coverage = first.new_zeros((items, 0)) if steps.coverage is None else steps.coverage
        return cls(
            number=first.new_zeros(()),
            damaged=first.new_zeros((), dtype=torch.bool),
            newest=first[:, None].repeat(1, width),
            tokens=first.new_zeros(items, width, most),
            seen=steps.read[:, None].repeat(1, width, 1),
            alive=(torch.arange(width, device=first.device) == 0).repeat(items, 1),
            totals=like.new_zeros(items, width),
            log_probabilities=like.new_zeros(items, width),
            coverage=coverage[:, None].repeat(1, width, 1),
            margins=like.new_full((items,), math.inf),
            done=first.new_zeros(items, dtype=torch.bool),
            forced=torch.from_numpy(forced).to(first.device),
            finished=Finished.start(items, width, most, like),
        )

    def make_room(self, nodes: int) -> None:
        """Make room for a number of nodes: M."""
        items, width, before = self.seen.shape
        more = self.seen.new_zeros(items, width, nodes - before)
        self.seen = torch.cat([self.seen, more], 2)

    def close_up(self) -> Tensor:
        """Forget the nodes that no hypothesis is made of any more. The host waits for their number.

        Returns:
            The nodes that are kept, in their order, as many of each item as of the one that needs
            the most. Shape (B, M).
        """
        used = self.seen.any(1)  # (B, M before)
        most = int(used.sum(1).max())
        nodes = (~used).long().sort(dim=1, stable=True).indices[:, :most]
        self.seen = self.seen.gather(2, nodes[:, None].expand(-1, self.seen.shape[1], -1))
        return nodes

    def keep(self, items: Tensor) -> None:
        """Keep some items; see ``FixedSteps.keep``."""
        for field in fields(self):
            part = getattr(self, field.name)
            if isinstance(part, Tensor) and part.ndim:
                setattr(self, field.name, part[items])
        self.finished.keep(items)


@dataclass(kw_only=True, slots=True, eq=False)
class Finished:
    """The texts of each item that have ended, in the order in which they did.

    Their last column is where a step writes what is no text.
    """

    count: Tensor
    """How many there are. Shape (B,), int64."""
    tokens: Tensor
    """Shape (B, F + 1, T), int64."""
    lengths: Tensor
    """How many of the tokens are theirs. Shape (B, F + 1), int64."""
    ended: Tensor
    """Shape (B, F + 1), bool."""
    log_probabilities: Tensor
    """Shape (B, F + 1), float64."""
    scores: Tensor
    """Shape (B, F + 1), float64."""

    @classmethod
    def start(cls, items: int, width: int, most: int, like: Tensor) -> "Finished":
        """Return room for texts. Those of a step are W at most, and none come after W."""
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
        """Add some texts.

        Args:
            which: which of the texts; at most W of an item. Shape (B, N).
            tokens: shape (B, N, T).
            lengths: shape (B, N).
            ended: the same.
            log_probabilities: the same.
            scores: the same.
        """
        trash = self.scores.shape[1] - 1
        column = torch.where(which, self.count[:, None] + which.cumsum(1) - 1, trash)
        self.tokens.scatter_(1, column[..., None].expand(tokens.shape), tokens)
        self.lengths.scatter_(1, column, lengths)
        self.ended.scatter_(1, column, ended)
        self.log_probabilities.scatter_(1, column, log_probabilities)
        self.scores.scatter_(1, column, scores)
        self.count += which.sum(1)

    def keep(self, items: Tensor) -> None:
        """Keep some items; see ``FixedSteps.keep``."""
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
