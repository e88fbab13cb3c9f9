"""Explanation settings."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from heedful.errors import UserError, check_known
from heedful.settings.ranges import in_range

MethodName = Literal[
    "integrated-gradients", "gradient-x-input", "leave-one-out", "rollout", "flow", "none"
]
"""Attribution methods; see ``heedful.explanations.methods``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainSettings:
    """What to explain, and how."""

    method: tuple[MethodName, ...] = ("integrated-gradients",)
    """Method that attributes the answer to tokens; none for attention only."""
    target: str | None = None
    """What to explain instead of the answer: another label, a tagged or translated word, a span of
    the context, a word for the mask, a choice."""
    token: int | None = None
    """Index of the token, from 0, that rollout and flow start from; default: the one that the head
    reads."""
    attention: bool | None = None
    """Also give the attention of each layer and head; default: only in files and in Python."""
    words: bool = False
    """Merge the tokens of each word, in scores and in attention; jieba segments Chinese text into
    words."""

    def __post_init__(self) -> None:
        """Refuse an unknown method and a number out of range.

        Raises:
            UserError: naming the option.
        """
        for method in self.method:
            check_known("method", method, get_args(MethodName))
        in_range("token", self.token, 0, math.inf, what="0 or a whole number above")
        if self.token is not None and not {"rollout", "flow"}.intersection(self.method):
            raise UserError("--token is for --method rollout and flow: give one of them, too")
