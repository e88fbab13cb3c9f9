"""The ASGI application: the routes of every protocol, and problems in the shape of each."""

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
from heedful.serving.asking import JSON_EXPECTED, first_error
from heedful.serving.doors import Doors
from heedful.serving.gate import Gate
from heedful.serving.openapi import Render, with_examples, with_failures
from heedful.serving.problem import Kind, Problem
from heedful.serving.protocols import BEGINNINGS, FAILURES, OPEN_PATHS, PROTOCOLS, Speaks
from heedful.serving.service import Service
from heedful.serving.wire import Json

_METHODS = ["GET", "POST"]
"""Those that routes have."""
_NO_OBJECT = ("missing", "model_attributes_type", "dict_type")
"""What pydantic calls a body that is none, or no object."""
_NOT_JSON = Problem("validation", "the body is not JSON in UTF-8; send it uncompressed", status=400)


def application(service: Service, doors: Doors) -> ASGIApp:
    """Return the application that answers for a service, which it starts and stops."""
    routers = [(protocol, protocol.router(service)) for protocol in PROTOCOLS]

    def respond(scope: Scope, problem: Problem) -> Json:
        status, body = _spoken(scope, routers).render(problem)
        retry = problem.retry_after
        headers = {"retry-after": str(retry)} if retry is not None else {}
        if status == 401:
            headers["www-authenticate"] = "Bearer"
        if status == 405:  # RFC 9110, section 15.5.6
            headers["allow"] = _allowed(scope, app.routes)
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
        allow_headers=["*"],  # clients' libraries send their own; the origin is what is guarded
        expose_headers=["x-request-id", "retry-after", "inference-header-content-length"],
    )


def _routes(
    service: Service,
    routers: list[tuple[Speaks, APIRouter]],
    respond: Callable[[Scope, Problem], Json],
) -> FastAPI:
    """Return the routes of every protocol."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        # Both are worked out when they are first asked for, while everybody else would wait; here
        # runs answer their first texts meanwhile.
        app.openapi()
        nowhere = {"type": "http", "method": "GET", "path": "/-", "root_path": "", "headers": []}
        respond(nowhere, Problem("not found", "no such route"))
        yield
        await service.close()

    # The pages that FastAPI has for its routes load scripts from elsewhere.
    app = FastAPI(
        title="heedful",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.settings = service.settings  # where routes find the limits
    for _, router in routers:
        app.include_router(router)

    @functools.cache
    def document() -> dict[str, Any]:
        return with_examples(with_failures(FastAPI.openapi(app), FAILURES), render_of)

    def render_of(method: str, path: str) -> Render:
        scope = {"type": "http", "method": method, "path": path, "headers": []}
        return _spoken(scope, routers).render

    app.openapi = document  # type: ignore[method-assign]

    @app.exception_handler(Problem)
    async def tell(request: Request, problem: Problem) -> Json:
        return respond(request.scope, problem)

    @app.exception_handler(RequestValidationError)
    async def tell_what_is_invalid(request: Request, error: RequestValidationError) -> Json:
        return respond(request.scope, _invalid(error))

    @app.exception_handler(HTTPException)
    async def tell_what_has_no_route(request: Request, error: HTTPException) -> Json:
        return respond(request.scope, _refused(error))

    @app.exception_handler(Exception)
    async def tell_nothing(request: Request, error: Exception) -> Json:
        return respond(request.scope, Problem("internal", "the server failed; its log says how"))

    return app


def _spoken(scope: Scope, routers: list[tuple[Speaks, APIRouter]]) -> Speaks:
    """Return the protocol whose route was asked, or of whose kind the path is, or the first."""
    for match in (Match.FULL, Match.PARTIAL):  # partial: of another method
        for protocol, router in routers:
            for route in router.routes:
                if route.matches(scope)[0] is match:
                    scope.setdefault("route", route)  # for the log, if it was not asked at all
                    return protocol
    parts = scope["path"].strip("/").split("/")
    behind_run = parts[2:] if parts[0] == "models" else parts
    return BEGINNINGS.get("".join(behind_run[:1]), PROTOCOLS[0])


def _allowed(scope: Scope, routes: Sequence[BaseRoute]) -> str:
    """Return the methods that a path takes. What takes GET takes HEAD, for which the gate cares."""
    allowed = [
        method
        for method in _METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ", ".join([*allowed, "HEAD"] if "GET" in allowed else allowed)


def _refused(error: HTTPException) -> Problem:
    """Return what is told to who asks for what is not there, or sends what cannot be read."""
    if error.status_code == 400:  # of FastAPI, of what it cannot read as JSON
        return error.__cause__ if isinstance(error.__cause__, Problem) else _NOT_JSON
    if error.status_code == 404:
        return Problem("not found", "there is no such path; GET /openapi.json lists all")
    kind: Kind = "not found" if error.status_code == 405 else "validation"
    return Problem(kind, str(error.detail), status=error.status_code)


def _invalid(error: RequestValidationError) -> Problem:
    """Return what is told to who sent a body that is not what its route takes."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return _NOT_JSON
    if first["loc"] == ("body",) and first["type"] in _NO_OBJECT:
        return Problem("validation", JSON_EXPECTED)
    return Problem("validation", first_error(error.errors()))
