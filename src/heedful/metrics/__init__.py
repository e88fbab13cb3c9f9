"""From predictions and truth to scores, and from scores to tables and pictures."""

from heedful.metrics.answers import AnswerScores
from heedful.metrics.choices import ChoiceScores
from heedful.metrics.classification import ClassificationScores
from heedful.metrics.entities import EntityScores
from heedful.metrics.language import LanguageScores
from heedful.metrics.neighbours import NeighbourScores
from heedful.metrics.pictures import save_confusion_picture
from heedful.metrics.regression import RegressionScores
from heedful.metrics.tables import confusion_table, scores_table, summary

__all__ = [
    "AnswerScores",
    "ChoiceScores",
    "ClassificationScores",
    "EntityScores",
    "LanguageScores",
    "NeighbourScores",
    "RegressionScores",
    "confusion_table",
    "save_confusion_picture",
    "scores_table",
    "summary",
]
