"""Importance of attention heads, and how many can be pruned (Michel et al. 2019).

Importance is the gradient of the loss with respect to a head's mask. One backward pass computes it
for all heads (section 4.1). The actual effect is also measured: the score with each head masked
individually (section 3.2), and with the least important heads masked jointly.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.batches import Batch, Draw
from heedful.errors import UserError
from heedful.evaluation import score_records
from heedful.models.pruning import choose_heads, importance_of_heads, pruned_field
from heedful.predictor import Predictor
from heedful.training.progress import counted

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Shares of all heads to mask jointly."""

TOLERANCE = 0.01
"""Maximum relative loss of score for pruning to be acceptable."""

_ITEMS_PER_BATCH = 32
"""Items per batch if the loss of an item depends on the others in its batch."""

Masks = Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadScore:
    """Importance of one head."""

    mask: str
    """The attention of the head: a key of ``Model.head_masks``."""
    layer: int
    head: int
    importance: float
    """Gradient of the loss, divided by the norm of the layer's gradients."""
    score: float
    """Score of the run without this head."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareScore:
    """Score of a run without its least important heads."""

    share: float
    heads: int
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadImportance:
    """Importance of each head of a run, measured on a dataset."""

    model: str
    task: str
    items: int
    metric: str
    """Metric of the scores; higher is better."""
    score: float
    """Score with all heads."""
    heads: tuple[HeadScore, ...]
    shares: tuple[ShareScore, ...]

    @property
    def prune(self) -> float:
        """The largest share of heads that can be pruned within the tolerance; 0 if none."""
        largest = 0.0
        for row in self.shares:
            if row.score < self.score - TOLERANCE * abs(self.score):
                break
            largest = row.share
        return largest

    def to_dict(self) -> dict[str, Any]:
        """Return all data in JSON-compatible form."""
        return {
            "model": self.model,
            "task": self.task,
            "items": self.items,
            "metric": self.metric,
            "score": round(self.score, 6),
            "prune": self.prune,
            "shares": [
                {"share": one.share, "heads": one.heads, "score": round(one.score, 6)}
                for one in self.shares
            ],
            "heads": [
                {
                    "mask": one.mask,
                    "layer": one.layer,
                    "head": one.head,
                    "importance": round(one.importance, 6),
                    "score": round(one.score, 6),
                }
                for one in self.heads
            ],
        }


def head_importance(predictor: Predictor, records: Sequence[Any]) -> HeadImportance:
    """Measure the importance of each head of a run on records with ground truth.

    Raises:
        UserError: the model's heads cannot be masked, or there are no records.
    """
    model, task = predictor.model, predictor.task
    shapes = model.head_masks()
    if not shapes:
        raise UserError("--heads: the attention heads of this model cannot be masked")
    batches = _batches(predictor, records)
    importance = importance_of_heads(
        model,
        counted(batches, "batches measured"),
        lambda batch, masks: (task.loss(partial(model, **masks), batch), task.loss_divisor(batch)),
    )
    ones = {name: torch.ones(shape, device=predictor.device) for name, shape in shapes.items()}
    present = [
        (name, layer, head)
        for name, (layers, heads) in shapes.items()
        for layer in range(layers)
        for head in range(heads)
        if head not in getattr(model.config, pruned_field(name)).get(layer, ())
    ]
    score = partial(_score, predictor, records, batches)
    heads = [
        HeadScore(
            mask=name,
            layer=layer,
            head=head,
            importance=float(importance[name][layer, head]),
            score=score(_masked(ones, {name: {layer: [head]}})),
        )
        for name, layer, head in counted(present, "heads masked")
    ]
    return HeadImportance(
        model=predictor.name,
        task=task.name,
        items=len(records),
        metric=_metric(predictor),
        score=score(ones),
        heads=tuple(heads),
        shares=tuple(_shares(predictor, importance, ones, score)),
    )


def _shares(
    predictor: Predictor, importance: Masks, ones: Masks, score: partial[float]
) -> Iterator[ShareScore]:
    """Yield the score for growing shares of masked heads, in the order of ``--prune``."""
    num_heads = sum(mask.numel() for mask in ones.values())
    for share in SHARES:
        if not (count := round(share * num_heads)):
            continue
        try:
            pruned = choose_heads(importance, count, predictor.model.config)
        except UserError:  # no more heads can be pruned
            return
        yield ShareScore(share=share, heads=count, score=score(_masked(ones, pruned)))


def _masked(ones: Masks, pruned: Mapping[str, Mapping[int, Sequence[int]]]) -> dict[str, Tensor]:
    masks = {name: mask.clone() for name, mask in ones.items()}
    for name, layers in pruned.items():
        for layer, heads in layers.items():
            masks[name][layer, list(heads)] = 0
    return masks


def _batches(predictor: Predictor, records: Sequence[Any]) -> list[Batch]:
    """Encode items with ground truth, one per batch as in the paper, if the task allows."""
    task = predictor.task
    items = list(predictor.encode(records, predictor.settings, labelled=True))
    size = _ITEMS_PER_BATCH if task.in_batch_loss else 1
    batches = []
    for start in range(0, len(items), size):
        examples = [example for item in items[start : start + size] for example in item.pieces]
        draw = Draw(seed=0, epoch=0, rows=np.arange(start, start + len(examples)))
        batches.append(task.batch(examples, predictor.tokenizer, draw).to(predictor.device))
    return batches


def _metric(predictor: Predictor) -> str:
    # Masks apply to calls that score known texts, but not to the beam search of generating tasks.
    writes = "write" in predictor.task.abilities
    return "log_likelihood" if writes else predictor.task.metrics()[0]


def _score(
    predictor: Predictor, records: Sequence[Any], batches: Sequence[Batch], masks: Masks
) -> float:
    """Score a run with masked heads."""
    if "write" not in predictor.task.abilities:
        with predictor.model.register_forward_pre_hook(
            lambda module, arguments, options: (arguments, {**options, **masks}), with_kwargs=True
        ):
            return float(score_records(predictor, records)[_metric(predictor)])
    forward, task = partial(predictor.model, **masks), predictor.task
    tokens = sum(float(task.loss_divisor(batch)) for batch in batches)
    if not tokens:
        raise UserError(
            "--heads: no item of the data can be scored; each text is read in parts, or its "
            "translation is longer than any that the run writes"
        )
    with torch.no_grad():
        total = sum(float(task.loss(forward, batch)) for batch in batches)
    return -total / tokens
