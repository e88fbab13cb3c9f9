"""Every head equals the reference's: values and gradients in float64, and its folders."""

import dataclasses
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.exact import assert_same_bits
from tests.parity.equal import assert_equal
from tests.parity.families import (
    HEADS,
    ROWS,
    B,
    C,
    D,
    H,
    L,
    S,
    V,
    by_file_name,
    pair_of_models,
    random_ids,
)
from torch import Tensor, nn

from heedful import models
from heedful.files import read_json, read_tensors

WORDS = [n for n, (_, head) in HEADS.items() if head in ("masked_lm", "causal_lm", "pretraining")]
CAUSAL = [name for name, (_, head) in HEADS.items() if head == "causal_lm"]
WITH_ENCODER = [
    name
    for name in WORDS
    if HEADS[name][1] != "pretraining"
    and "encoder" not in ROWS[HEADS[name][0]].lacks
    and name != "ElectraForMaskedLM"  # which attends to no encoder in the reference
]
CLASSIFIERS = [name for name, (_, head) in HEADS.items() if head == "sequence"]
PROBLEMS: dict[str, tuple[dict[str, Any], Any]] = {
    "one number": ({"num_labels": 1}, [0.5, -1.0, 2.0]),
    "numbers": ({"problem_type": "regression"}, [[0.5, -1.0, 0.0, 1.0]] * B),
    "yes or no": ({}, [[1.0, 0.0, 0.0, 1.0]] * B),
    "multi_label": ({"problem_type": "multi_label_classification"}, [[1.0, 0.0, 1.0, 1.0]] * B),
}
"""Changes of a classifier's configuration, and its labels."""
GIVEN = ("nothing", "labels", "everything")


def _yes_or_no_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the reference's loss of replaced tokens without its step through float32."""
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))


def _causal_loss(logits: Tensor, labels: Tensor, vocab_size: int) -> Tensor:
    """Compute the reference's loss of the next word without its step through float32."""
    return F.cross_entropy(logits[:, :-1].reshape(-1, vocab_size), labels[:, 1:].flatten())


def _models(
    reference: ModuleType, class_name: str, training: bool = False, **changes: Any
) -> tuple[Any, Any]:
    family, head = HEADS[class_name]
    changes = {"num_labels": 2 if head in ("span", "pretraining") else 4} | changes
    if ROWS[family].needs_text and head == "sequence" and changes.get("num_labels") != 1:
        # Or the reference steps through float32.
        changes = {"problem_type": "single_label_classification"} | changes
    ours, theirs = pair_of_models(reference, family, class_name, training=training, **changes)
    if head == "causal_lm":
        theirs.loss_function = _causal_loss
    return ours, theirs


def _decoder(class_name: str) -> dict[str, bool]:
    """Return the options that make a decoder of a model, if it is not always one."""
    family, head = HEADS[class_name]
    return (
        {"is_decoder": True} if head == "causal_lm" and "decoder" not in ROWS[family].lacks else {}
    )


def _check_gradients(ours: Any, theirs: nn.Module) -> None:
    gradients = by_file_name(ours, {name: x.grad for name, x in ours.named_parameters()})
    for name, parameter in theirs.named_parameters():  # one that is tied is there once
        if parameter.requires_grad:
            assert_equal(gradients.pop(name), parameter.grad, name)
    assert gradients == {}


def _batch(class_name: str, given: str) -> dict[str, Any]:
    torch.manual_seed(1)
    family, head = HEADS[class_name]
    shape = (B, C, S) if head == "choice" else (B, S)
    batch: dict[str, Any] = {**random_ids(family, shape, everything=given == "everything")}
    if given == "everything":
        kept = torch.tensor([7, 4, 2, 5, 1, 3])[: B * C if len(shape) == 3 else B]
        if ROWS[family].needs_text and head == "span":  # where padding could be an answer
            kept = torch.full_like(kept, S)
        real = torch.arange(S) < kept[:, None]
        batch["attention_mask"] = (real.flip(1) if ROWS[family].pads_left else real).long()
        batch["attention_mask"] = batch["attention_mask"].view(shape)
        pad = ROWS[family].pads_with
        if pad is not None:
            batch["input_ids"][batch["attention_mask"] == 0] = pad
        if "head_mask" not in ROWS[family].lacks:
            batch["head_mask"] = torch.rand(L, H, dtype=torch.float64)
        batch["output_attentions"] = batch["output_hidden_states"] = True
    if given != "nothing":
        names = ROWS[family].labels
        batch |= {names.get(name, name): labels for name, labels in _labels(head).items()}
    if ROWS[family].needs_text and given == "everything" and head in ("token", "masked_lm"):
        batch["labels"][batch["attention_mask"] == 0] = -100
    return batch


