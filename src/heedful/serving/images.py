"""Images sent by clients: base64, optionally in a data URL. File names are never opened."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from heedful.errors import UserError
from heedful.serving.limits import check_items
from heedful.serving.problem import Problem, refusal
from heedful.serving.service import ServedRun


def records_of(served: ServedRun, items: Sequence[Any]) -> list[Any]:
    """Make records from a client's items: texts, tuples of texts, or images as base64.

    Raises:
        Problem: there are too many items, or the run does not accept such items.
    """
    check_items(len(items), served.lane.settings)  # before making the records, which is slow
    if "see" in served.task.abilities:
        items = [_decode(item, number) for number, item in enumerate(items, start=1)]
    try:
        return list(served.task.from_texts(items))
    except UserError as error:
        raise refusal(error) from None


def _decode(item: Any, number: int) -> bytes:
    """Return the bytes of an image.

    Raises:
        Problem: the item is not base64. File names are not looked up on this machine.
    """
    if isinstance(item, str):
        head, comma, payload = item.partition(",")
        encoded = (
            payload if comma and head.startswith("data:") and head.endswith(";base64") else item
        )
        try:
            return base64.b64decode(encoded.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            pass
    raise Problem("validation", f"image {number}: expected the bytes of an image in base64")
