"""A model whose layers or head a user replaced equals the reference's with the same modules."""

from types import ModuleType

import pytest
import torch
from tests.parity.equal import assert_equal
from tests.parity.families import B, S, V, pair_of_models
from torch import Tensor, nn

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
