"""What every model says of itself, whatever its family."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from heedful.errors import UserError
from heedful.models import pretrained


class Model(nn.Module):
    """A module with a configuration that is kept in a folder.

    Attributes:
        config: its sizes and options as they are now. It is replaced, never changed.
        gradient_checkpointing: whether training keeps only each block's input and computes the
            rest again in the backward pass: less memory, about a third more time. False at first.
    """

    config: Any
    gradient_checkpointing: bool = False

    can_recompute: ClassVar[bool] = False
    """Whether ``gradient_checkpointing`` may be set."""
    can_prune: ClassVar[bool] = False
    """Whether attention heads can be taken out of its body."""

    @property
    def body(self) -> "Model":
        """What gives the hidden states that a head decides from; without a head all of it."""
        return self

    @property
    def max_positions(self) -> int:
        """The most tokens that it takes at once."""
        most: int = self.config.max_position_embeddings
        return most

    def head_parameters(self) -> list[nn.Parameter]:
        """Return what stands on the body, and may learn at a rate of its own."""
        return []

    def prune_heads(self, heads: Mapping[int, Sequence[int]]) -> None:
        """Take attention heads out of the body; see ``pruning.prune_heads``.

        Raises:
            UserError: it cannot lose any, or not those.
        """
        raise UserError(f"{type(self).__name__}: its attention heads cannot be pruned")

    def save_pretrained(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write ``config.json`` and ``model.safetensors``; other files in the folder stay.

        Raises:
            UserError: the folder holds one of the two already and ``overwrite`` is false, or is a
                file.
        """
        pretrained.save_pretrained(self, folder, overwrite=overwrite)
