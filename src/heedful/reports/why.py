"""Which words an answer of a report comes from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from heedful.errors import UserError
from heedful.explanations.explaining import explain_record
from heedful.explanations.shading import Shading, shadings
from heedful.judging import Judged
from heedful.predictor import Predictor
from heedful.settings import ExplainSettings
from heedful.training.progress import counted


@dataclass(frozen=True, kw_only=True, slots=True)
class Why:
    """The attribution of one answer."""

    target: str
    """What is explained, in words."""
    method: str
    sides: tuple[Shading, ...]
    notes: tuple[str, ...]


def explained(predictor: Predictor, items: Iterable[Judged[Any]]) -> Mapping[int, Why]:
    """Attribute the answers to some items to their words; of an item with nothing to explain none.

    Returns:
        Each by the number of its item.
    """
    result = {}
    for item in counted(items, "answers explained"):
        settings = ExplainSettings(attention=False, target=item.judgement.doubtful)
        try:
            explanation = explain_record(predictor, item.record, settings)
        except UserError:  # such as an answer without an entity
            continue
        for attribution in explanation.attributions:
            result[item.number] = Why(
                target=attribution.target,
                method=attribution.method.replace("-", " "),
                sides=tuple(shadings(explanation.sides, attribution)),
                notes=explanation.notes,
            )
    return result
