"""Parsing and serialization of JSON in requests and responses."""

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

_MAX_INLINE = 8
"""Maximum number of answers serialized on the event loop; more are handed to a thread."""


def load(content: bytes, settings: ServeSettings) -> Any:
    """Parse the JSON of a body.

    Raises:
        Problem: there are too many values, an object has a duplicate key (of which only one value
            would count), a number has too many digits, or the nesting is too deep.
        ValueError: the body is not JSON in UTF-8.
    """
    check_values(content, settings)
    try:
        # `json` would also read UTF-16, in which `check_values` finds neither quotes nor commas.
        text = content.decode("utf-8-sig", errors="surrogatepass")
        return json.loads(text, object_pairs_hook=unique_keys)
    except UserError as error:
        raise Problem("validation", f"the body: {error}", status=400) from None
    except RecursionError:
        raise Problem("validation", "the body: nested too deeply", status=400) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:  # Python limits the number of digits it parses
        raise Problem("validation", "the body: a number with too many digits", status=400) from None


class _JsonRequest(Request):
    """A request whose body is parsed by `load`, and rejected if it has too many items."""

    async def json(self) -> Any:
        settings = self.app.state.settings
        body = load(await self.body(), settings)
        check_lists(body, settings)
        return body


class JsonRoute(APIRoute):
    """A route that rejects a body with a duplicate key or with too many items."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that handles a request."""
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await handle(_JsonRequest(request.scope, request.receive))

        return handler


class Json(JSONResponse):
    """A JSON response for any text, including lone surrogates, which UTF-8 cannot encode."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of the body."""
        # A lone surrogate becomes an escape such as \udc80, which is valid JSON.
        return _dump(content).encode("utf-8", errors="backslashreplace")


async def reply(make: Callable[[], Any], items: int) -> Json:
    """Build and serialize a response, in a thread if it is large.

    Args:
        make: returns the content.
        items: number of answers in the content.
    """
    if items <= _MAX_INLINE:
        return Json(make())
    return await asyncio.to_thread(lambda: Json(make()))


def _dump(content: Any) -> str:
    """Serialize JSON, each object separately, since `json.dumps` does not release the GIL."""
    if isinstance(content, dict):
        pairs = (f"{json.dumps(str(key))}:{_dump(one)}" for key, one in content.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(content, list) and content and isinstance(content[0], dict | list):
        return f"[{','.join(map(_dump, content))}]"
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
