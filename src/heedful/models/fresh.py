"""The configuration of a model from scratch: published sizes, and a vocabulary."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from heedful.errors import UserError, check_known
from heedful.models import FAMILIES


def fresh_config(
    arch: str,
    preset: str,
    *,
    tokens: Mapping[str, int],
    positions: int,
    position_type: str,
    dropout: float | None,
) -> Any:
    """Return the configuration of an encoder.

    Args:
        arch: the ``model_type`` of its family.
        preset: the name of its sizes.
        tokens: the size of the vocabulary and the ids of special tokens, under the names of a
            configuration. A family takes those that it has.
        positions: how many tokens it is to read at once.
        position_type: how it knows positions; see ``BertConfig``.
        dropout: of the whole model; None for that of the family.

    Raises:
        UserError: there is no such family, or it has no such sizes or positions.
    """
    encoders = [name for name, family in FAMILIES.items() if "body" in family.models]
    check_known("--arch", arch, encoders)
    kind, presets = FAMILIES[arch].config_class(), FAMILIES[arch].presets()
    check_known(f"--preset of --arch {arch}", preset, presets)
    known = {field.name: field for field in fields(kind)}
    values: dict[str, Any] = {name: value for name, value in tokens.items() if name in known}
    values[kind.POSITIONS] = kind.positions_for(positions, tokens["pad_token_id"])
    if "position_embedding_type" in known:
        values["position_embedding_type"] = position_type
    elif position_type != "absolute":
        raise UserError(
            f"--position-type {position_type}: --arch {arch} has one type; leave it out"
        )
    if dropout is not None:
        # One that is None takes another's.
        rates = [name for name in kind.DROPOUTS if known[name].default is not None]
        values |= dict.fromkeys(rates, dropout)
    return kind(**{**presets[preset], **values})
