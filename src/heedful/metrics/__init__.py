"""Metrics: scores of predictions against the ground truth, and tables and plots of the scores.

Names are imported lazily, at first use: prediction needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "AnswerScores": "answers",
    "ChoiceScores": "choices",
    "ClassificationScores": "classification",
    "DetectionScores": "detection",
    "EntityScores": "entities",
    "LanguageScores": "language",
    "RetrievalScores": "neighbours",
    "NextTokenScores": "language",
    "RegressionScores": "regression",
    "check_confusion_picture": "pictures",
    "confusion_table": "tables",
    "has_confusion": "by_label",
    "precision_table": "tables",
    "save_confusion_picture": "pictures",
    "scores_table": "tables",
    "summary": "tables",
}
__all__ = [*_HOMES]

if TYPE_CHECKING:
    from heedful.metrics.answers import AnswerScores as AnswerScores
    from heedful.metrics.by_label import has_confusion as has_confusion
    from heedful.metrics.choices import ChoiceScores as ChoiceScores
    from heedful.metrics.classification import ClassificationScores as ClassificationScores
    from heedful.metrics.detection import DetectionScores as DetectionScores
    from heedful.metrics.entities import EntityScores as EntityScores
    from heedful.metrics.language import LanguageScores as LanguageScores
    from heedful.metrics.language import NextTokenScores as NextTokenScores
    from heedful.metrics.neighbours import RetrievalScores as RetrievalScores
    from heedful.metrics.pictures import check_confusion_picture as check_confusion_picture
    from heedful.metrics.pictures import save_confusion_picture as save_confusion_picture
    from heedful.metrics.regression import RegressionScores as RegressionScores
    from heedful.metrics.tables import confusion_table as confusion_table
    from heedful.metrics.tables import precision_table as precision_table
    from heedful.metrics.tables import scores_table as scores_table
    from heedful.metrics.tables import summary as summary


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
