"""Which method to trust: whether the tokens it names decide the answer (DeYoung et al. 2020).

Comprehensiveness is how far the probability of the answer falls when the tokens with the highest
scores are left out; sufficiency, how far it falls when they alone are kept (section 4.2). Both are
means over the shares of tokens in ``SHARES``. A method is faithful when the first is high and the
second low.

Shapes: T tokens that can be left out, S shares, N texts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.aim import NothingToExplainError
from heedful.errors import UserError
from heedful.explanations.explaining import subject_of
from heedful.explanations.methods import METHODS
from heedful.explanations.subject import Subject, Variant
from heedful.metrics.resampling import Interval, intervals
from heedful.predictor import Predictor
from heedful.training.progress import counted

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Of the tokens of a text; always at least one token."""

RANDOM = "random"
"""The method that knows nothing, which others must beat."""

_DRAWS = 5
"""Random orders of a text's tokens, whose mean counts."""

_MEASURES = ("comprehensiveness", "sufficiency", "difference")


@dataclass(frozen=True, kw_only=True, slots=True)
class Faithfulness:
    """How faithful each method is, on some texts."""

    model: str
    task: str
    texts: int
    methods: dict[str, dict[str, Interval]]
    """For each method its ``comprehensiveness``, ``sufficiency``, and the first less the second,
    ``difference``, each with its 95 % interval; the most faithful by that difference first."""
    notes: tuple[str, ...]
    """What was left out, in whole sentences."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything ready for JSON."""
        return {
            "model": self.model,
            "task": self.task,
            "texts": self.texts,
            "methods": {
                method: {
                    name: {
                        "score": round(one.score, 6),
                        "low": round(one.low, 6),
                        "high": round(one.high, 6),
                    }
                    for name, one in row.items()
                }
                for method, row in self.methods.items()
            },
            "notes": list(self.notes),
        }


def faithfulness(predictor: Predictor, records: Sequence[Any], *, seed: int = 0) -> Faithfulness:
    """Measure every method that makes sense for a run on some records, each with its own answer.

    Args:
        predictor: of the run.
        records: of its task; their truth does not count.
        seed: decides random orders and what bootstraps draw.

    Raises:
        UserError: there are fewer than two texts that can be explained.
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
        for method, row in zip(rows, _falls(subject, [orders[one] for one in rows]), strict=True):
            rows[method].append(row)
    if (texts := len(rows[RANDOM])) < 2:
        raise UserError(f"{texts} texts can be explained; at least 2 are needed")
    if left := len(records) - texts:
        many = "1 text was" if left == 1 else f"{left:,} texts were"
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
    """Yield what is explained of each record; nothing of one without a token to leave out."""
    for record in counted(records, "texts explained"):
        try:
            subject, _ = subject_of(predictor, record, None)
        except NothingToExplainError:
            continue
        if _count(subject):
            yield subject


def _means(columns: NDArray[np.float64], counts: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Return the means of texts, each counted some times: a measure; see ``metrics.measures``."""
    means = counts @ columns / counts.sum(1, keepdims=True)  # (R, 2)
    both = means[:, 0], means[:, 1], means[:, 0] - means[:, 1]
    return dict(zip(_MEASURES, both, strict=True))


def _removable(subject: Subject) -> list[NDArray[np.bool_]]:
    """Tell which tokens of each example can be left out."""
    return [
        of_text & ~subject.anchored(number) for number, of_text in enumerate(subject.of_texts())
    ]


def _count(subject: Subject) -> int:
    return int(sum(one.sum() for one in _removable(subject)))


def _order(subject: Subject, method: str) -> NDArray[np.int64]:
    """Return the tokens that can be left out, the highest score first. Shape (T,)."""
    attribution = METHODS[method](subject, None)
    scores = [
        np.array(row)[removable]
        for row, removable in zip(attribution.scores, _removable(subject), strict=False)
    ]
    order: NDArray[np.int64] = np.argsort(-np.concatenate(scores), kind="stable")
    return order


def _falls(
    subject: Subject, orders: Sequence[Sequence[NDArray[np.int64]]]
) -> list[tuple[float, float]]:
    """Return for each method how far the probability falls without, and with, its first tokens.

    Args:
        subject: what is explained.
        orders: of each method one order of the tokens, or several whose mean counts.
    """
    variants = [subject.whole]
    for order in (order for some in orders for order in some):
        for share in SHARES:
            top = order[: max(1, int(np.ceil(share * len(order))))]
            rest = np.setdiff1d(order, top)
            variants += [_without(subject, top), _without(subject, rest)]
    whole, *left = subject.probabilities(variants)
    falls = (whole - np.array(left)).reshape(-1, len(SHARES), 2).mean(1)  # (orders, 2)
    ends = np.cumsum([len(some) for some in orders])
    means = (part.mean(0) for part in np.split(falls, ends[:-1]))
    return [(float(without), float(alone)) for without, alone in means]


def _without(subject: Subject, tokens: NDArray[np.int64]) -> Variant:
    """Leave out tokens that are given by their numbers among those that can be."""
    removable = _removable(subject)
    flat = np.zeros(_count(subject), dtype=np.bool_)
    flat[tokens] = True
    dropped, start = [], 0
    for one in removable:
        mask = one.copy()
        mask[one] = flat[start : start + int(one.sum())]
        start += int(one.sum())
        dropped.append(mask)
    return subject.without(dropped)
