"""The one joint where a model becomes what computes answers."""

import copy
from typing import NamedTuple

from heedful.compiled import kernels
from heedful.compiled.decoder import CompiledDecoder
from heedful.compiled.encoder import CompiledStack
from heedful.models.bert.model import BertModel
from heedful.models.model import Model
from heedful.models.transformer.model import Transformer


class Compiled(NamedTuple):
    """What computes answers."""

    model: Model
    """Called as the model that it was made of, and answers the same up to rounding."""
    kernel: str
    """``"packed"``, or ``"plain"`` for the model as it is."""
    reason: str
    """Why this one, in words for the user."""


def compile_model(model: Model) -> Compiled:
    """Make the compiled form of a model that is in evaluation mode.

    The model is not changed. What it has beside its blocks is shared.

    Args:
        model: in the number format and on the device to compute with.
    """
    body = model.body
    weight = next(model.parameters())
    if isinstance(model, Transformer):
        return _compiled_translator(model)
    if not isinstance(body, BertModel):
        return Compiled(model, kernels.PLAIN, f"{type(body).__name__} has no compiled form")
    if body.config.is_decoder:
        return Compiled(model, kernels.PLAIN, "decoders have no compiled form")
    if body.config.position_embedding_type != "absolute":
        return Compiled(model, kernels.PLAIN, "relative positions have no compiled form")
    kernel, reason = kernels.of_encoders(weight.dtype, weight.device)
    if kernel == kernels.PLAIN:
        return Compiled(model, kernel, reason)
    head = None if model is body else getattr(model, "head", None)
    reads_first = head is not None and not getattr(head, "every_token", True)
    blocks = CompiledStack(body.encoder, body.config.hidden_act, reads_first=reads_first)
    new_body = _with_part(body, "encoder", blocks)
    whole = new_body if model is body else _with_part(model, body.prefix, new_body)
    return Compiled(whole, kernel, reason)


def _compiled_translator(model: Transformer) -> Compiled:
    weight = next(model.encoder.parameters())
    kernel, reason = kernels.of_encoders(weight.dtype, weight.device)
    if kernel == kernels.PLAIN:
        return Compiled(model, kernel, reason)
    activation = model.config.activation_function
    encoder = CompiledStack(model.encoder, activation, reads_first=False)
    twin = _with_part(model, "encoder", encoder)
    assert isinstance(twin, Transformer)
    twin.compiled_steps = CompiledDecoder(model)
    return Compiled(twin, kernel, reason)


def _with_part(model: Model, name: str, part: object) -> Model:
    """Return a model that shares all parts but one."""
    twin = copy.copy(model)
    twin._modules = {**model._modules, name: part}  # type: ignore[dict-item]
    return twin
