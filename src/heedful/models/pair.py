"""A discriminator and its generator, which learn together (Clark et al. 2020, section 2).

What they share of their embeddings is either one table, which both train, or the generator's, to
which the discriminator adds one of its own (He et al. 2023, "DeBERTaV3", section 3.2).

Shapes: B sequences of a batch, T their length, N masked tokens, V vocabulary, W width of the
embeddings.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.models.model import Model
from heedful.models.outputs import Output
from heedful.models.pretrained import LoadReport
from heedful.models.with_head import WithHead

GENERATOR = "generator"
"""The folder of a generator, in that of its discriminator."""

TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")
"""What both have in common where the widths are equal."""


@dataclass(frozen=True, kw_only=True)
class PairOutput(Output):
    """What ``Pair`` returns where there are masks to fill."""

    logits: Tensor
    """Above 0 for a token that looks replaced. Shape (B, T)."""
    prediction_logits: Tensor
    """The generator's, of the tokens behind the masks. Shape (N, V)."""
    samples: Tensor
    """What it put there. Shape (N,), int64."""


class Added(nn.Embedding):
    """A table that another model learns, and what is added to it: E + D of this table's D.

    No gradient goes to the other table (He et al. 2023, section 3.2, equation 5).

    Args:
        other: E. Shape (V, W).
    """

    def __init__(self, other: nn.Embedding) -> None:
        super().__init__(
            other.num_embeddings, other.embedding_dim, other.padding_idx, dtype=other.weight.dtype
        )
        self._other = [other]  # in a list: it is no part of this one
        nn.init.zeros_(self.weight)

    def forward(self, ids: Tensor) -> Tensor:
        """Return vectors, shape (..., W)."""
        added: Tensor = super().forward(ids)
        return F.embedding(ids, self._other[0].weight.detach()) + added

    def joined(self) -> nn.Embedding:
        """Return one table that is both."""
        both = nn.Embedding(self.num_embeddings, self.embedding_dim, self.padding_idx)
        both.weight = nn.Parameter(self._other[0].weight.detach() + self.weight.detach())
        return both

    def set_joined(self, weight: Tensor) -> None:
        """Set what is added so that both together are ``weight``, (V, W), but for rounding."""
        with torch.no_grad():
            self.weight.copy_(weight - self._other[0].weight)


