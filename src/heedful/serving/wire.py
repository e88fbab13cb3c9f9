"""JSON as it goes over the wire."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from fastapi.responses import JSONResponse

_FEW = 8
"""Answers that are sooner written at once than handed to a thread."""


class Json(JSONResponse):
    """JSON that holds any text, half a surrogate pair included, which UTF-8 cannot."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of the body."""
        return _dump(content).encode("utf-8", errors="backslashreplace")  # \udc80 is JSON for it


async def reply(make: Callable[[], Any], items: int) -> Json:
    """Make the content of a reply and write it, off the event loop if there is much of it.

    Args:
        make: gives the content.
        items: how many answers it has.
    """
    if items <= _FEW:
        return Json(make())
    return await asyncio.to_thread(lambda: Json(make()))


def _dump(content: Any) -> str:
    """Write JSON, each object by itself: the library lets no other thread run meanwhile."""
    if isinstance(content, dict):
        pairs = (f"{json.dumps(str(key))}:{_dump(one)}" for key, one in content.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(content, list) and content and isinstance(content[0], dict | list):
        return f"[{','.join(map(_dump, content))}]"
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
