"""A model whose layers or head a user replaced equals the reference's with the same modules."""

import copy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.parity.equal import assert_equal
from tests.parity.families import HEADS, B, C, D, S, V, pair_of_models
from torch import Tensor, nn

from heedful import models
from heedful.errors import UserError
from heedful.files import read_tensors
from heedful.models.weights import renamed


class Adapter(nn.Module):
    """A linear layer, and a product of lower rank added to it (LoRA, Hu et al. 2021)."""

    def __init__(self, wrapped: nn.Linear) -> None:
        super().__init__()
        self.wrapped = wrapped
        self.down = nn.Linear(wrapped.in_features, 2, bias=False).double()
        self.up = nn.Linear(2, wrapped.out_features, bias=False).double()

    def forward(self, hidden: Tensor) -> Tensor:
        return self.wrapped(hidden) + self.up(self.down(hidden))


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)


@pytest.mark.parametrize(
    "layer",
    [
        *(f"attention.{name}" for name in ("self.query", "self.key", "self.value", "output.dense")),
        "intermediate.dense",
        "output.dense",
    ],
)
@pytest.mark.parametrize(
    "class_name", ["BertModel", "DebertaV2Model", "DistilBertModel", "ElectraModel"]
)
def test_wrapped_layers(reference: ModuleType, class_name: str, layer: str) -> None:
    family = {"DebertaV2Model": "deberta-v2"}.get(class_name, class_name[:-5].lower())
    ours, theirs = pair_of_models(reference, family, class_name, training=True)
    name = f"encoder.layer.0.{layer}"
    its_name = renamed(f"{name}.weight", ours.file_names)
    assert its_name is not None
    its_name = its_name.removesuffix(".weight")
    adapter = Adapter(theirs.get_submodule(its_name))
    own = Adapter(ours.get_submodule(name))
    own.load_state_dict(adapter.state_dict())
    _replace(theirs, its_name, adapter)
    _replace(ours, name, own)
    ids = torch.randint(V, (B, S))
    output, expected = ours(ids).last_hidden_state, theirs(ids).last_hidden_state
    assert_equal(output, expected, layer)
    output.square().sum().backward()
    expected.square().sum().backward()
    for one, right in zip(own.parameters(), adapter.parameters(), strict=True):
        assert_equal(one.grad, right.grad, layer)


