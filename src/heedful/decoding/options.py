"""The options of a search, what it needs from a model, and what it returns.

Shapes: N hypotheses of all items that go on, B items, W beam, M nodes of an item, E source length,
V vocabulary.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar, runtime_checkable

from torch import Tensor

from heedful.errors import UserError


class Selectable(Protocol):
    """What a model keeps for each hypothesis, such as a cache."""

    def select(self, rows: Tensor) -> Self:
        """Return the state of some rows, in that order; a row may come several times.

        Args:
            rows: indices of rows. Shape (N,), int64.
        """
        ...


@runtime_checkable
class Covering(Protocol):
    """The state of a model that attends to a source."""

    @property
    def coverage(self) -> Tensor:
        """The attention that each source token got from all tokens so far; 1 for padding.

        Shape (N, E).
        """
        ...


State = TypeVar("State", bound=Selectable)

NextScores = Callable[[Tensor, State], tuple[Tensor, State]]
"""Maps the newest token of each hypothesis, shape (N,), and their state to the score of each next
token, before or after the softmax, shape (N, V), and the new state. The hypotheses of an item are
side by side, the items in the order of the input."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Newest:
    """What a step is asked for: what follows the newest token of each hypothesis."""

    tokens: Tensor
    """Shape (B, W), int64."""
    nodes: Tensor
    """The nodes where their keys and values go. Shape (W,), int64."""
    seen: Tensor
    """Which nodes each hypothesis is made of, its newest included. Shape (B, W, M), bool."""
    number: Tensor
    """How many tokens each has been given before. Shape (), int64."""


class FixedSteps(Protocol):
    """What takes the steps, and keeps what a model needs of the hypotheses in a fixed room.

    Items have W hypotheses from the first step on; who is not there yet is computed and not read.
    """

    vocabulary: int
    """V."""
    read: Tensor
    """Which nodes are filled before the first step. Shape (B, nodes of prompts), bool."""
    coverage: Tensor | None
    """How much has been attended to each source token before the first step, if that counts. Shape
    (B, E)."""

    def step(self, newest: Newest) -> tuple[Tensor, Tensor | None]:
        """Return the scores of next tokens, and how much is attended to the source, if that counts.

        Shapes:
            (B, W, V) and (B, W, E).
        """

    def make_room(self, nodes: int) -> None:
        """Make room for a number of nodes: M."""

    def keep_nodes(self, nodes: Tensor) -> None:
        """Keep some nodes of each item, in that order, and forget the others.

        Args:
            nodes: shape (B, M), int64.
        """

    def keep(self, items: Tensor) -> None:
        """Keep some items, and forget the others.

        Args:
            items: their numbers, in ascending order. Shape (B,), int64.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """How to search for a text; the names are the reference's.

    Raises:
        UserError: a value is out of range, or two cannot be combined.
    """

    eos_token_id: int
    """The token that ends a text, the end token."""
    max_new_tokens: int = 64
    """The most tokens, the end token included."""
    min_new_tokens: int = 0
    """The fewest tokens before the end token."""
    num_beams: int = 1
    """Hypotheses kept for each item; 1 is greedy."""
    num_return_sequences: int = 1
    """Texts to return for each item: the best of the beam, or samples."""
    length_penalty: float = 1.0
    """A score is the log-probability divided by the length to this power: 0 ranks by probability,
    1 by the mean over the tokens."""
    coverage_penalty: float = 0.0
    """Lowers the score for source tokens whose attention adds up to less than 1: the weight beta of
    Wu et al. 2016, equation 14. Needs a model that attends to a source."""
    repetition_penalty: float = 1.0
    """Multiplies the log-probability of a token that was generated already (Keskar et al. 2019,
    section 4.1): above 1, repetition becomes less likely."""
    no_repeat_ngram: int = 0
    """No sequence of this many tokens is generated twice (Paulus et al. 2018, section 2.5); 0 for
    no limit. What a text goes on from, its prompt, does not count."""
    do_sample: bool = False
    """Whether to draw each token by its probability instead of searching."""
    temperature: float = 1.0
    """Divides the log-probabilities before drawing: below 1 is safer, above 1 more varied."""
    top_k: int = 0
    """Draw among this many likeliest tokens (Fan et al. 2018); 0 for all."""
    top_p: float = 1.0
    """Draw among the fewest tokens that have this probability together (Holtzman et al. 2020)."""
    seed: int = 0
    """Determines the draws, together with the number of the item."""
    never: tuple[int, ...] = ()
    """Tokens that are never generated, such as padding."""

    def __post_init__(self) -> None:
        """Check the values."""
        for name, low in (
            ("max_new_tokens", 1),
            ("min_new_tokens", 0),
            ("num_beams", 1),
            ("num_return_sequences", 1),
            ("no_repeat_ngram", 0),
            ("top_k", 0),
            ("seed", 0),
        ):
            if getattr(self, name) < low:
                raise UserError(f"{name} is {getattr(self, name)}; it must be at least {low}")
        if self.min_new_tokens >= self.max_new_tokens:
            most = self.max_new_tokens - 1
            raise UserError(f"min_new_tokens is {self.min_new_tokens}; it can be at most {most}")
        for name in ("temperature", "repetition_penalty"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(f"{name} is {getattr(self, name)}; it must be a number above 0")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p is {self.top_p}; it must be above 0 and at most 1")
        if not math.isfinite(self.length_penalty):
            raise UserError(f"length_penalty is {self.length_penalty}; it must be a finite number")
        if not 0 <= self.coverage_penalty < math.inf:
            raise UserError(
                f"coverage_penalty is {self.coverage_penalty}; it must be a number of 0 or above"
            )
        if self.do_sample and self.coverage_penalty:
            raise UserError("coverage_penalty does not apply to samples: leave out one of them")
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
    """A generated text."""

    tokens: tuple[int, ...]
    """Its tokens, without the start and end tokens."""
    ended: bool
    """Whether it ended with the end token, rather than at ``max_new_tokens``."""
    log_probability: float
    """Of its tokens, and of the end token if there is one."""
    score: float
    """Its log-probability after all penalties, by which the hypotheses of an item are ranked."""
    margin: float = field(default=math.inf, compare=False)
    """How close the search for its item was: the smallest difference of log-probabilities by which
    one hypothesis was kept and another dropped. For a sample: by which one of its tokens was drawn
    rather than another."""


def length_divisor(length: int, ended: bool, options: Search) -> float:
    """Return what a text's log-probability is divided by; the end token counts in its length."""
    return math.pow(max(length + ended, 1), options.length_penalty)
