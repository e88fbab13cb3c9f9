"""Attributions of a report's answers to the words of their texts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from heedful.errors import UserError
from heedful.explanations.explaining import explain_record
from heedful.explanations.shading import Shading, shadings
from heedful.item_results import ScoredItem
from heedful.predictor import Predictor
from heedful.settings import ExplainSettings
from heedful.training.progress import counted


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerAttribution:
    """The attribution of one answer."""

    target: str
    """Description of the explained output."""
    method: str
    sides: tuple[Shading, ...]
    notes: tuple[str, ...]


def explain_answers(
    predictor: Predictor, items: Iterable[ScoredItem[Any]]
) -> Mapping[int, AnswerAttribution]:
    """Attribute the answers of items to their words.

    Returns:
        The attributions by item number, without items that have nothing to explain.
    """
    result = {}
    for item in counted(items, "answers explained"):
        settings = ExplainSettings(attention=False, target=item.result.explain_target)
        try:
            explanation = explain_record(predictor, item.record, settings)
        except UserError:  # nothing to explain, such as an answer without entities
            continue
        for attribution in explanation.attributions:
            result[item.index] = AnswerAttribution(
                target=attribution.target,
                method=attribution.method.replace("-", " "),
                sides=tuple(shadings(explanation.sides, attribution)),
                notes=explanation.notes,
            )
    return result