def _labels(head: str) -> dict[str, Tensor]:
    words = torch.randint(V, (B, S)).masked_fill(torch.rand(B, S) < 0.6, -100)
    every = {
        "pretraining": {"labels": words, "next_sentence_label": torch.tensor([0, 1, 1])},
        "next_sentence": {"labels": torch.tensor([0, -100, 1])},
        "sequence": {"labels": torch.tensor([3, -100, 0])},
        "choice": {"labels": torch.tensor([1, 0, -100])},
        "token": {"labels": words.clamp(max=3)},
        "replaced": {"labels": words.clamp(0, 1)},
        "pointer": {
            "start_positions": torch.tensor([[2], [0], [6]]),
            "end_positions": torch.tensor([[5], [4], [6]]),
            "is_impossible": torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64),
            "cls_index": torch.tensor([6, 5, 3]),
            "p_mask": torch.tensor([[0.0] * S, [0.0] * S, [1.0, 1.0] + [0.0] * 5]).double(),
        },
        "span": {
            "start_positions": torch.tensor([[2], [S], [-3]]),
            "end_positions": torch.tensor([[S + 5], [4], [6]]),
        },
    }
    return every.get(head, {"labels": words})


def _for_them(class_name: str, batch: dict[str, Any]) -> dict[str, Any]:
    """Flatten further ids of choices, one row for each, which the reference does not do."""
    family, head = HEADS[class_name]
    given = [name for name in ROWS[family].extra_ids if name in batch and head == "choice"]
    return batch | {name: batch[name].flatten(0, 1) for name in given}


