"""Load state dicts of the reference, whose weights have other names in most families."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from heedful.models import pretrained

if TYPE_CHECKING:
    from heedful.models.model import Model


def in_own_names(model: "Model", tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return the tensors of a state dict under the names of a model's own state dict.

    Tensors that the model does not have keep their names, except copies of tied weights.

    Args:
        model: the model.
        tensors: a state dict of this model, or of the same model of the reference.

    Raises:
        UserError: a tensor is there twice, under two names.
    """
    state = model.state_dict(keep_vars=True)
    num_own = sum(name in state for name in tensors)
    if num_own == len(tensors):
        return tensors
    prefix = model.body.prefix
    # Of a model with a head, the body's weights have a prefix; those without one are unexpected.
    others = {
        name: tensor for name, tensor in tensors.items() if pretrained.is_unprefixed(model, name)
    }
    known = {name: tensor for name, tensor in tensors.items() if name not in others}
    weights = pretrained.named_by_model(model, known, Path("the state dict"))
    plain_names = {
        id(weight): name for name, weight in pretrained.by_plain_name(model, prefix).items()
    }
    named: dict[str, Tensor] = {}
    used: set[str] = set()
    for name, weight in state.items():
        plain_name = plain_names.get(id(weight), pretrained.plain_name(name, prefix))
        if plain_name in weights:
            named[name] = weights[plain_name]
            used.add(plain_name)
    if len(named) < num_own:  # the names are the model's own, but for some that it lacks
        return tensors
    pointers = {tensor.data_ptr() for tensor in named.values()}
    surplus = {
        name: tensor
        for name, tensor in weights.items()
        if name not in used and tensor.data_ptr() not in pointers
    }
    return {**named, **surplus, **others}
