import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.errors import UserError
from heedful.models import BertConfig, BertForSequenceClassification
from heedful.models.heads.labels import classification_loss

IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 10, 3, 0, 0], [2, 3, 0, 0, 0]])
LOGITS = torch.tensor([[0.5, -1.0, 2.0], [1.0, 0.0, -2.0], [0.1, 0.2, 0.3]])
CLASSES = torch.tensor([2, 0, 1])
CHOICES = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
NUMBERS = torch.tensor([0.5, 2.0, -1.0])

SINGLE = F.cross_entropy(LOGITS, CLASSES)
MULTI = F.binary_cross_entropy_with_logits(LOGITS, CHOICES)


@pytest.mark.parametrize(
    ("logits", "labels", "problem_type", "expected"),
    [
        (LOGITS, CLASSES, None, SINGLE),
        (LOGITS, CLASSES.int(), None, SINGLE),
        (LOGITS, CLASSES[:, None], None, SINGLE),
        (LOGITS, CLASSES.to(torch.uint8), "single_label_classification", SINGLE),
        (LOGITS, CHOICES, None, MULTI),
        (LOGITS, CHOICES.bool(), None, MULTI),
        (LOGITS, CHOICES.long(), "multi_label_classification", MULTI),
        (LOGITS, CHOICES, "regression", F.mse_loss(LOGITS, CHOICES)),
        (LOGITS[:, :1], NUMBERS, None, F.mse_loss(LOGITS[:, 0], NUMBERS)),
        (LOGITS[:, :1], NUMBERS[:, None], None, F.mse_loss(LOGITS[:, 0], NUMBERS)),
        (LOGITS[:, :1], CLASSES, None, F.mse_loss(LOGITS[:, 0], CLASSES.float())),
        (
            LOGITS[:, :1],
            CHOICES[:, 0],
            "multi_label_classification",
            F.binary_cross_entropy_with_logits(LOGITS[:, 0], CHOICES[:, 0]),
        ),
    ],
)
def test_the_labels_decide_the_loss(
    logits: Tensor, labels: Tensor, problem_type: str | None, expected: Tensor
) -> None:
    total, count = classification_loss(logits, labels, problem_type)
    torch.testing.assert_close(total / count, expected)


@pytest.mark.parametrize(
    ("logits", "labels", "problem_type", "message"),
    [
        (LOGITS, CLASSES[:2], None, r"labels have shape \(2,\); for single_label.*, \(3,\)"),
        (LOGITS, CHOICES.long(), None, r"labels have shape \(3, 3\); for single_label"),
        (LOGITS, NUMBERS, None, r"labels have shape \(3,\); for multi_label.*, \(3, 3\)"),
        (LOGITS, CLASSES + 1, None, "labels hold 3; the classes are 0 to 2, and -100 leaves"),
        (LOGITS, CLASSES - 1, None, "labels hold -1"),
        (LOGITS, NUMBERS, "single_label_classification", "labels have type torch.float32"),
        (LOGITS, NUMBERS, "regression", r"for regression, \(3, 3\)"),
        (LOGITS[:, :1], NUMBERS[None], None, r"labels have shape \(1, 3\); for regression, \(3,\)"),
    ],
)
def test_labels_that_do_not_fit_are_named(
    logits: Tensor, labels: Tensor, problem_type: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        classification_loss(logits, labels, problem_type)


@pytest.mark.parametrize(
    ("changes", "labels"),
    [({}, CLASSES), ({}, CHOICES), ({"num_labels": 1, "id2label": {}}, NUMBERS)],
)
def test_the_configuration_stays_as_it_was(
    config: BertConfig, changes: dict[str, Any], labels: Tensor
) -> None:
    config = dataclasses.replace(config, **changes)
    before = config.to_dict()
    model = BertForSequenceClassification(config)
    loss, logits = model(IDS, labels=labels)[:2]
    assert loss.ndim == 0
    assert logits.shape == (3, config.num_labels)
    assert model.config.to_dict() == before


def test_no_labels_no_loss(config: BertConfig) -> None:
    output = BertForSequenceClassification(config)(IDS)
    assert output.loss is None
    assert output.keys() == ["logits"]
