"""Token by token from a start to an end, with any function that scores what comes next.

A hypothesis that ends leaves the batch, and so does an item that is settled. What is found for an
item depends on its own scores alone, never on the items beside it.

Shapes: B items, N hypotheses of all items that go on, V vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from heedful.errors import UserError


class Selectable(Protocol):
    """What a scorer keeps of each hypothesis, such as a cache."""

    def select(self, rows: Tensor) -> Self:
        """Return what is kept of some rows, in that order, any of them several times.

        Args:
            rows: numbers of rows. Shape (N,), int64.
        """
        ...


State = TypeVar("State", bound=Selectable)

Step = Callable[[Tensor, State], tuple[Tensor, State]]
"""The newest token of each hypothesis, shape (N,), and what is kept of them, to the log-probability
of each next token, shape (N, V), and what is then kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """How to look for a text; the names are the reference's.

    Raises:
        UserError: a value is out of range, or two do not go together.
    """

    eos_token_id: int
    """The token that ends a text."""
    max_new_tokens: int = 64
    """The most tokens, the ending one included."""
    min_new_tokens: int = 0
    """The fewest tokens before the ending one."""
    num_beams: int = 1
    """Hypotheses kept for each item; 1 is greedy."""
    num_return_sequences: int = 1
    """Texts to return for each item: the best of the beam, or samples."""
    length_penalty: float = 1.0
    """A score is the log-probability divided by the length to this power: 0 ranks by probability,
    1 by the mean over the tokens."""
    do_sample: bool = False
    """Whether to draw each token by its probability instead."""
    temperature: float = 1.0
    """Divides the log-probabilities before drawing: below 1 is safer, above 1 more varied."""
    top_k: int = 0
    """Draw among this many likeliest tokens (Fan et al. 2018); 0 for all."""
    top_p: float = 1.0
    """Draw among the fewest tokens that have this probability together (Holtzman et al. 2020)."""
    seed: int = 0
    """Decides the draws, together with the item's number."""
    never: tuple[int, ...] = ()
    """Tokens that are not generated, such as padding."""

    def __post_init__(self) -> None:
        """Check the values."""
        for name, low in (
            ("max_new_tokens", 1),
            ("min_new_tokens", 0),
            ("num_beams", 1),
            ("num_return_sequences", 1),
            ("top_k", 0),
            ("seed", 0),
        ):
            if getattr(self, name) < low:
                raise UserError(f"{name} is {getattr(self, name)}; it must be at least {low}")
        if self.min_new_tokens >= self.max_new_tokens:
            most = self.max_new_tokens - 1
            raise UserError(f"min_new_tokens is {self.min_new_tokens}; it can be at most {most}")
        if not 0 < self.temperature < math.inf:
            raise UserError(f"temperature is {self.temperature}; it must be a number above 0")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p is {self.top_p}; it must be above 0 and at most 1")
        if not math.isfinite(self.length_penalty):
            raise UserError(f"length_penalty is {self.length_penalty}; it must be a finite number")
        if self.do_sample and self.num_beams > 1:
            raise UserError(f"num_beams is {self.num_beams}; with do_sample it must be 1")
        if not self.do_sample and self.num_return_sequences > self.num_beams:
            raise UserError(
                f"num_return_sequences is {self.num_return_sequences}; without do_sample it can be "
                f"at most num_beams, {self.num_beams}"
            )
        if self.eos_token_id in self.never:
            raise UserError(f"token {self.eos_token_id} ends a text; it cannot be among never")


@dataclass(frozen=True, kw_only=True, slots=True)
class Hypothesis:
    """A text that was found."""

    tokens: tuple[int, ...]
    """Its tokens, without the start and without the ending token."""
    ended: bool
    """Whether the ending token came, rather than ``max_new_tokens``."""
    log_probability: float
    """Of its tokens, and of the ending one if it came."""
    score: float
    """The same after the length penalty: what the hypotheses of an item are ranked by."""


