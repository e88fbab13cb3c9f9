"""The options and results of a search, and the interface that a model must provide.

Shapes: N active hypotheses of all items, B items, W beam width, M cache nodes per item, E source
length, V vocabulary.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Protocol, Self, TypeVar, runtime_checkable

from torch import Tensor

from heedful.arguments import suggest_in_construction
from heedful.errors import UserError

NO_TOKEN = -1
"""Stands for the end token of texts without one: they end at ``max_new_tokens``."""


class Selectable(Protocol):
    """Per-hypothesis state of a model, such as a KV cache."""

    def select(self, rows: Tensor) -> Self:
        """Return the state of the given rows, in that order; a row may be repeated.

        Args:
            rows: indices of the rows. Shape (N,), int64.
        """
        ...


@runtime_checkable
class HasCoverage(Protocol):
    """The state of a model that attends to a source."""

    @property
    def coverage(self) -> Tensor:
        """Total attention weight of each source token over all generated tokens; 1 for padding.

        Shape (N, E).
        """
        ...


State = TypeVar("State", bound=Selectable)

ScoreFunction = Callable[[Tensor, State], tuple[Tensor, State]]
"""Maps the newest token of each hypothesis, shape (N,), and the state to the scores of the next
tokens, shape (N, V), and the new state. Scores are logits or log-probabilities. Hypotheses are
grouped by item, and items are in input order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepInput:
    """Input of a step: the newest token of each hypothesis."""

    tokens: Tensor
    """Shape (B, W), int64."""
    nodes: Tensor
    """The nodes that store the keys and values of these tokens. Shape (W,), int64."""
    node_mask: Tensor
    """Mask of the nodes of each hypothesis, its newest included. Shape (B, W, M), bool."""
    num_tokens: Tensor
    """Number of earlier tokens of each hypothesis. Shape (), int64."""


class StaticDecoder(Protocol):
    """Decoding steps with state of a fixed shape.

    Each item has W hypotheses from the first step on. Inactive ones are computed but not used.

    A node is a cache position, which holds the keys and values of one token.
    """

    vocabulary: int
    """V."""
    prompt_mask: Tensor
    """Mask of the nodes filled before the first step. Shape (B, nodes of prompts), bool."""
    coverage: Tensor | None
    """Total attention weight of each source token before the first step; None without a coverage
    penalty. Shape (B, E)."""

    def step(self, newest: StepInput) -> tuple[Tensor, Tensor | None]:
        """Return the scores of the next tokens and the attention weights of the source.

        The weights are None without a coverage penalty.

        Shapes:
            (B, W, V) and (B, W, E).
        """

    def grow(self, nodes: int) -> None:
        """Grow the cache to this number of nodes: M."""

    def keep_nodes(self, nodes: Tensor) -> None:
        """Keep these nodes of each item, in this order, and drop the others.

        Args:
            nodes: shape (B, M), int64.
        """

    def keep(self, items: Tensor) -> None:
        """Keep these items and drop the others.

        Args:
            items: indices of the items, in ascending order. Shape (B,), int64.
        """


@suggest_in_construction
@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """Search options, with the names of the reference library.

    Raises:
        UserError: a value is out of range, or two options are incompatible.
    """

    eos_token_id: int
    """The end token; ``NO_TOKEN`` if there is none."""
    max_new_tokens: int = 64
    """Maximum number of tokens, the end token included."""
    min_new_tokens: int = 0
    """Minimum number of tokens before the end token."""
    num_beams: int = 1
    """Beam width; 1 is greedy search."""
    num_return_sequences: int = 1
    """Number of texts to return per item: the best of the beam, or samples."""
    length_penalty: float = 1.0
    """Exponent of the length that divides the log-probability to give the score: 0 ranks by
    probability, 1 by the mean over the tokens."""
    early_stopping: bool = True
    """Whether an item is done when ``num_beams`` hypotheses have ended. If false, better ones may
    replace them while the best active hypothesis, at its current length, scores above the worst."""
    coverage_penalty: float = 0.0
    """Lowers the score for source tokens whose total attention weight is below 1: the weight beta
    of Wu et al. 2016, equation 14. Needs a model that attends to a source."""
    repetition_penalty: float = 1.0
    """Multiplies the log-probability of tokens that were already generated (after Keskar et al.
    2019, section 4.1): values above 1 make repetition less likely."""
    no_repeat_ngram: int = 0
    """No n-gram of this many tokens is generated twice (Paulus et al. 2018, section 2.5); 0 for
    no limit."""
    count_prompt: bool = False
    """Whether ``repetition_penalty`` and ``no_repeat_ngram`` count the prompt's tokens, too."""
    penalise_logits: bool = False
    """Whether ``repetition_penalty`` changes logits instead of log-probabilities, as in the
    reference: it divides positive logits and multiplies negative ones. The zero of logits is
    arbitrary, so how strong the penalty is depends on the model. Only without a beam."""
    do_sample: bool = False
    """Whether to sample each token instead of searching."""
    temperature: float = 1.0
    """Divides the log-probabilities before sampling: below 1 is safer, above 1 more varied."""
    top_k: int = 0
    """Sample only from this many most likely tokens (Fan et al. 2018); 0 for all."""
    top_p: float = 1.0
    """Sample from the fewest tokens with at least this total probability (Holtzman et al. 2020)."""
    seed: int = 0
    """Seed of the samples, combined with the index of the item."""
    never: tuple[int, ...] = ()
    """Tokens that are never generated, such as padding."""

    def __post_init__(self) -> None:
        """Check the values."""
        self._check_numbers()
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
        if self.penalise_logits and self.num_beams > 1:
            raise UserError(f"num_beams is {self.num_beams}; with penalise_logits it must be 1")
        if self.eos_token_id in self.never:
            raise UserError(f"token {self.eos_token_id} ends a text; it cannot be among never")

    def _check_numbers(self) -> None:
        check_whole("eos_token_id", self.eos_token_id)
        for name, low in (
            ("max_new_tokens", 1),
            ("min_new_tokens", 0),
            ("num_beams", 1),
            ("num_return_sequences", 1),
            ("no_repeat_ngram", 0),
            ("top_k", 0),
            ("seed", 0),
        ):
            check_whole(name, getattr(self, name))
            if getattr(self, name) < low:
                raise UserError(f"{name} is {getattr(self, name)}; it must be at least {low}")
        penalties = ("repetition_penalty", "length_penalty", "coverage_penalty")
        for name in ("temperature", "top_p", *penalties):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise UserError(f"{name} is {value!r}; it must be a number")


def check_whole(name: str, value: object) -> None:
    """Check that the value of an option is a whole number.

    Raises:
        UserError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UserError(f"{name} is {value!r}; it must be a whole number")


@dataclass(frozen=True, kw_only=True, slots=True)
class Hypothesis:
    """A generated text."""

    tokens: tuple[int, ...]
    """The tokens, without the start and end tokens."""
    ended: bool
    """Whether it ended with the end token rather than at ``max_new_tokens``."""
    log_probability: float
    """Log-probability of the tokens, including the end token if there is one."""
    score: float
    """The log-probability after all penalties, which ranks the hypotheses of an item."""
    margin: float = field(default=math.inf, compare=False)
    """How close the search for the item was: the smallest difference of log-probabilities that kept
    one hypothesis and dropped another. For a sample, the smallest difference that made one token
    win over another."""


def length_divisor(length: int, ended: bool, options: Search) -> float:
    """Return the divisor of a text's log-probability; the end token counts in its length."""
    return math.pow(max(length + ended, 1), options.length_penalty)
