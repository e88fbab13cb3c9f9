"""Pictures that clients send: as base64, perhaps in a data URL. Names of files are never read."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from heedful.errors import UserError
from heedful.serving.limits import check_items
from heedful.serving.problem import Problem, refusal
from heedful.serving.service import Served


def records_of(served: Served, items: Sequence[Any]) -> list[Any]:
    """Make records of what a client sends: texts, tuples of texts, or pictures as base64.

    Raises:
        Problem: there are too many, or the run does not read such items.
    """
    check_items(len(items), served.lane.settings)  # before a record of each takes its time
    if "see" in served.task.abilities:
        items = [_decoded(item, number) for number, item in enumerate(items, start=1)]
    try:
        return list(served.task.from_texts(items))
    except UserError as error:
        raise refusal(error) from None


def _decoded(item: Any, number: int) -> bytes:
    """Return the bytes of a picture.

    Raises:
        Problem: it is no base64. A name is not looked up on this machine.
    """
    if isinstance(item, str):
        head, comma, rest = item.partition(",")
        encoded = rest if comma and head.startswith("data:") and head.endswith(";base64") else item
        try:
            return base64.b64decode(encoded.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            pass
    raise Problem("validation", f"picture {number}: expected the bytes of a picture as base64")
