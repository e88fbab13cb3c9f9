"""The ASGI application: the routes of every protocol, and problems in the shape of each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from heedful import __version__
from heedful.serving.problem import Kind, Problem
from heedful.serving.protocols import PROTOCOLS, Speaks
from heedful.serving.service import Service
from heedful.serving.wire import Json


def application(service: Service) -> FastAPI:
    """Return the application that answers for a service, which it starts and stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
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
    routers = [(protocol, protocol.router(service)) for protocol in PROTOCOLS]
    for _, router in routers:
        app.include_router(router)

    def respond(request: Request, problem: Problem) -> Json:
        status, body = _spoken(request.scope, routers).render(problem)
        retry = problem.retry_after
        headers = {"retry-after": str(retry)} if retry is not None else {}
        if status == 401:
            headers["www-authenticate"] = "Bearer"
        return Json(body, status_code=status, headers=headers)

    @app.exception_handler(Problem)
    async def tell(request: Request, problem: Problem) -> Json:
        return respond(request, problem)

    @app.exception_handler(RequestValidationError)
    async def tell_what_is_invalid(request: Request, error: RequestValidationError) -> Json:
        return respond(request, Problem("validation", _first_error(error)))

    @app.exception_handler(HTTPException)
    async def tell_what_has_no_route(request: Request, error: HTTPException) -> Json:
        kind: Kind = "not found" if error.status_code in (404, 405) else "validation"
        return respond(request, Problem(kind, str(error.detail), status=error.status_code))

    @app.exception_handler(Exception)
    async def tell_nothing(request: Request, error: Exception) -> Json:
        return respond(request, Problem("internal", "the server failed; its log says how"))

    return app


def _spoken(scope: Scope, routers: list[tuple[Speaks, APIRouter]]) -> Speaks:
    """Return the protocol whose route was asked, or the first."""
    for protocol, router in routers:
        if any(route.matches(scope)[0] is not Match.NONE for route in router.routes):
            return protocol
    return routers[0][0]


def _first_error(error: RequestValidationError) -> str:
    """Say what is wrong with a request, in a line, without what it holds."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}"
