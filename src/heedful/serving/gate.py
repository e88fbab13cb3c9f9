"""ASGI middleware in front of the routes: access control, size limits and timeouts.

Every request passes through the gate, so no protocol can forget a limit.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heedful.serving.access import AccessControl
from heedful.serving.body import Body, ClientLeftError, ServerLoad
from heedful.serving.logs import log
from heedful.serving.metrics import Metrics
from heedful.serving.problem import Problem
from heedful.serving.request_record import CURRENT_REQUEST, RequestRecord, request_id
from heedful.serving.wire import Json
from heedful.settings import ServeSettings

_MAX_BODIES = 32
"""Maximum number of bodies of the largest size in memory at once."""
_CLIENT_LEFT = 499
_HEADERS = [(b"x-content-type-options", b"nosniff")]
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, kw_only=True)
class Gate:
    """An ASGI application that wraps another one."""

    app: ASGIApp
    settings: ServeSettings
    doors: AccessControl
    metrics: Metrics
    respond: Callable[[Scope, Problem], Json]
    """Returns the response for a problem, in the format of the requested route's protocol."""
    overloaded: Callable[[], Problem | None]
    """Returns the problem for all requests while every queue is full, else None."""
    open_paths: frozenset[str]
    """Paths that need no API key and answer even if the server is busy."""
    load: ServerLoad = field(default_factory=ServerLoad)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or another kind of ASGI event."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope = _to_origin_form(scope)
        headers = dict(scope["headers"])
        exchange = RequestRecord(id=request_id(headers.get(b"x-request-id")))
        CURRENT_REQUEST.set(exchange)
        body = Body(receive, self.load)
        closing = _has_ambiguous_length(headers)
        method, send = scope["method"], _recording(send, exchange, body, closing=closing)
        if method == "HEAD":  # the response of GET without its body
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        self.load.requests += 1
        try:
            await self._admit(scope, headers, body, exchange, send)
        finally:
            self.load.requests -= 1
            body.release()
            self._record(scope, method, exchange, body)

    async def _admit(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
        body: Body,
        exchange: RequestRecord,
        send: Send,
    ) -> None:
        """Check a request, read its body, and answer it within the timeout."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                self._check(scope, headers)
                await self._read(headers, body)
                exchange.bytes_in = len(body.content)
                if scope["method"] == "POST" and (overload := self.overloaded()) is not None:
                    raise overload  # before any work on the request
                await self._handle(scope, body, exchange, send)
            return
        except ClientLeftError:
            return
        except Problem as error:
            problem = error
        except TimeoutError:
            message = f"no answer within {self.settings.timeout:g} s"
            problem = Problem("overloaded", message, status=503, retry_after=1)
        if exchange.status is None:
            if body.expected and problem.status != 408 and b"expect" not in headers:
                send = _discarding(send, body)
            await self.respond(scope, problem)(scope, body.replay, send)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        if _has_ambiguous_length(headers):
            message = "a request has either a Content-Length or a Transfer-Encoding"
            raise Problem("validation", message, status=400)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        is_open = path in self.open_paths and scope["method"] == "GET"
        self.doors.check(headers, needs_key=not is_open)
        if not is_open and self.load.requests > self.settings.connections:
            raise Problem("overloaded", "too many requests at once", status=503, retry_after=1)

    async def _read(self, headers: dict[bytes, bytes], body: Body) -> None:
        max_bytes = self.settings.max_body
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > max_bytes:
            raise Problem("too large", f"a body may have at most {max_bytes:,} bytes")
        try:
            async with asyncio.timeout(self.settings.read_timeout):
                async for size in body.read():
                    if size > max_bytes:
                        raise Problem("too large", f"a body may have at most {max_bytes:,} bytes")
                    if self.load.body_bytes > _MAX_BODIES * max_bytes:
                        raise Problem(
                            "overloaded", "too much data is being sent at once", retry_after=1
                        )
        except TimeoutError:
            message = f"the body did not arrive within {self.settings.read_timeout:g} s"
            raise Problem("validation", message, status=408) from None

    async def _handle(self, scope: Scope, body: Body, exchange: RequestRecord, send: Send) -> None:
        """Let the routes answer, and cancel them if the client disconnects."""
        disconnected = asyncio.create_task(body.wait_until_left())
        handled = asyncio.ensure_future(self.app(scope, body.replay, send))
        try:
            await asyncio.wait({disconnected, handled}, return_when=asyncio.FIRST_COMPLETED)
            if handled.done() and (error := handled.exception()) is not None:
                log("failure", {"id": exchange.id}, error=error)
        finally:
            disconnected.cancel()
            handled.cancel()
            await asyncio.wait({disconnected, handled})

    def _record(self, scope: Scope, method: str, exchange: RequestRecord, body: Body) -> None:
        route = getattr(scope.get("route"), "path", "none")
        method = method if method in _METHODS else "other"
        if exchange.status is None:
            exchange.status = _CLIENT_LEFT
        self.metrics.count_exchange(exchange, route, method)
        fields: dict[str, Any] = {
            "id": exchange.id,
            "client": (scope.get("client") or [None])[0],
            "method": method,
            "route": route,
            "status": exchange.status,
            "seconds": round(exchange.seconds, 6),
            "bytes_in": exchange.bytes_in,
            "bytes_out": exchange.bytes_out,
        }
        if exchange.run is not None:
            fields |= {
                "run": exchange.run,
                "items": exchange.items,
                "tokens": exchange.tokens,
                "queue_seconds": round(exchange.queue_seconds, 6),
            }
        if self.settings.log_texts:
            fields["body"] = body.start
        log("request", fields)


def _to_origin_form(scope: Scope) -> Scope:
    """Convert a request target in absolute form, as some proxies send it, to origin form.

    The host in the target then overrides the Host header (RFC 9112, section 3.2.2).
    """
    scheme, separator, target = scope["path"].partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return scope
    host, _, path = target.partition("/")
    other_headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
    headers = [*other_headers, (b"host", host.encode("latin-1", "replace"))]
    raw_path = scope["raw_path"].partition(b"://")[2].partition(b"/")[2]
    return {**scope, "path": f"/{path}", "raw_path": b"/" + raw_path, "headers": headers}


def _has_ambiguous_length(headers: dict[bytes, bytes]) -> bool:
    """Return whether a request has both a Content-Length and a Transfer-Encoding.

    A proxy may follow one and this server the other, so the connection must be closed (RFC 9112,
    section 6.1).
    """
    return b"content-length" in headers and b"transfer-encoding" in headers


def _without_body(send: Send) -> Send:
    """Return a ``send`` that sends only the head of a response."""

    async def bodiless(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return bodiless


def _discarding(send: Send, body: Body) -> Send:
    """Return a ``send`` that ends a response, and so the connection, once the body is discarded.

    If the connection were closed while the client still sends, the response would be lost.
    """

    async def ending(message: Message) -> None:
        if message["type"] != "http.response.body" or message.get("more_body", False):
            await send(message)
            return
        await send({**message, "more_body": True})
        await body.discard()
        await send({"type": "http.response.body"})

    return ending


def _recording(send: Send, exchange: RequestRecord, body: Body, *, closing: bool) -> Send:
    """Return a ``send`` that records the response and adds the common headers.

    Args:
        send: sends the response.
        exchange: the record to update.
        body: body of the request.
        closing: whether to close the connection after the response.
    """

    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            headers = [(b"x-request-id", exchange.id.encode()), *_HEADERS]
            if closing or body.expected:  # the rest of the request will not be read
                headers.append((b"connection", b"close"))
            message = {**message, "headers": [*message.get("headers", []), *headers]}
        else:
            exchange.bytes_out += len(message.get("body", b""))
        await send(message)

    return noting