def _flat(value: Any) -> tuple[Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def _of_text(head: str, batch: dict[str, Any], key: str, value: Tensor) -> Tensor:
    """Leave out the outputs for padding, if the reference's are meaningless."""
    family, _ = HEADS[head]
    if not ROWS[family].needs_text or "attention_mask" not in batch:
        return value
    real = batch["attention_mask"].bool().view(-1, S)
    value = value.transpose(1, 2) if key == "attentions" else value
    return value[real] if value.shape[:2] == real.shape else value


def _loss(output: Any) -> Tensor:
    if "loss" in output:
        return output.loss  # type: ignore[no-any-return]
    return torch.stack([output[key].square().sum() for key in output if "logits" in key]).sum()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("head", HEADS)
def test_values_and_gradients(
    reference: ModuleType, head: str, given: str, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if HEADS[head][1] == "replaced":
        monkeypatch.setattr(nn, "BCEWithLogitsLoss", lambda: _yes_or_no_loss)
    ours, theirs = _models(reference, head, training, **_decoder(head))
    batch = _batch(head, given)
    plain = {"use_cache": False} if head in CAUSAL else {}
    output, expected = ours(**batch, **plain), theirs(**_for_them(head, batch), **plain)
    assert list(output.keys()) == list(expected.keys())
    for key, value in expected.items():
        for place, right in enumerate(_flat(value)):
            pair = (_of_text(head, batch, key, x) for x in (_flat(output[key])[place], right))
            assert_equal(*pair, f"{key} {place}")

    _loss(output).backward()
    _loss(expected).backward()
    _check_gradients(ours, theirs)


@pytest.mark.parametrize(("changes", "labels"), PROBLEMS.values(), ids=list(PROBLEMS))
@pytest.mark.parametrize("head", CLASSIFIERS)
def test_kinds_of_labels_of_a_text(
    reference: ModuleType, head: str, changes: dict[str, Any], labels: Any
) -> None:
    if ROWS[HEADS[head][0]].needs_text and changes == {}:
        pytest.skip("the reference's DeBERTa takes numbers for shares of one label")
    ours, theirs = _models(reference, head, **changes)
    batch = _batch(head, "nothing") | {"labels": torch.tensor(labels, dtype=torch.float64)}
    output, expected = ours(**batch), theirs(**batch)
    assert_equal(output.loss, expected.loss, "loss")
    output.loss.backward()
    expected.loss.backward()
    _check_gradients(ours, theirs)


@pytest.mark.parametrize("activation", [None, "tanh"])
@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("kind", ["first", "last", "mean", "cls_index"])
def test_summaries_of_a_choice(
    reference: ModuleType, kind: str, project: bool, activation: str | None
) -> None:
    """Without padding, which the reference includes in the summary as if it were text."""
    ours, theirs = _models(
        reference,
        "ElectraForMultipleChoice",
        summary_type=kind,
        summary_use_proj=project,
        summary_activation=activation,
    )
    batch = _batch("ElectraForMultipleChoice", "labels")
    output, expected = ours(**batch), theirs(**batch)
    assert_equal(output.logits, expected.logits, "logits")
    assert_equal(output.loss, expected.loss, "loss")
    output.loss.backward()
    expected.loss.backward()
    _check_gradients(ours, theirs)


@pytest.mark.parametrize("head", [*WORDS, "XLNetLMHeadModel"])
def test_untied_word_vectors(reference: ModuleType, head: str) -> None:
    ours, theirs = _models(reference, head, tie_word_embeddings=False)
    assert ours.get_output_embeddings().weight is not ours.get_input_embeddings().weight
    batch = _batch(head, "labels")
    output, expected = ours(**batch), theirs(**batch)
    assert_equal(output.loss, expected.loss, "loss")
    output.loss.backward()
    expected.loss.backward()
    _check_gradients(ours, theirs)


@pytest.mark.parametrize("head", WITH_ENCODER)
def test_cross_attention(reference: ModuleType, head: str) -> None:
    decoder = _decoder(head) if head in CAUSAL else {"is_decoder": True}
    ours, theirs = _models(reference, head, **decoder, add_cross_attention=True)
    batch = _batch(head, "everything")
    batch["encoder_hidden_states"] = torch.randn(B, 5, D, dtype=torch.float64)
    batch["encoder_attention_mask"] = torch.tensor([[1, 1, 1, 1, 1], [1] * 4 + [0], [1] + [0] * 4])
    output, expected = ours(**batch), theirs(**batch)
    assert_equal(output.loss, expected.loss, "loss")
    if head in CAUSAL:
        for one, right in zip(output.cross_attentions, expected.cross_attentions, strict=True):
            assert_equal(one, right, "cross attentions")


@pytest.mark.parametrize("head", CAUSAL)
def test_a_decoder_goes_on_from_its_cache(reference: ModuleType, head: str) -> None:
    ours, theirs = _models(reference, head, **_decoder(head))
    ids = _batch(head, "nothing")["input_ids"]
    expected = theirs(ids).logits
    start = ours(ids[:, :4], use_cache=True)
    assert_equal(start.logits, expected[:, :4], "start")
    rest = ours(ids[:, 4:], past_key_values=start.past_key_values)
    assert_equal(rest.logits, expected[:, 4:], "rest")


@pytest.mark.parametrize("head", HEADS)
def test_folders_both_ways(reference: ModuleType, tmp_path: Path, head: str) -> None:
    ours, theirs = _models(reference, head)
    ours, theirs = ours.float(), theirs.float()
    batch = _batch(head, "nothing")
    ours.save_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    written, given = (read_tensors(tmp_path / x / "model.safetensors") for x in ("ours", "theirs"))
    assert_same_bits(written, given, "stored")
    assert read_json(tmp_path / "ours" / "config.json")["architectures"] == [head]

    read_by_them = getattr(reference, head).from_pretrained(tmp_path / "ours")
    read_by_us = models.load_model(tmp_path / "theirs")
    for value, right in zip(read_by_us(**batch).to_tuple(), ours(**batch).to_tuple(), strict=True):
        assert_same_bits(value, right, "stored")
    pairs = zip(read_by_them(**batch).to_tuple(), theirs(**batch).to_tuple(), strict=True)
    for value, right in pairs:
        for one, other in zip(_flat(value), _flat(right), strict=True):
            torch.testing.assert_close(one, other)


def test_an_untied_head_in_folders(reference: ModuleType, tmp_path: Path) -> None:
    ours, _ = _models(reference, "BertForMaskedLM", tie_word_embeddings=False)
    ours = ours.float()
    ours.save_pretrained(tmp_path)
    ids = _batch("BertForMaskedLM", "nothing")["input_ids"]
    theirs = reference.BertForMaskedLM.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(theirs(ids).logits, ours(ids).logits)
    again = models.BertForMaskedLM.from_pretrained(tmp_path)
    assert dataclasses.replace(again.config) == ours.config
    assert_same_bits(again(ids).logits, ours(ids).logits, "stored")


def test_heads_take_what_another_has_learnt(
    reference: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A masked language model takes the head of pre-training; missing heads start fresh."""
    _, theirs = _models(reference, "BertForPreTraining")
    theirs.float().save_pretrained(tmp_path / "both")
    ids = _batch("BertForMaskedLM", "nothing")["input_ids"]
    masked = models.BertForMaskedLM.from_pretrained(tmp_path / "both")
    torch.testing.assert_close(masked(ids).logits, theirs(ids).prediction_logits)
    assert "fresh" not in caplog.text
    masked.save_pretrained(tmp_path / "masked")
    both = models.BertForPreTraining.from_pretrained(tmp_path / "masked")
    assert "trained: pooler, cls.seq_relationship\n" in caplog.text
    assert "cls.predictions" not in caplog.text
    torch.testing.assert_close(both(ids).prediction_logits, masked(ids).logits)
    torch.manual_seed(0)
    models.BertModel.from_pretrained(tmp_path / "masked").save_pretrained(tmp_path / "encoder")
    fresh = models.BertForMaskedLM.from_pretrained(tmp_path / "encoder")
    assert fresh.cls.predictions.bias.eq(0).all()
    assert fresh.cls.predictions.transform.LayerNorm.weight.eq(1).all()
