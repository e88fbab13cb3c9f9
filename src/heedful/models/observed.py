"""Whether a user's code may look inside a body, so that it must compute what the reference does.

A body computes no padding, and in its last block only the first token where a head needs no more.
Only code of a user's own inside the body can tell: hooks, and another pooler.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch import nn


def has_user_hooks(body: nn.Module) -> bool:
    """Return whether a layer has a hook of a user's code.

    torch's own hooks shard or prune weights, whatever the hidden states are.
    """
    layers: list[nn.Module | None] = [body]  # ``body.modules()`` takes three times as long
    while layers:
        if (layer := layers.pop()) is None:
            continue
        if (
            layer._forward_hooks
            or layer._forward_pre_hooks
            or layer._backward_hooks
            or layer._backward_pre_hooks
        ) and not all(map(_is_of_library, _hooks_of(layer))):
            return True
        layers += layer._modules.values()
    return False


def _hooks_of(layer: nn.Module) -> Iterator[Callable[..., Any]]:
    yield from layer._forward_hooks.values()
    yield from layer._forward_pre_hooks.values()
    yield from layer._backward_hooks.values()
    yield from layer._backward_pre_hooks.values()


def _is_of_library(hook: Callable[..., Any]) -> bool:
    while isinstance(hook, partial):
        hook = hook.func
    module: str = getattr(hook, "__module__", None) or type(hook).__module__
    return module.partition(".")[0] in ("torch", "heedful")


def pools_first(pooler: nn.Module | None, cls: type[nn.Module]) -> bool:
    """Return whether a pooler reads only the first token.

    Args:
        pooler: the pooler of a body, if it has one.
        cls: the class of poolers that a body creates.
    """
    return pooler is None or (type(pooler) is cls and "forward" not in vars(pooler))
