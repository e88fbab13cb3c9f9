"""A discriminator and its generator, which learn together (Clark et al. 2020, section 2).

Shapes: B sequences of a batch, T their length, N masked tokens, V vocabulary.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.models.electra.config import ElectraConfig
from heedful.models.electra.model import ElectraForMaskedLM, ElectraForPreTraining
from heedful.models.model import Model
from heedful.models.outputs import Output
from heedful.models.pretrained import LoadReport

GENERATOR = "generator"
"""The folder of a generator, in that of its discriminator."""

TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")
"""What both have in common where the widths are equal."""


@dataclass(frozen=True, kw_only=True)
class ElectraPairOutput(Output):
    """What ``ElectraPair`` returns where there are masks to fill."""

    logits: Tensor
    """Above 0 for a token that looks replaced. Shape (B, T)."""
    prediction_logits: Tensor
    """The generator's, of the tokens behind the masks. Shape (N, V)."""
    samples: Tensor
    """What it put there. Shape (N,), int64."""


class ElectraPair(Model):
    """A discriminator, and the generator that it learns from.

    In a folder the discriminator stands alone, so that all else reads it as one, and the generator
    in a folder within that.

    Args:
        discriminator: tells replaced tokens from original ones. It is what answers.
        generator: fills masks. Its embeddings become the discriminator's where they are as wide.
    """

    can_recompute: ClassVar[bool] = True

    def __init__(self, discriminator: ElectraForPreTraining, generator: ElectraForMaskedLM) -> None:
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        ours, theirs = discriminator.electra.embeddings, generator.electra.embeddings
        self.tied = [
            name
            for name in TABLES
            if getattr(ours, name).weight.shape == getattr(theirs, name).weight.shape
        ]
        """The names of the embeddings that both have in common."""
        for name in self.tied:
            setattr(theirs, name, getattr(ours, name))
        self.register_state_dict_post_hook(_keep_once)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_give_twice)  # type: ignore[no-untyped-call]

    @property
    def config(self) -> ElectraConfig:
        """The configuration of the discriminator."""
        config: ElectraConfig = self.discriminator.config
        return config

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
            An ``ElectraPairOutput``, or what ``ElectraForPreTraining`` returns.
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
        return ElectraPairOutput(logits=detected.logits, prediction_logits=filled, samples=samples)


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


def generator_config(config: ElectraConfig, size: float) -> ElectraConfig:
    """Return the configuration of the generator of a discriminator.

    Its heads are as wide, its embeddings too; it has fewer heads and is narrower by that.

    Args:
        config: of the discriminator.
        size: the share of its width.
    """
    heads = max(1, round(config.num_attention_heads * size))
    return replace(
        config,
        num_attention_heads=heads,
        hidden_size=heads * (config.hidden_size // config.num_attention_heads),
        intermediate_size=max(1, round(config.intermediate_size * size)),
    )


def _names(module: nn.Module, prefix: str) -> dict[str, str]:
    """Return the names of the weights that are there twice: the generator's, and the other one."""
    assert isinstance(module, ElectraPair)
    return {
        f"{prefix}generator.electra.embeddings.{name}.weight": (
            f"{prefix}discriminator.electra.embeddings.{name}.weight"
        )
        for name in module.tied
    }


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
