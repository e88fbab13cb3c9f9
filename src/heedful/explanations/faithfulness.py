"""Measure the faithfulness of attribution methods (DeYoung et al. 2020).

Comprehensiveness is the drop of the answer's probability when the tokens with the highest scores
are removed. Sufficiency is the drop when only these tokens are kept (section 4.2). Both are means
over the shares of tokens in ``SHARES``. A method is faithful if comprehensiveness is high and
sufficiency is low.

Shapes: T removable tokens, S shares, N texts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError
from heedful.explanation_target import NothingToExplainError
from heedful.explanations.explaining import subject_of
from heedful.explanations.methods import METHODS
from heedful.explanations.subject import Subject, Variant
from heedful.metrics.resampling import Interval, intervals
from heedful.predictor import Predictor
from heedful.training.progress import counted

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Shares of a text's tokens to remove or keep; always at least one token."""

RANDOM = "random"
"""The random baseline, which other methods must beat."""

_DRAWS = 5
"""Number of random token orders per text, to average over."""

_MEASURES = ("comprehensiveness", "sufficiency", "difference")


@dataclass(frozen=True, kw_only=True, slots=True)
class Faithfulness:
    """Faithfulness of each method on a sample of texts."""

    model: str
    task: str
    texts: int
    methods: dict[str, dict[str, Interval]]
    """For each method, ``comprehensiveness``, ``sufficiency``, and ``difference``, the first minus
    the second, each with its 95 % confidence interval. Sorted by difference, highest first."""
    notes: tuple[str, ...]
    """Omitted methods and texts, in whole sentences."""

    def to_dict(self) -> dict[str, Any]:
        """Return all data in JSON-compatible form."""
        return {
            "model": self.model,
            "task": self.task,
            "texts": self.texts,
            "methods": {
                method: {
                    name: {
                        "score": round(interval.score, 6),
                        "low": round(interval.low, 6),
                        "high": round(interval.high, 6),
                    }
                    for name, interval in row.items()
                }
                for method, row in self.methods.items()
            },
            "notes": list(self.notes),
        }


def faithfulness(predictor: Predictor, records: Sequence[Any], *, seed: int = 0) -> Faithfulness:
    """Measure every applicable method on records, each explained for the model's own answer.

    Args:
        predictor: the predictor of the run.
        records: records of its task. Their ground truth is not used.
        seed: seeds the random orders and the bootstrap.

    Raises:
        UserError: fewer than two texts can be explained.
    """
    generator = np.random.default_rng(seed)
    rows: dict[str, list[tuple[float, float]]] = {method: [] for method in (*METHODS, RANDOM)}
    notes: dict[str, str] = {}
    for subject in _subjects(predictor, records):
        orders = {RANDOM: [generator.permutation(_count(subject)) for _ in range(_DRAWS)]}
        for method in [name for name in rows if name != RANDOM]:
            try:
                orders[method] = [_order(subject, method)]
            except UserError as error:
                del rows[method]
                notes[method] = f"{method} is left out: {error}"
        for method, row in zip(
            rows, _drops(subject, [orders[method_name] for method_name in rows]), strict=True
        ):
            rows[method].append(row)
    if (texts := len(rows[RANDOM])) < 2:
        raise UserError(f"{texts} texts can be explained; at least 2 are needed")
    if omitted := len(records) - texts:
        many = "1 text was" if omitted == 1 else f"{omitted:,} texts were"
        notes["texts"] = f"{many} left out: there is nothing to explain"
    measured = {method: intervals(_means, np.array(row), seed=seed) for method, row in rows.items()}
    ranked = sorted(measured, key=lambda method: -measured[method]["difference"].score)
    return Faithfulness(
        model=predictor.name,
        task=predictor.task.name,
        texts=texts,
        methods={method: measured[method] for method in ranked},
        notes=tuple(notes.values()),
    )


def _subjects(predictor: Predictor, records: Sequence[Any]) -> Iterator[Subject]:
    """Yield the subject of each record that has removable tokens."""
    for record in counted(records, "texts explained"):
        try:
            subject, _ = subject_of(predictor, record, None)
        except NothingToExplainError:
            continue
        if _count(subject):
            yield subject


def _means(columns: NDArray[np.float64], counts: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Return the bootstrap means of the measures, from text counts; see ``metrics.measures``."""
    means = counts @ columns / counts.sum(1, keepdims=True)  # (R, 2)
    measures = means[:, 0], means[:, 1], means[:, 0] - means[:, 1]
    return dict(zip(_MEASURES, measures, strict=True))


def _removable(subject: Subject) -> list[NDArray[np.bool_]]:
    """Return which tokens of each example can be removed."""
    return [
        of_text & ~subject.at_output(index) for index, of_text in enumerate(subject.scored_tokens())
    ]


def _count(subject: Subject) -> int:
    return int(sum(mask.sum() for mask in _removable(subject)))


def _order(subject: Subject, method: str) -> NDArray[np.int64]:
    """Return the removable tokens, highest score first. Shape (T,)."""
    attribution = METHODS[method](subject, None)
    scores = [
        np.array(row)[removable]
        for row, removable in zip(attribution.scores, _removable(subject), strict=False)
    ]
    order: NDArray[np.int64] = np.argsort(-np.concatenate(scores), kind="stable")
    return order


def _drops(
    subject: Subject, orders: Sequence[Sequence[NDArray[np.int64]]]
) -> list[tuple[float, float]]:
    """Return each method's probability drops without its top tokens, and with only these tokens.

    Args:
        subject: the subject of the explanation.
        orders: for each method, one order of the tokens, or several orders to average over.
    """
    variants = [subject.whole]
    for order in (order for method_orders in orders for order in method_orders):
        for share in SHARES:
            top = order[: max(1, int(np.ceil(share * len(order))))]
            others = np.setdiff1d(order, top)
            variants += [_without(subject, top), _without(subject, others)]
    full, *outputs = subject.probabilities(variants)
    drops = (full - np.array(outputs)).reshape(-1, len(SHARES), 2).mean(1)  # (orders, 2)
    ends = np.cumsum([len(method_orders) for method_orders in orders])
    means = (part.mean(0) for part in np.split(drops, ends[:-1]))
    return [(float(without), float(only)) for without, only in means]


def _without(subject: Subject, tokens: NDArray[np.int64]) -> Variant:
    """Return a variant without the given tokens, which are indices into the removable tokens."""
    removable = _removable(subject)
    flat = np.zeros(_count(subject), dtype=np.bool_)
    flat[tokens] = True
    dropped, start = [], 0
    for example_mask in removable:
        mask = example_mask.copy()
        mask[example_mask] = flat[start : start + int(example_mask.sum())]
        start += int(example_mask.sum())
        dropped.append(mask)
    return subject.without(dropped)
