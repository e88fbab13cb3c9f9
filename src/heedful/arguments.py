"""Answer an unknown keyword argument with an error that names the nearest one."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from heedful.errors import UserError, did_you_mean

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


RENAMED = {
    "pad_to_max_length": 'padding="max_length"',
    "truncation_strategy": "truncation=True",
    "masked_lm_labels": "labels=...",
    "lm_labels": "labels=...",
    "past": "past_key_values=...",
}
"""Arguments of old versions of the reference -> what to give instead."""


INSTEAD = {
    "device_map": "call .to(device) of the model",
    "load_in_8bit": 'heedful.load(folder, precision="int8") computes in int8',
    "output_loading_info": "the logger heedful.models.loading names fresh and unused weights",
    "padding_side": "set tokenizer.padding_side",
    "text_target": "call the tokenizer on the target, and give its input_ids as labels",
    "state_dict": "the model's own weights count, and its load_state_dict sets others",
}
"""Arguments of the reference -> what to do instead."""


class UnknownArgumentError(UserError, TypeError):
    """A keyword argument that a function does not have; Python calls it a `TypeError`."""


def check_arguments(
    function: Callable[..., Any], named: Mapping[str, object], called: str | None = None
) -> None:
    """Check that a function has all keyword arguments.

    Args:
        function: the function.
        named: the keyword arguments of a call.
        called: name for the message, if it is not that of the function.

    Raises:
        UnknownArgumentError: it lacks one. The message names the nearest that it has.
    """
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name in named:
        if name not in parameters:
            allowed = [one for one in parameters if one not in ("self", "cls")]
            called = called or function.__qualname__.removesuffix(".__init__")
            # Names of arguments are long: with less in common, a suggestion would mislead.
            instead = did_you_mean(name, allowed, cutoff=0.6)
            if name in RENAMED and RENAMED[name].partition("=")[0] in allowed:
                instead = f"; give {RENAMED[name]}"
            elif name in INSTEAD:
                instead = f"; {INSTEAD[name]}"
            raise UnknownArgumentError(f"{called} has no argument {name!r}{instead}")


def suggest_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: an unknown keyword argument raises `UnknownArgumentError`.

    The arguments are checked only once a call has failed, so a call takes no longer.
    """

    @wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        try:
            return function(*args, **named)
        except TypeError:
            check_arguments(function, named)
            raise

    return call


def suggest_in_construction(kind: type[T]) -> type[T]:
    """Decorate a class in the same way: the arguments are those that construct it."""
    kind.__init__ = suggest_arguments(kind.__init__)  # type: ignore[method-assign]
    return kind
