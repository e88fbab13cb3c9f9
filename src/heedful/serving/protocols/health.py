"""Health and metrics of the server: ``GET /health`` and ``GET /metrics``."""

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
    """Health of the server."""

    status: Literal["ready", "alive"]


def router(service: Service) -> APIRouter:
    """Return the routes for health checks and metrics."""
    routes = APIRouter(tags=["health"], responses={"default": described(runs.Failure)})

    @routes.get("/health")
    async def health() -> Health:
        """Return 200 if every run is loaded and warmed up, else 503."""
        require_ready(service)
        return Health(status="ready")

    @routes.get("/health/live")
    async def live() -> Health:
        """Return 200 if the server is alive, even if its runs are not ready yet."""
        return Health(status="alive")

    @routes.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Return the server's metrics in Prometheus's text format."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return routes


def require_ready(service: Service, run: str | None = None) -> None:
    """Check that a run is ready, or without a name that every run is.

    Raises:
        Problem: a run is not ready, or there is no run with that name.
    """
    if run is None and not service.ready:
        raise Problem("not ready", "not every run is ready yet", retry_after=1)
    if run is not None and not service.find(run, lambda served: True, "a run").warm:
        raise Problem("not ready", f"{run} is not ready yet", retry_after=1)


render = runs.render
