"""Attribution by gradients with respect to the input embeddings.

Shapes: K points, E examples, T tokens of the longest example, D embedding size.
"""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.explanations.explanation import Completeness
from heedful.explanations.subject import Subject, Variant, with_vectors

MIN_STEPS, MAX_STEPS = 16, 512
"""Initial and maximum number of integration points of integrated gradients."""

RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE = 0.01, 0.01
"""Relative and absolute tolerance between the sum of attributions and the output difference. The
larger tolerance counts."""

_MIN_COSINE = 1e-3
"""Vectors with a cosine below this count as orthogonal. The epsilon of layer normalization makes
the cosine differ from 0."""

Scores = tuple[NDArray[np.float64], ...]
"""For each example, the scores of its tokens."""


def gradient_x_input(subject: Subject) -> tuple[Scores, bool]:
    """Return the dot product of each token's embedding and its gradient.

    In a linear approximation, the score is the drop of the output if the embedding became zero.
    Special tokens also have a score.

    Returns:
        The scores, and whether the answer depends on the norm of the embeddings. It does not if the
        model normalises them first, as DeBERTa does. The gradient is then orthogonal to each
        embedding, and the scores are only rounding errors.
    """
    vectors = _embeddings(subject, subject.whole)  # (E, T, D)
    (gradient,) = _gradients(subject, vectors[None])
    products = vectors.double() * gradient
    threshold = _MIN_COSINE * vectors.norm(dim=-1) * gradient.norm(dim=-1)  # (E, T)
    return _per_token(subject, products), bool((products.sum(-1).abs() > threshold).any())


def integrated_gradients(subject: Subject) -> tuple[Scores, Completeness]:
    """Return the integrated gradients of each token (Sundararajan et al. 2017).

    The path is a straight line from the embedding of the placeholder token to the embeddings of the
    text; special tokens stay. The integral is computed by Gauss-Legendre quadrature. The number of
    points doubles until the attributions add up to the output difference, or until it reaches
    `MAX_STEPS`.
    """
    embeddings = _embeddings(subject, subject.whole)  # (E, T, D)
    baseline = _embeddings(subject, _baseline(subject))
    difference = _output(subject, embeddings) - _output(subject, baseline)
    steps = MIN_STEPS
    while True:
        points, weights = np.polynomial.legendre.leggauss(steps)
        total = torch.zeros_like(embeddings, dtype=torch.float64)
        size = subject.batch_size()
        for first in range(0, steps, size):
            chunk = torch.tensor((points[first : first + size] + 1) / 2).to(embeddings)
            path = baseline + chunk[:, None, None, None] * (embeddings - baseline)  # (K, E, T, D)
            share = torch.tensor(weights[first : first + size] / 2).to(total)
            total += torch.einsum("k,ketd->etd", share, _gradients(subject, path))
        scores = _per_token(subject, (embeddings - baseline).double() * total)
        check = _completeness(scores, difference, steps)
        if check.held or steps >= MAX_STEPS:
            return scores, check
        steps *= 2


def _completeness(scores: Scores, difference: float, steps: int) -> Completeness:
    total = float(sum(example_scores.sum() for example_scores in scores))
    held = abs(total - difference) <= max(RELATIVE_TOLERANCE * abs(difference), ABSOLUTE_TOLERANCE)
    return Completeness(total=total, difference=difference, steps=steps, held=held)


def _baseline(subject: Subject) -> Variant:
    """Return the texts with every token replaced by the placeholder token."""
    if subject.target.mask_tokens is not None:
        return subject.without(subject.scored_tokens())
    examples = tuple(
        replace(
            example, ids=np.where(of_text, subject.placeholder_id, example.ids).astype(np.int32)
        )
        for example, of_text in zip(subject.target.examples, subject.scored_tokens(), strict=True)
    )
    return Variant(examples=examples, positions=subject.target.positions)


def _embeddings(subject: Subject, variant: Variant) -> Tensor:
    """Look up the embeddings of a variant's tokens. Shape (E, T, D)."""
    batch, positions = subject.batch([variant])
    captured: list[Tensor] = []
    lookup = subject.model.input_vectors()
    with torch.no_grad(), lookup.register_forward_hook(lambda *call: captured.append(call[-1])):
        subject.target.outputs(subject.model, batch, positions)
    return captured[0]


def _run(subject: Subject, vectors: Tensor) -> Tensor:
    """Compute the explained output from embeddings. Shape (K,) for shape (K, E, T, D)."""
    batch, positions = subject.batch([subject.whole] * len(vectors))
    with with_vectors(subject.model, vectors.flatten(0, 1)):
        outputs = subject.target.outputs(subject.model, batch, positions)  # (K, C)
    return outputs[:, subject.target.output_index]


@torch.no_grad()
def _output(subject: Subject, vectors: Tensor) -> float:
    return float(_run(subject, vectors[None]))


def _gradients(subject: Subject, vectors: Tensor) -> Tensor:
    """Return the gradient at each point. Shapes: (K, E, T, D), fp64."""
    with torch.enable_grad():
        vectors = vectors.detach().requires_grad_()
        (gradients,) = torch.autograd.grad(_run(subject, vectors).sum(), vectors)
    return gradients.double()


def _per_token(subject: Subject, products: Tensor) -> Scores:
    """Sum over the embedding dimension. Shape (T,) for each example of shape (E, T, D)."""
    rows = products.sum(-1).cpu().numpy()
    return tuple(
        row[: len(example.ids)] for row, example in zip(rows, subject.target.examples, strict=True)
    )