class First(nn.Module):
    """A head that reads the first token's state, with names of layers that heads have, too."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(D, D)
        self.out_proj = nn.Linear(D, 5)

    def forward(self, hidden: Tensor, **_: Any) -> Tensor:
        logits: Tensor = self.out_proj(torch.tanh(self.dense(hidden[:, 0, :])))
        return logits


def _with_head(
    reference: ModuleType, class_name: str, module: nn.Module
) -> tuple[Any, Any, dict[str, Tensor]]:
    family, kind = HEADS[class_name]
    changes = {"problem_type": "single_label_classification"} if kind == "sequence" else {}
    ours, theirs = pair_of_models(reference, family, class_name, training=True, **changes)
    name = next(name for name in ("classifier", "logits_proj", "score") if hasattr(theirs, name))
    setattr(theirs, name, module.double())
    setattr(ours, name, copy.deepcopy(module))
    for model in (ours, theirs):
        model.num_labels = 5
    torch.manual_seed(1)
    ids = torch.randint(2, V - 1, (B, C, S) if kind == "choice" else (B, S))
    labels = torch.randint(C, (B, S) if kind == "token" else (B,))
    return ours, theirs, {"input_ids": ids, "labels": labels}


WHOLE = [f"{name}ForSequenceClassification" for name in ("Roberta", "XLMRoberta", "Electra")]
WHOLE += [f"{name}ForSequenceClassification" for name in ("BigBird", "MPNet")]
REPLACED = [name for name, (_, kind) in HEADS.items() if kind in ("sequence", "token", "choice")]


@pytest.mark.parametrize("class_name", [name for name in REPLACED if name not in WHOLE])
def test_a_linear_layer_as_the_head(reference: ModuleType, class_name: str, tmp_path: Path) -> None:
    """Layers before it with names of their own stay, such as DistilBERT's ``pre_classifier``."""
    torch.manual_seed(2)
    bias = class_name != "GPT2ForSequenceClassification"
    outputs = 1 if HEADS[class_name][1] == "choice" else 5
    layer = nn.Linear(D, outputs, bias=bias)
    ours, theirs, batch = _with_head(reference, class_name, layer)
    output, expected = ours(**batch), theirs(**batch)
    assert_equal(output.logits, expected.logits, "logits")
    assert_equal(output.loss, expected.loss, "loss")
    output.loss.backward()
    expected.loss.backward()
    its = {name: part.grad for name, part in theirs.named_parameters() if part.grad is not None}
    norms = [
        torch.stack([gradient.square().sum() for gradient in gradients]).sum()
        for gradients in (its.values(), [x.grad for x in ours.parameters() if x.grad is not None])
    ]
    torch.testing.assert_close(*norms)
    ours.float().save_pretrained(tmp_path)
    options = {} if outputs == 1 else {"num_labels": 5}
    again = getattr(models, class_name).from_pretrained(tmp_path, **options)
    for model in (again, getattr(reference, class_name).from_pretrained(tmp_path, **options)):
        ids = batch["input_ids"]
        torch.testing.assert_close(model.eval()(ids).logits, ours.eval()(ids).logits)


@pytest.mark.parametrize("class_name", WHOLE)
def test_a_module_in_place_of_a_head_of_two_layers(reference: ModuleType, class_name: str) -> None:
    """It reads all tokens, without dropout before it."""
    torch.manual_seed(2)
    ours, theirs, batch = _with_head(reference, class_name, First())
    ours.dropout = nn.Dropout(0.5)
    output, expected = ours(**batch), theirs(**batch)
    assert_equal(output.logits, expected.logits, "logits")
    assert_equal(output.loss, expected.loss, "loss")
    ours, theirs, batch = _with_head(reference, class_name, nn.Linear(D, 5))
    output, expected = ours(batch["input_ids"]), theirs(batch["input_ids"])
    assert output.logits.shape == (B, S, 5)
    assert_equal(output.logits, expected.logits, "logits")
    with pytest.raises(UserError, match="reads all tokens, and has to select the first"):
        ours(**batch)


def test_layers_of_ones_own_with_names_of_a_head(reference: ModuleType, tmp_path: Path) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(D, D)
            self.out_proj = nn.Linear(D, 5)

        def forward(self, hidden: Tensor) -> Tensor:
            logits: Tensor = self.out_proj(self.dense(hidden))
            return logits

    ours, theirs, batch = _with_head(reference, "DistilBertForSequenceClassification", Two())
    assert_equal(ours(**batch).logits, theirs(**batch).logits, "logits")
    assert set(dict(ours.pre_classifier.named_parameters())) == {"weight", "bias"}
    names = {"classifier.dense.weight", "classifier.out_proj.weight", "pre_classifier.weight"}
    ours.save_pretrained(tmp_path)
    assert names <= set(read_tensors(tmp_path / "model.safetensors"))
    assert len(ours.head_parameters()) == 6


def test_a_head_that_is_put_back(reference: ModuleType, tmp_path: Path) -> None:
    ours, _ = pair_of_models(reference, "distilbert", "DistilBertForSequenceClassification")
    before = ours.classifier
    ours.classifier = nn.Linear(D, 3)
    ours.classifier = before
    assert not hasattr(ours, "pre_classifier")
    ours.save_pretrained(tmp_path)
    names = set(read_tensors(tmp_path / "model.safetensors"))
    assert {"pre_classifier.weight", "classifier.weight"} <= names
