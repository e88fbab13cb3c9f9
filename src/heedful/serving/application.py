"""The ASGI application: the routes of all protocols, with errors in each protocol's format."""

import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Scope

from heedful import __version__
from heedful.serving.access import AccessControl
from heedful.serving.asking import JSON_EXPECTED, first_error
from heedful.serving.gate import Gate
from heedful.serving.openapi import Render, with_examples, with_failures
from heedful.serving.problem import Kind, Problem
from heedful.serving.protocols import FAILURES, OPEN_PATHS, PATH_PREFIXES, PROTOCOLS, ProtocolModule
from heedful.serving.service import Service
from heedful.serving.wire import Json

_METHODS = ["GET", "POST"]
"""HTTP methods of the routes."""
_NO_OBJECT = ("missing", "model_attributes_type", "dict_type")
"""pydantic's error types for a body that is missing or not an object."""
_NOT_JSON = Problem("validation", "the body is not JSON in UTF-8; send it uncompressed", status=400)


def application(service: Service, doors: AccessControl) -> ASGIApp:
    """Return the ASGI application of a service. It starts and stops the service."""
    routers = [(protocol, protocol.router(service)) for protocol in PROTOCOLS]

    def respond(scope: Scope, problem: Problem) -> Json:
        status, body = _protocol_of(scope, routers).render(problem)
        retry = problem.retry_after
        headers = {"retry-after": str(retry)} if retry is not None else {}
        if status == 401:
            headers["www-authenticate"] = "Bearer"
        if status == 405:  # RFC 9110, section 15.5.6
            headers["allow"] = _allowed_methods(scope, app.routes)
        return Json(body, status_code=status, headers=headers)

    app = _routes(service, routers, respond)
    gate = Gate(
        app=app,
        settings=service.settings,
        doors=doors,
        metrics=service.metrics,
        respond=respond,
        overloaded=service.overloaded,
        open_paths=OPEN_PATHS,
    )
    if not service.settings.cors:
        return gate
    return CORSMiddleware(
        gate,
        allow_origins=service.settings.cors,
        allow_methods=_METHODS,
        allow_headers=["*"],  # client libraries send their own headers; the origin is checked
        expose_headers=["x-request-id", "retry-after", "inference-header-content-length"],
    )


def _routes(
    service: Service,
    routers: list[tuple[ProtocolModule, APIRouter]],
    respond: Callable[[Scope, Problem], Json],
) -> FastAPI:
    """Return a FastAPI application with the routes of all protocols."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        # The document and the routing are built lazily and would block all clients. Build them
        # now, while the runs warm up.
        app.openapi()
        nowhere = {"type": "http", "method": "GET", "path": "/-", "root_path": "", "headers": []}
        respond(nowhere, Problem("not found", "no such route"))
        yield
        await service.close()

    # FastAPI's own documentation pages are off: they load scripts from other sites.
    app = FastAPI(
        title="heedful",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.settings = service.settings  # routes read the limits from here
    for _, router in routers:
        app.include_router(router)

    @functools.cache
    def document() -> dict[str, Any]:
        return with_examples(with_failures(FastAPI.openapi(app), FAILURES), render_of)

    def render_of(method: str, path: str) -> Render:
        scope = {"type": "http", "method": method, "path": path, "headers": []}
        return _protocol_of(scope, routers).render

    app.openapi = document  # type: ignore[method-assign]

    @app.exception_handler(Problem)
    async def handle_problem(request: Request, problem: Problem) -> Json:
        return respond(request.scope, problem)

    @app.exception_handler(RequestValidationError)
    async def handle_validation_error(request: Request, error: RequestValidationError) -> Json:
        return respond(request.scope, _problem_of_validation_error(error))

    @app.exception_handler(HTTPException)
    async def handle_http_error(request: Request, error: HTTPException) -> Json:
        return respond(request.scope, _problem_of_http_error(error))

    @app.exception_handler(Exception)
    async def handle_unexpected_error(request: Request, error: Exception) -> Json:
        return respond(request.scope, Problem("internal", "the server failed; see its log"))

    return app


def _protocol_of(scope: Scope, routers: list[tuple[ProtocolModule, APIRouter]]) -> ProtocolModule:
    """Return the protocol of the matching route, else of the path's first part, else the first."""
    for match in (Match.FULL, Match.PARTIAL):  # partial: the path matches, the method does not
        for protocol, router in routers:
            for route in router.routes:
                if route.matches(scope)[0] is match:
                    scope.setdefault("route", route)  # for the log, if the router did not run
                    return protocol
    parts = scope["path"].strip("/").split("/")
    behind_run = parts[2:] if parts[0] == "models" else parts
    return PATH_PREFIXES.get("".join(behind_run[:1]), PROTOCOLS[0])


def _allowed_methods(scope: Scope, routes: Sequence[BaseRoute]) -> str:
    """Return the methods that a path allows. GET implies HEAD, which the gate handles."""
    allowed = [
        method
        for method in _METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ", ".join([*allowed, "HEAD"] if "GET" in allowed else allowed)


def _problem_of_http_error(error: HTTPException) -> Problem:
    """Return the problem for a request to an unknown route or with an unreadable body."""
    if error.status_code == 400:  # raised by FastAPI if the body is not JSON
        return error.__cause__ if isinstance(error.__cause__, Problem) else _NOT_JSON
    if error.status_code == 404:
        return Problem("not found", "there is no such path; GET /openapi.json lists all")
    kind: Kind = "not found" if error.status_code == 405 else "validation"
    return Problem(kind, str(error.detail), status=error.status_code)


def _problem_of_validation_error(error: RequestValidationError) -> Problem:
    """Return the problem for a body that fails the route's validation."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return _NOT_JSON
    if first["loc"] == ("body",) and first["type"] in _NO_OBJECT:
        return Problem("validation", JSON_EXPECTED)
    return Problem("validation", first_error(error.errors()))
