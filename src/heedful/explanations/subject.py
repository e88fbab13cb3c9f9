"""A model, what it reads, and the number that is explained: all that a method is given.

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

from heedful.aim import Aim
from heedful.batches import Batch, Example
from heedful.models.model import Model
from heedful.task import AnyTask
from heedful.tokens import TranslationTokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """What is read instead of the texts: a part of them, or all."""

    examples: tuple[Example, ...]
    positions: tuple[int, ...]
    """Where the outputs stand in the first of them."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Subject:
    """What is explained."""

    model: Model
    task: AnyTask
    tokenizer: Any
    aim: Aim
    batch_tokens: int
    """Tokens that are computed at once."""
    check: Callable[[], None] = lambda: None
    """Called before each batch is computed; an error that it raises ends the explanation."""

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return next(self.model.parameters()).device

    @property
    def whole(self) -> Variant:
        """The texts as they are."""
        return Variant(examples=self.aim.examples, positions=self.aim.positions)

    @property
    def hidden_id(self) -> int:
        """The id of the token that stands for no token: the mask, or padding where there is none.

        Padding of translators has a vector of zeros.
        """
        if isinstance(self.tokenizer, TranslationTokenizer) or self.tokenizer.mask_token_id is None:
            token_id: int = self.tokenizer.pad_token_id
            return token_id
        mask_id: int = self.tokenizer.mask_token_id
        return mask_id

    def of_texts(self) -> list[NDArray[np.bool_]]:
        """Tell which tokens of each example are of a word that is weighed. Each of shape (T,)."""
        return [
            np.array([token.word is not None for token in side.tokens], dtype=np.bool_)
            for side in self.aim.sides
        ]

    def anchored(self, example: int) -> NDArray[np.bool_]:
        """Tell at which tokens of an example the outputs stand. Shape (T,)."""
        anchored = np.zeros(len(self.aim.examples[example].ids), dtype=np.bool_)
        if example == 0:
            anchored[list(self.aim.positions)] = True
        return anchored

    def without(self, dropped: Sequence[NDArray[np.bool_]]) -> Variant:
        """Leave tokens out, or cover them; those at which the outputs stand are masked instead.

        Args:
            dropped: for each example, True for the tokens to leave out. Each of shape (T,).
        """
        examples, positions = [], self.aim.positions
        if self.aim.cover is not None:
            pairs = zip(self.aim.examples, dropped, strict=True)
            covered = tuple(self.aim.cover(example, gone) for example, gone in pairs)
            return Variant(examples=covered, positions=positions)
        for number, (example, gone) in enumerate(zip(self.aim.examples, dropped, strict=True)):
            anchored = self.anchored(number)
            kept = ~gone | anchored
            ids = np.where(gone & anchored, self.hidden_id, example.ids)[kept].astype(np.int32)
            before: NDArray[np.int64] = np.cumsum(kept) - kept  # tokens kept before each
            if number == 0:
                positions = tuple(int(before[at]) for at in positions)
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
        """Compute the outputs for each variant, some at a time. Shape (N, C), on the CPU."""
        rows = []
        for chunk in in_chunks(variants, self.at_once()):
            batch, positions = self.batch(chunk)
            rows.append(self.aim.outputs(self.model, batch, positions).double().cpu())
        return torch.cat(rows)

    def scores(self, variants: Sequence[Variant]) -> NDArray[np.float64]:
        """Compute the number that is explained for each variant. Shape (N,)."""
        scores: NDArray[np.float64] = self.outputs(variants)[:, self.aim.index].numpy()
        return scores

    def probabilities(self, variants: Sequence[Variant]) -> NDArray[np.float64]:
        """Compute its probability, or where it has none, the number itself. Shape (N,)."""
        outputs = self.outputs(variants)
        links: dict[str, Callable[[Tensor], Tensor]] = {
            "softmax": lambda logits: logits.softmax(-1),
            "sigmoid": torch.sigmoid,
            "exp": torch.exp,
            "none": lambda logits: logits,
        }
        probabilities: NDArray[np.float64]
        probabilities = links[self.aim.link](outputs)[:, self.aim.index].numpy()
        return probabilities

    def at_once(self) -> int:
        """Return how many variants are computed at once."""
        longest = max(len(example.ids) for example in self.aim.examples)
        return max(1, self.batch_tokens // (longest * len(self.aim.examples)))


def in_chunks(variants: Sequence[Variant], size: int) -> Iterator[Sequence[Variant]]:
    """Cut variants into chunks of at most ``size``."""
    return (variants[start : start + size] for start in range(0, len(variants), size))


@contextmanager
def with_vectors(model: Model, vectors: Tensor) -> Iterator[None]:
    """Let a model read vectors where it would look up those of its input.

    The table may be looked up once more for what a decoder has written: that stays as it is.

    Args:
        model: of any family.
        vectors: one for each token of the batch that it is called with. Shape (N * E, T, D).
    """
    lookups = 0

    def replace_first(module: torch.nn.Module, ids: tuple[Tensor], output: Tensor) -> Tensor:
        nonlocal lookups
        lookups += 1
        return vectors.view_as(output) if lookups == 1 else output

    with model.input_vectors().register_forward_hook(replace_first):
        yield
    assert lookups, f"{type(model).__name__} does not look its input up in its input embeddings"
