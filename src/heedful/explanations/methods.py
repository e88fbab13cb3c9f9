"""The registry of attribution methods.

To add a method, write a function of a subject and a token index, and add a row here.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from heedful.errors import UserError
from heedful.explanations.explanation import AttentionMap, Attribution, Completeness
from heedful.explanations.flow import flow, rollout
from heedful.explanations.gradients import Scores, gradient_x_input, integrated_gradients
from heedful.explanations.maps import attention_maps
from heedful.explanations.occlusion import leave_one_out
from heedful.explanations.subject import Subject

Method: TypeAlias = Callable[[Subject, int | None], Attribution]
"""Maps a subject and the user's chosen token to scores of the input tokens."""

_LENGTH_NOTE = (
    "This model first normalises the vector of each token, so its length has no effect: the scores "
    "of gradient-x-input are rounding errors. Use integrated-gradients."
)


def _by_gradient(subject: Subject, token: int | None) -> Attribution:
    scores, length_counts = gradient_x_input(subject)
    note = None if length_counts else _LENGTH_NOTE
    return _attribution("gradient-x-input", subject, scores, note=note)


def _by_path(subject: Subject, token: int | None) -> Attribution:
    scores, completeness = integrated_gradients(subject)
    return _attribution("integrated-gradients", subject, scores, completeness)


def _by_occlusion(subject: Subject, token: int | None) -> Attribution:
    return _attribution("leave-one-out", subject, leave_one_out(subject))


def _by_rollout(subject: Subject, token: int | None) -> Attribution:
    token, maps = chosen_token(subject, token), encoder_maps(subject)
    scores = tuple(rollout(map_.weights)[-1, token] for map_ in maps)
    return _attribution("rollout", subject, scores, target=_token_target(subject, token))


def _by_flow(subject: Subject, token: int | None) -> Attribution:
    token, maps = chosen_token(subject, token), encoder_maps(subject)
    scores = tuple(flow(map_.weights, token) for map_ in maps)
    return _attribution("flow", subject, scores, target=_token_target(subject, token))


METHODS: dict[str, Method] = {
    "integrated-gradients": _by_path,
    "gradient-x-input": _by_gradient,
    "leave-one-out": _by_occlusion,
    "rollout": _by_rollout,
    "flow": _by_flow,
}
"""All methods, by the name for ``--method``."""


def encoder_maps(subject: Subject) -> list[AttentionMap]:
    """Return the attention maps of an encoder whose last layer produces the answer.

    Raises:
        UserError: the model generates text, or its encoder has no attention.
    """
    maps = [map_ for map_ in attention_maps(subject) if map_.kind == "encoder"]
    if subject.target.decoder_tokens is not None or not maps:
        raise UserError(
            "rollout and flow start from the last layer of an encoder, but this model generates "
            "with a decoder: give --method leave-one-out, gradient-x-input or integrated-gradients"
        )
    return maps


def chosen_token(subject: Subject, token: int | None) -> int:
    """Return the token to start from: the user's choice, or the token that produces the answer.

    Raises:
        UserError: there is no such token.
    """
    if token is None:
        return subject.target.positions[0] if subject.target.positions else 0
    num_tokens = min(len(side.tokens) for side in subject.target.sides)
    if token >= num_tokens:
        raise UserError(f"--token {token}: the input has the tokens 0 to {num_tokens - 1}")
    return token


def _token_target(subject: Subject, token: int) -> str:
    return f"token {token}, {subject.target.sides[0].display_tokens()[token]!r}, of the last layer"


def _attribution(
    method: str,
    subject: Subject,
    scores: Scores,
    completeness: Completeness | None = None,
    *,
    target: str | None = None,
    note: str | None = None,
) -> Attribution:
    read = [tuple(np.asarray(row, dtype=np.float64).tolist()) for row in scores]
    generated = [None] * len(subject.target.decoder_tokens or ())
    return Attribution(
        method=method,
        target=target or subject.target.description,
        scores=(*read, *generated),
        completeness=completeness,
        note=note,
    )
