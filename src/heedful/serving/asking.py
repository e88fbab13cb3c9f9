"""What protocols share: bodies whose keys are checked by name, routes for each run, and asking."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, Unpack

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from heedful.errors import LONGEST_NAME, shorten, unknown_name
from heedful.reading import Text
from heedful.serving.pictures import records_of
from heedful.serving.problem import Problem
from heedful.serving.service import Served, Service
from heedful.serving.wire import JsonRoute
from heedful.settings import PredictOptions


class Body(BaseModel):
    """What a client sends. A key that is none of its own is refused, and the nearest one named."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _know_every_key(cls, body: Any) -> Any:
        if isinstance(body, dict):
            for key in body:
                if key not in cls.model_fields:
                    unknown = unknown_name("key", shorten(key, LONGEST_NAME), cls.model_fields)
                    raise PydanticCustomError("unknown_key", "{message}", {"message": str(unknown)})
        return body


T = TypeVar("T")
Several = Annotated[list[T], Field(fail_fast=True)]
"""A list in a body. Only its first wrong element is looked at: a list of all would take long."""


class Reply(BaseModel):
    """What a client gets."""


RunName = Annotated[str, Path(description="Name of a run.", examples=["tickets"])]


def _named(run: RunName) -> str:
    return run


def _unnamed() -> None:
    return None


NamedRun = str | None
"""The run that a path names; None where it names none, for the first that can answer."""

UNNAMED, NAMED = Depends(_unnamed), Depends(_named)

JSON_EXPECTED = "the body must be a JSON object, sent as Content-Type: application/json"
"""What is said of a body that is not."""

SCHEMA = "#/components/schemas/{model}"
"""Where the OpenAPI document describes a body."""

PREFIX = "/models/{run}"
"""What stands before a path that names a run."""


def for_each_run(routes_for: Callable[[Any], APIRouter]) -> APIRouter:
    """Return routes twice: for the first run that can answer, and under each run's own path.

    Args:
        routes_for: makes the routes, whose endpoints take a `NamedRun` from the dependency that it
            is given.
    """
    routes = APIRouter(route_class=JsonRoute)
    routes.include_router(routes_for(UNNAMED))
    routes.include_router(routes_for(NAMED), prefix=PREFIX)
    return routes


async def ask(
    service: Service, served: Served, texts: Sequence[Text], **options: Unpack[PredictOptions]
) -> list[Any]:
    """Return a run's answers to texts, or to tuples of texts.

    Raises:
        Problem: the run does not read such texts, or an option or a limit stands against it.
    """
    settings = served.settings(**options)
    return await service.answer(served, records_of(served, texts), settings)


def first_error(errors: Sequence[Any]) -> str:
    """Say what is wrong with a body, in a line, without what it holds.

    Args:
        errors: as pydantic lists them; of a value that may be of several types, those of each.
    """
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body" and not _is_type(part))
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def _is_type(part: int | str) -> bool:
    """Tell whether a part of where an error is names one of the types that a value may have."""
    return isinstance(part, str) and (part in _TYPES or "[" in part)


def in_words(problem: Problem, names: Mapping[str, str]) -> Problem:
    """Return a problem that names options of heedful as a protocol does."""
    options = "|".join(names)
    message = re.sub(  # what stands in quotes is a client's
        rf"""(?<!\w)(?:'[^']*'|"[^"]*")|\b(?:{options})\b""",
        lambda match: names.get(match[0], match[0]),
        problem.message,
    )
    return Problem(problem.kind, message, status=problem.status, retry_after=problem.retry_after)


_TYPES = ("str", "int", "float", "bool")
"""What pydantic calls the plain types of a union; it writes others with brackets."""

_SAYS = {
    400: "The request is not one that can be answered.",
    401: "The API key is missing or wrong.",
    404: "There is no such run.",
    413: "The request is larger than a limit of the server.",
    415: "The Content-Encoding is none that can be read.",
    422: "The request is not one that can be answered.",
    424: "The run cannot answer this.",
    429: "The queue is full; Retry-After says when to try again.",
    500: "The server failed; its log says how.",
    503: "The run is not ready yet; Retry-After says when to try again.",
}


def described(failure: type[BaseModel], when: str = "Anything else.") -> dict[str, Any]:
    """Return what OpenAPI says of an error, by the name of its body.

    A ``model`` would be another validator for each status of each route, which takes a server
    seconds and checks nothing.

    Args:
        failure: the body; `heedful.serving.openapi` describes it.
        when: when it is sent.
    """
    schema = {"$ref": SCHEMA.format(model=failure.__name__)}
    return {"description": when, "content": {"application/json": {"schema": schema}}}


def problems(failure: type[BaseModel], *more: int) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of a protocol's errors.

    Args:
        failure: the body of all of them.
        more: statuses beside those that every protocol has.
    """
    statuses = sorted({401, 404, 413, 422, 429, 500, 503, *more})
    documented: dict[int | str, dict[str, Any]] = {
        status: described(failure, _SAYS[status]) for status in statuses
    }
    return documented | {"default": described(failure)}
