"""Change the attention dropout of an existing model."""

from dataclasses import fields, replace

from heedful.errors import UserError
from heedful.layers.multihead import MultiHead
from heedful.models.model import Model

_FIELDS = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")
"""Names of the field in configurations. XLNet and recurrent networks have one rate for all."""


def set_attention_dropout(model: Model, probability: float) -> None:
    """Set the dropout probability of the attention weights.

    Raises:
        UserError: the model has no separate attention dropout.
    """
    parts = [part for part in model.modules() if isinstance(part, Model) and part.body is part]
    names = {
        part: name
        for part in parts
        for name in _FIELDS
        if name in {field.name for field in fields(part.config)}
    }
    if not names:
        raise UserError(
            f"--attention-dropout: {type(model).__name__} has no rate of its own for attention; "
            "--dropout sets the one that it has"
        )
    for part, name in names.items():
        part.config = replace(part.config, **{name: probability})
    for module in model.modules():
        if isinstance(module, MultiHead):
            module.dropout.p = probability
