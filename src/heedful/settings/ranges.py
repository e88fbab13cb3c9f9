"""Shared code of the settings: names of choices, and checks of options."""

import codecs
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Literal

from heedful.errors import UserError, option_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LongText = Literal["window", "head", "head-tail", "refuse"]
"""How to handle a text that is too long: ``window`` reads all of it in overlapping windows,
``head`` its first tokens, ``head-tail`` its first and last tokens; ``refuse`` raises an error."""

PrecisionName = Literal["auto", "fp32", "bf16", "fp16", "tf32"]
"""Number formats for training."""
AnswerPrecision = Literal["auto", "fp32", "bf16", "fp16", "tf32", "int8"]
"""Number formats for inference."""


def in_range(name: str, value: float | str | None, low: float, high: float, *, what: str) -> None:
    """Refuse a number outside ``[low, high]``; None passes. The message names the option."""
    if isinstance(value, str) or (value is not None and not low <= value <= high):  # or NaN
        raise UserError(f"{option_of(name)} {value}: must be {what}")


def refuse_options(settings: "DataclassInstance", names: Iterable[str], why: str) -> None:
    """Refuse options that would have no effect, unless they have their default values.

    Args:
        settings: the settings.
        names: names of the fields that would have no effect.
        why: the reason, which follows the name of the option in the message.

    Raises:
        UserError: naming the first such option.
    """
    defaults = {field.name: field.default for field in fields(settings)}
    for name in names:
        if getattr(settings, name) != defaults[name]:
            raise UserError(f"{option_of(name)} {why}")


def check_encoding(name: str) -> None:
    """Refuse an encoding in which text cannot be read line by line.

    Raises:
        UserError: Python does not know the encoding, or its line ends differ from those of ASCII.
    """
    try:
        marked = codecs.lookup(name).name == "utf-8-sig"  # also read as utf-8
        known = marked or ("\n".encode(name) == b"\n" and b"\n".decode(name) == "\n")
    except (LookupError, UnicodeError):
        known = False
    if not known:
        raise UserError(
            f"--encoding {name}: no encoding whose lines can be read; known are utf-8, gb18030 "
            "(also for GBK and GB2312), big5, big5hkscs, shift_jis, euc_jp, euc_kr, latin-1, ..."
        )
