"""A discriminator and a generator trained jointly (Clark et al. 2020, section 2).

They either share an embedding table that both train, or the discriminator adds a table of its own
to the generator's (He et al. 2023, "DeBERTaV3", section 3.2).

Shapes: B batch, T sequence length, N masked tokens, V vocabulary, W embedding width.
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
from heedful.models.with_head import ModelWithHead

GENERATOR = "generator"
"""Subfolder of the generator in the discriminator's folder."""

TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")
"""Embedding tables that both models share if the shapes are equal."""


@dataclass(frozen=True, kw_only=True)
class PairOutput(Output):
    """Output of ``GeneratorDiscriminatorPair`` if there are masked tokens."""

    logits: Tensor
    """Logits of the discriminator, above 0 for a token predicted to be replaced. Shape (B, T)."""
    prediction_logits: Tensor
    """Logits of the generator at the masked positions. Shape (N, V)."""
    samples: Tensor
    """Tokens that the generator sampled. Shape (N,), int64."""


class AddedEmbedding(nn.Embedding):
    """Embeddings E + D: another model's table E plus this module's own table D.

    No gradient flows to E (He et al. 2023, section 3.2, equation 5).

    Args:
        other: E. Shape (V, W).
    """

    def __init__(self, other: nn.Embedding) -> None:
        super().__init__(
            other.num_embeddings, other.embedding_dim, other.padding_idx, dtype=other.weight.dtype
        )
        self._other = [other]  # a list, so that it is not registered as a submodule
        nn.init.zeros_(self.weight)

    def forward(self, ids: Tensor) -> Tensor:
        """Return vectors, shape (..., W)."""
        added: Tensor = super().forward(ids)
        return F.embedding(ids, self._other[0].weight.detach()) + added

    def joined(self) -> nn.Embedding:
        """Return the sum E + D as a single table."""
        table = nn.Embedding(self.num_embeddings, self.embedding_dim, self.padding_idx)
        table.weight = nn.Parameter(self._other[0].weight.detach() + self.weight.detach())
        return table

    def set_joined(self, weight: Tensor) -> None:
        """Set D so that E + D equals ``weight``, shape (V, W), up to rounding."""
        with torch.no_grad():
            self.weight.copy_(weight - self._other[0].weight)


