"""The protocols that the server speaks. A new one is a file here and a line of the table."""

from typing import Any, Protocol

from fastapi import APIRouter

from heedful.serving.problem import Problem
from heedful.serving.protocols import explain, health, hub, openai, page, runs, tei, v2
from heedful.serving.protocols.tei_shapes import TeiFailure
from heedful.serving.service import Service


class Speaks(Protocol):
    """What the module of a protocol has."""

    def router(self, service: Service) -> APIRouter:
        """Return the protocol's routes, each with its whole path."""

    def render(self, problem: Problem) -> tuple[int, Any]:
        """Return the status and the JSON that tell a client of it."""


PROTOCOLS: tuple[Speaks, ...] = (runs, health, explain, page, tei, openai, hub, v2)
"""Every protocol. The first one also answers for routes that are nobody's."""

FAILURES = (
    runs.Failure,
    TeiFailure,
    openai.OpenAIFailure,
    hub.HubFailure,
    v2.V2Failure,
)
"""The bodies by which they tell of errors."""

BEGINNINGS: dict[str, Speaks] = {
    "v1": openai,
    "v2": v2,
    "pipeline": hub,
    "embed_sparse": tei,
}
"""Protocols by the first part of their paths: they answer for those that a client may miss here."""

OPEN_PATHS = frozenset(
    {"/", "/health", "/health/live", "/ping", "/v2/health/live", "/v2/health/ready"}
)
"""Paths that answer without the API key and however busy the server is: they tell nothing but
whether it is well. The page is the same for all servers, and asks for the key."""
