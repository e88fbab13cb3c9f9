"""A stand-in for CUDA graphs on a CPU: records the operations of a step, and plays them again.

Like a graph it knows tensors alone. A number that Python read, or a tensor that the host made, is
in the record as it was, so a step that depends on more than its tensors goes wrong when it is
played.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Graph(TorchDispatchMode):
    """Records the operations while it is active; ``replay`` computes them again."""

    made: ClassVar[list["Graph"]] = []
    """All that were made."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, Any, Any, Any]] = []
        self.before: list[tuple[Tensor, Tensor]] = []
        self.replays = 0
        self.made.append(self)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute and record an operation, and keep the values that it overwrites."""
        kwargs = kwargs or {}
        if func is torch.ops.aten._local_scalar_dense.default:
            raise AssertionError("a number was read while a step was recorded")
        if func._schema.is_mutable:
            arguments = zip(func._schema.arguments, args, strict=False)
            written = [
                arg for told, arg in arguments if told.alias_info and told.alias_info.is_write
            ]
            self.before += [(arg, arg.clone()) for arg in written]
        result = func(*args, **kwargs)
        self.operations.append((func, args, kwargs, result))
        return result

    def undo(self) -> None:
        """Restore all overwritten values, because recording a CUDA graph computes nothing."""
        for tensor, values in reversed(self.before):
            tensor.copy_(values)
        self.before.clear()

    def replay(self) -> None:
        """Compute the step again, with the same tensors."""
        self.replays += 1
        for func, args, kwargs, results in self.operations:
            again = func(*args, **kwargs)
            for old, new in zip(tree_leaves(results), tree_leaves(again), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


@contextmanager
def graph(recorded: Graph, *, capture_error_mode: str) -> Iterator[None]:
    """Record a step, as ``torch.cuda.graph`` does."""
    assert capture_error_mode == "thread_local"
    with recorded:
        yield
    recorded.undo()
