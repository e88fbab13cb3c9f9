"""Predictions and truth to scores, and scores to tables and pictures."""

from heedful.metrics.classification import ClassificationScores
from heedful.metrics.pictures import save_confusion_picture
from heedful.metrics.tables import confusion_table, per_class_table

__all__ = [
    "ClassificationScores",
    "confusion_table",
    "per_class_table",
    "save_confusion_picture",
]
