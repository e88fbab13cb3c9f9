"""The protocols of the server. To add one, add a module here and an entry in `PROTOCOLS`."""

from typing import Any, Protocol

from fastapi import APIRouter

from heedful.serving.problem import Problem
from heedful.serving.protocols import explain, health, hub, openai, page, runs, tei, v2
from heedful.serving.protocols.tei_shapes import TeiFailure
from heedful.serving.service import Service


class ProtocolModule(Protocol):
    """Interface of a protocol's module."""

    def router(self, service: Service) -> APIRouter:
        """Return the protocol's routes, each with its full path."""

    def render(self, problem: Problem) -> tuple[int, Any]:
        """Return the HTTP status and the JSON body for a problem."""


PROTOCOLS: tuple[ProtocolModule, ...] = (runs, health, explain, page, tei, openai, hub, v2)
"""All protocols. The first one also renders errors of unknown routes."""

FAILURES = (
    runs.Failure,
    TeiFailure,
    openai.OpenAIFailure,
    hub.HubFailure,
    v2.V2Failure,
)
"""The classes of the protocols' error bodies."""

PATH_PREFIXES: dict[str, ProtocolModule] = {
    "v1": openai,
    "v2": v2,
    "pipeline": hub,
    "embed_sparse": tei,
}
"""Protocols by the first part of a path. They render errors of their API's missing routes."""

OPEN_PATHS = frozenset(
    {"/", "/health", "/health/live", "/ping", "/v2/health/live", "/v2/health/ready"}
)
"""Paths that need no API key and answer even if the server is busy. They reveal only the server's
health. The page is the same for all servers, and asks for the key."""