class GeneratorDiscriminatorPair(Model):
    """A discriminator and the generator that it learns from.

    A saved folder holds the discriminator, so that other code can load it as a plain model. A
    subfolder holds the generator.

    Args:
        discriminator: detects replaced tokens. It makes the pair's predictions.
        generator: fills masked tokens. Both models share the tables that have equal shapes.
        fresh: whether a discriminator that adds to the generator's tables starts with these tables
            unchanged.
        learns: whether training continues. If not, such a discriminator keeps its summed tables.
    """

    supports_checkpointing: ClassVar[bool] = True

    def __init__(
        self,
        discriminator: ModelWithHead,
        generator: ModelWithHead,
        *,
        fresh: bool = False,
        learns: bool = True,
    ) -> None:
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        ours, theirs = self._embeddings()
        shared = [name for name in TABLES if _fit(getattr(ours, name), getattr(theirs, name))]
        self.tied: list[str] = []
        """Names of the tied embedding tables."""
        if not discriminator.adds_to_generator_embeddings:
            self.tied = shared
            for name in shared:
                setattr(theirs, name, getattr(ours, name))
            generator.tie_head()
        elif learns:
            for name in shared:
                added = AddedEmbedding(getattr(theirs, name))
                if not fresh:
                    added.set_joined(getattr(ours, name).weight.detach())
                setattr(ours, name, added)
        self.register_state_dict_post_hook(_drop_tied_weights)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_restore_tied_weights)  # type: ignore[no-untyped-call]

    def _embeddings(self) -> tuple[nn.Module, nn.Module]:
        """Return the embeddings of the discriminator and of the generator."""
        bodies = (self.discriminator.body, self.generator.body)
        ours, theirs = (body.get_submodule("embeddings") for body in bodies)
        return ours, theirs

    @contextmanager
    def _joined(self) -> Iterator[None]:
        """Give the discriminator plain tables within the context, as its folder stores them."""
        ours, _ = self._embeddings()
        added = {
            name: part for name, part in ours.named_children() if isinstance(part, AddedEmbedding)
        }
        for name, part in added.items():
            setattr(ours, name, part.joined())
        try:
            yield
        finally:
            for name, part in added.items():
                setattr(ours, name, part)

    @property
    def config(self) -> Any:
        """Configuration of the discriminator."""
        return self.discriminator.config

    @property
    def body(self) -> Model:
        """Body of the discriminator."""
        return self.discriminator.body

    @property
    def head(self) -> Any:
        """Head of the discriminator."""
        return self.discriminator.head

    def with_body(self, body: Model) -> Self:
        """Return this pair with another body of the discriminator."""
        return self.with_submodule("discriminator", self.discriminator.with_body(body))

    def with_exported(self, exported: Any) -> Any:
        """Return this pair with an exported discriminator; the generator makes its inputs."""
        return self.with_submodule("discriminator", exported)

    @property
    def gradient_checkpointing(self) -> bool:
        """Whether both models recompute activations; see ``Model``."""
        return self.discriminator.gradient_checkpointing

    @gradient_checkpointing.setter
    def gradient_checkpointing(self, recompute: bool) -> None:
        self.discriminator.gradient_checkpointing = recompute
        self.generator.gradient_checkpointing = recompute

    @property
    def max_positions(self) -> int:
        """Maximum sequence length in tokens that both models support."""
        return min(self.discriminator.max_positions, self.generator.max_positions)

    def head_masks(self) -> dict[str, tuple[int, int]]:
        """Return the head masks of the discriminator; see ``Model.head_masks``."""
        return self.discriminator.head_masks()

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters on top of both bodies."""
        return [*self.discriminator.head_parameters(), *self.generator.head_parameters()]

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the discriminator's word embeddings."""
        return self.discriminator.get_input_embeddings()

    def save_pretrained(
        self,
        folder: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        safe_serialization: bool = True,
        max_shard_size: int | str | None = None,
    ) -> None:
        """Write the discriminator, and the generator into a subfolder; see ``Model``."""
        with self._joined():
            self.discriminator.save_pretrained(
                folder, overwrite=overwrite, safe_serialization=safe_serialization
            )
        self.generator.save_pretrained(Path(folder) / GENERATOR, overwrite=overwrite)

    def set_file_weights(
        self,
        tensors: Mapping[str, Tensor],
        folder: Path,
        *,
        fresh_head: bool = False,
        ignore_mismatched_sizes: bool = False,
    ) -> LoadReport:
        """Raise an error: each model of the pair loads from its own folder.

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
        """Fill masked tokens and detect replaced ones; without ``positions``, only detect.

        Args:
            input_ids: see ``BertModel``.
            attention_mask: see ``BertModel``.
            token_type_ids: see ``BertModel``.
            position_ids: see ``BertModel``.
            inputs_embeds: see ``BertModel``.
            head_mask: head mask of the discriminator.
            output_attentions: see ``BertModel``.
            output_hidden_states: see ``BertModel``.
            positions: masked positions in the flattened batch. Shape (N,), int64.
            uniforms: a random number in [0, 1) for each masked position, which determines the
                sampled token. Shape (N,).

        Returns:
            A ``PairOutput``, or the discriminator's output without ``positions``.
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
        samples = sample(filled, uniforms)
        corrupted = input_ids.flatten().index_put((positions,), samples.to(input_ids.dtype))
        detected = self.discriminator(
            corrupted.view_as(input_ids), attention_mask, token_type_ids, position_ids=position_ids
        )
        return PairOutput(logits=detected.logits, prediction_logits=filled, samples=samples)


@torch.no_grad()
def sample(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Sample a token for each row from its softmax, by inverting the cumulative distribution.

    No gradient flows through the sampling.

    Args:
        logits: shape (N, V).
        uniforms: random numbers in [0, 1). Shape (N,).

    Returns:
        Token ids. Shape (N,), int64.
    """
    cdf = logits.float().softmax(-1).cumsum(-1)  # (N, V)
    # The last value is 1 only up to rounding.
    thresholds = uniforms.to(cdf)[:, None] * cdf[:, -1:]
    return torch.searchsorted(cdf, thresholds, right=True).squeeze(1).clamp(max=cdf.shape[1] - 1)


def _fit(one: nn.Embedding | None, other: nn.Embedding | None) -> bool:
    return one is not None and other is not None and one.weight.shape == other.weight.shape


def _names(module: nn.Module, prefix: str) -> dict[str, str]:
    """Map the generator's name of each tied weight to the discriminator's name."""
    assert isinstance(module, GeneratorDiscriminatorPair)
    theirs, ours = (
        f"{prefix}{part}.{model.body.prefix}.embeddings"
        for part, model in (
            ("generator", module.generator),
            ("discriminator", module.discriminator),
        )
    )
    return {f"{theirs}.{name}.weight": f"{ours}.{name}.weight" for name in module.tied}


def _drop_tied_weights(
    module: nn.Module, state: dict[str, Tensor], prefix: str, local_metadata: object
) -> None:
    """Remove the generator's tied weights from a state dict, so that it has each tensor once."""
    for name in _names(module, prefix):
        del state[name]


def _restore_tied_weights(
    module: nn.Module, state: dict[str, Tensor], prefix: str, *arguments: object
) -> None:
    """Restore the weights that ``_drop_tied_weights`` removed."""
    for name, other in _names(module, prefix).items():
        if other in state:
            state[name] = state[other]
