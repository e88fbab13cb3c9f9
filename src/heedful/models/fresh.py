"""Configuration of a model from scratch: published sizes and a vocabulary."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from heedful.errors import UserError, check_known
from heedful.models import FAMILIES


def new_config(
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
        arch: ``model_type`` of the family.
        preset: name of the sizes.
        tokens: vocabulary size and ids of special tokens, under configuration field names. A
            family uses the fields that it has.
        positions: maximum sequence length.
        position_type: type of positions; see ``BertConfig``.
        dropout: dropout of the whole model; None for the family's default.

    Raises:
        UserError: the family is unknown, or it lacks the preset or the position type.
    """
    encoders = [name for name, family in FAMILIES.items() if "body" in family.models]
    check_known("--arch", arch, encoders)
    kind, presets = FAMILIES[arch].config_class(), FAMILIES[arch].presets()
    check_known(f"--preset of --arch {arch}", preset, presets)
    by_name = {field.name: field for field in fields(kind)}
    values: dict[str, Any] = {name: value for name, value in tokens.items() if name in by_name}
    values[kind.POSITIONS] = kind.positions_for(positions, tokens["pad_token_id"])
    if "position_embedding_type" in by_name:
        values["position_embedding_type"] = position_type
    elif position_type != "absolute":
        raise UserError(
            f"--position-type {position_type}: --arch {arch} has one type; leave it out"
        )
    if dropout is not None:
        # A rate whose default is None follows another rate.
        rates = [name for name in kind.DROPOUTS if by_name[name].default is not None]
        values |= dict.fromkeys(rates, dropout)
    return kind(**{**presets[preset], **values})
