"""What several settings have in common: names of choices, and how options are checked."""

import codecs
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Literal

from heedful.errors import UserError, option_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LongText = Literal["window", "head", "head-tail", "refuse"]
"""What is done with a text that is too long: ``window`` reads all of it in overlapping windows,
``head`` its first tokens, ``head-tail`` its first and last; ``refuse`` is an error."""

PrecisionName = Literal["auto", "fp32", "bf16", "fp16", "tf32"]
"""Number formats to train in."""
AnswerPrecision = Literal["auto", "fp32", "bf16", "fp16", "tf32", "int8"]
"""Number formats to answer in."""


def in_range(name: str, value: float | str | None, low: float, high: float, *, what: str) -> None:
    """Refuse a number outside ``[low, high]``, naming its option; None stands for no number."""
    if isinstance(value, str) or (value is not None and not low <= value <= high):  # or NaN
        raise UserError(f"{option_of(name)} {value}: must be {what}")


def left_out(settings: "DataclassInstance", names: Iterable[str], why: str) -> None:
    """Refuse options that change nothing where they are not as they are by default.

    Args:
        settings: has them.
        names: of its fields.
        why: what the error says of the option, behind its name.

    Raises:
        UserError: naming the first that was given.
    """
    defaults = {field.name: field.default for field in fields(settings)}
    for name in names:
        if getattr(settings, name) != defaults[name]:
            raise UserError(f"{option_of(name)} {why}")


def check_encoding(name: str) -> None:
    """Refuse an encoding of which no lines can be read.

    Raises:
        UserError: Python knows no such encoding of text, or its line ends take other bytes.
    """
    try:
        marked = codecs.lookup(name).name == "utf-8-sig"  # which is read as utf-8 is
        known = marked or ("\n".encode(name) == b"\n" and b"\n".decode(name) == "\n")
    except (LookupError, UnicodeError):
        known = False
    if not known:
        raise UserError(
            f"--encoding {name}: no encoding whose lines can be read; known are utf-8, gb18030 "
            "(also for GBK and GB2312), big5, big5hkscs, shift_jis, euc_jp, euc_kr, latin-1, ..."
        )