@torch.inference_mode()
def search(
    step: Step[State],
    state: State,
    first: Tensor,
    options: Search,
    numbers: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Find continuations of each item.

    Args:
        step: scores the next tokens.
        state: what is kept of each item before its first token.
        first: the token that each item starts with. Shape (B,).
        options: how to look.
        numbers: of each item among all of the user's, for the draws; 0 to B - 1 if None.

    Returns:
        For each item ``num_return_sequences`` hypotheses: of a beam, best first, and fewer where
        the vocabulary has no more; or samples in the order in which they were drawn.
    """
    if options.do_sample:
        return _sample(step, state, first, options, numbers or range(len(first)))
    return _beam(step, state, first, options)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Partial:
    """A hypothesis that goes on."""

    tokens: tuple[int, ...] = ()
    log_probability: float = 0.0

    def extend(self, token: int, total: float) -> "_Partial":
        """Add a token that brings the log-probability to a total."""
        return _Partial(tokens=(*self.tokens, token), log_probability=total)

    def end(self, options: Search, total: float | None = None) -> Hypothesis:
        """Close it: by the ending token that brings it to a total, or without one."""
        log_probability = self.log_probability if total is None else total
        length = len(self.tokens) + (total is not None)
        return Hypothesis(
            tokens=self.tokens,
            ended=total is not None,
            log_probability=log_probability,
            score=log_probability / math.pow(length, options.length_penalty),
        )


@dataclass(slots=True)
class _Beam:
    """The search for one item: over when as many hypotheses have ended as the beam is wide."""

    going: list[_Partial]
    found: list[Hypothesis]

    def advance(
        self, values: Sequence[list[float]], words: Sequence[list[int]], options: Search
    ) -> list[int]:
        """Take the hypotheses a token further.

        An ending that ranks inside the beam is taken out, and its place filled with the next best.

        Args:
            values: log-probabilities of the likeliest next tokens of each hypothesis.
            words: those tokens.
            options: how to look.

        Returns:
            For each hypothesis that goes on, which of the earlier ones it continues.
        """
        ranked = sorted(
            (
                (partial.log_probability + value, parent, word)
                for parent, partial in enumerate(self.going)
                for value, word in zip(values[parent], words[parent], strict=True)
            ),
            key=lambda candidate: -candidate[0],
        )
        going: list[_Partial] = []
        parents: list[int] = []
        for rank, (total, parent, word) in enumerate(ranked):
            if total == -math.inf or len(going) == options.num_beams:
                break
            if word != options.eos_token_id:
                going.append(self.going[parent].extend(word, total))
                parents.append(parent)
            elif rank < options.num_beams:
                self.found.append(self.going[parent].end(options, total))
        self.going = going
        return parents

    def settle(self, length: int, options: Search) -> None:
        """Stop if enough have ended, all have their last token, or none can change the result."""
        enough = len(self.found) >= options.num_beams
        if not enough and length == options.max_new_tokens:
            self.found += [partial.end(options) for partial in self.going]
            self.going = []
        elif enough or self._is_beaten(length, options):
            self.going = []

    def _is_beaten(self, length: int, options: Search) -> bool:
        """Whether what was found is better than whatever those that go on can become."""
        if len(self.found) < options.num_return_sequences or not self.going:
            return False
        worst = sorted(hypothesis.score for hypothesis in self.found)[-options.num_return_sequences]
        # A sum of log-probabilities only falls; the penalty is kindest to the longest, or, where
        # its power is below 0, to the shortest.
        kindest = options.max_new_tokens if options.length_penalty > 0 else length + 1
        best = max(partial.log_probability for partial in self.going)
        return worst >= best / math.pow(kindest, options.length_penalty)


def _beam(
    step: Step[State], state: State, first: Tensor, options: Search
) -> list[list[Hypothesis]]:
    """Search all items side by side; see ``_Beam``."""
    beams = [_Beam(going=[_Partial()], found=[]) for _ in first]
    tokens, active = first, beams
    for length in range(1, options.max_new_tokens + 1):
        scores, state = step(tokens, state)
        scores = _allowed(scores, length, options)  # (N, V)
        # One more than the beam is wide, in case one of them is the ending.
        top = scores.topk(min(options.num_beams + 1, scores.shape[1]))
        values, words = top.values.tolist(), top.indices.tolist()
        rows: list[int] = []
        start = 0
        for beam in active:
            stop = start + len(beam.going)
            parents = beam.advance(values[start:stop], words[start:stop], options)
            beam.settle(length, options)
            rows += [start + parent for parent in parents if beam.going]
            start = stop
        active = [beam for beam in active if beam.going]
        if not active:
            break
        state = _select(state, rows, start, first.device)
        newest = [partial.tokens[-1] for beam in active for partial in beam.going]
        tokens = torch.tensor(newest, device=first.device)
    return [
        sorted(beam.found, key=lambda hypothesis: -hypothesis.score)[: options.num_return_sequences]
        for beam in beams
    ]


def _sample(
    step: Step[State], state: State, first: Tensor, options: Search, numbers: Sequence[int]
) -> list[list[Hypothesis]]:
    each = options.num_return_sequences
    # Drawn up front, so that they do not depend on what else is in the batch.
    draws = np.concatenate(
        [
            np.random.default_rng((options.seed, number)).random((each, options.max_new_tokens))
            for number in numbers
        ]
    )
    owners = [item for item in range(len(first)) for _ in range(each)]
    state = _select(state, owners, len(first), first.device)
    tokens = first[torch.tensor(owners, device=first.device)]
    partials = [_Partial()] * len(owners)
    found: dict[int, Hypothesis] = {}
    active = list(range(len(owners)))
    for length in range(1, options.max_new_tokens + 1):
        scores, state = step(tokens, state)
        scores = _allowed(scores, length, options)  # (N, V)
        chosen = _draw(scores, torch.from_numpy(draws[active, length - 1]), options)  # (N,)
        values = scores.gather(1, chosen[:, None]).squeeze(1).tolist()
        rows: list[int] = []
        for row, word in enumerate(chosen.tolist()):
            number = active[row]
            total = partials[number].log_probability + values[row]
            if word == options.eos_token_id:
                found[number] = partials[number].end(options, total)
            else:
                partials[number] = partials[number].extend(word, total)
                rows.append(row)
        if not rows or length == options.max_new_tokens:
            break
        state = _select(state, rows, len(active), first.device)
        tokens = chosen[torch.tensor(rows, device=chosen.device)]
        active = [active[row] for row in rows]
    drawn = [found.get(number) or partial.end(options) for number, partial in enumerate(partials)]
    return [drawn[start : start + each] for start in range(0, len(drawn), each)]


def _select(state: State, rows: list[int], before: int, device: torch.device) -> State:
    """Keep the state of some of the rows there were, which costs nothing if it is all of them."""
    if rows == list(range(before)):
        return state
    return state.select(torch.tensor(rows, device=device))


def _allowed(scores: Tensor, length: int, options: Search) -> Tensor:
    """Return the scores with -inf for tokens that may not come as the one of a length."""
    forbidden = list(options.never)
    if length <= options.min_new_tokens:
        forbidden.append(options.eos_token_id)
    if not forbidden:
        return scores
    return scores.index_fill(1, torch.tensor(forbidden, device=scores.device), -math.inf)


def _draw(scores: Tensor, draws: Tensor, options: Search) -> Tensor:
    """Draw a token each: the one in whose share of the likeliest tokens' probability a draw falls.

    Args:
        scores: log-probabilities. Shape (N, V).
        draws: numbers from 0 to below 1. Shape (N,), on the CPU.
        options: how to look.

    Returns:
        Shape (N,), int64.
    """
    kept = min(options.top_k or scores.shape[1], scores.shape[1])
    values, words = (scores.double() / options.temperature).topk(kept)  # (N, top_k), falling
    shares = values.softmax(-1)
    before = shares.cumsum(-1) - shares  # (N, top_k)
    shares = shares * (before < options.top_p)
    ends = shares.cumsum(-1)
    wanted = draws.to(ends)[:, None] * ends[:, -1:]
    place = (ends <= wanted).sum(-1, keepdim=True)  # (N, 1)
    # Rounding must not reach past the last token that has a share.
    return words.gather(1, place.minimum((shares > 0).sum(-1, keepdim=True) - 1)).squeeze(1)
