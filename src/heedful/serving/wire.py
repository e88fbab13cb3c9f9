"""JSON as it goes over the wire."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from heedful.errors import UserError
from heedful.files import unique_keys
from heedful.serving.limits import check_lists, check_values
from heedful.serving.problem import Problem
from heedful.settings import ServeSettings

_FEW = 8
"""Answers that are sooner written at once than handed to a thread."""


def load(content: bytes, settings: ServeSettings) -> Any:
    """Read the JSON of a body.

    Raises:
        Problem: it has too many values; an object has a key twice, of which only one value would
            count; a number is too long, or the whole nested too deeply.
        ValueError: it is not JSON.
    """
    check_values(content, settings)
    try:
        return json.loads(content, object_pairs_hook=unique_keys)
    except UserError as error:
        raise Problem("validation", f"the body: {error}", status=400) from None
    except RecursionError:
        raise Problem("validation", "the body: nested too deeply", status=400) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:  # Python reads no longer ones
        raise Problem("validation", "the body: a number with too many digits", status=400) from None


class _Asked(Request):
    """A request whose body is read by `load`, and refused if it asks for too much."""

    async def json(self) -> Any:
        settings = self.app.state.settings
        body = load(await self.body(), settings)
        check_lists(body, settings)
        return body


class JsonRoute(APIRoute):
    """A route that refuses a body where an object has a key twice, or with too many items."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await handle(_Asked(request.scope, request.receive))

        return handler


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
