"""Attribution by the gradient with respect to the vectors of the tokens that are read.

Shapes: K points, E examples, T tokens of the longest example, D width of a vector.
"""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.explanations.explanation import Completeness
from heedful.explanations.subject import Subject, Variant, with_vectors

FEWEST_STEPS, MOST_STEPS = 16, 512
"""Points of the path that integrated gradients begin with, and raise them to until they add up."""

SHARE, LEAST = 0.01, 0.01
"""They add up when the sum is this share of the difference away from it, or this much, whichever is
more."""

_RIGHT_ANGLE = 1e-3
"""Vectors whose cosine is below it are at right angles: a norm adds a little to variances."""

Scores = tuple[NDArray[np.float64], ...]
"""For each example a score for each of its tokens."""


def gradient_x_input(subject: Subject) -> tuple[Scores, bool]:
    """Return the product of each token's vector and the gradient with respect to it.

    A straight line would tell from it how far the output fell if the vector shrank to zeros.
    Special tokens have a score, too.

    Returns:
        The scores, and whether the answer depends on how long the vectors are. It does not where a
        model normalises them before all else, as DeBERTa does. The gradient is then at right angles
        to each vector, and the scores are 0 but for rounding.
    """
    vectors = _vectors(subject, subject.whole)  # (E, T, D)
    (gradient,) = _gradients(subject, vectors[None])
    products = vectors.double() * gradient
    least = _RIGHT_ANGLE * vectors.norm(dim=-1) * gradient.norm(dim=-1)  # (E, T)
    return _per_token(subject, products), bool((products.sum(-1).abs() > least).any())


def integrated_gradients(subject: Subject) -> tuple[Scores, Completeness]:
    """Return what each token adds on the way from a text without words (Sundararajan et al. 2017).

    The path is straight, from vectors of the token that stands for no token to those of the text;
    special tokens stay. The integral over it is a Gauss-Legendre sum. Its points are doubled until
    the attributions add up to the difference of the outputs, or are too many.
    """
    end = _vectors(subject, subject.whole)  # (E, T, D)
    start = _vectors(subject, _baseline(subject))
    ends = _output(subject, end) - _output(subject, start)
    steps = FEWEST_STEPS
    while True:
        points, weights = np.polynomial.legendre.leggauss(steps)
        total = torch.zeros_like(end, dtype=torch.float64)
        size = subject.at_once()
        for first in range(0, steps, size):
            chunk = torch.tensor((points[first : first + size] + 1) / 2).to(end)
            path = start + chunk[:, None, None, None] * (end - start)  # (K, E, T, D)
            share = torch.tensor(weights[first : first + size] / 2).to(total)
            total += torch.einsum("k,ketd->etd", share, _gradients(subject, path))
        scores = _per_token(subject, (end - start).double() * total)
        check = _completeness(scores, ends, steps)
        if check.held or steps >= MOST_STEPS:
            return scores, check
        steps *= 2


def _completeness(scores: Scores, difference: float, steps: int) -> Completeness:
    total = float(sum(one.sum() for one in scores))
    held = abs(total - difference) <= max(SHARE * abs(difference), LEAST)
    return Completeness(total=total, difference=difference, steps=steps, held=held)


def _baseline(subject: Subject) -> Variant:
    """Return the texts with the token that stands for no token in place of each of theirs."""
    if subject.aim.cover is not None:
        return subject.without(subject.of_texts())
    examples = tuple(
        replace(example, ids=np.where(of_text, subject.hidden_id, example.ids).astype(np.int32))
        for example, of_text in zip(subject.aim.examples, subject.of_texts(), strict=True)
    )
    return Variant(examples=examples, positions=subject.aim.positions)


def _vectors(subject: Subject, variant: Variant) -> Tensor:
    """Look up the vectors of a variant's tokens. Shape (E, T, D)."""
    batch, positions = subject.batch([variant])
    read: list[Tensor] = []
    lookup = subject.model.input_vectors()
    with torch.no_grad(), lookup.register_forward_hook(lambda *call: read.append(call[-1])):
        subject.aim.outputs(subject.model, batch, positions)
    return read[0]


def _run(subject: Subject, vectors: Tensor) -> Tensor:
    """Compute what is explained from vectors. Shape (K,) for shape (K, E, T, D)."""
    batch, positions = subject.batch([subject.whole] * len(vectors))
    with with_vectors(subject.model, vectors.flatten(0, 1)):
        outputs = subject.aim.outputs(subject.model, batch, positions)  # (K, C)
    return outputs[:, subject.aim.index]


@torch.no_grad()
def _output(subject: Subject, vectors: Tensor) -> float:
    return float(_run(subject, vectors[None]))


def _gradients(subject: Subject, vectors: Tensor) -> Tensor:
    """Return the gradient at each of some points. Shapes: (K, E, T, D), fp64."""
    with torch.enable_grad():
        vectors = vectors.detach().requires_grad_()
        (gradients,) = torch.autograd.grad(_run(subject, vectors).sum(), vectors)
    return gradients.double()


def _per_token(subject: Subject, products: Tensor) -> Scores:
    """Add up the parts of each vector. Shape (T,) for each example of shape (E, T, D)."""
    rows = products.sum(-1).cpu().numpy()
    return tuple(
        row[: len(example.ids)] for row, example in zip(rows, subject.aim.examples, strict=True)
    )
