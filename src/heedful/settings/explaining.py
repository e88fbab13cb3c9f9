"""How answers are explained."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from heedful.errors import check_known
from heedful.settings.ranges import in_range

MethodName = Literal[
    "integrated-gradients", "gradient-x-input", "leave-one-out", "rollout", "flow", "none"
]
"""Ways to say which tokens an answer comes from; see ``heedful.explanations.methods``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainSettings:
    """What is explained, and how."""

    method: tuple[MethodName, ...] = ("integrated-gradients",)
    """How to attribute the answer to tokens; none for attention alone."""
    target: str | None = None
    """What to explain instead of the answer: another label, a tagged or translated word, a slice of
    the context, a word for the mask, a choice."""
    token: int | None = None
    """Number of the token, from 0, that rollout and flow go back from; default: the one that the
    answer is read off."""
    attention: bool | None = None
    """Give the attention of each layer and head, too; default: in files and in Python alone."""
    words: bool = False
    """Put the tokens of each word together, in scores and in attention; jieba tells the words of
    Chinese text."""

    def __post_init__(self) -> None:
        """Refuse a method that there is not, and a number out of range.

        Raises:
            UserError: naming the option.
        """
        for method in self.method:
            check_known("method", method, get_args(MethodName))
        in_range("token", self.token, 0, math.inf, what="0 or a whole number above")
