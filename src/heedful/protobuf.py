"""Read Protocol Buffers messages: a sequence of fields, each with a number and a value.

The format is that of https://protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Iterator
from typing import Any

_VARINT, _EIGHT_BYTES, _MESSAGE, _FOUR_BYTES = 0, 1, 2, 5
"""Encoding of a field's value."""


class DamageError(ValueError):
    """A message is damaged."""


def fields_of(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each field of a message; a value is an integer or bytes.

    Raises:
        DamageError: it is not a message, or is truncated.
    """
    at, end = 0, len(message)
    while at < end:
        key, at = read_varint(message, at)
        number, form = key >> 3, key & 7
        if form == _VARINT:
            value, at = read_varint(message, at)
            yield number, value
            continue
        if form == _MESSAGE:
            size, at = read_varint(message, at)
        elif form in (_FOUR_BYTES, _EIGHT_BYTES):
            size = 4 if form == _FOUR_BYTES else 8
        else:
            raise DamageError(f"byte {at} is no field")
        if size > end - at:
            raise DamageError(f"it ends within field {number}")
        yield number, message[at : at + size]
        at += size


def read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Decode the integer that starts at a byte (7 bits per byte); return it and its end.

    Raises:
        DamageError: it is truncated or too large.
    """
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(message):
            raise DamageError("it ends within a number")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise DamageError("a number has more than 64 bits")
