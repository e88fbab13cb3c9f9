"""Whether the server is well: ``GET /health`` and ``GET /metrics``."""

from typing import Literal

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from heedful.serving.asking import described
from heedful.serving.problem import Problem
from heedful.serving.protocols import runs
from heedful.serving.service import Service


class Health(BaseModel):
    """How the server is."""

    status: Literal["ready", "alive"]


def router(service: Service) -> APIRouter:
    """Return the routes by which a server is watched."""
    routes = APIRouter(tags=["health"], responses={"default": described(runs.Failure)})

    @routes.get("/health")
    async def health() -> Health:
        """Tell whether every run is loaded and has answered once: 200, or else 503."""
        require_ready(service)
        return Health(status="ready")

    @routes.get("/health/live")
    async def live() -> Health:
        """Tell that the server lives, though its runs may not be ready yet."""
        return Health(status="alive")

    @routes.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Give what the server counts, as Prometheus reads it."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return routes


def require_ready(service: Service, run: str | None = None) -> None:
    """Raise unless a run is ready; without its name, unless every run is.

    Raises:
        Problem: one is not, or there is none of that name.
    """
    if run is None and not service.ready:
        raise Problem("not ready", "not every run is ready yet", retry_after=1)
    if run is not None and not service.find(run, lambda served: True, "a run").warm:
        raise Problem("not ready", f"{run} is not ready yet", retry_after=1)


render = runs.render
