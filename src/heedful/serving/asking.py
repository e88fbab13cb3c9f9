"""Code shared by the protocols: strict request bodies, routes for each run, and prediction."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, Unpack

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from heedful.errors import unknown_name
from heedful.reading import Text
from heedful.serving.images import records_of
from heedful.serving.problem import Problem
from heedful.serving.service import ServedRun, Service
from heedful.serving.wire import JsonRoute
from heedful.settings import PredictOptions


class Body(BaseModel):
    """A request body. An unknown key is rejected, with the closest known key in the message."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _reject_unknown_keys(cls, body: Any) -> Any:
        if isinstance(body, dict):
            for key in body:
                if key not in cls.model_fields:
                    unknown = unknown_name("key", key, cls.model_fields)
                    raise PydanticCustomError("unknown_key", "{message}", {"message": str(unknown)})
        return body


T = TypeVar("T")
Several = Annotated[list[T], Field(fail_fast=True)]
"""A list in a body. Validation stops at the first invalid element, to save time."""


class Reply(BaseModel):
    """A response body."""


RunName = Annotated[str, Path(description="Name of a run.", examples=["tickets"])]


def _named(run: RunName) -> str:
    return run


def _unnamed() -> None:
    return None


NamedRun = str | None
"""The run named by the path. None if the path names no run: the first capable run answers."""

UNNAMED, NAMED = Depends(_unnamed), Depends(_named)

JSON_EXPECTED = "the body must be a JSON object, sent as Content-Type: application/json"
"""Error message for a body that is not a JSON object."""

SCHEMA = "#/components/schemas/{model}"
"""Reference to a body's schema in the OpenAPI document."""

PREFIX = "/models/{run}"
"""Prefix of paths that name a run."""


def for_each_run(routes_for: Callable[[Any], APIRouter]) -> APIRouter:
    """Return the routes twice: without a run name in the path, and under each run's path.

    Without a name, the first capable run answers.

    Args:
        routes_for: builds the routes. Their endpoints get a `NamedRun` from the dependency passed
            to it.
    """
    routes = APIRouter(route_class=JsonRoute)
    routes.include_router(routes_for(UNNAMED))
    routes.include_router(routes_for(NAMED), prefix=PREFIX)
    return routes


async def ask(
    service: Service, served: ServedRun, texts: Sequence[Text], **options: Unpack[PredictOptions]
) -> list[Any]:
    """Return a run's answers to texts, or to tuples of texts.

    Raises:
        Problem: the run does not accept such texts, an option is invalid, or a limit is exceeded.
    """
    settings = served.settings(**options)
    return await service.answer(served, records_of(served, texts), settings)


def first_error(errors: Sequence[Any]) -> str:
    """Return a one-line message about the first error in a body, without the body's content.

    Args:
        errors: pydantic's list of errors. For a union type it has the errors of each member type.
    """
    first = errors[0]
    location = ".".join(str(part) for part in first["loc"] if part != "body" and not _is_type(part))
    return f"{location}: {first['msg']}" if location else str(first["msg"])


def _is_type(part: int | str) -> bool:
    """Return whether a part of an error's location names a member type of a union."""
    return isinstance(part, str) and (part in _TYPES or "[" in part)


def with_api_names(problem: Problem, names: Mapping[str, str]) -> Problem:
    """Return the problem with heedful's option names replaced by the protocol's.

    Args:
        problem: the problem.
        names: heedful's option names to the protocol's.
    """
    options = "|".join(names)
    message = re.sub(  # quoted text comes from the client: leave it unchanged
        rf"""(?<!\w)(?:'[^']*'|"[^"]*")|\b(?:{options})\b""",
        lambda match: names.get(match[0], match[0]),
        problem.message,
    )
    return Problem(problem.kind, message, status=problem.status, retry_after=problem.retry_after)


_TYPES = ("str", "int", "float", "bool")
"""pydantic's names of the plain types in a union. Other types are written with brackets."""

_DESCRIPTIONS = {
    400: "The request is not valid.",
    401: "The API key is missing or wrong.",
    404: "There is no such run.",
    413: "The request is larger than a limit of the server.",
    415: "The Content-Encoding is not supported.",
    422: "The request is not valid.",
    424: "The run cannot answer this.",
    429: "The queue is full; Retry-After says when to try again.",
    500: "The server failed; see its log.",
    503: "The run is not ready yet; Retry-After says when to try again.",
}


def described(failure: type[BaseModel], when: str = "Anything else.") -> dict[str, Any]:
    """Return the OpenAPI description of an error response, which references its body by name.

    FastAPI would build a validator for a ``model`` of each status of each route. That takes seconds
    at startup and checks nothing.

    Args:
        failure: the class of the body; `heedful.serving.openapi` adds its schema.
        when: description of when it is sent.
    """
    schema = {"$ref": SCHEMA.format(model=failure.__name__)}
    return {"description": when, "content": {"application/json": {"schema": schema}}}


def problems(failure: type[BaseModel], *more: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of a protocol's error responses, by status.

    Args:
        failure: the class of their body.
        more: statuses in addition to those that every protocol has.
    """
    statuses = sorted({401, 404, 413, 422, 429, 500, 503, *more})
    documented: dict[int | str, dict[str, Any]] = {
        status: described(failure, _DESCRIPTIONS[status]) for status in statuses
    }
    return documented | {"default": described(failure)}
