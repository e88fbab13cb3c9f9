import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.exact import assert_same_bits
from torch import Tensor

from heedful.errors import UserError
from heedful.models import (
    BertConfig,
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertLMHeadModel,
)
from heedful.models.labels import classification_loss

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


WORDS = torch.tensor([[-100, 4, -100, 5, -100], [-100, -100, 6, -100, -100], [-100] * 5])


@pytest.mark.parametrize("labels", [WORDS, IDS])
def test_the_loss_of_words_is_over_the_labels(still: BertConfig, labels: Tensor) -> None:
    model = BertForMaskedLM(still).eval()
    everywhere = model(IDS)
    assert everywhere.logits.shape == (3, 5, 50)
    output = model(IDS, labels=labels)
    assert everywhere.positions is output.positions is None
    torch.testing.assert_close(output.logits, everywhere.logits)
    loss = F.cross_entropy(everywhere.logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(output.loss, loss)
    gradients = [
        torch.autograd.grad(value, list(model.parameters())) for value in (output.loss, loss)
    ]
    torch.testing.assert_close(*gradients)


def test_words_are_scored_at_given_positions(still: BertConfig) -> None:
    model = BertForMaskedLM(still).eval()
    everywhere = model(IDS)
    chosen = model(IDS, positions=torch.tensor([14, 0]))
    torch.testing.assert_close(chosen.logits, everywhere.logits.flatten(0, 1)[[14, 0]])
    assert chosen.loss is None


def test_next_words_are_scored_before_their_labels(still: BertConfig) -> None:
    model = BertLMHeadModel(dataclasses.replace(still, is_decoder=True)).eval()
    output = model(IDS, labels=WORDS)
    torch.testing.assert_close(output.logits, model(IDS).logits)
    before = output.logits.flatten(0, 1)[[0, 2, 6]]
    torch.testing.assert_close(output.loss, F.cross_entropy(before, torch.tensor([4, 5, 6])))


def test_pre_training_takes_either_label_or_both(still: BertConfig) -> None:
    model = BertForPreTraining(still).eval()
    follows = torch.tensor([0, 1, 1])
    words = model(IDS, labels=WORDS)
    pairs = model(IDS, next_sentence_label=follows)
    both = model(IDS, labels=WORDS, next_sentence_label=follows)
    assert model(IDS).loss is None
    assert pairs.prediction_logits.shape == (3, 5, 50)
    torch.testing.assert_close(both.loss, words.loss + pairs.loss)


def test_a_tied_head_follows_the_embeddings(still: BertConfig) -> None:
    model = BertForMaskedLM(still).eval()
    before = model(IDS).logits
    with torch.no_grad():
        model.bert.get_input_embeddings().weight[40] += 1.0
    assert not torch.allclose(model(IDS).logits[..., 40], before[..., 40])
    torch.testing.assert_close(model(IDS).logits[..., :40], before[..., :40])
    untied = BertForMaskedLM(dataclasses.replace(still, tie_word_embeddings=False))
    assert sum(p.numel() for p in untied.parameters()) == 50 * 24 + sum(
        p.numel() for p in model.parameters()
    )


def test_a_head_has_its_encoders_configuration(config: BertConfig) -> None:
    model = BertForTokenClassification(config)
    model.gradient_checkpointing = True
    assert model.bert.gradient_checkpointing
    model.bert.prune_heads({0: [1]})
    assert model.config is model.bert.config
    assert model.config.pruned_heads == {0: [1]}
    with pytest.raises(AttributeError):
        model.confg  # noqa: B018


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        (
            BertForMaskedLM,
            {"labels": WORDS, "positions": torch.tensor([0])},
            "give labels or positions, not both",
        ),
        (BertForMaskedLM, {"labels": WORDS[:, 1:]}, r"labels have shape \(3, 4\); .* \(3, 5\)"),
        (BertForMaskedLM, {"labels": WORDS + 50}, "labels hold -50; the classes are 0 to 49"),
        (BertForMultipleChoice, {}, r"choices are given as shape \(3, 5\); expected \(batch, ch"),
        (BertForQuestionAnswering, {"start_positions": CLASSES}, "give both start_positions and"),
    ],
)
def test_arguments_that_do_not_fit_are_named(
    still: BertConfig, model: Any, arguments: dict[str, Tensor], message: str
) -> None:
    head = model(dataclasses.replace(still, num_labels=2, id2label={}, is_decoder=False))
    with pytest.raises(UserError, match=message):
        head(IDS, **arguments)


def test_answers_have_two_ends(config: BertConfig) -> None:
    with pytest.raises(UserError, match="num_labels is 3; answers have 2: start and end"):
        BertForQuestionAnswering(config)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("size", [44, 60])
def test_another_vocabulary(still: BertConfig, size: int, tied: bool, tmp_path: Path) -> None:
    model = BertForMaskedLM(dataclasses.replace(still, tie_word_embeddings=tied)).eval()
    torch.nn.init.normal_(model.cls.predictions.bias)
    before = model(IDS).logits
    vectors = model.get_output_embeddings().weight
    embeddings = model.resize_token_embeddings(size)
    assert model.get_input_embeddings() is embeddings
    assert (model.get_output_embeddings().weight is embeddings.weight) == tied
    kept = min(size, 50)
    assert_same_bits(model.get_output_embeddings().weight[:kept], vectors[:kept], "moved")
    after = model(IDS).logits
    assert after.shape[-1] == model.config.vocab_size == size
    torch.testing.assert_close(after[..., :kept], before[..., :kept])
    model.save_pretrained(tmp_path / "resized")
    again = BertForMaskedLM.from_pretrained(tmp_path / "resized")
    assert_same_bits(again(IDS).logits, after, "stored")
    model.set_input_embeddings(torch.nn.Embedding(70, 24))
    assert model(IDS).logits.shape[-1] == model.config.vocab_size == 70


def test_heads_of_attention_are_pruned_under_a_head(still: BertConfig, tmp_path: Path) -> None:
    model = BertForSequenceClassification(still).eval()
    model.prune_heads({0: [1, 2], 1: [0]})
    model.save_pretrained(tmp_path / "pruned")
    again = BertForSequenceClassification.from_pretrained(tmp_path / "pruned")
    assert again.config == model.config
    assert_same_bits(again(IDS).logits, model(IDS).logits, "stored")