class Pair(Model):
    """A discriminator, and the generator that it learns from.

    In a folder the discriminator stands alone, so that all else reads it as one, and the generator
    in a folder within that.

    Args:
        discriminator: tells replaced tokens from original ones. It is what answers.
        generator: fills masks. What both share are the tables that are as wide in both.
        fresh: whether the discriminator's tables start as the generator's, where it adds to these.
        learns: whether they go on learning; else what a discriminator adds stays joined to what it
            is added to.
    """

    can_recompute: ClassVar[bool] = True

    def __init__(
        self,
        discriminator: WithHead,
        generator: WithHead,
        *,
        fresh: bool = False,
        learns: bool = True,
    ) -> None:
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        ours, theirs = self._embeddings()
        shared = [name for name in TABLES if _fit(getattr(ours, name), getattr(theirs, name))]
        self.tied: list[str] = []
        """The names of the embeddings that both have in common."""
        if not discriminator.adds_embeddings:
            self.tied = shared
            for name in shared:
                setattr(theirs, name, getattr(ours, name))
        elif learns:
            for name in shared:
                added = Added(getattr(theirs, name))
                if not fresh:
                    added.set_joined(getattr(ours, name).weight.detach())
                setattr(ours, name, added)
        self.register_state_dict_post_hook(_keep_once)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_give_twice)  # type: ignore[no-untyped-call]

    def _embeddings(self) -> tuple[nn.Module, nn.Module]:
        """Return those of the discriminator and of the generator."""
        both = (self.discriminator.body, self.generator.body)
        ours, theirs = (body.get_submodule("embeddings") for body in both)
        return ours, theirs

    @contextmanager
    def _joined(self) -> Iterator[None]:
        """Have the discriminator hold tables of its own, as its folder does."""
        ours, _ = self._embeddings()
        added = {name: part for name, part in ours.named_children() if isinstance(part, Added)}
        for name, part in added.items():
            setattr(ours, name, part.joined())
        try:
            yield
        finally:
            for name, part in added.items():
                setattr(ours, name, part)

    @property
    def config(self) -> Any:
        """The configuration of the discriminator."""
        return self.discriminator.config

    @property
    def body(self) -> Model:
        """What gives the hidden states of the discriminator."""
        return self.discriminator.body

    @property
    def head(self) -> Any:
        """What decides from them."""
        return self.discriminator.head

    def with_body(self, body: Model) -> Self:
        """Return the same pair with another body of the discriminator."""
        return self.with_part("discriminator", self.discriminator.with_body(body))

    def replaced_by(self, exported: Any) -> Any:
        """Return the same pair with another discriminator: the generator makes what it is asked."""
        return self.with_part("discriminator", exported)

    @property
    def gradient_checkpointing(self) -> bool:
        """Whether both recompute; see ``Model``."""
        return self.discriminator.gradient_checkpointing

    @gradient_checkpointing.setter
    def gradient_checkpointing(self, recompute: bool) -> None:
        self.discriminator.gradient_checkpointing = recompute
        self.generator.gradient_checkpointing = recompute

    @property
    def max_positions(self) -> int:
        """The most tokens that both take at once."""
        return min(self.discriminator.max_positions, self.generator.max_positions)

    def head_masks(self) -> dict[str, tuple[int, int]]:
        """Return those of the discriminator."""
        return self.discriminator.head_masks()

    def head_parameters(self) -> list[nn.Parameter]:
        """Return what stands on the bodies of both."""
        return [*self.discriminator.head_parameters(), *self.generator.head_parameters()]

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the discriminator's word embeddings."""
        return self.discriminator.get_input_embeddings()

    def save_pretrained(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the discriminator, and the generator into a folder within; see ``Model``."""
        with self._joined():
            self.discriminator.save_pretrained(folder, overwrite=overwrite)
        self.generator.save_pretrained(Path(folder) / GENERATOR, overwrite=overwrite)

    def set_file_weights(
        self, tensors: Mapping[str, Tensor], folder: Path, *, fresh_head: bool = False
    ) -> LoadReport:
        """Refuse: its two parts are read each from its own folder.

        Raises:
            UserError: always.
        """
        raise UserError(f"{folder}: a pair is read from two folders, not one")

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        head_mask: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        positions: Tensor | None = None,
        uniforms: Tensor | None = None,
    ) -> Any:
        """Fill masks and say what looks replaced, or without ``positions`` do only the latter.

        Args:
            input_ids: see ``BertModel``; the arguments that are not here are explained there, too.
            attention_mask: see there.
            token_type_ids: see there.
            position_ids: see there.
            inputs_embeds: see there.
            head_mask: of the discriminator.
            output_attentions: see there.
            output_hidden_states: see there.
            positions: the masks, in the batch laid out as one row. Shape (N,), int64.
            uniforms: a number from 0 to below 1 for each mask, which decides what is drawn for it.
                Shape (N,).

        Returns:
            An ``PairOutput``, or what the discriminator returns.
        """
        if positions is None:
            return self.discriminator(
                input_ids,
                attention_mask,
                token_type_ids,
                position_ids=position_ids,
                inputs_embeds=inputs_embeds,
                head_mask=head_mask,
                output_attentions=output_attentions,
                output_hidden_states=output_hidden_states,
            )
        assert input_ids is not None
        assert uniforms is not None
        filled = self.generator(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids=position_ids,
            positions=positions,
        ).logits  # (N, V)
        samples = draw(filled, uniforms)
        corrupted = input_ids.flatten().index_put((positions,), samples.to(input_ids.dtype))
        detected = self.discriminator(
            corrupted.view_as(input_ids), attention_mask, token_type_ids, position_ids=position_ids
        )
        return PairOutput(logits=detected.logits, prediction_logits=filled, samples=samples)


@torch.no_grad()
def draw(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Draw a token for each row from its softmax: the one at which the sum passes a number.

    No gradient goes through it.

    Args:
        logits: shape (N, V).
        uniforms: from 0 to below 1. Shape (N,).

    Returns:
        Shape (N,), int64.
    """
    sums = logits.float().softmax(-1).cumsum(-1)  # (N, V)
    # The last sum is 1 but for rounding.
    reached = uniforms.to(sums)[:, None] * sums[:, -1:]
    return torch.searchsorted(sums, reached, right=True).squeeze(1).clamp(max=sums.shape[1] - 1)


def _fit(one: nn.Embedding | None, other: nn.Embedding | None) -> bool:
    return one is not None and other is not None and one.weight.shape == other.weight.shape


def _names(module: nn.Module, prefix: str) -> dict[str, str]:
    """Return the names of the weights that are there twice: the generator's, and the other one."""
    assert isinstance(module, Pair)
    theirs, ours = (
        f"{prefix}{part}.{model.body.prefix}.embeddings"
        for part, model in (
            ("generator", module.generator),
            ("discriminator", module.discriminator),
        )
    )
    return {f"{theirs}.{name}.weight": f"{ours}.{name}.weight" for name in module.tied}


def _keep_once(
    module: nn.Module, state: dict[str, Tensor], prefix: str, local_metadata: object
) -> None:
    """Leave what is tied out of the generator: a file has each tensor once."""
    for name in _names(module, prefix):
        del state[name]


def _give_twice(
    module: nn.Module, state: dict[str, Tensor], prefix: str, *arguments: object
) -> None:
    """Put back what ``_keep_once`` left out."""
    for name, other in _names(module, prefix).items():
        if other in state:
            state[name] = state[other]
