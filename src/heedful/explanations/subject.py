"""The subject of an explanation: a model, its input, and the output value to explain.

Shapes: N variants, E examples of each, T tokens, D model width, C outputs, P positions.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.batches import Batch, Example
from heedful.explanation_target import ExplanationTarget
from heedful.models.model import Model
from heedful.task import AnyTask
from heedful.tokens import TranslationTokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """A perturbed input: the texts, or a part of them."""

    examples: tuple[Example, ...]
    positions: tuple[int, ...]
    """Output positions in the first example."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Subject:
    """The subject of an explanation. Methods get no other input."""

    model: Model
    task: AnyTask
    tokenizer: Any
    target: ExplanationTarget
    batch_tokens: int
    """Maximum tokens per batch."""
    check: Callable[[], None] = lambda: None
    """Called before each batch is computed. An exception that it raises ends the explanation."""

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    @property
    def whole(self) -> Variant:
        """The unchanged texts."""
        return Variant(examples=self.target.examples, positions=self.target.positions)

    @property
    def placeholder_id(self) -> int:
        """The id of the placeholder token: the mask token, or padding if there is no mask token.

        The padding of translation models has an embedding of zeros.
        """
        if isinstance(self.tokenizer, TranslationTokenizer) or self.tokenizer.mask_token_id is None:
            token_id: int = self.tokenizer.pad_token_id
            return token_id
        mask_id: int = self.tokenizer.mask_token_id
        return mask_id

    def scored_tokens(self) -> list[NDArray[np.bool_]]:
        """Return which tokens of each example belong to a scored word. Each of shape (T,)."""
        return [
            np.array([token.word is not None for token in side.tokens], dtype=np.bool_)
            for side in self.target.sides
        ]

    def at_output(self, example: int) -> NDArray[np.bool_]:
        """Return which tokens of an example are at output positions. Shape (T,)."""
        anchored = np.zeros(len(self.target.examples[example].ids), dtype=np.bool_)
        if example == 0:
            anchored[list(self.target.positions)] = True
        return anchored

    def without(self, dropped: Sequence[NDArray[np.bool_]]) -> Variant:
        """Return a variant with tokens removed or covered; tokens at output positions are masked.

        Args:
            dropped: for each example, True for the tokens to remove. Each of shape (T,).
        """
        examples, positions = [], self.target.positions
        if self.target.mask_tokens is not None:
            pairs = zip(self.target.examples, dropped, strict=True)
            covered = tuple(self.target.mask_tokens(example, removed) for example, removed in pairs)
            return Variant(examples=covered, positions=positions)
        for index, (example, removed) in enumerate(zip(self.target.examples, dropped, strict=True)):
            anchored = self.at_output(index)
            kept = ~removed | anchored
            ids = np.where(removed & anchored, self.placeholder_id, example.ids)[kept].astype(
                np.int32
            )
            new_indices: NDArray[np.int64] = np.cumsum(kept) - kept  # kept tokens before each
            if index == 0:
                positions = tuple(int(new_indices[position]) for position in positions)
            split = None if example.split is None else int(kept[: example.split].sum())
            examples.append(replace(example, ids=ids, split=split))
        return Variant(examples=tuple(examples), positions=positions)

    def batch(self, variants: Sequence[Variant]) -> tuple[Batch, Tensor]:
        """Return variants as a batch of N * E examples, and their positions, shape (N, P)."""
        self.check()
        examples = [example for variant in variants for example in variant.examples]
        batch = self.task.batch(examples, self.tokenizer, None).to(self.device)
        positions = [variant.positions for variant in variants]
        return batch, torch.tensor(positions, dtype=torch.int64, device=self.device)

    @torch.no_grad()
    def outputs(self, variants: Sequence[Variant]) -> Tensor:
        """Compute the outputs of each variant, in batches. Shape (N, C), on the CPU."""
        rows = []
        for chunk in in_chunks(variants, self.batch_size()):
            batch, positions = self.batch(chunk)
            rows.append(self.target.outputs(self.model, batch, positions).double().cpu())
        return torch.cat(rows)

    def scores(self, variants: Sequence[Variant]) -> NDArray[np.float64]:
        """Compute the explained output of each variant. Shape (N,)."""
        scores: NDArray[np.float64] = self.outputs(variants)[:, self.target.output_index].numpy()
        return scores

    def probabilities(self, variants: Sequence[Variant]) -> NDArray[np.float64]:
        """Compute the probability of the explained output, or its value if none. Shape (N,)."""
        outputs = self.outputs(variants)
        links: dict[str, Callable[[Tensor], Tensor]] = {
            "softmax": lambda logits: logits.softmax(-1),
            "sigmoid": torch.sigmoid,
            "exp": torch.exp,
            "none": lambda logits: logits,
        }
        probabilities: NDArray[np.float64]
        probabilities = links[self.target.link](outputs)[:, self.target.output_index].numpy()
        return probabilities

    def batch_size(self) -> int:
        """Return the number of variants per batch."""
        longest = max(len(example.ids) for example in self.target.examples)
        return max(1, self.batch_tokens // (longest * len(self.target.examples)))


def in_chunks(variants: Sequence[Variant], size: int) -> Iterator[Sequence[Variant]]:
    """Split variants into chunks of at most ``size``."""
    return (variants[start : start + size] for start in range(0, len(variants), size))


@contextmanager
def with_vectors(model: Model, vectors: Tensor) -> Iterator[None]:
    """Replace the input embeddings of a model inside this context.

    A model may look up the embedding table again for decoder inputs. That lookup is unchanged.

    Args:
        model: a model of any family.
        vectors: embeddings of each token of the model's input batch. Shape (N * E, T, D).
    """
    lookups = 0

    def replace_first(module: torch.nn.Module, ids: tuple[Tensor], output: Tensor) -> Tensor:
        nonlocal lookups
        lookups += 1
        return vectors.view_as(output) if lookups == 1 else output

    with model.input_vectors().register_forward_hook(replace_first):
        yield
    assert lookups, f"{type(model).__name__} does not look its input up in its input embeddings"
